"""`iris`: Fisher's 150 flowers, shipped with the package as CSV, and a small network.

The example of a task that brings a ready `tf.data.Dataset` instead of TFRecord files and `parse`.
"""

import os

import tensorflow as tf

from midepoch.task import Task

_DATA = os.path.join(os.path.dirname(__file__), "iris_data")
_NUM_TRAIN = 120


def _parse_lines(lines):
    """Returns measures in cm, float32 [B, 4], and species, int64 [B], of lines, string [B]."""
    *measures, species = tf.io.decode_csv(lines, record_defaults=[0.0] * 4 + [tf.constant(0, tf.int64)])
    return tf.stack(measures, axis=1), species


class Iris(Task):
    """Three species by four measures; see `iris_data/README.md` for where they come from."""

    num_train_examples = _NUM_TRAIN

    def train_dataset(self, batch_size, seed):
        lines = tf.data.TextLineDataset(os.path.join(_DATA, "train.csv"))
        # With `batch` between `shuffle` and `repeat`, an iterator saved late in an epoch may go on in another order.
        return lines.shuffle(_NUM_TRAIN, seed=seed).repeat().batch(batch_size).map(_parse_lines).prefetch(1)

    def eval_dataset(self, batch_size):
        return tf.data.TextLineDataset(os.path.join(_DATA, "eval.csv")).batch(batch_size).map(_parse_lines)

    def model(self, seed):
        def dense(units, number, **kwargs):
            return tf.keras.layers.Dense(units, kernel_initializer=tf.keras.initializers.GlorotUniform(seed + number), **kwargs)

        layers = [dense(16, 0, activation="relu", name="hidden"), dense(3, 1, name="logits")]
        model = tf.keras.Sequential(layers, name="iris")
        model.build([None, 4])
        return model

    def call(self, model, features, training, seed):
        del seed  # nothing here is random
        return model(features, training=training)

    def loss(self, labels, outputs):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)

    def metrics(self, labels, outputs):
        return {"accuracy": tf.cast(tf.equal(tf.argmax(outputs, axis=-1), labels), tf.float32)}
