"""What may change between two runs of one model_dir, and what a checkpoint says about the stream it stands in."""

from typing import Any, Dict, List

import tensorflow as tf

from midepoch.errors import UserError

_WAY_OUT = "or start a new run in another --model_dir with --restore_from={model_dir}"


def pipeline_facts(order: Dict[str, Any], batch_size: int, start: int, version: Any) -> Dict[str, Any]:
    """Returns the part of a manifest that says which pipeline the iterator state belongs to.

    Args:
      order: what fixes the order of the examples (the stream's fingerprint).
      batch_size: examples per batch.
      start: the position the pipeline was built to start at; its state fits only a pipeline with the same start.
      version: the pipeline's own version.
    """
    return {"order": order, "batch_size": batch_size, "start": start, "version": version, "tensorflow": tf.__version__}


def iterator_fits(saved: Dict[str, Any], now: Dict[str, Any]) -> bool:
    """Says whether a saved iterator state can go into the pipeline of today (built with the saved start)."""
    return {**saved, "start": None} == {**now, "start": None}


def position_carries_over(saved: Dict[str, Any], now: Dict[str, Any]) -> bool:
    """Says whether a saved position means the same example today: data, seed and shuffle are the same."""
    return saved["order"] == now["order"]


def same_run(saved: Dict[str, Any], contract: Dict[str, Any]) -> bool:
    """Says whether two contracts are of one run: all is equal that can never change in one."""
    return all(saved.get(name) == contract.get(name) for name in ("program", "keras", "task", "order"))


def check_resume(saved: Dict[str, Any], contract: Dict[str, Any], directory: str) -> None:
    """Compares the contract of a checkpoint in a model_dir with that of this start.

    Args:
      saved: the contract in the checkpoint's manifest.
      contract: this start's `program`, `keras`, `task`, `optimizer`, `freeze` and `order`.
      directory: the model_dir, for the error line.

    Raises:
      UserError: something differs that cannot be adapted to; the line names flag, old and new value, and the way out.
    """
    way_out = _WAY_OUT.format(model_dir=directory)
    _check_program(saved, contract, f"--model_dir={directory}", "give another --model_dir")
    if saved["task"] != contract["task"]:
        raise UserError(f"--task={contract['task']}, but this run was trained with {saved['task']}; set it back, {way_out}")
    before, now = saved["order"], contract["order"]
    # The shuffle first: its own flags differ along with it.
    for name in sorted(set(before) | set(now), key=lambda name: (name != "shuffle", name)):
        if before.get(name) == now.get(name):
            continue
        if name == "data":
            difference = _first_difference(before[name], now[name])
            raise UserError(f"the training files are not those of this run ({difference}); put them back, {way_out}")
        raise UserError(
            f"--{name}={now.get(name)}, but this run was trained with {before.get(name)}; set it back, {way_out}"
        )


def adaptations(saved: Dict[str, Any], contract: Dict[str, Any]) -> List[str]:
    """Returns a line for each difference of two contracts that a start adapts to.

    Args:
      saved: the contract in the manifest of the checkpoint that is restored.
      contract: this start's.
    """
    lines = []
    if saved["optimizer"] != contract["optimizer"]:
        lines.append(
            f"--optimizer was {saved['optimizer']}, is {contract['optimizer']}: weights, step and position are kept, its "
            "slots start from nothing"
        )
    if saved.get("freeze") != contract["freeze"]:
        lines.append(f"--freeze was {saved.get('freeze') or 'not set'}, is {contract['freeze'] or 'not set'}")
    return lines


def check_restore_from(saved: Dict[str, Any], contract: Dict[str, Any], source: str) -> None:
    """Compares the contract of the checkpoint that --restore_from names with that of this start.

    Args:
      saved: the contract in the checkpoint's manifest.
      contract: this start's.
      source: the flag's value.

    Raises:
      UserError: the checkpoint cannot be restored by this program.
    """
    _check_program(saved, contract, f"--restore_from={source}", "give a checkpoint of this program")


def check_program(saved: Dict[str, Any], program: str, keras: int, where: str) -> None:
    """Makes sure that a checkpoint can be read by this program.

    Args:
      saved: the contract in its manifest.
      program: "estimator" or "lowlevel".
      keras: the Keras that is installed, its major version.
      where: flag and value that named the checkpoint, for the error line.

    Raises:
      UserError: it cannot.
    """
    _check_program(saved, {"program": program, "keras": keras}, where, "give one of this program")


def _check_program(saved: Dict[str, Any], contract: Dict[str, Any], where: str, otherwise: str) -> None:
    if saved["program"] != contract["program"]:
        raise UserError(
            f"{where} belongs to {saved['program']}, this is {contract['program']}; "
            f"run {saved['program']} on it, or {otherwise}"
        )
    if saved["keras"] != contract["keras"]:
        raise UserError(
            f"{where} was written with Keras {saved['keras']}, this is Keras {contract['keras']}, whose optimizers keep "
            f"other variables; use the Python and TensorFlow of that run, or {otherwise}"
        )


def _first_difference(before: Any, now: Any) -> str:
    """Says in a few words how two data fingerprints differ."""
    if not isinstance(before, list) or not isinstance(now, list):
        return f"{before} then, {now} now"
    if len(before) != len(now):
        return f"{len(before)} files then, {len(now)} now"
    old, new = next(pair for pair in zip(before, now) if pair[0] != pair[1])
    describe = "{0[0]} with {0[1]} bytes, {0[2]} records".format
    return f"{describe(old)} then, {describe(new)} now"
