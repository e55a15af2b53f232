"""The loop: run steps, save, evaluate, maybe stop."""

import time
from typing import Any, Optional

from lowlevel.checkpoints import Checkpoints
from lowlevel.export import export_best
from lowlevel.model import Model
from midepoch.config import TrainConfig
from midepoch.opening import open_run
from midepoch.run import Result
from midepoch.stopping import STEP, Stopping

# A call of many steps comes back after about this long, so that signals and the clock are heard.
_CALL_SECS = 0.5


def train_and_evaluate(config: TrainConfig, task: Optional[Any] = None, stopping: Optional[Stopping] = None) -> Result:
    """Trains to the target, or until stopped; continues what is in the model_dir.

    Args:
      config: what to train; see `TrainConfig`.
      task: a task object, instead of the one that `config.task` names.
      stopping: decides whether to stop; by default, signals and --max_run_secs do.

    Returns:
      How the run ended.

    Raises:
      UserError: bad input, or a failure that only the user can mend; its text is one line.
    """
    with stopping or Stopping() as stopping, open_run("lowlevel", config, task, stopping) as run:
        start = run.start
        if run.already_done:
            return run.result(start.step, start.examples_seen, None)
        model = Model(run)
        checkpoints = Checkpoints(run, model)
        checkpoints.restore()
        if run.first_save_due():
            checkpoints.save_last(evaluate=False)
        if run.evaluation_due():
            checkpoints.evaluate_and_keep_best()

        step, examples_seen, saved_step = start.step, start.examples_seen, start.step
        steps_per_call = 1
        while not run.schedule.at_target(step, examples_seen) and not stopping.requested(step):
            limit = run.schedule.next_limit(step, examples_seen)
            began = time.monotonic()
            losses, example_ids, batch_sizes = model.train(limit._replace(step=min(limit.step, step + steps_per_call)))
            secs = time.monotonic() - began
            stopping.took(STEP, secs)
            steps_per_call = _adapted(steps_per_call, len(losses), secs)
            for loss, batch_size in zip(losses, batch_sizes):
                before, step, examples_seen = examples_seen, step + 1, examples_seen + int(batch_size)
                run.reports.check_loss(step, float(loss))
                run.reports.record_step(step, example_ids[:batch_size])
                example_ids = example_ids[batch_size:]
            run.reports.steps_done(step, examples_seen, float(losses[-1]))
            if run.save_due(step, before, examples_seen):
                evaluate = run.schedule.evaluate(step, before, examples_seen)
                checkpoints.save_last(evaluate)
                saved_step = step
                if evaluate:
                    checkpoints.evaluate_and_keep_best()
        if saved_step != step:
            checkpoints.save_last(evaluate=False)
        if run.exports_now(step, examples_seen):
            export_best(run, step)
        return run.result(step, examples_seen, stopping.reason)


def _adapted(steps_per_call: int, steps: int, secs: float) -> int:
    """Returns how many steps the next call may take, at most twice as many, after one of so many steps took so long."""
    return max(1, min(2 * steps_per_call, int(steps * _CALL_SECS / max(secs, 1e-6))))
