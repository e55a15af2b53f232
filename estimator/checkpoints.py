"""Checkpoints: a Saver that commits, a hook that saves and stops, a listener that evaluates and keeps the best."""

import os
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import tensorflow as tf

from estimator import inputs
from midepoch import model_dir, saving, startup, summaries
from midepoch.run import Run
from midepoch.stopping import STEP


class CommittingSaver(tf.compat.v1.train.Saver):
    """A `Saver` of everything in the graph: variables, and the iterator that `inputs.resumable` has made saveable.

    Args:
      run: the run.
      max_to_keep: checkpoints to keep; 0 or None keeps all.
      every_n_hours: keep one for every n hours, for good; the default, a Saver's own, stands for "none".
      slots: the optimizer's variables, which start anew where the checkpoint is another optimizer's.
    """

    def __init__(
        self, run: Run, max_to_keep: Optional[int], every_n_hours: float = 10000.0, slots: Sequence[tf.Variable] = ()
    ):
        self._run = run
        self._keeps_all = not max_to_keep  # then a Saver keeps no list
        self._every_secs = every_n_hours * 3600
        super().__init__(
            sharded=True,  # the iterator's shard apart from the variables', as Estimator's own Saver writes them
            max_to_keep=max_to_keep,
            keep_checkpoint_every_n_hours=every_n_hours,
            save_relative_paths=True,
        )
        # A Saver counts the hours from the start of its process; a run that is killed every hour would never keep one.
        state = tf.train.get_checkpoint_state(run.config.model_dir)
        if state and state.last_preserved_timestamp:
            self._next_checkpoint_time = state.last_preserved_timestamp + self._every_secs
        # Where the iterator's state does not fit, the iterator has been built at the right place, and is left out. So are
        # the slots where they are another optimizer's, and `examples_seen` where the run starts at the first example with
        # somebody else's weights: the saved position is not its own.
        position = [v for v in tf.compat.v1.global_variables() if v.op.name == inputs.EXAMPLES_SEEN]
        left_out = [*(slots if run.start.fresh_slots else ()), *(() if run.start.examples_seen else position)]
        restored = [v for v in tf.compat.v1.global_variables() if all(v is not other for other in left_out)]
        if run.start.restore_iterator:
            restored += tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)
        self._restorer = tf.compat.v1.train.Saver(restored)
        self._initializer = tf.compat.v1.variables_initializer(left_out)

    def restore(self, sess: tf.compat.v1.Session, save_path: str) -> None:
        """Restores the graph, apart from what is left out; that is initialized, as no session does once it has restored."""
        began = time.monotonic()
        sess.run(self._initializer)
        with startup.misfit_explained(save_path, self._run.config.task):
            self._restorer.restore(sess, save_path)
        self._run.reports.restored(time.monotonic() - began)

    def restore_from_elsewhere(self, scaffold: Any, sess: tf.compat.v1.Session) -> None:
        """The Scaffold's `init_fn`, called where model_dir has no checkpoint: restores what --restore_from names, if set."""
        del scaffold
        if self._run.start.prefix is not None:
            self.restore(sess, self._run.start.prefix)

    def save_and_commit(self, sess: tf.compat.v1.Session, directory: str, facts: Dict[str, Any]) -> None:
        """Saves a checkpoint, makes it count, and only then names it the latest one and deletes old ones.

        Args:
          sess: the session.
          directory: where to.
          facts: of the manifest; `Run.checkpoint_facts`.
        """
        name = os.path.join(directory, model_dir.CHECKPOINT_NAME)
        model_dir.begin_save(model_dir.prefix_of(directory, facts["step"]))
        prefix = self.save(sess, name, global_step=facts["step"], write_state=False, write_meta_graph=False)
        model_dir.commit(prefix, facts)
        # What save(write_state=True) does by itself, but before the commit. The list still has the checkpoints to be deleted
        # until they are: a kill in between leaves none behind that nobody knows of.
        # tf.estimator ends with TF 2.15, so these private names will not change any more.
        listed = self._all_in(directory) if self._keeps_all else [*self.last_checkpoints, prefix]
        self._write_state(directory, prefix, listed)
        if not self._keeps_all:
            self._RecordLastCheckpoint(prefix)
            self._delete_old()
            self._write_state(directory, prefix, self.last_checkpoints)
        model_dir.remove_orphaned_manifests(directory)

    def _delete_old(self) -> None:
        """Deletes the oldest checkpoint if there are too many, or keeps it for good."""
        oldest = self._checkpoints_to_be_deleted[:1]
        deadline = self._next_checkpoint_time
        self._MaybeDeleteOldCheckpoints()
        if self._next_checkpoint_time != deadline:  # kept; the hours count from it, not from a deadline of before a pause
            [(_, saved_at)] = oldest
            self._next_checkpoint_time = saved_at + self._every_secs

    def _all_in(self, directory: str) -> List[str]:
        """Returns the prefixes of all checkpoints of a directory, oldest first."""
        return [model_dir.prefix_of(directory, step) for step in reversed(model_dir.steps_on_disk(directory))]

    def _write_state(self, directory: str, latest: str, prefixes: Iterable[str]) -> None:
        """Writes TensorFlow's `checkpoint` file, with names that stay true if the directory is moved."""
        tf.compat.v1.train.update_checkpoint_state(
            os.path.abspath(directory),
            model_checkpoint_path=os.path.basename(latest),
            all_model_checkpoint_paths=[os.path.basename(prefix) for prefix in prefixes],
            last_preserved_timestamp=self._next_checkpoint_time - self._every_secs,
        )


def committing_scaffold(
    run: Run, run_config: tf.estimator.RunConfig, slots: Sequence[tf.Variable]
) -> tf.compat.v1.train.Scaffold:
    """Returns the Scaffold of a train step, which saves and restores by a `CommittingSaver`.

    Args:
      run: the run.
      run_config: the Estimator's; says how many checkpoints to keep.
      slots: the optimizer's variables.
    """
    saver = CommittingSaver(run, run_config.keep_checkpoint_max, run_config.keep_checkpoint_every_n_hours, slots)
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVERS, saver)  # where Scaffold and hooks look for it
    return tf.compat.v1.train.Scaffold(init_fn=saver.restore_from_elsewhere)


class SaveOnTheGrid(tf.compat.v1.train.CheckpointSaverHook):
    """Saves where the run's schedule says, counted from step 0, and ends the training at the target or on a stop.

    Being a `CheckpointSaverHook` it takes the place of the one that Estimator would add, which counts from where the process
    started and rewrites the checkpoint it has just restored.

    Args:
      run: the run.
    """

    def __init__(self, run: Run):
        super().__init__(run.config.model_dir, save_steps=1)  # the interval is the schedule's; the base class wants one
        self._run = run
        self.step = run.start.step
        self.examples_seen = run.start.examples_seen
        self._saved_step = run.start.step

    def begin(self) -> None:
        graph = tf.compat.v1.get_default_graph()
        self._fetches = {
            "loss": tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1],
            "examples_seen": graph.get_tensor_by_name(inputs.POSITION_AFTER + ":0"),
        }
        if self._run.config.record_examples:
            self._fetches["example_ids"] = graph.get_tensor_by_name(inputs.EXAMPLE_IDS + ":0")
        self._weights = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.MODEL_VARIABLES)
        self._are_finite = saving.are_finite(self._weights)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        if self._run.first_save_due():
            self.save_last(session, evaluate=False)
        if self._run.evaluation_due():
            self.evaluate_and_keep_best(session)
        if self.is_over():
            coord.request_stop()

    def before_run(self, run_context: Any) -> tf.compat.v1.train.SessionRunArgs:
        self._step_began = time.monotonic()
        return tf.compat.v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        run, results = self._run, run_values.results
        run.stopping.took(STEP, time.monotonic() - self._step_began)
        before, self.step, self.examples_seen = self.examples_seen, self.step + 1, int(results["examples_seen"])
        loss = float(results["loss"])
        run.reports.check_loss(self.step, loss)
        run.reports.record_step(self.step, results.get("example_ids"))
        run.reports.steps_done(self.step, self.examples_seen, loss)
        if run.save_due(self.step, before, self.examples_seen):
            evaluate = run.schedule.evaluate(self.step, before, self.examples_seen)
            self.save_last(run_context.session, evaluate)
            if evaluate:
                self.evaluate_and_keep_best(run_context.session)
        if self.is_over():
            run_context.request_stop()

    def is_over(self) -> bool:
        """Says whether the target is reached or a stop requested."""
        return self._run.schedule.at_target(self.step, self.examples_seen) or self._run.stopping.requested(self.step)

    def end(self, session: tf.compat.v1.Session) -> None:
        if self._saved_step != self.step and self.is_over():  # not where the data has ended, which is an error
            self.save_last(session, evaluate=False)

    def save_last(self, session: tf.compat.v1.Session, evaluate: bool) -> None:
        """Saves the state as the last checkpoint.

        Args:
          session: the session.
          evaluate: whether this step is to be evaluated; remembered, should the process die before that is done.
        """
        started = time.monotonic()
        saving.check_finite(self.step, self._weights, session.run(self._are_finite))
        with saving.failure_explained(self.step):
            self._run.before_save()
            facts = self._run.checkpoint_facts(self.step, self.examples_seen, evaluate)
            self._get_saver().save_and_commit(session, self._run.config.model_dir, facts)
            self._saved_step = self.step
            self._run.reports.saved(self.step, time.monotonic() - started)

    def evaluate_and_keep_best(self, session: tf.compat.v1.Session) -> None:
        """Has the state evaluated: tells the listeners that it has been saved, of which ours is `EvaluateAndKeepBest`."""
        for listener in self._listeners:
            listener.after_save(session, self.step)

    def _get_saver(self) -> CommittingSaver:
        return tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVERS)[0]


class EvaluateAndKeepBest(tf.compat.v1.train.CheckpointSaverListener):
    """Evaluates the checkpoint just saved, and saves it as the best one if it beats the best so far.

    If the run is to stop, the evaluation is left to the next start, which knows from the manifest that it is due.

    Args:
      run: the run.
      hook: whose counters say where the run stands.
      evaluate: from a checkpoint prefix to its metrics, or None if the run is to stop before they are known.
    """

    def __init__(self, run: Run, hook: SaveOnTheGrid, evaluate: Callable[[str], Optional[Dict[str, Any]]]):
        self._run = run
        self._hook = hook
        self._evaluate = evaluate

    def begin(self) -> None:
        self._best_saver = CommittingSaver(self._run, max_to_keep=1)
        state = tf.train.get_checkpoint_state(self._run.best_directory)
        if state:  # an earlier start's best, to be deleted when it is beaten
            self._best_saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        # Estimator draws the evaluations itself. A writer of its own for this start, and the mark that tells TensorBoard to
        # drop what a killed run drew from here on.
        tf.compat.v1.summary.FileWriterCache.clear()
        reports = self._run.reports
        summaries.wait_for_a_name(reports.eval_directory)
        start_mark = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        writer = tf.compat.v1.summary.FileWriterCache.get(reports.eval_directory)
        writer.add_session_log(start_mark, reports.first_eval_step)

    def after_save(self, session: tf.compat.v1.Session, global_step_value: int) -> None:
        run, best = self._run, self._run.best
        step, examples_seen = global_step_value, self._hook.examples_seen
        # An Estimator evaluates a checkpoint, in a graph of its own, and draws its metrics into TensorBoard itself.
        prefix = model_dir.prefix_of(run.config.model_dir, step)
        metrics = run.evaluated(step, examples_seen, lambda: self._evaluate(prefix))
        if metrics is None:
            return
        previous, improved = best.value, best.beaten_by(metrics)
        with saving.failure_explained(step):
            if improved:
                facts = run.checkpoint_facts(step, examples_seen, evaluate=True, metrics=metrics)
                self._best_saver.save_and_commit(session, run.best_directory, facts)
                best.record_best(metrics)
            best.record_last(metrics)
        run.reports.evaluation(metrics, previous, improved)
        run.reports.resume_clock(step, examples_seen)
