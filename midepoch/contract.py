"""What may change between two runs of one model_dir, and what a checkpoint says about the stream it stands in."""

from typing import Any, Dict, Optional

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


def check_resume(run: Optional[Dict[str, Any]], contract: Dict[str, Any], directory: str) -> None:
    """Compares the contract of a model_dir with that of this start.

    Args:
      run: what `run.json` holds, or None if there is none.
      contract: this start's `program`, `keras`, `task`, `optimizer` and `order`.
      directory: the model_dir, for the error line.

    Raises:
      UserError: something differs that cannot be adapted to; the line names flag, old and new value, and the way out.
    """
    saved = run.get("contract") if isinstance(run, dict) else None
    if not isinstance(saved, dict) or not set(contract) <= set(saved):
        raise UserError(
            f"--model_dir={directory} holds checkpoints but no readable run.json, so nobody can tell whose they are; "
            "give another directory, or restore run.json"
        )
    way_out = _WAY_OUT.format(model_dir=directory)
    _check_program(saved, contract, f"--model_dir={directory}", "give another --model_dir")
    if saved["task"] != contract["task"]:
        raise UserError(f"--task={contract['task']}, but this run was trained with {saved['task']}; set it back, {way_out}")
    _check_optimizer(saved, contract, ", or start a new run in another --model_dir")
    before, now = saved["order"], contract["order"]
    for name in sorted(set(before) | set(now)):
        if before.get(name) == now.get(name):
            continue
        if name == "data":
            difference = _first_difference(before[name], now[name])
            raise UserError(f"the training files are not those of this run ({difference}); put them back, {way_out}")
        raise UserError(
            f"--{name}={now.get(name)}, but this run was trained with {before.get(name)}; set it back, {way_out}"
        )


def check_restore_from(saved: Dict[str, Any], contract: Dict[str, Any], source: str) -> None:
    """Compares the contract of the checkpoint that --restore_from names with that of this start.

    Args:
      saved: the contract in the checkpoint's manifest.
      contract: this start's.
      source: the flag's value.

    Raises:
      UserError: the checkpoint cannot be restored by this program, or not with this optimizer.
    """
    _check_program(saved, contract, f"--restore_from={source}", "give a checkpoint of this program")
    _check_optimizer(saved, contract)


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


def _check_optimizer(saved: Dict[str, Any], contract: Dict[str, Any], way_out: str = "") -> None:
    if saved["optimizer"] != contract["optimizer"]:
        raise UserError(
            f"--optimizer={contract['optimizer']}, but this run was trained with {saved['optimizer']}; set it back{way_out}"
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
