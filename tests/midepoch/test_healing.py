"""What is healed before training goes on: the last checkpoints, the best one, and the files that tell of them."""

import os
import shutil

import pytest

from midepoch import healing, model_dir, startup
from midepoch.best import Best
from midepoch.contract import pipeline_facts

ORDER = {"shuffle": "window", "seed": 1, "data": [["a", 100, 23]]}
TODAY = pipeline_facts(ORDER, 5, 0, 1)


def choose(directory):
    return startup.choose_start(str(directory), None, TODAY, True, 0)


def heal(directory, keep=5):
    return healing.heal(str(directory), choose(directory), keep)


def metrics_of(step, accuracy=0.5):
    return {"accuracy": accuracy, "global_step": step, "epoch": 1.0}


@pytest.fixture
def checkpoint(fake_checkpoint):
    """`checkpoint(directory, step, committed=True, evaluate=True, metrics=None)`: one that today's pipeline resumes from."""

    def make(directory, step, committed=True, evaluate=True, metrics=None):
        facts = dict(examples_seen=5 * step, evaluate=evaluate, metrics=metrics, pipeline=TODAY)
        return fake_checkpoint(directory, step, committed=committed, **facts)

    return make


@pytest.fixture
def run(tmp_path, checkpoint):
    """A run with checkpoints of steps 8, 9 and 10, the best of which is 9."""
    for step in (8, 9, 10):
        checkpoint(tmp_path, step)
    (tmp_path / model_dir.BEST_WEIGHTS).mkdir()
    checkpoint(tmp_path / model_dir.BEST_WEIGHTS, 9, metrics=metrics_of(9))
    best = Best(str(tmp_path), "accuracy", "max")
    best.record_best(metrics_of(9))
    best.record_last(metrics_of(10, 0.4))
    return tmp_path


def heal_best(directory):
    """Returns (the best as healed, what is said); afterwards nothing is left to mend, unless the best is lost."""
    best = Best(str(directory), "accuracy", "max")
    found = healing.look_at_best(str(directory), best)
    lines = healing.heal_best(str(directory), best, found)
    assert found.whole is not bool(lines)
    again = Best(str(directory), "accuracy", "max")
    assert again.best == best.best
    assert healing.look_at_best(str(directory), again).whole is not found.lost
    return best, lines


def damage(prefix):
    with open(f"{prefix}.index", "ab") as file:
        file.write(b"x")


def state_of(directory):
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}


def test_damaged_ones_are_moved_leftovers_removed_and_the_state_file_points_at_what_is_resumed(tmp_path, checkpoint):
    for step in (8, 9):
        checkpoint(tmp_path, step)
    damage(checkpoint(tmp_path, 10))
    checkpoint(tmp_path, 11, committed=False)
    start, lines = heal(tmp_path)
    assert start.step == 9 and len(lines) == 2
    assert "model.ckpt-10 is damaged (model.ckpt-10.index has" in lines[0] and lines[0].endswith("/damaged")
    assert lines[1] == "removed model.ckpt-11, a save that was not finished"
    assert model_dir.steps_on_disk(str(tmp_path)) == [9, 8]
    assert model_dir.steps_on_disk(str(tmp_path / "damaged")) == [10]
    assert (tmp_path / "checkpoint").read_text().startswith('model_checkpoint_path: "model.ckpt-9"\n')
    before = state_of(tmp_path)
    assert heal(tmp_path)[1] == []
    assert state_of(tmp_path) == before


def test_one_that_lost_its_manifest_is_moved_not_removed(tmp_path, checkpoint):
    for step in (8, 9, 10):
        checkpoint(tmp_path, step)
    for step in (8, 10):
        os.remove(tmp_path / f"model.ckpt-{step}.manifest.json")
    start, lines = heal(tmp_path)
    assert start.step == 9 and len(lines) == 2 and all("it has no manifest" in line for line in lines)
    assert len(list((tmp_path / "damaged").iterdir())) == 4


def test_killed_first_save_is_removed(tmp_path, checkpoint):
    checkpoint(tmp_path, 0, committed=False)
    start, lines = heal(tmp_path)
    assert start.case == startup.FRESH and len(lines) == 1
    assert os.listdir(tmp_path) == []


def test_best_that_is_the_newest_whole_one_is_copied_to_the_last(run, checkpoint):
    for step in (9, 10):
        damage(run / f"model.ckpt-{step}")
    start, lines = heal(run)
    assert (start.step, start.prefix) == (9, str(run / "model.ckpt-9"))
    assert any("best_weights/model.ckpt-9 is the newest one left" in line for line in lines)
    assert model_dir.problem_with(start.prefix) is None and model_dir.read_manifest(start.prefix)["metrics"] is None
    assert model_dir.newest_valid(str(run / "best_weights")) is not None
    assert choose(run).prefix == start.prefix and heal(run)[1] == []


def test_state_file_that_names_checkpoints_long_gone_does_not_stop_a_fresh_start(tmp_path):
    text = 'model_checkpoint_path: "/elsewhere/model.ckpt-5"\n'
    (tmp_path / "checkpoint").write_text(text)
    best = Best(str(tmp_path), "accuracy", "max")
    foretold = healing.preview(str(tmp_path), choose(tmp_path), 5, best, healing.look_at_best(str(tmp_path), best))
    start, lines = heal(tmp_path)
    assert start.case == startup.FRESH
    assert lines == foretold == [f"checkpoint names no checkpoint that is there: moved to {tmp_path}/damaged"]
    assert not (tmp_path / "checkpoint").exists()
    assert (tmp_path / "damaged" / "checkpoint").read_text() == text  # it may be the only note of where the others are


def test_healthy_best_is_left_as_it_is(run):
    heal_best(run)
    before = state_of(run)
    best, lines = heal_best(run)
    assert (best.step, lines) == (9, []) and state_of(run) == before


def test_metrics_file_that_tells_of_another_one_is_written_again(run):
    """A kill between the best checkpoint and its metrics file leaves this, and so does a file from elsewhere."""
    Best(str(run), "accuracy", "max").record_best(metrics_of(3, 0.99))
    best, lines = heal_best(run)
    assert best.best == metrics_of(9) and len(lines) == 1


def test_damaged_best_is_made_again_from_the_last_of_the_same_step(run):
    damage(run / "best_weights" / "model.ckpt-9")
    best, lines = heal_best(run)
    assert best.best == metrics_of(9) and len(lines) == 2
    assert "damaged/best_weights" in lines[0] and "made again from model.ckpt-9" in lines[1]
    assert model_dir.newest_valid(str(run / "best_weights")) == str(run / "best_weights" / "model.ckpt-9")
    assert model_dir.steps_on_disk(str(run / "damaged" / "best_weights")) == [9]


def test_removed_best_is_made_again_from_the_last_of_the_same_step(run):
    shutil.rmtree(run / "best_weights")
    best, lines = heal_best(run)
    assert best.best == metrics_of(9) and len(lines) == 1
    assert model_dir.read_manifest(str(run / "best_weights" / "model.ckpt-9"))["metrics"] == metrics_of(9)


@pytest.mark.parametrize("harm", ["damaged", "removed"])
def test_best_that_is_nowhere_else_is_lost_and_its_metrics_claim_nothing_any_more(run, harm):
    for path in run.glob("model.ckpt-9.*"):
        path.unlink()
    if harm == "damaged":
        damage(run / "best_weights" / "model.ckpt-9")
    else:
        shutil.rmtree(run / "best_weights")
    best, lines = heal_best(run)
    assert best.best is None and best.beaten_by(metrics_of(12, 0.1))
    assert "the best weights, accuracy 0.5000 of step 9, are lost" in lines[-1]
    assert not (run / model_dir.BEST_METRICS_FILE).exists()
    assert (run / "damaged" / model_dir.BEST_METRICS_FILE).exists()


def test_best_replaced_by_a_damaged_one_falls_back_to_the_one_before(run, checkpoint):
    """A kill before retention leaves two; the newer one's metrics do not count without its weights."""
    damage(checkpoint(run / "best_weights", 11, metrics=metrics_of(11, 0.9)))
    Best(str(run), "accuracy", "max").record_best(metrics_of(11, 0.9))
    best, lines = heal_best(run)
    assert best.best == metrics_of(9) and len(lines) == 2


def test_unfinished_save_of_a_best_is_removed(run, checkpoint):
    checkpoint(run / "best_weights", 10, committed=False)
    best = Best(str(run), "accuracy", "max")
    found = healing.look_at_best(str(run), best)
    assert found.whole
    assert healing.heal_best(str(run), best, found) == ["removed best_weights/model.ckpt-10, a save that was not finished"]
    assert model_dir.steps_on_disk(str(run / "best_weights")) == [9]


def test_run_whose_evaluations_were_never_finite_has_lost_nothing(tmp_path, checkpoint):
    checkpoint(tmp_path, 10)
    Best(str(tmp_path), "accuracy", "max").record_last(metrics_of(10, None))
    best, lines = heal_best(tmp_path)
    assert best.best is None and lines == []
