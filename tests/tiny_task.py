"""A task for tests that trains in milliseconds: 23 records in 3 uneven files (one is empty), 7 to evaluate in 2 files."""

import os
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from midepoch.task import Task

NUM_FEATURES = 4
TRAIN_FILE_RECORDS = (9, 0, 14)
EVAL_FILE_RECORDS = (5, 2)
NUM_TRAIN = sum(TRAIN_FILE_RECORDS)
NUM_EVAL = sum(EVAL_FILE_RECORDS)
_EVAL_IDS_FROM = 1000

TASK = "tests.tiny_task:Tiny"
BATCH_NORM_TASK = "tests.tiny_task:TinyBatchNorm"


class Files(NamedTuple):
    """The globs of the tiny data, named as the flags."""

    train_files: str
    eval_files: str


def write_records(path: str, values) -> str:
    """Writes byte strings as the records of a TFRecord file; returns its path."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for value in values:
            writer.write(value)
    return str(path)


def serialized(number: int) -> bytes:
    """Returns a record: features that are a function of its number alone, and the label they lead to."""
    features = np.random.RandomState(number).uniform(-1.0, 1.0, NUM_FEATURES).astype(np.float32)
    label = int(features.sum() > 0)
    example = tf.train.Example()
    example.features.feature["features"].float_list.value.extend(features)
    example.features.feature["label"].int64_list.value.append(label)
    return example.SerializeToString(deterministic=True)


def write_data(directory: str) -> Files:
    """Writes the tiny training and evaluation files; example id = number of the training record."""
    first = 0
    for name, sizes, numbers_from in (("train", TRAIN_FILE_RECORDS, 0), ("eval", EVAL_FILE_RECORDS, _EVAL_IDS_FROM)):
        first = numbers_from
        for number, size in enumerate(sizes):
            path = os.path.join(str(directory), f"{name}-{number}.tfrecord")
            write_records(path, map(serialized, range(first, first + size)))
            first += size
    return Files(*(os.path.join(str(directory), f"{name}-*.tfrecord") for name in ("train", "eval")))


class Tiny(Task):
    """Two dense layers with stateless dropout between them, two classes."""

    def parse(self, serialized):
        parsed = tf.io.parse_example(
            serialized,
            {
                "features": tf.io.FixedLenFeature([NUM_FEATURES], tf.float32),
                "label": tf.io.FixedLenFeature([], tf.int64),
            },
        )
        return parsed["features"], parsed["label"]

    def hidden_layers(self, seed):
        """Returns the layers before the dropout."""
        return [_dense(8, seed, "hidden", activation="relu")]

    def model(self, seed):
        body = tf.keras.Sequential(self.hidden_layers(seed), name="body")
        head = tf.keras.Sequential([_dense(2, seed + 1, "logits")], name="head")
        model = tf.keras.Sequential([body, head], name="tiny")
        model.build([None, NUM_FEATURES])
        return model

    def call(self, model, features, training, seed):
        body, head = model.layers
        hidden = body(features, training=training)
        if training:
            hidden = tf.nn.experimental.stateless_dropout(hidden, rate=0.25, seed=seed)
        return head(hidden, training=training)

    def loss(self, labels, outputs):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)

    def metrics(self, labels, outputs):
        return {"accuracy": tf.cast(tf.equal(tf.argmax(outputs, axis=-1), labels), tf.float32)}


class TinyBatchNorm(Tiny):
    """The same with a layer that has updates of its own."""

    def hidden_layers(self, seed):
        return [*super().hidden_layers(seed), tf.keras.layers.BatchNormalization(name="norm")]


def _dense(units, seed, name, **kwargs):
    return tf.keras.layers.Dense(units, kernel_initializer=tf.keras.initializers.GlorotUniform(seed), name=name, **kwargs)
