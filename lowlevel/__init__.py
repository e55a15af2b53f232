"""Program 2: training with `tf.train.Checkpoint` and two `CheckpointManager`s. The mirror of `estimator/`."""
