"""What is in a model_dir, and what the next start would do: `python -m midepoch.inspect MODEL_DIR`.

    python -m midepoch.inspect run1                    program, progress, best, contract, a table of the checkpoints
    python -m midepoch.inspect run1 --verify           reads every checksum; exit code 1 if a checkpoint is not whole
    python -m midepoch.inspect run1 --json             the same for programs
    python -m midepoch.inspect run1 --num_epochs=30    also what a start with these training flags would do; those not given
                                                       are the latest start's; exit code 1 if it would be refused

It only reads: on a run that is training, on a read-only directory, on a plain Estimator's or tf.train.Checkpoint's.
"""

import contextlib
import io
import json
import os
import sys
from typing import Any, Dict, Iterator, List

from absl import flags

from midepoch import cli, console, model_dir
from midepoch import config as config_lib
from midepoch.console import age, count, size
from midepoch.errors import UserError
from midepoch.stopping import AUTO


def report(inventory: Dict[str, Any]) -> Iterator[str]:
    """Yields the lines that tell people what `inventory.take_inventory` has found."""
    yield _whose(inventory)
    yield from _progress(inventory)
    yield from _process(inventory)
    yield from _metrics(inventory)
    if inventory["contract"]:
        yield f"may not change: {_contract(inventory['contract'])}"
        yield f"trained with: {_adaptable(inventory['contract'])}"
    yield ""
    yield from _table(inventory)
    if inventory["problems"]:
        yield ""
        yield from (f"not whole: {line}" for line in inventory["problems"])
    if inventory["next_start"]:
        yield ""
        yield "the next start, with these flags:"
        yield from (f"  {line}" for line in inventory["next_start"]["lines"])
        if inventory["next_start"]["refused"]:
            yield f"  refused: {inventory['next_start']['refused']}"


def _whose(inventory: Dict[str, Any]) -> str:
    directory, versions = inventory["model_dir"], inventory["versions"]
    if inventory["foreign"]:
        return f"{directory}: checkpoints of TensorFlow's own, without manifests; no run of midepoch"
    made_by = f"TF {versions['tensorflow']}, Keras {versions['keras']}" if versions else "run.json is lost or damaged"
    return f"{directory}: {inventory['program']} · {inventory['task']} · {made_by}"


def _progress(inventory: Dict[str, Any]) -> Iterator[str]:
    step, target = inventory["step"], inventory["target"] or {}
    if step is None:
        return
    line = f"step {step}" + (f" of {target['train_steps']}" if "train_steps" in target else "")
    if inventory["epoch"] is not None:
        of = f" of {target['num_epochs']}" if "num_epochs" in target else ""
        line += f" · {inventory['epoch']:.2f}{of} epochs"
    if inventory["examples_seen"] is not None:
        line += f" · {count(inventory['examples_seen'], 'example')} seen"
    if inventory["finished"] is not None:
        line += " · at its target" if inventory["finished"] else " · not at its target"
    yield line
    history = inventory["history"]
    if history:
        again = count(history["steps_done_again"], "step")
        yield f"{count(history['starts'], 'start')}, {count(history['kills'], 'kill')}, {again} done again"


def _process(inventory: Dict[str, Any]) -> Iterator[str]:
    process = inventory["process"]
    if not process:
        return
    who = f"process {process['pid']} on {process['host']}"
    when = f"step {process['step']}, {age(process['noted_secs_ago'])} ago"
    if process["running"]:
        yield f"{who} trains here now: {when}"
    elif process["running"] is None:
        yield f"{who} trains here, or was killed; which of them cannot be told from this host: {when}"
    elif process["killed"]:
        yield f"nobody trains here; {who} was killed after {when}"
    else:
        yield f"nobody trains here; {who} ended in order at {when}"


def _metrics(inventory: Dict[str, Any]) -> Iterator[str]:
    for name, of in (("best", "best"), ("last", "last evaluation")):
        metrics = inventory[name]
        if metrics:
            values = ((key, value) for key, value in metrics.items() if key not in ("global_step", "epoch"))
            shown = ", ".join(f"{key} {'not finite' if value is None else format(value, '.4f')}" for key, value in values)
            yield f"{of}: {shown} at step {metrics['global_step']}"


def _contract(contract: Dict[str, Any]) -> str:
    order = dict(contract.get("order") or {})
    data = order.pop("data", None)
    facts = {**contract, **order}
    for name in ("order", "optimizer", "freeze", "epoch_examples"):  # the first is told in parts, the others may change
        facts.pop(name, None)
    shown = [f"{name} {value}" for name, value in facts.items()]
    if data:
        shown.append(f"the data ({count(sum(file[2] for file in data), 'example')} in {count(len(data), 'file')})")
    return ", ".join(shown)


def _adaptable(contract: Dict[str, Any]) -> str:
    freeze = contract.get("freeze")
    return f"optimizer {contract.get('optimizer')}" + (f", freeze {freeze}" if freeze else "")


def _table(inventory: Dict[str, Any]) -> Iterator[str]:
    parts = ("weights", "optimizer", "iterator", "other", "total")
    rows = [("checkpoint", "step", "epoch", "batches", "examples", *parts, "age", "state")]
    if inventory["foreign"]:
        whole = "all tensors can be read" if inventory["verified"] else "not verified"
    else:
        whole = "whole" if inventory["verified"] else "sizes match"
    for checkpoint in inventory["checkpoints"]:
        sizes = checkpoint["bytes"]
        batches = f"{checkpoint['batches_done']}/{checkpoint['batches_per_epoch']}" if checkpoint["epoch"] else "–"
        rows.append(
            (
                os.path.relpath(checkpoint["path"], inventory["model_dir"]),
                *(_shown(checkpoint[name]) for name in ("step", "epoch")),
                batches,
                _shown(checkpoint["examples_seen"]),
                *(size(sizes[part]) for part in parts),
                age(checkpoint["age_secs"]),
                checkpoint["problem"] or whole,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows)]
    for first, *others, last in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:])), last]
        yield "  ".join(cells).rstrip()


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)


def next_start(inventory: Dict[str, Any], given: Dict[str, Any]) -> Dict[str, Any]:
    """Returns what a start would say, and do, in a model_dir.

    Args:
      inventory: of the model_dir.
      given: the training flags it would be given; those not given are the latest start's.

    Returns:
      `lines`: what it would print before training begins; `refused`: None, or the line it would end with.
    """
    from midepoch.opening import preview_run

    directory = inventory["model_dir"]
    try:
        saved = config_lib.read_flagfile(os.path.join(directory, model_dir.FLAGS_FILE))
    except (OSError, UnicodeDecodeError, flags.Error):  # lost, or damaged: run.json knows them too
        saved = inventory["config"] or {}
    if saved.get("max_run_secs") == AUTO:  # the limit of a job, in which this is not called
        saved = {**saved, "max_run_secs": None}
    said, refused = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(said):
            config = config_lib.merged(saved, {**given, "model_dir": directory})
            # Where no run.json tells whose run it is, both programs say the same.
            preview_run(inventory["program"] or "lowlevel", config)
    except UserError as error:
        refused = str(error)
    return {"lines": said.getvalue().splitlines(), "refused": refused}


def run(argv: List[str]) -> int:
    """Does what a command line says, and returns the exit code."""
    values = flags.FlagValues()
    config_lib.define_flags(values)
    flags.DEFINE_bool("help", False, "Shows this help.", flag_values=values)
    flags.DEFINE_bool("json", False, "Prints JSON.", flag_values=values)
    flags.DEFINE_bool("verify", False, "Reads every byte; exit code 1 if a checkpoint is not whole.", flag_values=values)
    try:
        rest = values(argv)[1:]
        if values["help"].value:
            print(f"{__doc__}\n{values.get_help(include_special_flags=False)}")
            return cli.EXIT_FINISHED
        if len(rest) != 1:
            raise UserError(f"expected one directory, received {' '.join(rest) or 'none'}; give the directory of a run")
        model_dir.check_is_there(rest[0])  # before TensorFlow is imported
        cli.quiet_tensorflow()
        from midepoch.inventory import take_inventory

        inventory = take_inventory(rest[0], values["verify"].value)
        given = config_lib.given_flags(values)
        inventory["next_start"] = next_start(inventory, given) if given else None
    except (UserError, flags.Error, OSError) as error:
        return cli.fail(" ".join(str(error).split()))
    print(json.dumps(inventory, indent=2) if values["json"].value else "\n".join(report(inventory)))
    refused = given and inventory["next_start"]["refused"]
    return cli.EXIT_FAILED if refused or (inventory["verified"] and inventory["problems"]) else cli.EXIT_FINISHED


def main() -> None:
    """The console script `midepoch-inspect`."""
    sys.dont_write_bytecode = True  # it writes nothing, not even what Python makes of the module of a task
    cli.serve_any_terminal()
    try:
        code = run(sys.argv)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`: no failure
        console.discard(sys.stdout)
        code = cli.EXIT_FINISHED
    except KeyboardInterrupt:
        code = cli.EXIT_FAILED
    sys.exit(code)


if __name__ == "__main__":
    main()
