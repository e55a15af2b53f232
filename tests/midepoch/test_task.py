"""Finding a task by name, and tasks of a user's own: from serialized records and from a ready Dataset."""

import pytest
import tensorflow as tf

from midepoch import own_dataset
from midepoch.config import TrainConfig
from midepoch.errors import UserError
from midepoch.inventory import take_inventory
from midepoch.task import check_task, has_own_dataset, load_task, step_seed
from tests import tiny_task
from tests.tiny_task import Tiny

MODULE = '''
import tensorflow as tf

class Mine:
    """Not derived from anything of this repository."""
    best_metric = "loss"
    def parse(self, serialized): ...
    def model(self, seed): ...
    def call(self, model, features, training, seed): ...
    def loss(self, labels, outputs): ...
    def metrics(self, labels, outputs): ...

class NoLoss(Mine):
    loss = None

class NeedsArguments(Mine):
    def __init__(self, size): ...
'''


@pytest.fixture
def my_module(tmp_path, monkeypatch):
    """Makes modules of the user's in the current directory: `my_module(name, text)`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name, text):
        (tmp_path / f"{name}.py").write_text(text)

    return make


@pytest.mark.parametrize("name, cls", [("digits", "Digits"), ("mnist", "Mnist"), ("iris", "Iris")])
def test_shipped_task(name, cls):
    assert type(load_task(name)).__name__ == cls


def test_iris_holds_each_flower_of_fishers_once():
    task = load_task("iris")
    one_epoch = task.train_dataset(40, seed=3).take(3)
    flowers = [
        (*(round(float(value), 1) for value in values), int(label))
        for dataset in (one_epoch, task.eval_dataset(7))
        for measures, species in dataset
        for values, label in zip(measures.numpy(), species.numpy())
    ]
    assert len(flowers) == 150
    assert [sum(flower[-1] == species for flower in flowers) for species in range(3)] == [50, 50, 50]
    # The means that Fisher's paper gives in its table II, in cm.
    means = [[sum(f[n] for f in flowers if f[-1] == species) / 50 for n in range(4)] for species in range(3)]
    assert means[0] == pytest.approx([5.006, 3.428, 1.462, 0.246])
    assert means[1] == pytest.approx([5.936, 2.770, 4.260, 1.326])
    assert means[2] == pytest.approx([6.588, 2.974, 5.552, 2.026])


def test_iris_trains(train_and_evaluate, tiny_config):
    config = tiny_config(task="iris", batch_size=16, num_epochs=40, learning_rate=0.01, train_files=None, eval_files=None)
    result = train_and_evaluate(config, load_task("iris"))
    assert result.metrics["accuracy"] >= 0.9
    found = take_inventory(config.model_dir)  # no file tells how long its epochs are
    assert found["finished"] and found["epoch"] == result.examples_seen / 120


def test_class_of_the_users_own_from_the_current_directory(my_module):
    my_module("my_module_a", MODULE)
    assert type(load_task("my_module_a:Mine")).__name__ == "Mine"


@pytest.mark.parametrize(
    "name, line",
    [
        ("digit", "--task=digit is unknown; give one of digits, mnist, iris, or your own class as my_pkg.my_module:MyTask"),
        ("", "--task= is unknown"),
        ("my_module_b:", "--task=my_module_b: is unknown"),
        (":Mine", "--task=:Mine is unknown"),
        ("my_module_nowhere:Mine", "cannot import my_module_nowhere: No module named 'my_module_nowhere'"),
        ("my_module_broken:Mine", "cannot import my_module_broken: .*invalid syntax|was never closed"),
        ("my_module_b:Other", "my_module_b has no class Other"),
        ("my_module_b:NeedsArguments", r"cannot make a NeedsArguments\(\): .*size"),
        ("my_module_b:NoLoss", "NoLoss lacks the method loss"),
    ],
)
def test_loader_error_is_one_line_with_the_flag(my_module, name, line):
    my_module("my_module_b", MODULE)
    my_module("my_module_broken", "class Mine:\n    def (\n")
    with pytest.raises(UserError, match=line) as caught:
        load_task(name)
    assert f"--task={name}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["parse", "model", "call", "loss", "metrics"])
def test_missing_method_is_named(method):
    from midepoch.task import Task

    incomplete = type("Incomplete", (Tiny,), {method: getattr(Task, method)})
    with pytest.raises(UserError, match=f"Incomplete lacks the method {method};"):
        check_task(incomplete(), "x:Incomplete")


class FromDataset(Tiny):
    """A ready dataset instead of files and `parse`."""

    num_train_examples = tiny_task.NUM_TRAIN

    def _records(self, first, count):
        records = tf.constant([tiny_task.serialized(number) for number in range(first, first + count)])
        return tf.data.Dataset.from_tensor_slices(records)

    def train_dataset(self, batch_size, seed):
        records = self._records(0, tiny_task.NUM_TRAIN).shuffle(50, seed=seed)
        return records.batch(batch_size).map(self.parse).repeat()

    def eval_dataset(self, batch_size):
        return self._records(1000, tiny_task.NUM_EVAL).batch(batch_size).map(self.parse)


def test_own_dataset_needs_no_parse_but_an_eval_dataset():
    class NoEval(Tiny):
        parse = None

        def train_dataset(self, batch_size, seed): ...

    assert has_own_dataset(FromDataset()) and not has_own_dataset(Tiny())
    check_task(FromDataset(), "x")
    with pytest.raises(UserError, match="NoEval lacks the method eval_dataset"):
        check_task(NoEval(), "x:NoEval")


def own_config(**fields):
    return TrainConfig(model_dir="unused", task="x:Own", batch_size=5, num_epochs=2, **fields).resolved()


def make(train_dataset):
    return type("Own", (FromDataset,), {"train_dataset": train_dataset})()


def ends(self, batch_size, seed):
    return self._records(0, 10).batch(batch_size).map(self.parse)


def features_only(self, batch_size, seed):
    return self._records(0, 10).batch(batch_size).repeat()


def from_generator(self, batch_size, seed):
    def pairs():
        while True:
            yield [0.0] * 4, 0

    signature = (tf.TensorSpec([4], tf.float32), tf.TensorSpec([], tf.int64))
    return tf.data.Dataset.from_generator(pairs, output_signature=signature).batch(batch_size).repeat()


def hidden_randomness(self, batch_size, seed):
    dataset = FromDataset.train_dataset(self, batch_size, seed)
    return dataset.map(lambda features, labels: (features + tf.random.uniform([]), labels))


def fails(self, batch_size, seed):
    raise OSError("disk on fire")


@pytest.mark.parametrize(
    "train_dataset, line",
    [
        (ends, r"train_dataset\(\) ends after 2 batches; put .repeat\(\) at its end"),
        (features_only, r"train_dataset\(\) must give \(features, labels\)"),
        (from_generator, r"the iterator of train_dataset\(\) cannot be saved"),
        (hidden_randomness, r"the iterator of train_dataset\(\) cannot be saved"),
        (fails, r"train_dataset\(\) fails: disk on fire"),
    ],
)
def test_own_dataset_that_cannot_be_resumed_is_refused(train_dataset, line):
    with pytest.raises(UserError, match=f"--task=x:Own: .*{line}") as caught:
        own_dataset.OwnDataset(make(train_dataset), own_config())
    assert "\n" not in str(caught.value)


def test_own_dataset_has_no_tuning_thread_to_wait_for_either():
    assert FromDataset().train_dataset(5, 1).options().autotune.enabled is None
    assert own_dataset.OwnDataset(FromDataset(), own_config()).dataset().options().autotune.enabled is False


def test_own_dataset_cannot_seek():
    with pytest.raises(ValueError, match="cannot seek to 5"):
        own_dataset.OwnDataset(FromDataset(), own_config()).dataset(5)


def test_version_of_an_own_dataset_tells_a_changed_pipeline():
    def more(self, batch_size, seed):
        return FromDataset.train_dataset(self, batch_size, seed).map(lambda x, y: (x * 2.0, y))

    version = own_dataset.OwnDataset(FromDataset(), own_config()).version
    assert own_dataset.OwnDataset(FromDataset(), own_config()).version == version
    assert own_dataset.OwnDataset(make(more), own_config()).version != version


def test_own_dataset_trains_in_both_programs(train_and_evaluate, tiny_config):
    result = train_and_evaluate(tiny_config(task="x:Own", num_epochs=2, save_checkpoints_epochs=1, train_files=None, eval_files=None), FromDataset())
    assert (result.finished, result.step, result.examples_seen) == (True, 10, 46)
    assert 0.0 <= result.metrics["accuracy"] <= 1.0


def test_step_seed_is_a_function_of_seed_and_step():
    assert step_seed(7, tf.constant(3, tf.int64)).numpy().tolist() == [7, 3]
