"""What the peers in TensorFlow share: the digits as datasets that know their example ids, the network, a train step."""

from typing import Any, Callable, Tuple

import tensorflow as tf

from compare.peers import harness
from midepoch.records import find_files
from midepoch.tasks.digits import Digits

SHUFFLE_BUFFER = 500  # a third of the data: of large data sets people can afford less
IMAGE_SHAPE = (8, 8, 1)


def records() -> tf.data.Dataset:
    """Returns pairs of (example id, serialized record), in the order of the files."""
    return tf.data.TFRecordDataset(list(find_files(Digits.train_files, "train_files"))).enumerate()


def parse(example_ids: tf.Tensor, serialized: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Turns a batch of records into (example ids [B], images [B, 8, 8, 1], labels [B])."""
    return (example_ids, *Digits().parse(serialized))


def eval_dataset(batch_size: int) -> tf.data.Dataset:
    """Returns batches of (images, labels) of the evaluation examples, each once."""
    files = tf.data.TFRecordDataset(list(find_files(Digits.eval_files, "eval_files")))
    return files.batch(batch_size).map(Digits().parse)


def with_dropout_layer(model: tf.keras.Model) -> tf.keras.Sequential:
    """Returns the digits' network with the layer that everybody uses in the place of the dropout in `Digits.call`."""
    body, head = model.layers
    model = tf.keras.Sequential([body, tf.keras.layers.Dropout(harness.DROPOUT), head])
    model.build([None, *IMAGE_SHAPE])
    return model


def make_model(seed: int) -> tf.keras.Sequential:
    """Returns the network that the peers train."""
    return with_dropout_layer(Digits().model(seed))


def accuracy(model: tf.keras.Model, batch_size: int) -> float:
    """Returns the accuracy on the evaluation examples."""
    metric = tf.keras.metrics.SparseCategoricalAccuracy()
    for images, labels in eval_dataset(batch_size):
        metric.update_state(labels, model(images, training=False))
    return float(metric.result())


def make_train_step(model: tf.keras.Model, optimizer: Any) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Returns a function that trains a model on (images, labels) and returns the loss."""

    @tf.function
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return train_step
