"""When to save, evaluate, log and end: the grid that no kill, stop or restart moves.

Everything is counted from step 0 and example 0, never from where a process happened to start. So a run that was killed
ten times saves and evaluates at the very steps of a run that never was.
"""

from typing import NamedTuple, Optional, Tuple

from midepoch.config import TrainConfig
from midepoch.errors import UserError


def its_time(before: int, now: int, every: Optional[int]) -> bool:
    """Says whether a multiple of `every` lies in (before, now]; the one test behind every periodic action.

    Args:
      before: the counter before the step, in steps or examples.
      now: the counter after it, in the same unit.
      every: the interval in that unit, or None for "never".
    """
    return every is not None and now // every > before // every


def place_in_epoch(examples_seen: int, epoch_examples: int, batch_size: int) -> Tuple[int, int, int]:
    """Returns (the epoch a position lies in, counted from 1; batches of it that are done; batches of a whole epoch)."""
    epochs_done, in_epoch = divmod(examples_seen, epoch_examples)
    return epochs_done + 1, -(-in_epoch // batch_size), -(-epoch_examples // batch_size)


class Limit(NamedTuple):
    """How far training may run before somebody has to look: up to `step`, or until `examples_seen` is reached."""

    step: int
    examples_seen: int


# Larger than any run; a limit that never comes.
_NEVER = 2**62


class Schedule:
    """The points of one run.

    Args:
      config: a resolved config.
      epoch_examples: training examples per epoch, or None if the task does not say (its own Dataset).
      epochs_end_with_batch: whether the last batch of an epoch is cut at its end; False if batches may lie across two.

    Raises:
      UserError: the config counts in epochs and `epoch_examples` is None.
    """

    def __init__(self, config: TrainConfig, epoch_examples: Optional[int], epochs_end_with_batch: bool = True):
        self._config = config
        self.epochs_end_with_batch = epochs_end_with_batch
        self.epoch_examples = epoch_examples
        counted = [name for name in ("num_epochs", "save_checkpoints_epochs", "eval_every_epochs") if getattr(config, name)]
        if epoch_examples is None and counted:
            raise UserError(
                f"--{counted[0]}={getattr(config, counted[0])} counts epochs, but task {config.task} does not say how long "
                "one is; set its num_train_examples, or count in steps (--train_steps, --eval_every_steps, "
                "--save_checkpoints_steps or _secs)"
            )
        self._target = Limit(config.train_steps or _NEVER, self._examples(config.num_epochs) or _NEVER)
        self._save_examples = self._examples(config.save_checkpoints_epochs)
        self._eval_examples = self._examples(config.eval_every_epochs)

    def _examples(self, epochs: Optional[int]) -> Optional[int]:
        return epochs * self.epoch_examples if epochs else None

    def steps_left(self, examples_seen: int, batch_size: int) -> int:
        """Returns the number of steps from a position to the target, which must be one in epochs."""
        if not self.epochs_end_with_batch:
            return max(0, -(-(self._target.examples_seen - examples_seen) // batch_size))
        epoch, in_epoch = divmod(examples_seen, self.epoch_examples)
        if epoch >= self._config.num_epochs:
            return 0
        whole_epochs = self._config.num_epochs - epoch - 1
        rest = self.epoch_examples - in_epoch
        return whole_epochs * -(-self.epoch_examples // batch_size) + -(-rest // batch_size)

    def at_target(self, step: int, examples_seen: int) -> bool:
        """Says whether the run is done."""
        return step >= self._target.step or examples_seen >= self._target.examples_seen

    def evaluate(self, step: int, examples_before: int, examples_seen: int) -> bool:
        """Says whether `step`, which took the count of examples from `examples_before` to `examples_seen`, is evaluated."""
        return (
            self.at_target(step, examples_seen)
            or its_time(step - 1, step, self._config.eval_every_steps)
            or its_time(examples_before, examples_seen, self._eval_examples)
        )

    def save(self, step: int, examples_before: int, examples_seen: int, secs_since_save: float) -> bool:
        """Says whether a checkpoint is saved after `step`: at its interval, and wherever the run is evaluated."""
        secs = self._config.save_checkpoints_secs
        return (
            self.evaluate(step, examples_before, examples_seen)
            or its_time(step - 1, step, self._config.save_checkpoints_steps)
            or its_time(examples_before, examples_seen, self._save_examples)
            or (secs is not None and secs_since_save >= secs)
        )

    def log(self, step: int) -> bool:
        """Says whether `step` is reported on the terminal and in TensorBoard."""
        return its_time(step - 1, step, self._config.log_every_steps)

    def next_limit(self, step: int, examples_seen: int) -> Limit:
        """Returns the nearest point at which something other than a training step may be due."""
        steps = (self._config.save_checkpoints_steps, self._config.eval_every_steps, self._config.log_every_steps)
        examples = (self._save_examples, self._eval_examples)
        return Limit(
            min(self._target.step, *((step // every + 1) * every for every in steps if every)),
            min(self._target.examples_seen, *((examples_seen // every + 1) * every for every in examples if every), _NEVER),
        )
