"""The task `mnist`, from IDX files to trained weights, in both programs: on 200 made-up images, and on some of
Fashion-MNIST where Debian's package with it is installed. `python -m compare.fashion_mnist` does all of it, in minutes."""

import os

import numpy as np
import pytest
import tensorflow as tf

from compare.fashion_mnist import DEBIAN_DIR
from compare.weights import first_difference, read_variables
from midepoch import model_dir
from midepoch.convert_mnist import Examples, read_source, write_shards
from midepoch.errors import UserError
from midepoch.task import load_task
from midepoch.tasks.mnist import Mnist
from tests.mnist_data import write_source
from tests.whole_runs import runs

STEPS_PER_EPOCH = 7  # 200 images in batches of 32


class SmallMnist(Mnist):
    """Another network by class attributes alone."""

    filters = (4, 8)
    hidden_units = 32


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The globs of 200 + 50 converted images, as config values."""
    root = tmp_path_factory.mktemp("mnist")
    write_shards(read_source(write_source(root / "source"), str(root / "data"), 3), str(root / "data"), 3)
    return {f"{part}_files": str(root / "data" / f"{part}-*.tfrecord") for part in ("train", "eval")}


def train(program, directory, data, stop_after=None, task=None, **flags):
    defaults = dict(batch_size=32, shuffle_window=100, shuffle_block=20, learning_rate=0.01, num_epochs=3)
    return runs.train(program, directory, task or SmallMnist(), stop_after, **{**defaults, **data, **flags})


def last_weights(directory):
    return read_variables(model_dir.newest_valid(str(directory)))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    """A run of lowlevel to its end; its model_dir."""
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    assert train("lowlevel", directory, data).best_metrics["accuracy"] >= 0.9  # chance: 0.1
    return directory


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_resumed_in_the_second_epoch_is_the_undisturbed_run(tmp_path, data, undisturbed, program):
    stopped = train(program, tmp_path / "run", data, stop_after=10)
    assert not stopped.finished and stopped.step == 10
    resumed = train(program, tmp_path / "run", data)
    assert resumed.finished and resumed.step == 3 * STEPS_PER_EPOCH
    assert first_difference(last_weights(tmp_path / "run"), last_weights(undisturbed)) is None
    assert runs.metrics_files(tmp_path / "run") == runs.metrics_files(undisturbed)


def test_dropout_is_a_function_of_the_seed_and_only_for_training():
    task = SmallMnist()
    model, features = task.model(seed=1), tf.random.stateless_uniform([2, 28, 28, 1], [1, 2])

    def outputs(training, step):
        return task.call(model, features, training, tf.constant([1, step], tf.int64)).numpy()

    assert np.array_equal(outputs(True, 5), outputs(True, 5))
    assert not np.array_equal(outputs(True, 5), outputs(True, 6))
    assert np.array_equal(outputs(False, 5), outputs(False, 6))
    task.dropout_rate = 0.0
    assert np.array_equal(outputs(True, 5), outputs(False, 5))


def test_shipped_network():
    task = load_task("mnist")
    assert type(task) is Mnist
    assert [tuple(variable.shape) for variable in task.model(seed=1).weights] == [
        (3, 3, 1, 32), (32,), (3, 3, 32, 64), (64,), (7 * 7 * 64, 128), (128,), (128, 10), (10,)
    ]


def test_without_files_the_line_tells_how_to_make_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        train("lowlevel", "run", {})
    assert str(caught.value) == (
        "--train_files=data/mnist/train-*.tfrecord matches no file; "
        "make them by python -m midepoch.convert_mnist --input_dir=FOLDER_OF_THE_IDX_FILES, or give your own"
    )
    assert os.listdir(tmp_path) == []
    with pytest.raises(UserError, match="--train_files=mine matches no file; check the path and quote the glob"):
        train("lowlevel", "run", {"train_files": "mine"})


def test_image_of_twice_the_size_is_not_two_images():
    example = tf.train.Example()
    example.features.feature["image"].bytes_list.value.append(bytes(2 * 28 * 28))
    example.features.feature["label"].int64_list.value.append(3)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="1568"):
        Mnist().parse(tf.constant([example.SerializeToString()]))


@pytest.fixture(scope="module")
def fashion(tmp_path_factory):
    """The globs of the first 2,000 + 500 images of Fashion-MNIST."""
    if not os.path.isdir(DEBIAN_DIR):
        pytest.skip("no Fashion-MNIST here: apt-get install dataset-fashion-mnist")
    directory = str(tmp_path_factory.mktemp("fashion"))
    parts = read_source(DEBIAN_DIR, directory, 10)
    assert [len(parts[part].labels) for part in ("train", "eval")] == [60000, 10000]
    assert [np.bincount(part.labels).tolist() for part in parts.values()] == [[6000] * 10, [1000] * 10]
    few = {"train": 2000, "eval": 500}
    write_shards({name: Examples(*(values[: few[name]] for values in part)) for name, part in parts.items()}, directory, 4)
    return {f"{part}_files": os.path.join(directory, f"{part}-*.tfrecord") for part in ("train", "eval")}


@pytest.fixture(scope="module")
def fashion_runs(tmp_path_factory, fashion):
    """One epoch of every program; program → model_dir."""
    root = tmp_path_factory.mktemp("fashion_runs")
    for program in runs.PROGRAMS:
        train(program, root / program, fashion, num_epochs=1, save_checkpoints_epochs=1)
    return {program: root / program for program in runs.PROGRAMS}


def test_real_images_are_learned(fashion_runs):
    for directory in fashion_runs.values():
        assert model_dir.read_json(str(directory / model_dir.BEST_METRICS_FILE))["accuracy"] >= 0.6  # chance: 0.1


@pytest.mark.skipif(not runs.HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")
def test_real_images_are_learned_alike_by_both_programs(fashion_runs):
    assert first_difference(*(last_weights(directory) for directory in fashion_runs.values())) is None
    first, second = map(runs.metrics_files, fashion_runs.values())
    assert first == second
