"""Healing: acts on what a start has found, so that training goes on from whole checkpoints in a tidy model_dir.

Nothing that may be somebody's is deleted. Checkpoints that are not whole go to `damaged/`; what a kill left in the middle of
a save, or of its deletion, is removed. The checkpoint in `best_weights/` is what counts of the best; its metrics file is a
copy for people and tools, of what the checkpoint's own manifest says.
"""

import dataclasses
import os
from typing import Any, Dict, List, Optional, Tuple

from midepoch import model_dir, startup
from midepoch.best import Best
from midepoch.startup import Start


def heal(
    directory: str, start: Start, keep_checkpoint_max: int, keep_every_n_hours: Optional[float] = None
) -> Tuple[Start, List[str]]:
    """Mends the last checkpoints and TensorFlow's `checkpoint` file.

    Args:
      directory: the model_dir.
      start: what `startup.choose_start` found.
      keep_checkpoint_max: how many checkpoints that file may list; 0 for any number.
      keep_every_n_hours: of those that are too many, one for every so many hours stays for good; None for none.

    Returns:
      (the start, whose checkpoint lies in the model_dir now, even if it was found in best_weights; lines for the user).
    """
    # Those in best_weights are for `heal_best`.
    lines = [_set_aside(prefix, problem, directory) for prefix, problem in start.damaged if _lies_in(prefix, directory)]
    if start.case != startup.RESUME:
        lines += _clear(directory, directory, -1, keep_checkpoint_max)
        return start, lines + _set_state_aside(directory, directory)
    lines += _clear(directory, directory, start.step, keep_checkpoint_max)
    if not _lies_in(start.prefix, directory):
        lines.append(f"{_name(start.prefix, directory)} is the newest one left: copied to {directory}")
        start = dataclasses.replace(start, prefix=model_dir.copy_checkpoint(start.prefix, directory, metrics=None))
    model_dir.point_state_at(directory, start.prefix, keep_checkpoint_max, keep_every_n_hours)
    return start, lines


@dataclasses.dataclass(frozen=True)
class BestFound:
    """What is left of the best checkpoint.

    Attributes:
      prefix: the best checkpoint that is whole; or one of the same step in the model_dir, to be copied; or None.
      metrics: those of that checkpoint, or None.
      damaged: (prefix, what is wrong) of each one in best_weights that is not whole.
      lost: there was a best, and nothing is left of it.
      whole: nothing has to be mended.
    """

    prefix: Optional[str]
    metrics: Optional[Dict[str, Any]]
    damaged: tuple
    lost: bool
    whole: bool


def look_at_best(directory: str, best: Best) -> BestFound:
    """Compares best_weights and the metrics file. Only reads.

    Args:
      directory: the model_dir.
      best: what the metrics files say.
    """
    folder = os.path.join(directory, model_dir.BEST_WEIGHTS)
    damaged, found, metrics = [], None, None
    for step in model_dir.steps_on_disk(folder):
        prefix = model_dir.prefix_of(folder, step)
        if model_dir.is_unfinished(prefix):
            continue
        problem = model_dir.problem_with(prefix)
        metrics = _metrics_of(prefix, step, best)
        if problem is None:
            found = prefix
            break
        damaged.append((prefix, problem))
        found = _same_step(directory, step) if metrics else None
        if found:
            break
    if not found and best.best:
        found, metrics = _same_step(directory, best.step), best.best
    had_one = bool(damaged) or best.best is not None or bool(best.last and best.last.get(best.metric) is not None)
    lost = had_one and not found
    whole = not damaged and not lost and (not found or (_lies_in(found, folder) and metrics == best.best))
    return BestFound(found, metrics if found else None, tuple(damaged), lost, whole)


def heal_best(directory: str, best: Best, found: BestFound) -> List[str]:
    """Mends best_weights and its metrics file; where the best is lost, the next evaluation is the best so far.

    Args:
      directory: the model_dir.
      best: what the metrics files say; set to what holds now.
      found: what `look_at_best` found.

    Returns:
      Lines for the user.
    """
    folder = os.path.join(directory, model_dir.BEST_WEIGHTS)
    lines = [_set_aside(prefix, problem, directory) for prefix, problem in found.damaged]
    lines += _clear(folder, directory, model_dir.step_of(found.prefix) if found.prefix else -1, 1)
    if found.lost:
        lines += [*_set_state_aside(folder, directory), _lost(best)]
        metrics_file = os.path.join(directory, model_dir.BEST_METRICS_FILE)
        if os.path.exists(metrics_file):
            model_dir.set_aside(metrics_file, directory)
        best.best = None
        return lines
    if not found.prefix:
        return lines
    prefix = found.prefix
    if not _lies_in(prefix, folder):
        lines.append(f"best_weights made again from {_name(prefix, directory)}, which is the same step")
        prefix = model_dir.copy_checkpoint(prefix, folder, metrics=found.metrics)
    model_dir.point_state_at(folder, prefix, 1)
    if best.best != found.metrics and found.metrics:
        lines.append(f"{model_dir.BEST_METRICS_FILE} did not tell of {_name(prefix, directory)}: written again")
        best.record_best(found.metrics)
    return lines


def preview(directory: str, start: Start, keep_checkpoint_max: int, best: Best, found: BestFound) -> List[str]:
    """Returns what `heal` and `heal_best` would say of damage and leftovers, but for the copies they make. Only reads.

    Args:
      directory: the model_dir.
      start: what `startup.choose_start` found.
      keep_checkpoint_max: how many checkpoints TensorFlow's `checkpoint` file may list; 0 for any number.
      best: what the metrics files say; set to what would hold then.
      found: what `look_at_best` found.
    """
    last_step = start.step if start.case == startup.RESUME else -1
    best_step = model_dir.step_of(found.prefix) if found.prefix else -1
    best_weights = os.path.join(directory, model_dir.BEST_WEIGHTS)
    problems: Dict[str, Optional[str]] = {}
    for folder, damaged, newest, keep_max in (
        (directory, start.damaged, last_step, keep_checkpoint_max),
        (best_weights, found.damaged, best_step, 1),
    ):
        problems.update(damaged)
        for step, problem in model_dir.remains(folder, newest, keep_max).items():
            if problem or step > newest:
                problems.setdefault(model_dir.prefix_of(folder, step), problem)
    lines = []
    for prefix, problem in problems.items():
        folder = model_dir.place_aside(prefix, directory)
        lines.append(_told(prefix, problem, directory, folder) if problem else _removed(prefix, directory))
    if start.case != startup.RESUME:
        lines += _state_told(directory, directory)
    if found.lost:
        lines += [*_state_told(best_weights, directory), _lost(best)]
    if found.lost or found.metrics:
        best.best = found.metrics
    return lines


def _metrics_of(prefix: str, step: int, best: Best) -> Optional[Dict[str, Any]]:
    """Returns the metrics of a best checkpoint: its manifest's, or, where that is damaged, the metrics file's."""
    manifest = model_dir.read_manifest(prefix)
    if manifest and manifest.get("metrics"):
        return manifest["metrics"]
    return best.best if best.step == step else None


def _same_step(directory: str, step: int) -> Optional[str]:
    """Returns the last checkpoint of a step if it is whole and was to be evaluated, or None."""
    prefix = model_dir.prefix_of(directory, step)
    manifest = model_dir.read_manifest(prefix)
    return prefix if manifest and manifest["evaluate"] and model_dir.problem_with(prefix) is None else None


def _clear(folder: str, directory: str, newest: int, keep_max: int) -> List[str]:
    """Removes what kills left in a folder of checkpoints, and sets aside what else is not whole; returns lines."""
    lines = []
    model_dir.remove_unfinished_state(folder)
    for step, problem in model_dir.remains(folder, newest, keep_max).items():
        prefix = model_dir.prefix_of(folder, step)
        if problem:
            lines.append(_set_aside(prefix, problem, directory))
        else:
            if step > newest:
                lines.append(_removed(prefix, directory))
            model_dir.remove(prefix)
    return lines


def _set_aside(prefix: str, problem: str, directory: str) -> str:
    return _told(prefix, problem, directory, model_dir.set_aside(prefix, directory))


def _set_state_aside(folder: str, directory: str) -> List[str]:
    """Sets aside the `checkpoint` state file of a folder without checkpoint: an Estimator would restore what it names."""
    lines = _state_told(folder, directory)
    if lines:
        model_dir.set_aside(model_dir.state_path(folder), directory)
    return lines


def _state_told(folder: str, directory: str) -> List[str]:
    path = model_dir.state_path(folder)
    if not os.path.exists(path):
        return []
    return [f"{_name(path, directory)} names no checkpoint that is there: moved to {model_dir.place_aside(path, directory)}"]


def _told(prefix: str, problem: str, directory: str, folder: str) -> str:
    return f"{_name(prefix, directory)} is damaged ({problem}): moved to {folder}"


def _removed(prefix: str, directory: str) -> str:
    return f"removed {_name(prefix, directory)}, a save that was not finished"


def _lost(best: Best) -> str:
    was = f", {best.metric} {best.value:.4f} of step {best.step}," if best.value is not None else ""
    return f"the best weights{was} are lost: the best is sought anew among the evaluations from here on"


def _name(prefix: str, directory: str) -> str:
    return os.path.relpath(prefix, directory)


def _lies_in(prefix: str, directory: str) -> bool:
    return os.path.abspath(os.path.dirname(prefix)) == os.path.abspath(directory)
