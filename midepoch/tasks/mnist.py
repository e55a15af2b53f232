"""`mnist`: 28×28 grey images of ten classes, as MNIST, Fashion-MNIST and KMNIST are, and a CNN with dropout.

No images come with the package. `python -m midepoch.convert_mnist` makes the files from the ones these data sets come in.
"""

import tensorflow as tf

from midepoch.convert_mnist import DATA_DIR, IMAGE_SIZE, NUM_CLASSES
from midepoch.task import Task


class Mnist(Task):
    """Two convolutions, a hidden layer, dropout, and the logits. To try another network, change the values in a subclass.

    Attributes:
      filters: of the two 3×3 convolutions; each is followed by 2×2 max pooling.
      hidden_units: of the dense layer behind them.
      dropout_rate: the part of the hidden units that a training step leaves out, 0 … 1.
    """

    train_files = f"{DATA_DIR}/train-*.tfrecord"
    eval_files = f"{DATA_DIR}/eval-*.tfrecord"
    files_hint = "make them by python -m midepoch.convert_mnist --input_dir=FOLDER_OF_THE_IDX_FILES"

    filters = (32, 64)
    hidden_units = 128
    dropout_rate = 0.25

    def parse(self, serialized):
        """Returns images, float32 [B, 28, 28, 1] in 0 … 1, and labels, int64 [B]."""
        parsed = tf.io.parse_example(
            serialized,
            {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
        )
        pixels = tf.io.decode_raw(parsed["image"], tf.uint8)
        pixels = tf.ensure_shape(pixels, [None, IMAGE_SIZE * IMAGE_SIZE])  # or larger images would become more of them
        images = tf.reshape(tf.cast(pixels, tf.float32) / 255.0, [-1, IMAGE_SIZE, IMAGE_SIZE, 1])
        return images, parsed["label"]

    def model(self, seed):
        def layer(kind, *args, number, **kwargs):
            return kind(*args, kernel_initializer=tf.keras.initializers.GlorotUniform(seed + number), **kwargs)

        body = tf.keras.Sequential(
            [
                layer(tf.keras.layers.Conv2D, self.filters[0], 3, padding="same", activation="relu", name="conv1", number=0),
                tf.keras.layers.MaxPooling2D(name="pool1"),
                layer(tf.keras.layers.Conv2D, self.filters[1], 3, padding="same", activation="relu", name="conv2", number=1),
                tf.keras.layers.MaxPooling2D(name="pool2"),
                tf.keras.layers.Flatten(name="flatten"),
                layer(tf.keras.layers.Dense, self.hidden_units, activation="relu", name="hidden", number=2),
            ],
            name="body",
        )
        head = tf.keras.Sequential([layer(tf.keras.layers.Dense, NUM_CLASSES, name="logits", number=3)], name="head")
        model = tf.keras.Sequential([body, head], name="mnist")
        model.build([None, IMAGE_SIZE, IMAGE_SIZE, 1])
        return model

    def call(self, model, features, training, seed):
        body, head = model.layers
        hidden = body(features, training=training)
        if training:
            hidden = tf.nn.experimental.stateless_dropout(hidden, rate=self.dropout_rate, seed=seed)
        return head(hidden, training=training)

    def loss(self, labels, outputs):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)

    def metrics(self, labels, outputs):
        return {"accuracy": tf.cast(tf.equal(tf.argmax(outputs, axis=-1), labels), tf.float32)}
