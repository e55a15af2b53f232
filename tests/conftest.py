"""Fixtures of all tests. TensorFlow is quiet, deterministic and seeded, as in the programs."""

import dataclasses
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

from midepoch import cli, model_dir
from midepoch import config as config_lib
from midepoch.config import TrainConfig
from midepoch.randomness import make_deterministic
from tests import tiny_task

HAS_ESTIMATOR = hasattr(tf, "estimator")
REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(autouse=True)
def deterministic():
    """Every test starts from the same global seed."""
    make_deterministic(1)


@pytest.fixture
def write_records():
    """`write_records(path, values)`: writes byte strings as a TFRecord file, returns the path."""
    return tiny_task.write_records


@pytest.fixture(scope="session")
def tiny_files(tmp_path_factory):
    """The globs of the tiny task's files; shared by all tests, not to be changed."""
    return tiny_task.write_data(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def tiny_config(tiny_files, tmp_path):
    """`tiny_config(**fields)`: a TrainConfig for the tiny task, 3 epochs of 5 steps each, model_dir tmp_path/run."""

    def make(**fields) -> TrainConfig:
        defaults = dict(
            model_dir=str(tmp_path / "run"),
            task=tiny_task.TASK,
            batch_size=5,
            shuffle_window=8,
            shuffle_block=4,
            save_checkpoints_steps=1,
            keep_checkpoint_max=0,
            export=False,
            **tiny_files._asdict(),
        )
        if not {"train_steps", "num_epochs"} & set(fields):
            defaults["num_epochs"] = 3
        if {"save_checkpoints_secs", "save_checkpoints_epochs"} & set(fields):
            del defaults["save_checkpoints_steps"]
        return TrainConfig(**{**defaults, **fields})

    return make


@pytest.fixture
def parse_flags():
    """`parse_flags(*arguments)`: parses a command line as both programs do, as if it were the first of the process."""
    if "model_dir" not in flags.FLAGS:
        config_lib.define_flags()

    def parse(*arguments):
        for field in dataclasses.fields(TrainConfig):
            flags.FLAGS[field.name].unparse()
        return cli._parse_flags(["program", *arguments])

    with flagsaver.flagsaver():
        yield parse


@pytest.fixture
def fake_checkpoint():
    """`fake_checkpoint(directory, step, committed=True, content="", **facts)`: looks like one, or like a save that was killed
    just before its commit; its prefix."""

    def make(directory, step, committed=True, content="", **facts) -> str:
        prefix = model_dir.prefix_of(str(directory), step)
        model_dir.begin_save(prefix)
        for name in ("index", "data-00000-of-00001"):
            with open(f"{prefix}.{name}", "w", encoding="utf-8") as file:
                file.write(f"{content}{step} {name}".ljust(20)[:20])
        if committed:
            model_dir.commit(prefix, {"step": step, **facts})
        return prefix

    return make


_needs_estimator = pytest.mark.skipif(not HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")


@pytest.fixture(params=["lowlevel", pytest.param("estimator", marks=_needs_estimator)])
def program(request):
    """Name of each program in turn."""
    return request.param


@pytest.fixture
def train_and_evaluate(program):
    """The entry point of each program in turn, for a notebook: `train_and_evaluate(config, task=None, stopping=None)`."""
    if program == "estimator":
        from estimator.loop import train_and_evaluate
    else:
        from lowlevel.loop import train_and_evaluate
    return train_and_evaluate
