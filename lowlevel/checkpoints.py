"""Checkpoints: one `tf.train.Checkpoint` of everything, and two `CheckpointManager`s, for the last and for the best."""

import time
from typing import Any, Dict

import tensorflow as tf

from lowlevel.model import Model
from midepoch import model_dir, saving, startup
from midepoch.run import Run


class Checkpoints:
    """Saves and restores the state of a run.

    Args:
      run: the run.
      model: what there is to save.
    """

    def __init__(self, run: Run, model: Model):
        self._run = run
        self._model = model
        # Model, optimizer, counters and the iterator's place: one checkpoint, so they can never disagree.
        self._state = dict(
            model=model.model, optimizer=model.optimizer, step=model.global_step, examples_seen=model.examples_seen
        )
        self._checkpoint = tf.train.Checkpoint(**self._state, iterator=model.iterator)
        self.last = tf.train.CheckpointManager(
            self._checkpoint,
            run.config.model_dir,
            max_to_keep=run.config.keep_checkpoint_max or None,
            keep_checkpoint_every_n_hours=run.config.keep_checkpoint_every_n_hours,
            checkpoint_name=model_dir.CHECKPOINT_NAME,
        )
        # A directory of its own: two managers in one would delete each other's files.
        self.best = tf.train.CheckpointManager(
            self._checkpoint, run.best_directory, max_to_keep=1, checkpoint_name=model_dir.CHECKPOINT_NAME
        )

    def restore(self) -> None:
        """Restores what this process starts from; nothing on a fresh start.

        Where the iterator's state does not fit, the iterator has been built at the right place and is left out. Where the
        optimizer is another one, it is left out too.
        """
        start, state = self._run.start, dict(self._state)
        if start.prefix is None:
            return
        began = time.monotonic()
        if start.restore_iterator:
            state["iterator"] = self._model.iterator
        if start.fresh_slots:
            del state["optimizer"]
            self._model.optimizer.iterations.assign(start.step)
        with startup.misfit_explained(start.prefix, self._run.config.task):
            status = tf.train.Checkpoint(**state).restore(start.prefix)
            status.assert_existing_objects_matched()  # a missing layer or iterator is an error, not a silence
        self._model.examples_seen.assign(start.examples_seen)  # 0 where the saved position is not this run's own
        self._run.reports.restored(time.monotonic() - began)

    def save_and_commit(self, manager: tf.train.CheckpointManager, facts: Dict[str, Any]) -> None:
        """Saves a checkpoint, makes it count, and only then names it the latest one and deletes old ones.

        Args:
          manager: where to.
          facts: of the manifest; `Run.checkpoint_facts`.
        """

        def commit(prefix: str) -> None:
            model_dir.commit(prefix, facts)

        # The manager appends its own callback, which names the new checkpoint the latest one and deletes old ones. So the
        # manifest comes first: nothing is deleted before the new checkpoint counts.
        options = tf.train.CheckpointOptions(experimental_write_callbacks=[commit])
        model_dir.begin_save(model_dir.prefix_of(manager.directory, facts["step"]))
        manager.save(checkpoint_number=facts["step"], options=options)
        model_dir.remove_orphaned_manifests(manager.directory)

    def save_last(self, evaluate: bool) -> None:
        """Saves the state as the last checkpoint.

        Args:
          evaluate: whether this step is to be evaluated; remembered, should the process die before that is done.
        """
        started = time.monotonic()
        step, examples_seen = int(self._model.global_step), int(self._model.examples_seen)
        weights = self._model.model.weights
        saving.check_finite(step, weights, saving.are_finite(weights))
        with saving.failure_explained(step):
            self._run.before_save()
            self.save_and_commit(self.last, self._run.checkpoint_facts(step, examples_seen, evaluate))
            self._run.reports.saved(step, time.monotonic() - started)

    def evaluate_and_keep_best(self) -> None:
        """Evaluates the state, and saves it as the best checkpoint if it beats the best one so far.

        If the run is to stop, the evaluation is left to the next start, which knows from the manifest that it is due.
        """
        run, best = self._run, self._run.best
        step, examples_seen = int(self._model.global_step), int(self._model.examples_seen)
        metrics = run.evaluated(step, examples_seen, self._model.evaluate)
        if metrics is None:
            return
        previous, improved = best.value, best.beaten_by(metrics)
        with saving.failure_explained(step):
            run.reports.draw_evaluation(metrics)
            if improved:
                self.save_and_commit(self.best, run.checkpoint_facts(step, examples_seen, evaluate=True, metrics=metrics))
                best.record_best(metrics)
            best.record_last(metrics)
        run.reports.evaluation(metrics, previous, improved)
        run.reports.resume_clock(step, examples_seen)


def restore_weights(model: Model, prefix: str) -> None:
    """Restores the weights and the step of a checkpoint, without what only training needs.

    Args:
      model: a model, training or not.
      prefix: the checkpoint.
    """
    status = tf.train.Checkpoint(model=model.model, step=model.global_step).restore(prefix)
    status.assert_existing_objects_matched()
    status.expect_partial()  # optimizer, position and iterator are left out on purpose
