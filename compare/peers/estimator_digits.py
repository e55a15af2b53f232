"""What the two peers with an Estimator share: a `model_fn`, an `input_fn` and a hook that writes the steps down.

`tf.estimator` and `tf.compat.v1` are used here, outside `estimator/`, because they are what is compared.
"""

import functools
from typing import Any, Callable

import tensorflow as tf

from compare.peers import harness, tf_digits


def _model_fn(features, labels, mode, run):
    """Builds the peers' network, trained by Adam; `features` are {"example_ids": [B], "images": [B, 8, 8, 1]}."""
    model = tf_digits.make_model(run.flags.seed)
    logits = model(features["images"], training=mode == tf.estimator.ModeKeys.TRAIN)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, axis=-1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
    optimizer = tf.compat.v1.train.AdamOptimizer(harness.LEARNING_RATE)
    train_op = optimizer.minimize(loss, global_step=tf.compat.v1.train.get_global_step())
    hook = Record(run, features["example_ids"], loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])


class Record(tf.compat.v1.train.SessionRunHook):
    """Tells the Run of every step."""

    def __init__(self, run: harness.Run, example_ids: tf.Tensor, loss: tf.Tensor):
        self._run, self._fetches = run, (example_ids, loss)
        self._step = 0

    def after_create_session(self, session, coord):
        self._step = int(session.run(tf.compat.v1.train.get_global_step(session.graph)))
        self._run.started(self._step, f"model.ckpt-{self._step}")

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        self._step += 1
        self._run.step_done(self._step, *run_values.results)


def make_estimator(run: harness.Run) -> Any:
    """Returns the Estimator of a peer."""
    config = tf.estimator.RunConfig(
        run.flags.model_dir, tf_random_seed=run.flags.seed, save_checkpoints_steps=run.flags.save_checkpoints_steps
    )
    return tf.estimator.Estimator(functools.partial(_model_fn, run=run), config=config)


def make_input_fn(run: harness.Run) -> Callable[[], tf.data.Dataset]:
    """Returns the `input_fn` for training: endless epochs, each in another order, each with its own last batch."""

    def input_fn():
        batches = tf_digits.records().shuffle(tf_digits.SHUFFLE_BUFFER, seed=run.flags.seed).batch(run.flags.batch_size)
        return batches.repeat().map(_to_features).prefetch(1)

    return input_fn


def _to_features(example_ids, serialized):
    example_ids, images, labels = tf_digits.parse(example_ids, serialized)
    return {"example_ids": example_ids, "images": images}, labels


def finish(run: harness.Run, estimator: Any) -> None:
    """Evaluates the newest checkpoint and ends the run."""

    def input_fn():
        return tf_digits.eval_dataset(run.flags.batch_size).map(lambda images, labels: ({"images": images}, labels))

    metrics = estimator.evaluate(input_fn)
    run.finished(metrics["accuracy"], metrics["global_step"])
