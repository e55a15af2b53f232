"""The control: what people use today loses examples under the same kills, and the tests' own check sees it."""

import pytest
import tensorflow as tf

from compare.ledger_check import split_epochs, total
from midepoch.ledger import Ledger, read_ledger
from tests.whole_runs import runs

pytestmark = pytest.mark.skipif(not runs.HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")

EPOCHS = 3
STEPS = EPOCHS * runs.STEPS_PER_EPOCH


class Killed(BaseException):
    """Stands for a SIGKILL: nothing is saved, nothing is cleaned up."""


def input_fn():
    """The same 23 examples, shuffled anew each epoch in batches of 4, as ids only."""
    ids = tf.data.Dataset.range(runs.NUM_EXAMPLES).shuffle(runs.NUM_EXAMPLES, seed=3)
    return ids.batch(runs.BATCH_SIZE).repeat(EPOCHS).map(lambda ids: ({"id": ids}, ids))


def model_fn(features, labels, mode, config):
    del labels, config
    tf.identity(features["id"], name="example_ids")
    step = tf.compat.v1.train.get_global_step()
    weight = tf.compat.v1.get_variable("weight", [], use_resource=True)
    return tf.estimator.EstimatorSpec(mode, loss=tf.identity(weight), train_op=step.assign_add(1, read_value=False))


if runs.HAS_ESTIMATOR:

    class RecordAndDie(tf.compat.v1.train.SessionRunHook):
        """Writes the ledger, and dies after a step."""

        def __init__(self, directory, die_after):
            self._ledger = Ledger(str(directory / "examples.jsonl"))
            self._die_after = die_after

        def before_run(self, run_context):
            graph = run_context.session.graph
            fetches = [graph.get_tensor_by_name("example_ids:0"), tf.compat.v1.train.get_global_step(graph)]
            return tf.compat.v1.train.SessionRunArgs(fetches)

        def after_run(self, run_context, run_values):
            ids, _ = run_values.results
            step = int(run_context.session.run(tf.compat.v1.train.get_global_step(run_context.session.graph)))
            self._ledger.add(step, ids)
            self._ledger.flush()
            if step == self._die_after:
                raise Killed


def run_with_two_kills(directory, make_hooks, make_input_fn=lambda: input_fn):
    directory.mkdir()
    config = tf.estimator.RunConfig(str(directory), tf_random_seed=1, save_checkpoints_steps=5, save_summary_steps=None)
    for die_after in (8, 13, None):
        estimator = tf.estimator.Estimator(model_fn, config=config)
        hooks = [*make_hooks(estimator), RecordAndDie(directory, die_after)]
        try:
            estimator.train(make_input_fn(), hooks=hooks)
        except Killed:
            continue


def test_stock_hook_loses_examples_under_a_double_kill_and_the_check_sees_it(tmp_path):
    stock_hook = tf.data.experimental.CheckpointInputPipelineHook
    run_with_two_kills(tmp_path / "stock", lambda estimator: [stock_hook(estimator)])
    ledger = read_ledger(str(tmp_path / "stock" / "examples.jsonl"), STEPS)
    epochs = split_epochs(ledger, runs.NUM_EXAMPLES, runs.BATCH_SIZE, STEPS)
    assert total(epochs).lost > 0
    with pytest.raises(AssertionError):
        runs.assert_exactly_once(tmp_path / "stock", STEPS)


def test_resumable_passes_the_same_check_under_the_same_kills(tmp_path):
    from estimator.inputs import resumable

    def resumable_input_fn():
        ids = tf.data.Dataset.range(runs.NUM_EXAMPLES).repeat(EPOCHS)
        return resumable(ids.batch(runs.BATCH_SIZE).map(lambda ids: ({"id": ids}, ids)))

    run_with_two_kills(tmp_path / "ours", lambda estimator: [], lambda: resumable_input_fn)
    steps = -(-runs.NUM_EXAMPLES * EPOCHS // runs.BATCH_SIZE)
    flat = [i for batch in runs.example_ids(tmp_path / "ours", steps) for i in batch]
    assert flat == list(range(runs.NUM_EXAMPLES)) * EPOCHS
