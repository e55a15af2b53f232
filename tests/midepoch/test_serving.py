"""What a SavedModel takes and gives: names and shapes, and what is refused before training."""

import pytest
import tensorflow as tf

from midepoch import serving
from midepoch.errors import UserError
from tests import tiny_task


class Own(tiny_task.Tiny):
    """The tiny task with a dataset of its own, whose batches all have one size."""

    def train_dataset(self, batch_size, seed):
        raise NotImplementedError


def batches(features):
    return tf.data.Dataset.from_tensors((features, tf.zeros([5], tf.int64)))


@pytest.mark.parametrize(
    "features, inputs",
    [
        (tf.zeros([5, 4]), {"features": tf.TensorSpec([None, 4], tf.float32, "features")}),
        (
            {"b": tf.zeros([5], tf.int64), "a": tf.zeros([5, 2, 3])},
            {"a": tf.TensorSpec([None, 2, 3], tf.float32, "a"), "b": tf.TensorSpec([None], tf.int64, "b")},
        ),
    ],
)
def test_inputs_are_the_features_by_name_and_back(features, inputs):
    signatures = serving.Signatures(Own(), "own", batches(features))
    assert signatures.inputs == inputs and not signatures.takes_records
    tf.nest.assert_same_structure(signatures.features(signatures.as_inputs(features)), features)


def test_features_of_unknown_rank():
    dataset = batches(tf.zeros([5, 4])).map(lambda x, y: (tf.numpy_function(lambda a: a, [x], tf.float32), y))
    signatures = serving.Signatures(Own(), "own", dataset)
    assert signatures.inputs["features"].shape.rank is None


def test_outputs_by_name():
    assert list(serving.named_outputs(tf.zeros([2]), "own")) == ["outputs"]
    assert list(serving.named_outputs({"logits": tf.zeros([2])}, "own")) == ["logits"]
    one = tf.zeros([2])
    for bad, kind in [((one, one), "tuple"), ({"a": {"b": one}}, "dict"), ({3: one}, "Tensor")]:
        with pytest.raises(UserError, match=f"among the outputs is a \\w*{kind}.*--noexport"):
            serving.named_outputs(bad, "own")


class WithTable(Own):
    """A lookup table in `call`."""

    def __init__(self):
        init = tf.lookup.KeyValueTensorInitializer(tf.range(3, dtype=tf.int64), tf.range(3, dtype=tf.int64))
        self._table = tf.lookup.StaticHashTable(init, -1)

    def call(self, model, features, training, seed):
        outputs = super().call(model, features, training, seed)
        return outputs + tf.cast(self._table.lookup(tf.constant([1], tf.int64)), tf.float32)


class OfOneSizeOnly(Own):
    """A `call` that wants to know the batch size in Python."""

    def call(self, model, features, training, seed):
        return super().call(model, features, training, seed) * tf.ones([int(features.shape[0]), 1])


class TwoOutputs(Own):
    """A pair of outputs."""

    def call(self, model, features, training, seed):
        return [super().call(model, features, training, seed)] * 2


RAGGED = tf.ragged.constant([[1.0], [], [], [], []])


@pytest.mark.parametrize(
    "task, features, line",
    [
        (Own(), RAGGED, "among the features is a RaggedTensorSpec"),
        (Own(), (tf.zeros([5, 4]),) * 2, "among the features is a tuple"),
        (TwoOutputs(), tf.zeros([5, 4]), "among the outputs is a list"),
        (WithTable(), tf.zeros([5, 4]), "uses a lookup table"),
        (OfOneSizeOnly(), tf.zeros([5, 4]), "fails on a batch of any size"),
    ],
)
def test_task_that_cannot_be_exported_is_refused_in_one_line(task, features, line):
    with pytest.raises(UserError, match=f"--task=own.*{line}.*--noexport") as caught:
        serving.check(task, "own", task.model(1), 1, batches(features))
    assert "\n" not in str(caught.value)


def test_task_that_can_be_exported_passes():
    task = tiny_task.Tiny()
    serving.check(task, "tiny", task.model(1), 1, batches(tf.zeros([5, 4])))
