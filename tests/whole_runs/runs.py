"""What the tests of whole runs share: small tasks, starting and stopping programs, and reading what a run has left."""

import glob
import importlib
import itertools
import json
import os

import numpy as np
import tensorflow as tf

from midepoch import model_dir
from midepoch.config import TrainConfig
from midepoch.ledger import read_ledger
from midepoch.stopping import Stopping
from midepoch.task import Task

HAS_ESTIMATOR = hasattr(tf, "estimator")
PROGRAMS = ["lowlevel", "estimator"] if HAS_ESTIMATOR else ["lowlevel"]

NUM_EXAMPLES = 23
BATCH_SIZE = 4
STEPS_PER_EPOCH = 6


class Small(Task):
    """23 examples of 5 numbers, three classes; a dense layer, stateless dropout, and a dense layer."""

    normalize = False

    def parse(self, serialized):
        spec = {"x": tf.io.FixedLenFeature([5], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
        parsed = tf.io.parse_example(serialized, spec)
        return parsed["x"], parsed["y"]

    def model(self, seed):
        def dense(units, name, number):
            initializer = tf.keras.initializers.GlorotUniform(seed + number)
            return tf.keras.layers.Dense(units, kernel_initializer=initializer, name=name)

        body = [dense(8, "hidden", 0)]
        if self.normalize:
            body.append(tf.keras.layers.BatchNormalization(name="norm"))
        body = tf.keras.Sequential(body, name="body")
        head = tf.keras.Sequential([dense(3, "logits", 1)], name="head")
        model = tf.keras.Sequential([body, head])
        model.build([None, 5])
        return model

    def call(self, model, features, training, seed):
        body, head = model.layers
        hidden = tf.nn.relu(body(features, training=training))
        if training:
            hidden = tf.nn.experimental.stateless_dropout(hidden, rate=0.2, seed=seed)
        return head(hidden, training=training)

    def loss(self, labels, outputs):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)

    def metrics(self, labels, outputs):
        return {"accuracy": tf.cast(tf.equal(tf.argmax(outputs, axis=-1), labels), tf.float32)}


class SmallWithBatchNorm(Small):
    """`Small` with a layer that has updates of its own."""

    normalize = True


class Counting(tf.keras.layers.Layer):
    """Keeps a moving mean by plain assignments, and takes it off: what it gives depends on their order."""

    def build(self, input_shape):
        self.mean = self.add_weight(name="mean", shape=input_shape[-1:], initializer="zeros", trainable=False)

    def call(self, inputs, training=False):
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(inputs, axis=0))
        return inputs - self.mean


class SmallWithAssignments(Small):
    """`Small` with a layer that assigns its variables itself."""

    def model(self, seed):
        model = tf.keras.Sequential([Counting(name="counting"), super().model(seed)])
        model.build([None, 5])
        return model

    def call(self, model, features, training, seed):
        counting, rest = model.layers
        return super().call(rest, counting(features, training=training), training, seed)


class SmallOwnDataset(Small):
    """`Small` with a `tf.data.Dataset` of its own, batches across epochs, made without files."""

    num_train_examples = NUM_EXAMPLES

    def _examples(self, seed, count):
        def example(i):
            x = tf.random.stateless_normal([5], seed=[seed, i])
            return x, tf.cast(tf.reduce_sum(x) > 0, tf.int64)

        return tf.data.Dataset.range(count).map(example)

    def train_dataset(self, batch_size, seed):
        return self._examples(3, NUM_EXAMPLES).shuffle(NUM_EXAMPLES, seed=seed).repeat().batch(batch_size).prefetch(2)

    def eval_dataset(self, batch_size):
        return self._examples(4, 7).batch(batch_size)


def write_data(directory):
    """Writes the training and evaluation files of `Small`; returns their globs as config values."""
    generator = np.random.default_rng(7)

    def write(name, count):
        with tf.io.TFRecordWriter(os.path.join(directory, name)) as writer:
            for _ in range(count):
                x = generator.normal(size=5).astype(np.float32)
                features = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(x.sum() > 0) + int(x[0] > 1)])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

    for number, count in enumerate([9, 0, 3, 11]):
        write(f"train-{number}.tfrecord", count)
    write("eval-0.tfrecord", 7)
    return dict(
        train_files=os.path.join(directory, "train-*.tfrecord"), eval_files=os.path.join(directory, "eval-*.tfrecord")
    )


class StopAfter(Stopping):
    """Stops a run at the first chance after a step."""

    def __init__(self, step):
        super().__init__()
        self._step = step

    def requested(self, step):
        return step >= self._step


def train(program, directory, task=None, stop_after=None, stopping=None, **flags):
    """Runs a program in this process, as a new start would, by default without an export; returns its `Result`.

    With `stop_after` it stops at exactly that step, or at the first that it comes to after it: a stop is heard where the
    loop has something to do, so there it logs every step.
    """
    loop = importlib.import_module(f"{program}.loop")
    defaults = dict(export=False, batch_size=BATCH_SIZE, shuffle_window=10, shuffle_block=3, seed=11, learning_rate=0.05)
    if stop_after is not None:
        defaults["log_every_steps"] = 1
    config = TrainConfig(model_dir=str(directory), task="small", **{**defaults, **flags})
    return loop.train_and_evaluate(config, task or Small(), stopping if stop_after is None else StopAfter(stop_after))


def variables(prefix):
    """Returns every variable of a checkpoint by its key: weights, slots, counters; not the iterator."""
    reader = tf.train.load_checkpoint(prefix)
    kinds = reader.get_variable_to_dtype_map()
    # tf.train.Checkpoint counts its own saves, and a stop is one more.
    keys = [k for k, dtype in kinds.items() if dtype not in (tf.variant, tf.string) and not k.startswith("save_counter")]
    return {key: reader.get_tensor(key) for key in sorted(keys)}


def last_variables(directory):
    """Returns the variables of a model_dir's newest checkpoint."""
    return variables(model_dir.newest_valid(str(directory)))


def assert_same_bits(first, second):
    """Asserts that two dicts of arrays are equal to the bit."""
    assert sorted(first) == sorted(second)
    for key in first:
        assert np.array_equal(first[key], second[key], equal_nan=True), key


def example_ids(directory, step):
    """Returns the ids of steps 1 … step, as the ledger has them."""
    ledger = read_ledger(os.path.join(directory, model_dir.EXAMPLES_FILE), step)
    assert sorted(ledger) == list(range(1, step + 1))
    return [ledger[s] for s in range(1, step + 1)]


def assert_exactly_once(directory, step):
    """Asserts that every epoch of steps 1 … step has every example, once."""
    ids = list(itertools.chain(*example_ids(directory, step)))
    for epoch in range(step // STEPS_PER_EPOCH):
        assert sorted(ids[epoch * NUM_EXAMPLES :][: NUM_EXAMPLES]) == list(range(NUM_EXAMPLES))


def events(path):
    """Yields the events of a file, as far as a kill let it be written."""
    try:
        for record in tf.data.TFRecordDataset(path):
            yield tf.compat.v1.Event.FromString(record.numpy())
    except tf.errors.DataLossError:
        pass


def scalars(directory, tag):
    """Returns {step: value} of a curve as TensorBoard shows it, and asserts that no step is shown twice."""
    shown = {}
    for path in sorted(glob.glob(os.path.join(directory, "events.out.tfevents.*"))):
        for event in events(path):
            if event.session_log.status == tf.compat.v1.SessionLog.START:
                shown = {step: value for step, value in shown.items() if step < event.step}
            for value in event.summary.value:
                if value.tag == tag:
                    assert event.step not in shown, f"{tag}: step {event.step} is shown twice"
                    shown[event.step] = value.simple_value
    return shown


def metrics_files(directory):
    """Returns the bytes of the two metrics files."""
    names = (model_dir.LAST_METRICS_FILE, model_dir.BEST_METRICS_FILE)
    return [open(os.path.join(directory, name), "rb").read() for name in names]


def history(directory):
    """Returns starts, kills and steps done again, as run.json has them."""
    with open(os.path.join(directory, model_dir.RUN_FILE), encoding="utf-8") as file:
        return json.load(file)["history"]


def assert_same_run(directory, reference, losses=True):
    """Asserts that a run has the weights, slots, ids, metrics and curves of another, to the bit; `losses` of every step."""
    step = model_dir.step_of(model_dir.newest_valid(str(reference)))
    assert_same_bits(last_variables(directory), last_variables(reference))
    assert example_ids(directory, step) == example_ids(reference, step)
    assert metrics_files(directory) == metrics_files(reference)
    assert scalars(directory / "eval", "accuracy") == scalars(reference / "eval", "accuracy")
    if losses:
        shown = scalars(directory, "loss")
        assert shown == scalars(reference, "loss")
        assert sorted(shown) == list(range(1, step + 1))
