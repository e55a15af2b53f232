"""`digits`: 1,797 real handwritten digits of 8×8 pixels, shipped with the package, and a small CNN with dropout."""

import os

import tensorflow as tf

from midepoch.task import Task

_DATA = os.path.join(os.path.dirname(__file__), "digits_data")
_DROPOUT = 0.3


class Digits(Task):
    """The UCI handwritten digits; see `digits_data/README.md` for where they come from."""

    train_files = os.path.join(_DATA, "train-*.tfrecord")
    eval_files = os.path.join(_DATA, "eval-*.tfrecord")

    def parse(self, serialized):
        """Returns images, float32 [B, 8, 8, 1] in 0 … 1, and labels, int64 [B]."""
        parsed = tf.io.parse_example(
            serialized,
            {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
        )
        pixels = tf.io.decode_raw(parsed["image"], tf.uint8)
        images = tf.reshape(tf.cast(pixels, tf.float32) / 16.0, [-1, 8, 8, 1])
        return images, parsed["label"]

    def model(self, seed):
        def layer(kind, *args, number, **kwargs):
            return kind(*args, kernel_initializer=tf.keras.initializers.GlorotUniform(seed + number), **kwargs)

        body = tf.keras.Sequential(
            [
                layer(tf.keras.layers.Conv2D, 16, 3, padding="same", activation="relu", name="conv1", number=0),
                layer(tf.keras.layers.Conv2D, 32, 3, padding="same", activation="relu", name="conv2", number=1),
                tf.keras.layers.MaxPooling2D(name="pool"),
                tf.keras.layers.Flatten(name="flatten"),
                layer(tf.keras.layers.Dense, 64, activation="relu", name="hidden", number=2),
            ],
            name="body",
        )
        head = tf.keras.Sequential([layer(tf.keras.layers.Dense, 10, name="logits", number=3)], name="head")
        model = tf.keras.Sequential([body, head], name="digits")
        model.build([None, 8, 8, 1])
        return model

    def call(self, model, features, training, seed):
        body, head = model.layers
        hidden = body(features, training=training)
        if training:
            hidden = tf.nn.experimental.stateless_dropout(hidden, rate=_DROPOUT, seed=seed)
        return head(hidden, training=training)

    def loss(self, labels, outputs):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)

    def metrics(self, labels, outputs):
        return {"accuracy": tf.cast(tf.equal(tf.argmax(outputs, axis=-1), labels), tf.float32)}
