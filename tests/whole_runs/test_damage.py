"""The damage table: whatever file is missing, empty, cut, flipped or foreign, a start does what BUILD_NOTES.md says.

Each case damages a copy of one trained run and goes through a start. After it, the model_dir is in one of three states; from
each of these a run is trained to its end, and is the undisturbed one, bit for bit.
"""

import json
import os
import re
import shutil

import pytest
import tensorflow as tf

from midepoch import model_dir
from tests.whole_runs import runs, table_runs
from tests.whole_runs.table_runs import STOPPED_AT

DAMAGES = ("missing", "empty", "cut", "flipped", "foreign")
BEST_STEP = 12

# File → outcome. What each outcome means is asserted below, and described in BUILD_NOTES.md.
FILES = {
    "checkpoint": "written again",
    f"model.ckpt-{STOPPED_AT}.index": "one before",
    f"model.ckpt-{STOPPED_AT}.data": "one before",
    f"model.ckpt-{STOPPED_AT}.data-00001": "one before",  # the estimator's second shard: the iterator
    f"model.ckpt-{STOPPED_AT}.manifest.json": "one before",
    f"best_weights/model.ckpt-{BEST_STEP}.index": "made again",
    f"best_weights/model.ckpt-{BEST_STEP}.data": "made again",
    f"best_weights/model.ckpt-{BEST_STEP}.data-00001": "made again",
    f"best_weights/model.ckpt-{BEST_STEP}.manifest.json": "made again",
    "best_weights/checkpoint": "written again",
    model_dir.BEST_METRICS_FILE: "written again",
    model_dir.LAST_METRICS_FILE: "next evaluation",
    model_dir.RUN_FILE: "written anew",
}
FOREIGN_METRICS = json.dumps({"accuracy": 0.99, "loss": 0.001, "global_step": 6, "epoch": 1.0})


def foreign(path, name, program):
    """Returns what another run, or another checkpoint, has under this name."""
    other = {STOPPED_AT: BEST_STEP, BEST_STEP: 10}
    if "model.ckpt" in name:
        step = int(re.search(r"ckpt-(\d+)", name).group(1))
        return (path.parent / path.name.replace(f"-{step}.", f"-{other[step]}.")).read_bytes()
    if name.endswith("checkpoint"):
        return b'model_checkpoint_path: "/elsewhere/model.ckpt-99"\nall_model_checkpoint_paths: "/elsewhere/model.ckpt-99"\n'
    if name == model_dir.RUN_FILE:
        return path.read_bytes().replace(f'"program": "{program}"'.encode(), b'"program": "another"')
    return FOREIGN_METRICS.encode()


def harm(path, name, damage, program, last):
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :])
    else:
        # There is one best checkpoint only: foreign to it are the files of an older last one.
        path.write_bytes(foreign(last / path.name if "best_weights/model" in name else path, name, program))
    assert not path.exists() or path.read_bytes() != content


def files_of(directory):
    """Returns {name: content} of checkpoints, state files and metrics."""
    names = [path for path in directory.rglob("*") if path.is_file() and re.match(r"model\.ckpt|checkpoint|metrics", path.name)]
    return {str(path.relative_to(directory)): path.read_bytes() for path in names if "damaged" not in path.parts}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_damage(name, damage, trained, data, tmp_path, capsys):
    program, healthy = trained
    run = tmp_path / "run"
    shutil.copytree(healthy, run)
    found = sorted(run.glob(f"{name}*"))
    if not found and "00001" in name:
        pytest.skip("lowlevel writes one data shard")
    harm(found[0], name, damage, program, healthy)
    with table_runs.start(program, run, data) as started:
        step, best = started.start.step, started.best
    said = capsys.readouterr().out
    outcome, expected = FILES[name], files_of(healthy)
    damaged = sorted(str(path.relative_to(run / "damaged")) for path in (run / "damaged").rglob("*") if path.is_file())

    assert step == (BEST_STEP if outcome == "one before" else STOPPED_AT)  # never 0
    assert tf.train.latest_checkpoint(str(run)) == str(run / f"model.ckpt-{step}")
    assert tf.train.latest_checkpoint(str(run / "best_weights")) == str(run / "best_weights" / f"model.ckpt-{BEST_STEP}")
    assert best.best == json.loads(expected[model_dir.BEST_METRICS_FILE])
    assert model_dir.newest_valid(str(run)) == str(run / f"model.ckpt-{step}")
    assert model_dir.newest_valid(str(run / "best_weights")) is not None

    after = files_of(run)
    if outcome == "one before":
        assert f"model.ckpt-{STOPPED_AT} is damaged (" in said
        assert all(file.startswith("model.ckpt-13.") for file in damaged)
        assert len(damaged) == len(list(healthy.glob("*-13.*"))) - (damage == "missing")
        expected = {file: content for file, content in expected.items() if f"ckpt-{STOPPED_AT}." not in file}
    elif outcome == "made again":
        assert "best_weights made again from model.ckpt-12" in said
        assert all(file.startswith("best_weights/model.ckpt-12.") for file in damaged) and damaged
        # The copy has the last's own files: the same weights, in lowlevel another count of saves.
        for kind in ("index", "data"):
            for file in run.glob(f"best_weights/*.{kind}*"):
                assert file.read_bytes() == (run / file.name).read_bytes()
        expected = {file: content for file, content in expected.items() if not file.startswith("best_weights/model")}
        after = {file: content for file, content in after.items() if not file.startswith("best_weights/model")}
    else:
        assert not damaged
    if outcome == "next evaluation":
        del expected[model_dir.LAST_METRICS_FILE]
        after.pop(model_dir.LAST_METRICS_FILE, None)
    for files in (expected, after):  # times in state files differ; what they say has been compared above
        files.pop("checkpoint"), files.pop("best_weights/checkpoint")
    assert after == expected
    run_file = model_dir.read_json(str(run / model_dir.RUN_FILE))
    assert run_file["contract"] == model_dir.read_manifest(str(run / "model.ckpt-10"))["contract"]
    if outcome == "written anew":
        assert "run.json was missing or damaged" in said or damage == "flipped"


@pytest.mark.parametrize("damaged_steps", [(13,), (10, 12, 13)], ids=["one before", "best only"])
def test_every_state_that_is_left_ends_as_the_undisturbed_run(damaged_steps, trained, finished, data, tmp_path, capsys):
    program, healthy = trained
    shutil.copytree(healthy, tmp_path / "run")
    for step in damaged_steps:
        os.truncate(tmp_path / "run" / f"model.ckpt-{step}.index", 3)
    assert table_runs.train(program, tmp_path / "run", data, stop_after=None).finished
    said = capsys.readouterr().out
    assert ("best_weights/model.ckpt-12 is the newest one left" in said) == (len(damaged_steps) == 3)
    runs.assert_same_bits(runs.last_variables(tmp_path / "run"), runs.last_variables(finished))
    assert runs.metrics_files(tmp_path / "run") == runs.metrics_files(finished)


def test_retention_goes_on_where_the_state_files_were_lost(trained, data, tmp_path):
    program, healthy = trained
    run = tmp_path / "run"
    shutil.copytree(healthy, run)
    for path in (run / "checkpoint", run / "best_weights" / "checkpoint"):
        path.unlink()
    assert table_runs.train(program, run, data, stop_after=None).finished
    assert [len(model_dir.steps_on_disk(str(folder))) for folder in (run, run / "best_weights")] == [3, 1]


def test_lost_best_never_stops_training_and_the_next_one_is_found(trained, finished, data, tmp_path, capsys):
    """Lost in best_weights and among the last: what is evaluated from there on is the best."""
    program, healthy = trained
    shutil.copytree(healthy, tmp_path / "run")
    for path in [*(tmp_path / "run").glob("model.ckpt-12.*"), *(tmp_path / "run").glob("best_weights/*.index")]:
        path.unlink()
    assert table_runs.train(program, tmp_path / "run", data, stop_after=None).finished
    said = capsys.readouterr().out
    assert "of step 12, are lost: the best is sought anew" in said and "(step 18), first best saved" in said
    metrics = model_dir.read_json(str(tmp_path / "run" / model_dir.BEST_METRICS_FILE))
    assert metrics["global_step"] == model_dir.step_of(model_dir.newest_valid(str(tmp_path / "run" / "best_weights"))) == 18
    runs.assert_same_bits(runs.last_variables(tmp_path / "run"), runs.last_variables(finished))


def test_finished_run_whose_best_was_lost_finds_one_again(trained, finished, data, tmp_path, capsys):
    program, _ = trained
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    best = model_dir.read_json(str(run / model_dir.BEST_METRICS_FILE))["global_step"]
    for path in [*run.glob(f"model.ckpt-{best}.manifest.json"), *(run / "best_weights").glob("*.index")]:
        if best != 18 or "best_weights" in str(path):
            path.unlink()
    assert table_runs.train(program, run, data, stop_after=None).finished
    assert model_dir.step_of(model_dir.newest_valid(str(run / "best_weights"))) == 18
    capsys.readouterr()
    assert table_runs.train(program, run, data, stop_after=None).finished
    assert "already done" in capsys.readouterr().out
