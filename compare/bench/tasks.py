"""Tasks that only the benchmarks need."""

import tensorflow as tf

from midepoch.tasks.digits import Digits


class DigitsMlp(Digits):
    """The digits with so small a network that a step costs little more than its overhead."""

    def model(self, seed):
        def dense(units, number, **kwargs):
            initializer = tf.keras.initializers.GlorotUniform(seed + number)
            return tf.keras.layers.Dense(units, kernel_initializer=initializer, **kwargs)

        model = tf.keras.Sequential(
            [tf.keras.layers.Flatten(), dense(64, 0, activation="relu", name="hidden"), dense(10, 1, name="logits")],
            name="digits_mlp",
        )
        model.build([None, 8, 8, 1])
        return model

    def call(self, model, features, training, seed):
        del seed  # nothing here is random
        return model(features, training=training)
