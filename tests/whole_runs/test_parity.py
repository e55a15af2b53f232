"""The two programs are one training run: same ids, same losses, same weights after every checkpoint, same metrics files."""

import json

import pytest
import tensorflow as tf

from compare.weights import read_variables
from midepoch import model_dir
from midepoch.errors import UserError
from tests.whole_runs import runs

pytestmark = pytest.mark.skipif(not runs.HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")


STATISTICS = {runs.Small: None, runs.SmallWithBatchNorm: "moving_mean", runs.SmallWithAssignments: "mean"}


@pytest.mark.parametrize("task", STATISTICS, ids=["dropout", "batchnorm", "assignments"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_same_bits_in_both_programs(task, optimizer, tmp_path):
    flags = dict(
        num_epochs=2, optimizer=optimizer, save_checkpoints_steps=1, keep_checkpoint_max=0, log_every_steps=1,
        record_examples=True, **runs.write_data(str(tmp_path)),
    )
    for program in runs.PROGRAMS:
        runs.train(program, tmp_path / program, task(), **flags)
    first, second = (tmp_path / program for program in runs.PROGRAMS)
    steps = 2 * runs.STEPS_PER_EPOCH
    assert runs.example_ids(first, steps) == runs.example_ids(second, steps)
    assert runs.scalars(first, "loss") == runs.scalars(second, "loss")
    assert runs.metrics_files(first) == runs.metrics_files(second)
    assert runs.scalars(first / "eval", "accuracy") == runs.scalars(second / "eval", "accuracy")
    before = None
    for step in range(steps + 1):
        weights = [read_variables(model_dir.prefix_of(str(directory), step)) for directory in (first, second)]
        runs.assert_same_bits(*weights)
        assert before is None or any((weights[0][key] != before[key]).any() for key in before), "nothing was trained"
        before = weights[0]
    moved = [key for key, value in before.items() if STATISTICS[task] and STATISTICS[task] in key and value.any()]
    assert bool(moved) == bool(STATISTICS[task])


def test_buffer_shuffle_gives_the_same_ids_in_both_programs(tmp_path):
    flags = dict(num_epochs=2, shuffle="buffer", shuffle_buffer_size=10, record_examples=True, **runs.write_data(str(tmp_path)))
    for program in runs.PROGRAMS:
        runs.train(program, tmp_path / program, **flags)
    first, second = (tmp_path / program for program in runs.PROGRAMS)
    assert runs.example_ids(first, 12) == runs.example_ids(second, 12)
    assert runs.metrics_files(first) == runs.metrics_files(second)


class WithIdleLayer(runs.Small):
    """Has a layer that `call` uses for nothing."""

    def model(self, seed):
        idle = tf.keras.layers.Dense(4, kernel_initializer=tf.keras.initializers.GlorotUniform(seed + 9), name="idle")
        model = tf.keras.Sequential([super().model(seed), idle])
        model.build([None, 5])
        return model

    def call(self, model, features, training, seed):
        return super().call(model.layers[0], features, training, seed)


def test_variable_without_a_part_in_the_loss_is_left_as_it_is_by_both(tmp_path, capsys):
    flags = dict(num_epochs=1, save_checkpoints_steps=3, **runs.write_data(str(tmp_path)))
    for program in runs.PROGRAMS:
        assert runs.train(program, tmp_path / program, WithIdleLayer(), **flags).finished
        assert "warning: what has no part in the loss stays as it is: idle/kernel, idle/bias" in capsys.readouterr().out
    before, after = (read_variables(model_dir.prefix_of(str(tmp_path / "estimator"), step)) for step in (0, 6))
    moved = {name: (before[name] != after[name]).any() for name in before}
    assert not moved["idle/kernel"] and moved["logits/kernel"]
    runs.assert_same_bits(*(read_variables(model_dir.prefix_of(str(tmp_path / program), 6)) for program in runs.PROGRAMS))


class Ends(runs.SmallOwnDataset):
    """A dataset that ends after 14 batches, which nobody can know before."""

    def train_dataset(self, batch_size, seed):
        return super().train_dataset(batch_size, seed).take(14).filter(lambda x, y: True)


def test_dataset_that_ends_leaves_the_same_checkpoints_in_both(tmp_path):
    for program in runs.PROGRAMS:
        with pytest.raises(UserError, match="TensorFlow says that the data has ended, which it never should"):
            runs.train(program, tmp_path / program, Ends(), num_epochs=9, save_checkpoints_steps=5, eval_every_epochs=9)
        assert model_dir.steps_on_disk(str(tmp_path / program)) == [10, 5, 0]


def test_cluster_is_refused_by_the_estimator_alone(tmp_path, monkeypatch):
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    flags = dict(num_epochs=1, **runs.write_data(str(tmp_path)))
    with pytest.raises(UserError, match="TF_CONFIG names a cluster of 2 processes, but this program trains in one; unset it"):
        runs.train("estimator", tmp_path / "estimator", **flags)
    assert not (tmp_path / "estimator").exists()
    assert runs.train("lowlevel", tmp_path / "lowlevel", **flags).finished
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(UserError, match="TF_CONFIG cannot be read"):
        runs.train("estimator", tmp_path / "estimator", **flags)
