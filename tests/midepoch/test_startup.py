"""The four cases of starting up, in their order."""

import os

import pytest
import tensorflow as tf

from midepoch import model_dir, startup
from midepoch.contract import pipeline_facts
from midepoch.errors import UserError

ORDER = {"shuffle": "window", "seed": 1, "data": [["a", 100, 23]]}
TODAY = pipeline_facts(ORDER, 5, 0, 1)


def choose(directory, restore_from=None, facts=TODAY, seekable=True, first_step=0):
    return startup.choose_start(str(directory), restore_from and str(restore_from), facts, seekable, first_step)


@pytest.fixture
def checkpoint(fake_checkpoint):
    """`checkpoint(directory, step, start=0, **pipeline)`: a committed checkpoint of batches of 5 with today's pipeline."""

    def make(directory, step, start=0, committed=True, evaluate=False, **pipeline):
        facts = {**TODAY, "start": start, **pipeline}
        facts = dict(examples_seen=5 * step, evaluate=evaluate, pipeline=facts)
        return fake_checkpoint(directory, step, committed=committed, **facts)

    return make


def damage(prefix):
    with open(prefix + ".index", "ab") as file:
        file.write(b"x")


def test_case_1_resumes_from_the_newest(tmp_path, checkpoint):
    for step in (0, 9, 10):
        checkpoint(tmp_path, step, evaluate=step == 10)
    start = choose(tmp_path)
    assert (start.case, start.step, start.examples_seen, start.evaluate) == (startup.RESUME, 10, 50, True)
    assert start.prefix == str(tmp_path / "model.ckpt-10")
    assert start.restore_iterator and start.pipeline_start == 0
    assert start.notes == ()


def test_case_1_comes_before_restore_from(tmp_path, checkpoint):
    other = tmp_path / "other"
    other.mkdir()
    checkpoint(other, 99)
    checkpoint(tmp_path, 3)
    assert choose(tmp_path, restore_from=other).step == 3


def test_case_1_takes_an_older_one_if_the_newest_is_damaged_and_says_so(tmp_path, checkpoint):
    checkpoint(tmp_path, 9)
    damage(checkpoint(tmp_path, 10))
    checkpoint(tmp_path, 11, committed=False)
    start = choose(tmp_path)
    assert start.step == 9
    assert [prefix for prefix, _ in start.damaged] == [str(tmp_path / "model.ckpt-10")]
    assert "model.ckpt-10.index has" in start.damaged[0][1]


def test_case_1_takes_the_best_one_if_it_is_the_newest_that_is_whole(tmp_path, checkpoint):
    (tmp_path / "best_weights").mkdir()
    for step in (9, 10):
        best = checkpoint(tmp_path / "best_weights", step)
    checkpoint(tmp_path, 9)
    assert choose(tmp_path).prefix == best
    last = checkpoint(tmp_path, 10)
    assert choose(tmp_path).prefix == last
    damage(last)
    start = choose(tmp_path)
    assert start.prefix == best and [prefix for prefix, _ in start.damaged] == [last]


def test_case_1_does_not_take_one_that_lost_its_manifest(tmp_path, checkpoint):
    checkpoint(tmp_path, 9)
    os.remove(model_dir.manifest_path(checkpoint(tmp_path, 10)))
    start = choose(tmp_path)
    assert start.step == 9 and start.damaged == ((str(tmp_path / "model.ckpt-10"), "it has no manifest"),)


def test_case_2_refuses_if_none_is_valid_even_with_restore_from(tmp_path, checkpoint):
    other = tmp_path / "other"
    other.mkdir()
    checkpoint(other, 99)
    for step in (9, 10):
        damage(checkpoint(tmp_path, step))
    before = sorted(os.listdir(tmp_path))
    for restore_from in (None, other):
        with pytest.raises(UserError, match="holds checkpoint files, but none is whole .*model.ckpt-10.*model.ckpt-9"):
            choose(tmp_path, restore_from=restore_from)
    assert sorted(os.listdir(tmp_path)) == before


def test_case_2_refuses_checkpoints_without_manifest_of_another_step_than_the_first(tmp_path, checkpoint):
    checkpoint(tmp_path, 10, committed=False)
    with pytest.raises(UserError, match="none is whole"):
        choose(tmp_path)


def test_case_2_refuses_if_the_run_is_unknown(tmp_path, checkpoint):
    checkpoint(tmp_path, 0, committed=False)
    with pytest.raises(UserError, match="none is whole"):
        choose(tmp_path, first_step=None)


def test_case_2_refuses_a_damaged_first_checkpoint(tmp_path, checkpoint):
    damage(checkpoint(tmp_path, 0))
    with pytest.raises(UserError, match="none is whole"):
        choose(tmp_path)


def test_case_2_refuses_a_first_checkpoint_that_lost_its_manifest(tmp_path, checkpoint):
    checkpoint(tmp_path, 0)
    (tmp_path / "run.json").write_text("{}")
    os.remove(tmp_path / "model.ckpt-0.manifest.json")
    with pytest.raises(UserError, match="none is whole .model.ckpt-0: it has no manifest"):
        choose(tmp_path)


@pytest.mark.parametrize("name", ["ckpt-5", "model.ckpt-5"])
def test_case_2_refuses_a_plain_tensorflow_directory_and_leaves_it_alone(name, tmp_path):
    tf.train.Checkpoint(step=tf.Variable(5)).write(str(tmp_path / name))
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n')
    with pytest.raises(UserError, match="checkpoints that this program has not written"):
        choose(tmp_path)
    assert len(os.listdir(tmp_path)) == 3


def test_case_3_starts_from_elsewhere(tmp_path, checkpoint):
    other = tmp_path / "other"
    other.mkdir()
    prefix = checkpoint(other, 9)
    for source in (other, prefix, prefix + ".index"):
        start = choose(tmp_path / "run", restore_from=source)
        assert (start.case, start.prefix, start.step, start.examples_seen) == (startup.RESTORE_FROM, prefix, 9, 45)
        assert start.restore_iterator


def test_case_3_with_other_data_keeps_the_step_but_not_the_position(tmp_path, checkpoint):
    other = tmp_path / "other"
    other.mkdir()
    checkpoint(other, 9)
    start = choose(tmp_path / "run", restore_from=other, facts={**TODAY, "order": {**ORDER, "seed": 2}})
    assert (start.step, start.examples_seen, start.pipeline_start, start.restore_iterator) == (9, 0, 0, False)
    assert "starting at the first example" in start.notes[-1]


def test_case_3_after_a_killed_first_save_of_such_a_start(tmp_path, checkpoint):
    other = tmp_path / "other"
    other.mkdir()
    checkpoint(other, 9)
    run = tmp_path / "run"
    run.mkdir()
    checkpoint(run, 9, committed=False)
    assert choose(run, restore_from=other, first_step=9).case == startup.RESTORE_FROM


def test_case_4_fresh_start(tmp_path):
    for directory in (tmp_path, tmp_path / "none"):
        assert choose(directory) == startup.Start(startup.FRESH)


def test_case_4_after_a_killed_first_save(tmp_path, checkpoint):
    checkpoint(tmp_path, 0, committed=False)
    start = choose(tmp_path)
    assert start == startup.Start(startup.FRESH)


@pytest.mark.parametrize("change", [dict(batch_size=7), dict(version=0), dict(tensorflow="1.0")])
def test_changed_pipeline_with_the_same_order_seeks(tmp_path, checkpoint, change):
    checkpoint(tmp_path, 10, start=15, **change)
    start = choose(tmp_path)
    assert (start.restore_iterator, start.pipeline_start, start.examples_seen) == (False, 50, 50)
    assert "seeking to example 50" in start.notes[-1]
    assert next(iter(change)) in start.notes[-1]


def test_state_saved_after_a_seek_is_restored_into_a_pipeline_with_that_start(tmp_path, checkpoint):
    checkpoint(tmp_path, 10, start=15)
    start = choose(tmp_path)
    assert (start.restore_iterator, start.pipeline_start, start.examples_seen) == (True, 15, 50)


def test_changed_pipeline_that_cannot_seek_is_refused(tmp_path, checkpoint):
    checkpoint(tmp_path, 10, tensorflow="1.0")
    with pytest.raises(UserError, match=r"another pipeline .tensorflow was 1.0, is .*., and this one cannot seek"):
        choose(tmp_path, seekable=False)


@pytest.mark.parametrize("what", ["empty", "nothing", "damaged", "uncommitted"])
def test_restore_from_without_a_checkpoint_is_refused(tmp_path, checkpoint, what):
    source = tmp_path / what
    if what != "nothing":
        source.mkdir()
    if what == "damaged":
        damage(checkpoint(source, 3))
    if what == "uncommitted":
        checkpoint(source, 3, committed=False)
    sources = [source] if what in ("empty", "nothing") else [source, source / "model.ckpt-3"]
    for one in sources:
        with pytest.raises(UserError) as caught:
            startup.find_checkpoint(str(one))
        assert f"--restore_from={one}" in str(caught.value) and "\n" not in str(caught.value)


def test_metrics_of_a_run_without_any_checkpoint_are_case_2(tmp_path):
    with pytest.raises(UserError, match="none of its checkpoints"):
        startup.choose_start(str(tmp_path), None, TODAY, True, 0, evaluated=True)
