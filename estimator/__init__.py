"""Program 1: training with `tf.estimator` and a `RunConfig`. The mirror of `lowlevel/`."""
