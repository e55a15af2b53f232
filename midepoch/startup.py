"""Starting up: which of the four cases holds, and from which checkpoint and position the run goes on.

In this order:

1. A valid checkpoint in model_dir, that in best_weights included → resume from the newest valid one.
2. Checkpoint files, but none valid → refuse. Never start from 0 over somebody's run.
3. No checkpoint and --restore_from → weights, optimizer and step from there; position too where the contract allows it.
4. No checkpoint → fresh start.
"""

import collections
import contextlib
import dataclasses
import os
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence

import tensorflow as tf

from midepoch import contract, model_dir
from midepoch.errors import UserError

_OTHER_STREAM = "data, seed or shuffle differ from those of --restore_from"

RESUME, RESTORE_FROM, FRESH = "resume", "restore_from", "fresh"


@dataclasses.dataclass(frozen=True)
class Start:
    """Where a run starts.

    Attributes:
      case: RESUME, RESTORE_FROM or FRESH.
      prefix: the checkpoint to restore, or None.
      step: global step of the first state.
      examples_seen: position of the first batch.
      restore_iterator: True: build the pipeline with `pipeline_start` and restore the saved iterator into it. False: build
        it with `pipeline_start`, which is then `examples_seen` itself: a seek.
      pipeline_start: the position to build the pipeline with.
      evaluate: the state is to be evaluated, should that not have happened.
      fresh_slots: the checkpoint is another optimizer's: its weights and position are kept, the slots start anew.
      damaged: (prefix, what is wrong) of each newer checkpoint that was passed over.
      notes: lines for the user: what was adapted, and why.
      age_secs: seconds since the checkpoint was written, or None.
    """

    case: str
    prefix: Optional[str] = None
    step: int = 0
    examples_seen: int = 0
    restore_iterator: bool = False
    pipeline_start: int = 0
    evaluate: bool = False
    fresh_slots: bool = False
    damaged: tuple = ()
    notes: tuple = ()
    age_secs: Optional[float] = None


def choose_start(
    directory: str,
    restore_from: Optional[str],
    facts: Dict[str, Any],
    seekable: bool,
    first_step: Optional[int],
    evaluated: bool = False,
) -> Start:
    """Walks through the four cases. Only reads.

    Args:
      directory: the model_dir.
      restore_from: the flag's value.
      facts: the pipeline of today; `contract.pipeline_facts`.
      seekable: whether the pipeline can be built to start anywhere.
      first_step: the step at which this run started or will start, so that the leftovers of a first save that was killed
        are told from a lost checkpoint; None if the run is unknown.
      evaluated: whether the run has been evaluated before, so that it had checkpoints.

    Raises:
      UserError: case 2; or `restore_from` holds no checkpoint.
    """
    damaged = []
    lost = False
    for prefix in _on_disk(directory):
        problem = model_dir.problem_with(prefix)
        if problem is None:
            return _from_checkpoint(RESUME, prefix, facts, seekable, damaged)  # case 1
        unfinished = model_dir.is_unfinished(prefix)
        lost = lost or not unfinished or model_dir.step_of(prefix) != first_step
        if not unfinished:
            damaged.append((prefix, problem))
    check_not_foreign(directory)  # case 2
    if lost:  # case 2
        problems = "; ".join(f"{os.path.relpath(prefix, directory)}: {problem}" for prefix, problem in damaged)
        raise UserError(
            f"--model_dir={directory} holds checkpoint files, but none is whole ({problems or 'no manifest'}); "
            "restore one from a copy, or give another --model_dir"
        )
    if evaluated:  # case 2 too
        raise UserError(
            f"--model_dir={directory} holds the metrics of a run, but none of its checkpoints; put them back, or give "
            "another --model_dir"
        )
    if restore_from:  # case 3
        return _from_checkpoint(RESTORE_FROM, find_checkpoint(restore_from), facts, seekable)
    return Start(FRESH)  # case 4


def check_not_foreign(directory: str) -> None:
    """Raises UserError if a directory holds somebody's plain TensorFlow checkpoints: case 2."""
    if model_dir.is_foreign(directory):
        raise UserError(
            f"--model_dir={directory} holds checkpoints that this program has not written; they were left as they are: give "
            "another --model_dir"
        )


def _on_disk(directory: str) -> List[str]:
    """Returns the prefixes of all checkpoints of a run, newest first; of one step, the last before the best."""
    best = os.path.join(directory, model_dir.BEST_WEIGHTS)
    steps = [(step, True, directory) for step in model_dir.steps_on_disk(directory)]
    steps += [(step, False, best) for step in model_dir.steps_on_disk(best)]
    return [model_dir.prefix_of(folder, step) for step, _, folder in sorted(steps, reverse=True)]


def find_checkpoint(source: str, flag: str = "restore_from") -> str:
    """Returns the prefix of the checkpoint that a flag names: a model_dir, its best_weights, or a path.

    Raises:
      UserError: there is none, or it is not whole.
    """
    name = os.path.basename(source)
    prefix = source[: -len(".index")] if name.endswith(".index") else source
    if os.path.isdir(source):
        prefix = model_dir.newest_valid(source)
        if prefix is None:
            raise UserError(
                f"--{flag}={source} holds no valid checkpoint; give a model_dir, its best_weights, or a path"
            )
        return prefix
    if not os.path.exists(prefix + ".index"):
        raise UserError(
            f"--{flag}={source} is no checkpoint; give a model_dir, its best_weights, or model.ckpt-<step>"
        )
    problem = model_dir.problem_with(prefix)
    if problem:
        raise UserError(f"--{flag}={source} cannot be used: {problem}; give another checkpoint")
    return prefix


def check_model_fits(prefix: str, weights: Sequence[tf.Variable], task: str) -> None:
    """Makes sure that a checkpoint has a value of the right shape for every weight of a model.

    Args:
      prefix: the checkpoint.
      weights: the model's.
      task: its name, for the error line.

    Raises:
      UserError: it has not.
    """
    shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map().values()
    saved = collections.Counter(tuple(shape) for shape in shapes)
    missing = collections.Counter(tuple(weight.shape) for weight in weights) - saved
    if missing:
        shape = next(iter(missing))
        raise UserError(
            f"{prefix} does not fit the model of task {task}: it has too few variables of shape {list(shape)}; "
            "set the model back, or give another checkpoint or --model_dir"
        )


@contextlib.contextmanager
def misfit_explained(prefix: str, task: str) -> Iterator[None]:
    """Turns what TensorFlow says of a checkpoint into one line, while it is restored.

    Args:
      prefix: the checkpoint.
      task: the name of the task whose model it is restored into.

    Raises:
      UserError: the checkpoint is gone, or does not fit the model.
    """
    try:
        yield
    except (AssertionError, ValueError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
        if not os.path.exists(prefix + ".index"):
            raise UserError(f"{prefix} was deleted while it was read; start again, or give another checkpoint") from error
        raise UserError(
            f"{prefix} does not fit the model of task {task}: layers have been renamed, added or nested otherwise; set the "
            "model back, or give another checkpoint or --model_dir"
        ) from error


def _from_checkpoint(case: str, prefix: str, facts: Dict[str, Any], seekable: bool, damaged: Sequence[tuple] = ()) -> Start:
    manifest = model_dir.read_manifest(prefix)
    saved = manifest["pipeline"]
    start = Start(
        case,
        prefix,
        step=manifest["step"],
        examples_seen=manifest["examples_seen"],
        evaluate=manifest["evaluate"],
        damaged=tuple(damaged),
        age_secs=max(0.0, time.time() - os.path.getmtime(model_dir.manifest_path(prefix))),
    )
    if contract.iterator_fits(saved, facts):
        return dataclasses.replace(start, restore_iterator=True, pipeline_start=saved["start"])
    changed = ", ".join(
        f"{name} was {saved[name]}, is {facts[name]}"
        for name in ("batch_size", "version", "tensorflow")
        if saved[name] != facts[name]
    )
    if seekable and contract.position_carries_over(saved, facts):
        note = f"the pipeline changed ({changed}): seeking to example {start.examples_seen}"
        return dataclasses.replace(start, pipeline_start=start.examples_seen, notes=(note,))
    if case == RESUME:
        raise UserError(
            f"{prefix} was saved with another pipeline ({changed or 'other data, seed or shuffle'}), and this one cannot seek "
            "to its position; set the flags and TensorFlow back to what they were, or use --restore_from with another "
            "--model_dir"
        )
    why = f"the pipeline changed ({changed}), and it cannot seek" if changed and not seekable else _OTHER_STREAM
    note = f"{why}: starting at the first example"
    return dataclasses.replace(start, examples_seen=0, notes=(note,))
