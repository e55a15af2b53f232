"""Peer: a `tf.estimator.Estimator` with TensorFlow's own hook for the state of the input.

See https://www.tensorflow.org/versions/r2.13/api_docs/python/tf/data/experimental/CheckpointInputPipelineHook
"""

from compare.peers import harness


def train(run: harness.Run) -> None:
    """Trains to the end."""
    import tensorflow as tf

    from compare.peers import estimator_digits

    estimator = estimator_digits.make_estimator(run)
    hook = tf.data.experimental.CheckpointInputPipelineHook(estimator)
    estimator.train(estimator_digits.make_input_fn(run), hooks=[hook], max_steps=run.target_steps)
    estimator_digits.finish(run, estimator)


if __name__ == "__main__":
    harness.main("stock_hook_estimator", train)
