"""The lines that a run prints, from its first to its last: each function returns one, made from its arguments alone."""

import os
from typing import Any, Dict, Optional

from midepoch import console, startup
from midepoch.best import Best
from midepoch.config import TrainConfig
from midepoch.schedule import Schedule, place_in_epoch


def start(directory: str, chosen: startup.Start, place: str) -> str:
    """Returns where the run starts; `place` is the text of `where`."""
    if chosen.case == startup.RESUME:
        name = os.path.relpath(chosen.prefix, directory)
        return f"resume at step {chosen.step} from {name} (verified, {console.age(chosen.age_secs)} old): {place}"
    if chosen.case == startup.RESTORE_FROM:
        return f"start from {chosen.prefix} at step {chosen.step} (verified): {place}"
    return f"fresh start: no checkpoint in {directory}"


def where(examples_seen: int, epoch_examples: Optional[int], batch_size: int) -> str:
    """Returns a position as the epoch it lies in, and how much of that is done."""
    if not epoch_examples:
        return f"{examples_seen} examples seen"
    epoch, done, per_epoch = place_in_epoch(examples_seen, epoch_examples, batch_size)
    return f"epoch {epoch}, {done} of {per_epoch} batches done"


def plan(config: TrainConfig, schedule: Schedule, target_steps: int, best: Best) -> str:
    """Returns what the run is to do: its target, and when it saves and evaluates."""
    target = f"target {target_steps} steps"
    if config.num_epochs and schedule.epochs_end_with_batch:
        target += f" ({console.count(config.num_epochs, 'epoch')} × {-(-schedule.epoch_examples // config.batch_size)})"
    if config.save_checkpoints_steps:
        save = f"save {console.every(config.save_checkpoints_steps, 'step')}"
    elif config.save_checkpoints_epochs:
        save = f"save {console.every(config.save_checkpoints_epochs, 'epoch')}"
    else:
        save = f"save {console.every(config.save_checkpoints_secs, 'second')}"
    keep = f"keep {config.keep_checkpoint_max}" if config.keep_checkpoint_max else "keep all"
    if config.keep_checkpoint_every_n_hours:
        keep += f" and one for every {config.keep_checkpoint_every_n_hours:g} hours"
    if config.eval_every_steps:
        evaluate = f"evaluate {console.every(config.eval_every_steps, 'step')}"
    else:
        evaluate = f"evaluate {console.every(config.eval_every_epochs, 'epoch')}"
    return f"{target} · {save}, {keep} · {evaluate} · best: {best.metric}, {best.mode}"


def done_again(reached: int, steps: int) -> str:
    """Returns what a kill has cost: the step the run had reached, and how many of its steps are done again."""
    return f"the killed run had reached step {reached}: {console.count(steps, 'step')} done again"


def step(
    number: int,
    target_steps: int,
    examples_seen: int,
    epoch_examples: Optional[int],
    batch_size: int,
    loss: float,
    rates: tuple,
) -> str:
    """Returns how the training stands after a step.

    Args:
      number: the global step.
      target_steps: that at which the run ends.
      examples_seen: the position after the step.
      epoch_examples: training examples per epoch, or None.
      batch_size: examples per step.
      loss: mean loss of the step's examples.
      rates: (steps per second, examples per second).
    """
    steps_per_sec, examples_per_sec = rates
    place = ""
    if epoch_examples:
        epoch, in_epoch = divmod(examples_seen - 1, epoch_examples)
        done, per_epoch = (-(-n // batch_size) for n in (in_epoch + 1, epoch_examples))
        place = f"epoch {epoch + 1} {done}/{per_epoch}   "
    line = f"step {number}/{target_steps}   {place}loss {loss:.4f}"
    if not steps_per_sec:  # the first step of a process
        return line
    left = console.duration((target_steps - number) / steps_per_sec)
    return f"{line}   {examples_per_sec:.0f} examples/s   {left} left"


def evaluation(metrics: Dict[str, Any], best: Best, previous: Optional[float], improved: bool, in_epochs: bool) -> str:
    """Returns the outcome of an evaluation.

    Args:
      metrics: as the metrics files hold them.
      best: of the run, with this evaluation.
      previous: the best value before it, or None.
      improved: whether it is the best now.
      in_epochs: whether the run knows how long an epoch is.
    """
    number, value = metrics["global_step"], metrics[best.metric]
    shown = "not finite" if value is None else f"{value:.4f}"
    place = f"epoch {metrics['epoch']:g}" if in_epochs else f"step {number}"
    if improved and previous is None:
        text = f"{best.metric} {shown} (step {number}), first best saved"
    elif improved:
        text = f"{best.metric} improved {previous:.4f} → {shown} (step {number}), best saved"
    else:
        text = f"{best.metric} {shown} (step {number})"
        if best.value is not None:
            text += f", best stays {best.value:.4f} of step {best.step}"
    return f"eval  {place}   {text}"


def done(number: int, target_steps: int, best: Best, export: Optional[str], history: Dict[str, int]) -> str:
    """Returns how a run has ended that is at its target.

    Args:
      number: the global step.
      target_steps: that at which it was to end.
      best: of the run.
      export: the folder of the SavedModel, seen from the model_dir, or None.
      history: starts, kills and steps_done_again, as in run.json.
    """
    parts = [f"done {number}/{target_steps}"]
    if best.value is not None:
        parts.append(f"best {best.metric} {best.value:.4f} at step {best.step}")
    if export:
        parts.append(export)
    parts.append(
        f"{console.count(history['starts'], 'start')}, {console.count(history['kills'], 'kill')}, "
        f"{console.count(history['steps_done_again'], 'step')} done again"
    )
    return " · ".join(parts)


def stopped(number: int, target_steps: int, reason: Optional[str]) -> str:
    """Returns how a run has ended that goes on at its next start; `reason` is what has stopped it, or None."""
    by = f" by {reason}" if reason else ""
    return f"stopped at {number}/{target_steps}{by}, nothing lost; run the same command to continue (exit 75)"


def already_done(number: int, target_steps: int) -> str:
    """Returns what a start says that has nothing to do."""
    return f"already done: {number}/{target_steps} steps, nothing to do; raise --num_epochs or --train_steps to go on"
