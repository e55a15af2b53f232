"""Peer: a `tf.estimator.Estimator` with a plain `input_fn`, that saves as its RunConfig says.

See "Save checkpoints with tf.estimator.RunConfig" in https://www.tensorflow.org/guide/migrate/fault_tolerance
"""

from compare.peers import harness


def train(run: harness.Run) -> None:
    """Trains to the end."""
    from compare.peers import estimator_digits

    estimator = estimator_digits.make_estimator(run)
    estimator.train(estimator_digits.make_input_fn(run), max_steps=run.target_steps)
    estimator_digits.finish(run, estimator)


if __name__ == "__main__":
    harness.main("plain_estimator", train)
