"""At which steps runs are killed: a function of a seed and of the run's own plan, so that all runs die at the same steps.

A kill teaches something where there is something to lose: in mid-epoch, some way after the last checkpoint, and some way
before the next, since a process does not die in the moment in which its death is decided.
"""

import bisect
import os
import random
from typing import List, NamedTuple, Optional, Tuple

from midepoch import model_dir
from midepoch.config import TrainConfig
from midepoch.errors import UserError

# How far from the checkpoint before and from the one after, as a share of the longest way between two.
_AFTER_SAVE, _BEFORE_SAVE = 0.3, 0.25
# How far from both ends of an epoch, as a share of it.
_FROM_EPOCH_END = 1 / 6


class Grid(NamedTuple):
    """The steps at which things happen in a run.

    Attributes:
      total_steps: the last step.
      epoch_steps: steps per epoch, or None if the run does not count epochs.
      saves: the steps with a checkpoint, ascending, from 0 to the last; without those that are saved by the clock.
      log_every_steps: how often a program tells of its steps.
      first_step: the step it begins after; not 0 if it goes on from another run's checkpoint.
    """

    total_steps: int
    epoch_steps: Optional[int]
    saves: Tuple[int, ...]
    log_every_steps: int
    first_step: int = 0


def make_grid(config: TrainConfig, total_steps: int, epoch_steps: Optional[int]) -> Grid:
    """Returns the grid of a run.

    Args:
      config: a resolved config.
      total_steps: the last step.
      epoch_steps: steps per epoch, or None.
    """
    intervals = [config.save_checkpoints_steps, config.eval_every_steps]
    if epoch_steps:
        intervals += [n and n * epoch_steps for n in (config.save_checkpoints_epochs, config.eval_every_epochs)]
    first_step = _first_step(config.restore_from)
    saves = {0, first_step, total_steps, *(step for n in intervals if n for step in range(n, total_steps, n))}
    return Grid(total_steps, epoch_steps, tuple(sorted(saves)), config.log_every_steps, first_step)


def _first_step(restore_from: Optional[str]) -> int:
    """Returns the step after which a run begins."""
    if not restore_from:
        return 0
    prefix = model_dir.newest_valid(restore_from) if os.path.isdir(restore_from) else restore_from
    return model_dir.step_of(prefix) if prefix else 0  # the run itself will say what is wrong with it


def kill_steps(grid: Grid, kills: int, seed: int) -> List[int]:
    """Returns the steps after which a run is killed, ascending: one at random in each of as many parts of the run.

    Args:
      grid: of the run.
      kills: how many.
      seed: of the choice.

    Raises:
      UserError: the run is too short for so many.
    """
    # Not before the first epoch and the first checkpoint are behind, where the run is long enough for that.
    first = grid.first_step or max(grid.saves[1], grid.epoch_steps or 0)
    first = first if first + 2 * kills < grid.total_steps else grid.first_step
    longest = max(b - a for a, b in zip(grid.saves, grid.saves[1:]))
    chooser, chosen = random.Random(f"{seed}"), []
    saves = set(grid.saves)
    bounds = [first + (grid.total_steps - first) * number // max(kills, 1) for number in range(kills + 1)]
    for begin, end in zip(bounds, bounds[1:]):
        steps = [(_worth(grid, longest, step), step) for step in range(max(begin, 1), end) if step not in saves]
        if not steps:
            raise UserError(
                f"--kills={kills} is too many for a run of {grid.total_steps} steps; give fewer, or train longer, or save"
                " less often"
            )
        best = max(worth for worth, _ in steps)
        chosen.append(chooser.choice([step for worth, step in steps if worth == best]))
    return chosen


def _worth(grid: Grid, longest: int, step: int) -> Tuple[bool, bool, bool]:
    """Returns how good a step is for a kill: in mid-epoch, told of on the terminal, far from the checkpoints; in this order.

    Args:
      grid: of the run.
      longest: the longest way between two checkpoints, in steps.
      step: between the first and the last checkpoint, and none of those.
    """
    number = bisect.bisect(grid.saves, step)
    before, after = grid.saves[number - 1], grid.saves[number]
    far_from_saves = step - before >= _AFTER_SAVE * longest and after - step >= _BEFORE_SAVE * longest
    in_mid_epoch = True
    if grid.epoch_steps:
        done = step % grid.epoch_steps
        in_mid_epoch = min(done, grid.epoch_steps - done) >= max(1, _FROM_EPOCH_END * grid.epoch_steps)
    told = step % grid.log_every_steps == 0  # else it is known only later that the step has been done
    return in_mid_epoch, told, far_from_saves
