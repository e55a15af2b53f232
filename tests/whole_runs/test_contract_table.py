"""The contract table: every flag, changed when a run is resumed, does what the README says.

A flag without a row fails, and so does a row that the README has not, or has with another outcome.
"""

import dataclasses
import os
import re
import shutil

import pytest

from midepoch import contract, stream
from midepoch.config import TrainConfig
from midepoch.errors import UserError
from tests.conftest import REPOSITORY
from tests.whole_runs import runs, table_runs
from tests.whole_runs.table_runs import STOPPED_AT

ALLOWED, ADAPTED, REFUSED = "allowed", "adapted", "refused"
WAY_OUT = r".*set it back, or start a new run in another --model_dir with --restore_from="

# Flag → (outcome, the changed values, what the line says). None for a value that only this run's folder knows.
TABLE = {
    "model_dir": (ALLOWED, {}, ""),  # every case here is a copy in another place
    "task": (REFUSED, dict(task="other"), "--task=other, but this run was trained with small" + WAY_OUT),
    "train_files": (REFUSED, dict(train_files=None), r"training files .*4 files then, 1 now.*put them back, .*--restore_from="),
    "eval_files": (ALLOWED, dict(eval_files=None), ""),
    "batch_size": (ADAPTED, dict(batch_size=5), "batch_size was 4, is 5.: seeking to example 50"),
    "num_epochs": (ALLOWED, dict(num_epochs=9), ""),
    "train_steps": (ALLOWED, dict(num_epochs=None, train_steps=99), ""),
    "optimizer": (ADAPTED, dict(optimizer="sgd"), "--optimizer was adam, is sgd: weights, step and position are kept"),
    "learning_rate": (ALLOWED, dict(learning_rate=0.5), ""),
    "freeze": (ADAPTED, dict(freeze="hidden"), "--freeze was not set, is hidden"),
    "seed": (REFUSED, dict(seed=12), "--seed=12, but this run was trained with 11" + WAY_OUT),
    "shuffle": (REFUSED, dict(shuffle="none"), "--shuffle=none, but this run was trained with window" + WAY_OUT),
    "shuffle_window": (REFUSED, dict(shuffle_window=9), "--shuffle_window=9, but this run was trained with 10" + WAY_OUT),
    "shuffle_block": (REFUSED, dict(shuffle_block=2), "--shuffle_block=2, but this run was trained with 3" + WAY_OUT),
    "shuffle_buffer_size": (ALLOWED, dict(shuffle_buffer_size=7), ""),  # not in use; where it is, see below
    "save_checkpoints_steps": (ALLOWED, dict(save_checkpoints_steps=5), ""),
    "save_checkpoints_secs": (ALLOWED, dict(save_checkpoints_steps=None, save_checkpoints_secs=9), ""),
    "save_checkpoints_epochs": (ALLOWED, dict(save_checkpoints_steps=None, save_checkpoints_epochs=1), ""),
    "keep_checkpoint_max": (ALLOWED, dict(keep_checkpoint_max=2), ""),
    "keep_checkpoint_every_n_hours": (ALLOWED, dict(keep_checkpoint_every_n_hours=1.0), ""),
    "eval_every_epochs": (ALLOWED, dict(eval_every_epochs=2), ""),
    "eval_every_steps": (ALLOWED, dict(eval_every_steps=7), ""),
    "best_metric": (ALLOWED, dict(best_metric="accuracy"), ""),
    "best_mode": (ALLOWED, dict(best_mode="max"), ""),
    "regime": (ALLOWED, dict(regime="short"), ""),
    "max_run_secs": (ALLOWED, dict(max_run_secs="600"), ""),
    "restore_from": (ALLOWED, dict(restore_from="nowhere"), ""),
    "export": (ALLOWED, dict(export=True), ""),
    "log_every_steps": (ALLOWED, dict(log_every_steps=3), ""),
    "record_examples": (ALLOWED, dict(record_examples=True), ""),
}


def test_every_flag_has_a_row():
    only_read = ("mode", "checkpoint")  # with these nothing is resumed
    assert list(TABLE) == [field.name for field in dataclasses.fields(TrainConfig) if field.name not in only_read]


def test_readme_has_the_same_table():
    with open(os.path.join(REPOSITORY, "README.md"), encoding="utf-8") as file:
        section = file.read().split("## What may change between two starts")[1].split("\n## ")[0]
    described = {}
    for flags, outcome in re.findall(r"^\| (`--[^|]+) \| (\w+)[^|]* \|", section, re.MULTILINE):
        described.update({flag: outcome for flag in re.findall(r"`--(\w+)`", flags)})
    assert described == {flag: outcome for flag, (outcome, _, _) in TABLE.items()}


@pytest.mark.parametrize("flag", TABLE)
def test_changed_flag(flag, trained, data, tmp_path, capsys):
    program, run = trained[0], tmp_path / "run"
    shutil.copytree(trained[1], run)
    outcome, changes, line = TABLE[flag]
    in_folder = dict(train_files=data["train_files"].replace("*", "0*"), eval_files=data["train_files"])
    changes = {name: in_folder.get(name) if name.endswith("files") else value for name, value in changes.items()}
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}

    if outcome == REFUSED:  # in one line, before anything is written, let alone restored
        with pytest.raises(UserError, match=line) as caught:
            with table_runs.start(program, run, data, **changes):
                pytest.fail("it was not refused")
        assert "\n" not in str(caught.value)
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"} == before
        return
    with table_runs.start(program, run, data, **changes) as started:
        start = started.start
    said = capsys.readouterr().out
    assert (start.case, start.step, start.examples_seen) == ("resume", STOPPED_AT, 50)
    assert bool(start.notes) == (outcome == ADAPTED)
    if outcome == ADAPTED:
        assert len([text for text in said.splitlines() if re.search(line, text)]) == 1


def test_buffer_size_is_refused_where_it_is_in_use():
    base = {"program": "lowlevel", "keras": 2, "task": "small", "optimizer": "adam", "freeze": None}
    saved, now = ({**base, "order": {"shuffle": "buffer", "shuffle_buffer_size": size}} for size in (9, 7))
    with pytest.raises(UserError, match="--shuffle_buffer_size=7, but this run was trained with 9" + WAY_OUT):
        contract.check_resume(saved, now, "run1")


def test_pipeline_whose_code_changed_seeks(trained, finished, data, tmp_path, capsys, monkeypatch):
    """Data, seed and shuffle did not change: the position means what it meant, only the iterator's state is of no use."""
    program, run = trained[0], tmp_path / "run"
    shutil.copytree(trained[1], run)
    version = stream.PIPELINE_VERSION
    monkeypatch.setattr(stream, "PIPELINE_VERSION", version + 1)
    assert table_runs.train(program, run, data, stop_after=None).finished
    assert f"(version was {version}, is {version + 1}): seeking to example 50" in capsys.readouterr().out
    runs.assert_same_bits(runs.last_variables(run), runs.last_variables(finished))
