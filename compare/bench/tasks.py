"""Tasks that only the benchmarks need."""

import tensorflow as tf

from midepoch.tasks.digits import Digits


class DigitsMlp(Digits):
    """The digits with so small a network that a step costs little more than its overhead."""

    hidden_units = (64,)

    def model(self, seed):
        def dense(units, number, **kwargs):
            initializer = tf.keras.initializers.GlorotUniform(seed + number)
            return tf.keras.layers.Dense(units, kernel_initializer=initializer, **kwargs)

        hidden = [dense(units, n, activation="relu", name=f"hidden{n}") for n, units in enumerate(self.hidden_units)]
        logits = dense(10, len(hidden), name="logits")
        model = tf.keras.Sequential([tf.keras.layers.Flatten(), *hidden, logits], name="digits_mlp")
        model.build([None, 8, 8, 1])
        return model

    def call(self, model, features, training, seed):
        del seed  # nothing here is random
        return model(features, training=training)


class LargeMlp(DigitsMlp):
    """The digits with 25 million weights, far too many for them: 300 MB of checkpoint with Adam's slots."""

    hidden_units = (4900, 4900, 100)
