"""Best: survives every restart, is beaten only by what is strictly better, and never depends on kills."""

import importlib
import os
import shutil

import pytest
import tensorflow as tf

from midepoch import best as best_lib
from midepoch import model_dir
from midepoch.errors import UserError
from midepoch.run import Run
from tests.whole_runs import runs

EPOCHS = 4
LAST_STEP = EPOCHS * runs.STEPS_PER_EPOCH


class Scored(runs.Small):
    """`Small` with a metric `score`, which the tests overwrite."""

    best_metric = "score"

    def metrics(self, labels, outputs):
        return {"score": tf.zeros_like(labels, tf.float32), **super().metrics(labels, outputs)}


@pytest.fixture
def scripted(monkeypatch):
    """Replaces the evaluated score by a script, step → score, in both programs: where metrics become a record."""
    script = {}
    as_record = best_lib.as_record

    def scripted_record(metrics, step, examples_seen, epoch_examples):
        if step in script:
            metrics = {**metrics, "score": script[step]}
        return as_record(metrics, step, examples_seen, epoch_examples)

    monkeypatch.setattr(best_lib, "as_record", scripted_record)
    return script


def train(program, directory, data, **flags):
    return runs.train(program, directory, Scored(), num_epochs=EPOCHS, best_mode=flags.pop("best_mode", "max"), **flags, **data)


def best_of(directory):
    """Returns the step of the best metrics file and of the best checkpoint, which must be one."""
    metrics = model_dir.read_json(os.path.join(directory, model_dir.BEST_METRICS_FILE))
    prefix = model_dir.newest_valid(os.path.join(directory, model_dir.BEST_WEIGHTS))
    assert model_dir.step_of(prefix) == metrics["global_step"]
    assert tf.train.latest_checkpoint(os.path.dirname(prefix)) == prefix
    return metrics["global_step"]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("program", runs.PROGRAMS)
@pytest.mark.parametrize(
    "mode, scores, best_step",
    [
        ("max", (3.0, 1.0, 3.0, 2.0), 6),  # a tie does not replace it
        ("max", (1.0, NAN, 2.0, INF), 18),  # what is not finite never does
        ("min", (3.0, 1.0, 1.0, 2.0), 12),
    ],
)
def test_best_over_a_restart_before_every_evaluation(program, mode, scores, best_step, scripted, tmp_path):
    data = runs.write_data(str(tmp_path))
    scripted.update(zip(range(runs.STEPS_PER_EPOCH, LAST_STEP + 1, runs.STEPS_PER_EPOCH), scores))
    for stop in (2, 8, 14, 20):
        train(program, tmp_path / "run", data, best_mode=mode, stop_after=stop)
    assert train(program, tmp_path / "run", data, best_mode=mode).finished
    assert best_of(tmp_path / "run") == best_step


class Killed(BaseException):
    """Stands for a SIGKILL at a chosen line: nothing catches it, nothing is cleaned up."""


@pytest.mark.parametrize("program", runs.PROGRAMS)
@pytest.mark.parametrize("last_act", ["save", "best checkpoint", "best metrics"])
def test_killed_between_the_acts_of_an_evaluation_ends_as_the_undisturbed_run(program, last_act, scripted, monkeypatch, tmp_path):
    data = runs.write_data(str(tmp_path))
    scripted.update({6: 1.0, 12: 2.0, 18: 1.5, 24: 0.5})
    train(program, tmp_path / "undisturbed", data)
    patches = {
        "save": ("midepoch.run", "Run.as_record"),
        "best checkpoint": ("midepoch.best", "Best.record_best"),
        "best metrics": ("midepoch.best", "Best.record_last"),
    }
    module, name = patches[last_act]
    owner = getattr(importlib.import_module(module), name.split(".")[0])
    calls = []

    def killed(self, metrics, *args):
        calls.append(1)
        if len(calls) == 2:
            raise Killed
        return original(self, metrics, *args)

    original = getattr(owner, name.split(".")[1])
    with monkeypatch.context() as patch:
        patch.setattr(owner, name.split(".")[1], killed)
        with pytest.raises(Killed):
            train(program, tmp_path / "killed", data)
    assert train(program, tmp_path / "killed", data).finished
    assert best_of(tmp_path / "killed") == best_of(tmp_path / "undisturbed") == 12
    assert runs.metrics_files(tmp_path / "killed") == runs.metrics_files(tmp_path / "undisturbed")
    evaluated = runs.scalars(tmp_path / "killed" / "eval", "accuracy")
    assert evaluated == runs.scalars(tmp_path / "undisturbed" / "eval", "accuracy")
    assert sorted(evaluated) == [6, 12, 18, 24]


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_restoring_an_older_last_does_not_roll_the_best_back(program, scripted, tmp_path):
    data = runs.write_data(str(tmp_path))
    scripted.update({6: 1.0, 12: 2.0, 18: 1.5, 24: 0.5})
    flags = dict(save_checkpoints_steps=3)
    train(program, tmp_path / "run", data, stop_after=13, **flags)
    for step in (12, 13):  # the newest checkpoints are lost
        for path in (tmp_path / "run").glob(f"model.ckpt-{step}.*"):
            path.unlink()
    scripted.update({12: 0.1})  # and evaluated again it would look bad
    assert train(program, tmp_path / "run", data, **flags).finished
    assert best_of(tmp_path / "run") == 12


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_a_damaged_metrics_file_does_not_cost_the_best(program, scripted, tmp_path):
    data = runs.write_data(str(tmp_path))
    scripted.update({6: 2.0, 12: 1.0, 18: 1.5, 24: 0.5})
    train(program, tmp_path / "run", data, stop_after=7)
    (tmp_path / "run" / model_dir.BEST_METRICS_FILE).write_text("{")
    train(program, tmp_path / "run", data)
    assert model_dir.step_of(model_dir.newest_valid(str(tmp_path / "run" / "best_weights"))) == 6


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_a_run_that_lost_all_its_checkpoints_goes_on_from_its_best_and_not_from_0(program, scripted, tmp_path):
    data = runs.write_data(str(tmp_path))
    scripted.update({6: 1.0, 12: 2.0, 18: 1.5, 24: 0.5})
    train(program, tmp_path / "undisturbed", data)
    train(program, tmp_path / "run", data, stop_after=13)
    for path in (tmp_path / "run").glob("model.ckpt-*"):
        path.unlink()
    shutil.copytree(tmp_path / "run", tmp_path / "without_best")
    train(program, tmp_path / "run", data)
    runs.assert_same_bits(runs.last_variables(tmp_path / "run"), runs.last_variables(tmp_path / "undisturbed"))
    assert runs.metrics_files(tmp_path / "run") == runs.metrics_files(tmp_path / "undisturbed")

    shutil.rmtree(tmp_path / "without_best" / "best_weights")
    before = sorted((tmp_path / "without_best").rglob("*"))
    with pytest.raises(UserError, match="none of its checkpoints"):
        train(program, tmp_path / "without_best", data)
    assert sorted((tmp_path / "without_best").rglob("*")) == before


def test_what_another_process_did_before_the_lock_was_taken_is_seen(scripted, monkeypatch, tmp_path):
    """A second start that was still checking its input while the first one trained goes on from that one's best."""
    data = runs.write_data(str(tmp_path))
    scripted.update({6: 2.0, 12: 1.0, 18: 1.5, 24: 0.5})
    check = Run.check

    def slow_check(self):
        monkeypatch.setattr(Run, "check", check)
        check(self)
        train("lowlevel", tmp_path / "run", data, stop_after=7)

    monkeypatch.setattr(Run, "check", slow_check)
    train("lowlevel", tmp_path / "run", data)
    assert best_of(tmp_path / "run") == 6
    assert runs.history(tmp_path / "run")["starts"] == 2
