"""The README cannot rot: its examples are trained, and its flags are compared with those that exist."""

import dataclasses
import inspect
import json
import os
import re
import runpy
import sys

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from compare import __main__ as compare
from midepoch import convert_mnist, records
from midepoch.config import REGIMES, TrainConfig
from midepoch.tasks.mnist import Mnist

README = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "README.md")
HAS_ESTIMATOR = hasattr(tf, "estimator")
PROGRAMS = ["lowlevel", pytest.param("estimator", marks=pytest.mark.skipif(not HAS_ESTIMATOR, reason="no tf.estimator"))]


def readme():
    with open(README, encoding="utf-8") as file:
        return file.read()


def examples():
    """Returns {file name: source} of the code blocks that start with a comment naming a file."""
    return dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", readme(), re.DOTALL))


def loop(program):
    if program == "estimator":
        from estimator import loop
    else:
        from lowlevel import loop
    return loop


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with the README's files and data in it, as the current directory; its modules are forgotten afterwards."""
    for name, source in examples().items():
        (tmp_path / name).write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    runpy.run_path("make_data.py")
    yield tmp_path
    for name in examples():
        sys.modules.pop(name[: -len(".py")], None)


def weights(prefix):
    """Returns the variables of a checkpoint by name, without bookkeeping."""
    reader = tf.train.load_checkpoint(prefix)
    names = [n for n in reader.get_variable_to_shape_map() if "save_counter" not in n and "iterator" not in n and "OBJECT" not in n]
    return {name: reader.get_tensor(name) for name in names}


def same_weights(one, other):
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("task", ["my_records:MyTask", "my_dataset:MyTask"])
def test_own_task_trains_and_resumes(folder, program, task):
    def train(model_dir, train_steps, seed=1):
        return loop(program).train_and_evaluate(
            TrainConfig(model_dir=model_dir, task=task, train_steps=train_steps, seed=seed, eval_every_steps=50)
        )

    assert train("resumed", 5).step == 5  # 400 examples: in mid-epoch
    resumed = train("resumed", 10)
    undisturbed = train("undisturbed", 10)
    other = train("other", 10, seed=2)

    assert resumed.finished and resumed.step == 10
    assert resumed.metrics == undisturbed.metrics
    assert same_weights("resumed/model.ckpt-10", "undisturbed/model.ckpt-10")
    # Control: the comparison can tell weights apart.
    assert not same_weights("other/model.ckpt-10", "undisturbed/model.ckpt-10")
    assert other.metrics["loss"] != undisturbed.metrics["loss"]


@pytest.mark.skipif(not HAS_ESTIMATOR, reason="no tf.estimator")
def test_resumable_with_a_premade_estimator(folder):
    import any_estimator

    any_estimator.train("resumed", 7)
    any_estimator.train("resumed", 20)
    any_estimator.train("undisturbed", 20)
    any_estimator.train("shorter", 7)

    assert same_weights("resumed/model.ckpt-20", "undisturbed/model.ckpt-20")
    assert not same_weights("shorter/model.ckpt-7", "undisturbed/model.ckpt-20")


@pytest.mark.skipif(not HAS_ESTIMATOR, reason="no tf.estimator")
def test_resumable_can_be_copied(folder):
    """Without the rest of the repository: the three pieces that the README names, and what they import."""
    import any_estimator

    from estimator import inputs

    pieces = [inspect.getsource(piece) for piece in (inputs.resumable, inputs._next_element)]
    copied = {}
    exec("\n".join(["from typing import Any", "import tensorflow as tf", f"ITERATOR = {inputs.ITERATOR!r}", *pieces]), copied)
    any_estimator.resumable = copied["resumable"]
    any_estimator.train("copied", 3)
    assert os.path.exists("copied/model.ckpt-3.index")


def test_resumable_is_what_does_it(folder):
    """Control: without `resumable` the same Estimator does not resume."""
    if not HAS_ESTIMATOR:
        pytest.skip("no tf.estimator")
    import any_estimator

    any_estimator.resumable = lambda dataset: dataset
    any_estimator.train("resumed", 7)
    any_estimator.train("resumed", 20)
    any_estimator.train("undisturbed", 20)

    assert not same_weights("resumed/model.ckpt-20", "undisturbed/model.ckpt-20")


def test_notebook_example(folder):
    result = runpy.run_path("notebook.py")["result"]

    assert result.finished and result.step == 21
    with open("notebook/metrics_eval_best_weights.json", encoding="utf-8") as file:
        assert json.load(file) == result.best_metrics


def test_ten_line_recipe_writes_files_that_a_task_can_read(folder):
    lines = [line for line in examples()["write_records.py"].splitlines() if line]
    assert len(lines) == 10
    yours = runpy.run_path("write_records.py")

    index = records.build_index(records.find_files("mine-*.tfrecord", "train_files"))
    assert [len(offsets) for offsets in index.offsets] == [250] * 4
    shards = [[record.numpy() for record in tf.data.TFRecordDataset(path)] for path in index.paths]
    images, labels = Mnist().parse(tf.constant([record for row in zip(*shards) for record in row]))
    assert np.array_equal(labels, yours["labels"])
    assert np.array_equal(images.numpy()[..., 0], yours["images"] / np.float32(255))


def test_every_flag_is_in_the_table_with_its_default():
    rows = dict(re.findall(r"^\| `--(\w+)` \| ([^|]*) \| [^|]+ \|$", readme().split("## Flags")[1].split("### Regimes")[0], re.MULTILINE))
    fields = dataclasses.fields(TrainConfig)

    assert list(rows) == [field.name for field in fields]
    for field in fields:
        if field.default is not None:
            assert rows[field.name].strip("`").lower() == str(field.default).lower(), field.name


def test_every_flag_named_exists():
    names = set(re.findall(r"--([a-z]\w+_\w*[a-z]|task|seed|shuffle|regime|optimizer)\b(?!_?\*)", readme()))

    converter = {action.dest for action in convert_mnist.make_parser()._actions}
    comparison = flags.FlagValues()
    compare.define_flags(comparison)  # the training flags are among them
    switched_off = {f"no{name}" for name in comparison if isinstance(comparison[name].value, bool)}
    assert names - set(comparison) - switched_off - converter == set()


def test_every_flag_of_a_comparison_is_in_its_table():
    values = flags.FlagValues()
    compare.define_flags(values)
    own = set(values) - {field.name for field in dataclasses.fields(TrainConfig)} - {"help"}
    section = readme().split("## Comparing runs")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `--(\w+)` \|", section, re.MULTILINE)) == own


def test_defaults_filled_in_later_are_those_of_the_table():
    config = TrainConfig(model_dir="run", num_epochs=1).resolved()

    for name in ("save_checkpoints_secs", "keep_checkpoint_max", "eval_every_epochs"):
        assert re.search(rf"^\| `--{name}` \| {getattr(config, name)} \|", readme(), re.MULTILINE), name


def test_regimes_are_those_of_the_table():
    rows = re.findall(r"^\| `(\w+)` \| every (?:(\d+) )?epochs? \| (\d+),(?: one for every (\d+) hours)?", readme(), re.MULTILINE)
    described = {}
    for name, epochs, keep, hours in rows:
        every = int(epochs or 1)
        described[name] = dict(save_checkpoints_epochs=every, eval_every_epochs=every, keep_checkpoint_max=int(keep))
        if hours:
            described[name]["keep_checkpoint_every_n_hours"] = float(hours)

    assert described == REGIMES


def test_every_file_of_the_change_map_exists():
    paths = re.findall(r"`((?:midepoch|estimator|lowlevel|compare|tests)/[\w/]+\.py)`", readme())

    assert paths
    for path in paths:
        assert os.path.exists(os.path.join(os.path.dirname(README), path)), path
