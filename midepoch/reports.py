"""What a run tells of itself while it trains: on the terminal, to TensorBoard, in the ledger, and in the lock's note."""

import os
import shutil
import time
from typing import Any, Dict, Optional

from midepoch import console, fair_warning, lines, model_dir, saving
from midepoch.best import Best
from midepoch.config import TrainConfig
from midepoch.errors import UserError
from midepoch.ledger import Ledger
from midepoch.schedule import Schedule
from midepoch.stopping import SAVE, Stopping
from midepoch.summaries import EventWriter

_NOTE_SECS = 0.5


class Reports:
    """Takes the reports of a program on what it has done, in the order in which it does it.

    Args:
      config: the resolved config.
      schedule: the run's.
      stopping: takes how long things took.
      best: metrics of the last and the best evaluation.
      lock: held on the model_dir.
      start_step: the global step of the first state.
      first_eval_step: the first step this process may evaluate: the start's own if that is due, possibly for the second time.
      size_is_known: whether the disk has been compared with the size of a checkpoint.
      target_steps: the global step at which the run ends.

    Attributes:
      first_eval_step: as given.
      eval_directory: where TensorBoard finds the evaluation curves.
      last_save_at: when a checkpoint was last saved, by the monotonic clock; at first, when this was made.
    """

    def __init__(
        self,
        config: TrainConfig,
        schedule: Schedule,
        stopping: Stopping,
        best: Best,
        lock: model_dir.Lock,
        start_step: int,
        first_eval_step: int,
        size_is_known: bool,
        target_steps: int,
    ):
        self._config, self._schedule, self._stopping, self._best = config, schedule, stopping, best
        self._lock = lock
        self._start_step = start_step
        self.first_eval_step = first_eval_step
        self.eval_directory = os.path.join(config.model_dir, model_dir.EVAL)
        self._size_is_known = size_is_known
        self._target_steps = target_steps
        lock.note(start_step)
        self._noted_at = self.last_save_at = time.monotonic()
        self._events = EventWriter(config.model_dir, start_step + 1)
        self._eval_events: Optional[EventWriter] = None
        self._ledger = Ledger(os.path.join(config.model_dir, model_dir.EXAMPLES_FILE)) if config.record_examples else None
        self._progress: Optional[console.Progress] = None

    def record_step(self, step: int, example_ids: Any) -> None:
        """Takes the example ids of a step: int64 [B]."""
        if self._ledger:
            with saving.failure_explained(step):
                self._ledger.add(step, example_ids)

    def steps_done(self, step: int, examples_seen: int, loss: float) -> None:
        """Takes the state after a step: prints and draws it if it is time.

        Args:
          step: the global step.
          examples_seen: the position after it.
          loss: mean loss of the step's examples.
        """
        # What the terminal has told of is noted too: after a kill, both say the same about how far the run had come.
        if self._schedule.log(step) or time.monotonic() - self._noted_at > _NOTE_SECS:
            self._lock.note(step)
            self._noted_at = time.monotonic()
        if self._progress is None:  # the clock starts after the first step, which is not like the others
            self._progress = console.Progress(step, examples_seen)
        if not self._schedule.log(step):
            return
        rates = self._progress.rates(step, examples_seen)
        with saving.failure_explained(step):
            self._events.scalars(
                step, {"loss": loss, "learning_rate": self._config.learning_rate, "examples_per_sec": rates[1]}
            )
        per_epoch, batch_size = self._schedule.epoch_examples, self._config.batch_size
        console.say(lines.step(step, self._target_steps, examples_seen, per_epoch, batch_size, loss, rates))

    def check_loss(self, step: int, loss: float) -> None:
        """Raises UserError if the loss of a step is not finite."""
        if loss != loss or loss in (float("inf"), float("-inf")):
            raise UserError(
                f"the loss of step {step} is {loss}; nothing was saved after it: lower --learning_rate and start again, "
                "the last checkpoint is good"
            )

    def before_save(self) -> None:
        """Puts on disk what a checkpoint or metrics that are written now cover."""
        self._events.flush()
        if self._ledger:
            self._ledger.flush()

    def saved(self, step: int, secs: float) -> None:
        """Takes the time a save took."""
        self.last_save_at = time.monotonic()
        self._stopping.took(SAVE, secs)
        if not self._size_is_known:
            self._size_is_known = True
            warn_of_disk(self._config, model_dir.prefix_of(self._config.model_dir, step), self._best)
        self._events.scalars(step, {"save_secs": secs})
        self._events.flush()
        self._lock.note(step)

    def restored(self, secs: float) -> None:
        """Takes the time it took to read the checkpoint that this process starts from."""
        # At the first step of this start: then it is dropped with the rest, should a kill make the next start begin there too.
        self._events.scalars(self._start_step + 1, {"restore_secs": secs})
        self._events.flush()

    def draw_evaluation(self, metrics: Dict[str, Any]) -> None:
        """Puts an evaluation into TensorBoard."""
        names = [name for name in metrics if name not in ("global_step", "epoch")]
        values = {name: float("nan") if metrics[name] is None else metrics[name] for name in names}
        if self._eval_events is None:
            self._eval_events = EventWriter(self.eval_directory, self.first_eval_step)
        self._eval_events.scalars(metrics["global_step"], values)
        self._eval_events.flush()

    def evaluation(self, metrics: Dict[str, Any], previous_best: Optional[float], improved: bool) -> None:
        """Prints the outcome of an evaluation."""
        in_epochs = bool(self._schedule.epoch_examples)
        console.say(lines.evaluation(metrics, self._best, previous_best, improved, in_epochs))

    def resume_clock(self, step: int, examples_seen: int) -> None:
        """To be called when training goes on after something else, so that the speed shown is that of training."""
        if self._progress:
            self._progress.pause(step, examples_seen)

    def close(self, step: int) -> None:
        """Closes the outputs and notes that this process ended in order, after `step`."""
        with saving.failure_explained(step):
            self._events.close()
            if self._eval_events:
                self._eval_events.close()
            if self._ledger:
                self._ledger.close()
        self._lock.note(step, running=False)


def warn_of_disk(config: TrainConfig, prefix: str, best: Best) -> None:
    """Compares the free disk with what the checkpoints to come will need, by the size of one that has been saved."""
    line = fair_warning.of_disk(
        shutil.disk_usage(config.model_dir).free,
        sum(file["bytes"] for file in model_dir.read_manifest(prefix)["files"].values()),
        config.keep_checkpoint_max,
        len(model_dir.steps_on_disk(config.model_dir)),
        best.best is not None,
    )
    if line:
        console.say(line)
