"""Hidden random state is refused by name; what draws from the seeds it is given passes."""

import pytest
import tensorflow as tf

from midepoch import randomness
from midepoch.errors import UserError
from tests.tiny_task import Tiny, TinyBatchNorm, serialized


class HiddenDropout(Tiny):
    def hidden_layers(self, seed):
        return [*super().hidden_layers(seed), tf.keras.layers.Dropout(0.5, seed=7, name="forgetful")]


class UniformInCall(Tiny):
    def call(self, model, features, training, seed):
        if training:
            features += tf.random.uniform(tf.shape(features), seed=3)
        return super().call(model, features, training, seed)


class UniformInParse(Tiny):
    def parse(self, serialized):
        features, labels = super().parse(serialized)
        return features + tf.random.normal(tf.shape(features)), labels


class ShuffleInParse(Tiny):
    def parse(self, serialized):
        return super().parse(tf.random.shuffle(serialized))


class GeneratorInCall(Tiny):
    def __init__(self):
        self.generator = tf.random.Generator.from_seed(1)

    def call(self, model, features, training, seed):
        return super().call(model, features + self.generator.uniform(tf.shape(features)), training, seed)


class RandomInBranch(Tiny):
    def call(self, model, features, training, seed):
        features = tf.cond(seed[1] > 5, lambda: features + tf.random.uniform([]), lambda: features)
        return super().call(model, features, training, seed)


class Unseeded(Tiny):
    def hidden_layers(self, seed):
        return [tf.keras.layers.Dense(8, name="unseeded")]


def check(task):
    raw = tf.constant([serialized(number) for number in range(5)])
    randomness.check_task(task, "my:Task", task.model(1), task.parse, raw)


@pytest.mark.parametrize("task", [Tiny, TinyBatchNorm])
def test_clean_task_passes(task):
    check(task())
    randomness.check_initial_weights(task(), "my:Task", task().model(1), 1)


def test_task_with_stateless_augmentation_passes():
    class Augmented(Tiny):
        def call(self, model, features, training, seed):
            noise = tf.random.stateless_uniform(tf.shape(features), seed)
            return super().call(model, features + noise, training, seed)

    check(Augmented())


@pytest.mark.parametrize(
    "task, name",
    [
        (HiddenDropout, "forgetful|seed_generator|dropout"),
        (UniformInCall, "RandomUniform"),
        (UniformInParse, "RandomStandardNormal"),
        (ShuffleInParse, "RandomShuffle"),
        (GeneratorInCall, "Stateful|Rng"),
        (RandomInBranch, "RandomUniform"),
    ],
)
def test_hidden_random_state_is_refused_by_name(task, name):
    with pytest.raises(UserError, match=f"--task=my:Task: .*({name}).* draws from hidden random state.*stateless") as caught:
        check(task())
    assert "\n" not in str(caught.value)


def test_unseeded_initializer_is_refused_by_name():
    task = Unseeded()
    with pytest.raises(UserError, match="gave .*kernel.* other initial values the second time"):
        randomness.check_initial_weights(task, "my:Task", task.model(1), 1)


def make(method):
    return type("Bad", (Tiny,), {method.__name__: method})()


def fails_in_parse():
    def parse(self, serialized):
        features = tf.io.parse_example(serialized, {"pixels": tf.io.FixedLenFeature([4], tf.float32)})["pixels"]
        return features, tf.zeros(tf.shape(features)[:1], tf.int64)

    return make(parse)


def wrong_shape():
    def parse(self, serialized):
        features, labels = Tiny.parse(self, serialized)
        return features[:, :3], labels

    return make(parse)


def fails_in_call():
    def call(self, model, features, training, seed):
        return tf.matmul(features, tf.zeros([3, 3]))

    return make(call)


def fails_in_loss():
    def loss(self, labels, outputs):
        raise KeyError("no such label")

    return make(loss)


def mean_loss():
    def loss(self, labels, outputs):
        return tf.reduce_mean(Tiny.loss(self, labels, outputs))

    return make(loss)


def wide_metric():
    def metrics(self, labels, outputs):
        return {"accuracy": outputs}

    return make(metrics)


def reserved_metric():
    def metrics(self, labels, outputs):
        return {"loss": Tiny.loss(self, labels, outputs), **Tiny.metrics(self, labels, outputs)}

    return make(metrics)


def variable_of_its_own():
    counter = tf.Variable(0.0)

    def call(self, model, features, training, seed):
        counter.assign_add(1.0)
        return Tiny.call(self, model, features, training, seed) + counter

    return make(call)


def loss_of_another_type():
    def loss(self, labels, outputs):
        return tf.cast(Tiny.loss(self, labels, outputs), tf.float64)

    return make(loss)


@pytest.mark.parametrize(
    "task, line",
    [
        (reserved_metric, "metrics\\(\\) gives loss, a name the metrics files use themselves"),
        (variable_of_its_own, "uses the variable Variable:?0?.*, which is not part of its model"),
        (loss_of_another_type, "loss\\(\\) is float64; return float32"),
        (fails_in_parse, "fails on the first batch of the training data: .*pixels"),
        (wrong_shape, r"fails on the first batch of the training data: Input 0 .*received input with shape \(5, 3\)"),
        (fails_in_call, "fails on the first batch of the training data: .*[Mm]atrix|MatMul"),
        (fails_in_loss, "fails on the first batch of the training data: .*no such label"),
        (mean_loss, r"loss has shape \(\) for a batch of 5; return one number for each example"),
        (wide_metric, r"metric accuracy has shape \(5, 2\) for a batch of 5"),
    ],
)
def test_task_that_fails_on_real_input_is_refused_in_one_line(task, line):
    with pytest.raises(UserError, match=line) as caught:
        check(task())
    assert "\n" not in str(caught.value)
    assert "--task=my:Task" in str(caught.value)


def test_same_seed_gives_the_same_numbers():
    randomness.make_deterministic(5)
    first = tf.random.uniform([3])
    randomness.make_deterministic(5)
    assert (tf.random.uniform([3]) == first).numpy().all()
