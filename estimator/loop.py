"""The loop: Estimator's own; a RunConfig, a saving hook and a listener make it save, evaluate and stop."""

from typing import Any, Optional

import tensorflow as tf

from estimator.checkpoints import EvaluateAndKeepBest, SaveOnTheGrid
from estimator.export import export_best
from estimator.inputs import train_input
from estimator.model import evaluate, make_model_fn
from midepoch.config import TrainConfig
from midepoch.errors import UserError, one_line
from midepoch.opening import input_ended, open_run
from midepoch.run import Result
from midepoch.stopping import Stopping


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
    _check_no_cluster()
    with stopping or Stopping() as stopping, open_run("estimator", config, task, stopping) as run:
        start = run.start
        if run.already_done:
            return run.result(start.step, start.examples_seen, None)
        estimator = tf.estimator.Estimator(make_model_fn(run), config=run_config(run.config))
        hook = SaveOnTheGrid(run)
        listener = EvaluateAndKeepBest(run, hook, lambda prefix: evaluate(estimator, run, prefix))
        estimator.train(train_input(run), hooks=[hook], saving_listeners=[listener])
        if not hook.is_over():  # Estimator takes the end of the data, and a full disk, for the end of the training
            raise input_ended()
        if run.exports_now(hook.step, hook.examples_seen):
            export_best(run, hook.step, estimator)
        return run.result(hook.step, hook.examples_seen, stopping.reason)


def _check_no_cluster() -> None:
    """Raises UserError if TF_CONFIG, which every RunConfig reads, names other processes: the session would wait for them."""
    try:
        found = tf.estimator.RunConfig()
    except (ValueError, TypeError) as error:
        raise UserError(f"TF_CONFIG cannot be read: {one_line(error)}; unset it") from error
    processes = found.num_worker_replicas + found.num_ps_replicas
    if processes > 1:
        raise UserError(f"TF_CONFIG names a cluster of {processes} processes, but this program trains in one; unset it")


def run_config(config: TrainConfig) -> tf.estimator.RunConfig:
    """Returns the RunConfig for a resolved config: where, how often, how many, and the seed."""
    return tf.estimator.RunConfig(
        model_dir=config.model_dir,
        tf_random_seed=config.seed,
        save_checkpoints_steps=config.save_checkpoints_steps,
        save_checkpoints_secs=config.save_checkpoints_secs,
        keep_checkpoint_max=config.keep_checkpoint_max,
        keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours or 10000,  # the default: none for good
        save_summary_steps=None,  # `Run` writes the summaries, at fixed steps
        log_step_count_steps=None,
    )
