"""Warnings at the start of a run: what is allowed, but may be regretted. Pure functions from facts to lines."""

from typing import List, Optional

from midepoch.config import TrainConfig


def of_flags(config: TrainConfig, secs_left: float) -> List[str]:
    """Returns what there is to say about flags.

    Args:
      config: a resolved config.
      secs_left: seconds to the time limit; infinite without one.
    """
    lines = []
    if config.keep_checkpoint_max == 1:
        lines.append(
            "warning: --keep_checkpoint_max=1: should the one checkpoint be damaged, only the best one is left to go on "
            "from; 2 is safer"
        )
    every = config.save_checkpoints_secs
    if every and every > secs_left:
        lines.append(
            f"warning: --save_checkpoints_secs={every} is more than the {secs_left:.0f} s to the time limit: should this "
            "process be killed before it stops by itself, its work since the last evaluation is lost"
        )
    return lines


def of_model(has_own_losses: bool, idle: List[str]) -> List[str]:
    """Returns what there is to say about a model.

    Args:
      has_own_losses: whether its layers have regularizers or called `add_loss`.
      idle: the names of the trainable variables that have no part in the loss.
    """
    lines = []
    if has_own_losses:
        lines.append(
            "warning: the model has losses of its own (regularizers, add_loss), which are not trained on: what loss() gives is "
            "all there is"
        )
    if idle:
        lines.append(f"warning: what has no part in the loss stays as it is: {', '.join(idle)}")
    return lines


def of_disk(
    free_bytes: int, checkpoint_bytes: int, keep_checkpoint_max: Optional[int], kept: int, best_kept: bool
) -> Optional[str]:
    """Returns what there is to say about the disk, or None.

    An old checkpoint is deleted only when the new one is safe, so there is one more than is kept, of the last and of the best.

    Args:
      free_bytes: free on the disk.
      checkpoint_bytes: size of a checkpoint.
      keep_checkpoint_max: how many of the last are kept; 0 or None for all, of which nobody knows how many that will be.
      kept: how many there are.
      best_kept: whether there is a best one.
    """
    to_come = max(0, keep_checkpoint_max - kept) + 1 if keep_checkpoint_max else 1
    needed_bytes = (to_come + (1 if best_kept else 2)) * checkpoint_bytes
    if free_bytes >= needed_bytes:
        return None
    return (
        f"warning: {_size(free_bytes)} are free, but the checkpoints to come need {_size(needed_bytes)} "
        f"({_size(checkpoint_bytes)} each); free some, or lower --keep_checkpoint_max"
    )


def _size(number: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number / 1000:.1f} kB"
