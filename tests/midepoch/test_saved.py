"""Opening a checkpoint to read it: which flags count, a copy that training cannot take away, numbers that are JSON."""

import json
import os
import shutil

import numpy as np
import pytest

from midepoch import model_dir, saved
from midepoch.config import TrainConfig
from midepoch.errors import UserError


@pytest.fixture
def run(tmp_path):
    """A model_dir with nothing but its run.json."""
    directory = tmp_path / "run"
    directory.mkdir()
    fields = dict(num_epochs=3, task="mine:Mine", batch_size=8, seed=5, eval_files="e*")
    config = TrainConfig(model_dir="elsewhere", **fields).resolved()
    model_dir.write_json(str(directory / model_dir.RUN_FILE), {"config": {**vars(config), "gone": 1}})
    return directory


def wanted(run, **fields):
    config = saved._run_config(TrainConfig(model_dir=str(run), mode="evaluate", **fields))
    return config.model_dir, config.task, config.batch_size, config.seed, config.eval_files, config.num_epochs


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({}, ("mine:Mine", 8, 5, "e*", 3)),
        (dict(eval_files="other*", batch_size=2), ("mine:Mine", 2, 5, "other*", 3)),
        (dict(task="moved:Mine"), ("moved:Mine", 8, 5, "e*", 3)),
        (dict(seed=9, num_epochs=1, learning_rate=0.5), ("mine:Mine", 8, 5, "e*", 3)),  # of training only
        (dict(train_steps=7), ("mine:Mine", 8, 5, "e*", 3)),
    ],
)
def test_what_is_not_given_is_the_runs(run, fields, expected):
    assert wanted(run, **fields) == (str(run), *expected)


def copy_of(run, scratch, checkpoint=None):
    return saved._copy_of(TrainConfig(model_dir=str(run), mode="evaluate", checkpoint=checkpoint), str(scratch))


def test_latest_best_or_path(run, fake_checkpoint, tmp_path):
    (run / "best_weights").mkdir()
    for step in (5, 20, 100):
        fake_checkpoint(run, step)
    fake_checkpoint(run, 200, committed=False)  # being written
    fake_checkpoint(run / "best_weights", 20, content="best")
    for number, (checkpoint, step, directory) in enumerate(
        [
            (None, 100, run),
            ("latest", 100, run),
            ("best", 20, run / "best_weights"),
            (str(run / "model.ckpt-5"), 5, run),
            (str(run / "model.ckpt-5.index"), 5, run),
            (str(run / "best_weights"), 20, run / "best_weights"),
        ]
    ):
        scratch = tmp_path / f"scratch-{number}"
        scratch.mkdir()
        prefix = copy_of(run, scratch, checkpoint)
        assert prefix == str(scratch / f"model.ckpt-{step}") and model_dir.problem_with(prefix) is None
        assert (scratch / f"model.ckpt-{step}.index").read_bytes() == (directory / f"model.ckpt-{step}.index").read_bytes()


def test_checkpoint_that_training_replaces_while_it_is_copied(run, fake_checkpoint, tmp_path, monkeypatch):
    prefix = fake_checkpoint(run, 5)
    copy = shutil.copy

    def copy_while_training_goes_on(path, target):
        if os.path.exists(prefix + ".index"):
            fake_checkpoint(run, 10)
            for file in run.glob("model.ckpt-5.*"):
                file.unlink()
        return copy(path, target)

    monkeypatch.setattr(shutil, "copy", copy_while_training_goes_on)
    assert copy_of(run, tmp_path) == str(tmp_path / "model.ckpt-10")
    assert model_dir.problem_with(str(tmp_path / "model.ckpt-10")) is None


def test_nothing_whole_is_one_line(run, fake_checkpoint, tmp_path):
    fake_checkpoint(run, 5, committed=False)
    with pytest.raises(UserError, match=r"holds no whole checkpoint \(latest\); train first"):
        copy_of(run, tmp_path)


def test_lines_are_numbered_through_all_batches_and_are_json():
    one = [{"outputs": np.float32([[1.5, np.nan], [np.inf, 0.1]])}, {"outputs": np.float32([[2, 3]])}]
    lines = list(saved.SavedCheckpoint.as_lines(None, one))
    assert [line["example_id"] for line in lines] == [0, 1, 2]
    assert [line["outputs"] for line in lines] == [[1.5, None], [None, float(np.float32(0.1))], [2.0, 3.0]]
    json.dumps(lines, allow_nan=False)
    named = [{"name": np.array([b"\xc3\xa4"], object), "score": np.int64([3])}]
    assert list(saved.SavedCheckpoint.as_lines(None, named)) == [{"example_id": 0, "outputs": {"name": "ä", "score": 3}}]
