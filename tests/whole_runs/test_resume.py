"""Stopping and going on in a new object: other orders, targets, batch sizes, models."""

import itertools
import json
import os

import keras
import pytest
import tensorflow as tf

from midepoch.errors import UserError
from tests.whole_runs import runs

EPOCHS = 3
STEPS = EPOCHS * runs.STEPS_PER_EPOCH


@pytest.mark.parametrize(
    "flags",
    [
        dict(shuffle="window", shuffle_window=8, shuffle_block=4),  # batches never lie across two windows
        dict(shuffle="window", shuffle_window=3, shuffle_block=1),  # a batch lies across two or three
        dict(shuffle="none"),
        dict(shuffle="buffer", shuffle_buffer_size=10),
    ],
    ids=lambda flags: "-".join(str(value) for value in flags.values()),
)
@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_other_orders_interval_of_five_and_stops_off_the_grid(program, flags, data, tmp_path):
    flags = dict(num_epochs=EPOCHS, save_checkpoints_steps=5, record_examples=True, **flags, **data)
    runs.train(program, tmp_path / "undisturbed", **flags)
    for step in (2, 10, 13):  # windows of 8 examples, two steps each, end at steps 2 and 10
        assert runs.train(program, tmp_path / "stopped", stop_after=step, **flags).step == step
    assert runs.train(program, tmp_path / "stopped", **flags).finished
    runs.assert_same_run(tmp_path / "stopped", tmp_path / "undisturbed", losses=False)
    runs.assert_exactly_once(tmp_path / "stopped", STEPS)


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_raised_target(program, data, tmp_path):
    flags = dict(save_checkpoints_steps=5, record_examples=True, **data)
    runs.train(program, tmp_path / "at_once", num_epochs=3, **flags)
    assert runs.train(program, tmp_path / "raised", num_epochs=2, **flags).step == 2 * runs.STEPS_PER_EPOCH
    runs.train(program, tmp_path / "raised", num_epochs=3, **flags)
    runs.assert_same_run(tmp_path / "raised", tmp_path / "at_once", losses=False)


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_a_run_at_its_target_says_so_and_changes_nothing(program, data, tmp_path, capsys):
    runs.train(program, tmp_path, num_epochs=1, **data)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    capsys.readouterr()
    result = runs.train(program, tmp_path, num_epochs=1, **data)
    assert result.finished and result.metrics["global_step"] == runs.STEPS_PER_EPOCH
    assert "already done: 6/6 steps" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_own_dataset_resumes_with_batches_across_epochs(program, tmp_path):
    flags = dict(num_epochs=2, save_checkpoints_steps=3, log_every_steps=1)
    task = runs.SmallOwnDataset()
    runs.train(program, tmp_path / "undisturbed", task, **flags)
    for step in (4, 7):
        runs.train(program, tmp_path / "stopped", task, stop_after=step, **flags)
    assert runs.train(program, tmp_path / "stopped", task, **flags).step == 12
    runs.assert_same_bits(runs.last_variables(tmp_path / "stopped"), runs.last_variables(tmp_path / "undisturbed"))
    assert runs.scalars(tmp_path / "stopped", "loss") == runs.scalars(tmp_path / "undisturbed", "loss")


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_another_batch_size_in_mid_epoch_seeks_and_loses_nothing(program, data, tmp_path, capsys):
    flags = dict(num_epochs=2, record_examples=True, **data)
    runs.train(program, tmp_path, stop_after=3, log_every_steps=3, **flags)
    result = runs.train(program, tmp_path, batch_size=5, **flags)
    assert "batch_size was 4, is 5" in capsys.readouterr().out
    ids = runs.example_ids(tmp_path, result.step)
    first_epoch = [len(batch) for batch in ids[:6]]
    assert first_epoch == [4, 4, 4, 5, 5, 1] and result.examples_seen == 2 * runs.NUM_EXAMPLES
    flat = list(itertools.chain(*ids))
    assert sorted(flat[: runs.NUM_EXAMPLES]) == sorted(flat[runs.NUM_EXAMPLES :]) == list(range(runs.NUM_EXAMPLES))
    runs.train(program, tmp_path, stop_after=0, batch_size=5, **{**flags, "num_epochs": 3})  # and again from there


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_another_model_is_refused_and_the_run_stays_as_it_was(program, data, tmp_path):
    runs.train(program, tmp_path, num_epochs=1, **data)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"}
    with pytest.raises(UserError, match="does not fit the model"):
        runs.train(program, tmp_path, runs.SmallWithBatchNorm(), num_epochs=2, **data)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"} == before


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_model_of_the_same_shapes_put_together_otherwise_is_one_line_or_no_change(program, data, tmp_path):
    class Nested(runs.Small):
        def model(self, seed):
            model = tf.keras.Sequential([tf.keras.Sequential([super().model(seed)], name="outer")])
            model.build([None, 5])
            return model

        def call(self, model, features, training, seed):
            return super().call(model.layers[0].layers[0], features, training, seed)

    flags = dict(optimizer="sgd", **data)  # so that no two variables have the same shape
    for name in ("undisturbed", "nested"):
        runs.train(program, tmp_path / name, num_epochs=1, **flags)
    try:
        runs.train(program, tmp_path / "nested", Nested(), num_epochs=2, **flags)
    except UserError as error:
        assert str(error).endswith("set the model back, or give another checkpoint or --model_dir") and "\n" not in str(error)
        assert "model.ckpt-6 does not fit the model of task small: layers have been renamed" in str(error)
        assert program == "lowlevel"
        runs.train(program, tmp_path / "nested", num_epochs=2, **flags)
    else:  # variables are found by their names, which do not tell of nesting, or by their order
        assert program == "estimator" or not keras.__version__.startswith("2.")
    runs.train(program, tmp_path / "undisturbed", num_epochs=2, **flags)
    weights = [{v.shape: v for v in runs.last_variables(tmp_path / name).values()} for name in ("undisturbed", "nested")]
    assert len(weights[0]) == 5  # with the counters
    runs.assert_same_bits(*weights)


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_file_order_is_read_in_other_blocks_from_the_same_place_on(program, data, tmp_path, capsys):
    flags = dict(num_epochs=2, shuffle="none", record_examples=True, **data)
    runs.train(program, tmp_path, stop_after=3, **flags)
    runs.train(program, tmp_path, shuffle_window=6, shuffle_block=2, **flags)
    assert "6 records in blocks of 2): seeking to example 12" in capsys.readouterr().out
    ids = itertools.chain(*runs.example_ids(tmp_path, 2 * runs.STEPS_PER_EPOCH))
    assert list(ids) == 2 * list(range(runs.NUM_EXAMPLES))


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_a_start_that_died_before_it_noted_a_step_does_not_count_the_kill_before_it_again(program, data, tmp_path):
    flags = dict(num_epochs=2, **data)
    runs.train(program, tmp_path, stop_after=3, **flags)
    killed = dict(pid=1, host="gone", since="x", start=1, step=5, running=True)  # two steps after its last checkpoint
    (tmp_path / ".lock").write_text(json.dumps(killed))
    runs.train(program, tmp_path, stop_after=3, **flags)
    assert runs.history(tmp_path) == {"starts": 2, "kills": 1, "steps_done_again": 2}
    (tmp_path / ".lock").write_text(json.dumps(killed))  # as the second one left it, had it been killed at once
    runs.train(program, tmp_path, stop_after=3, **flags)
    assert runs.history(tmp_path) == {"starts": 3, "kills": 2, "steps_done_again": 2}


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_a_finished_run_that_cannot_be_written_says_that_it_is_done(program, data, tmp_path, capsys, monkeypatch):
    runs.train(program, tmp_path, num_epochs=1, **data)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    capsys.readouterr()
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # as on a disk that is mounted read-only
    assert runs.train(program, tmp_path, num_epochs=1, **data).finished
    assert "already done: 6/6 steps" in capsys.readouterr().out
    with pytest.raises(UserError, match="cannot be written"):
        runs.train(program, tmp_path, num_epochs=2, **data)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_a_model_dir_that_is_moved_in_mid_run_ends_it(program, data, tmp_path):
    class MovesIt(runs.StopAfter):
        def requested(self, step):
            if step == 3:
                (tmp_path / "run").rename(tmp_path / "moved")
            return False

    flags = dict(num_epochs=2, save_checkpoints_steps=2, log_every_steps=1, **data)
    with pytest.raises(UserError, match="run has been moved or removed in mid-run"):
        runs.train(program, tmp_path / "run", stopping=MovesIt(0), **flags)
    assert not (tmp_path / "run").exists()
    assert runs.train(program, tmp_path / "moved", **flags).finished
    runs.train(program, tmp_path / "undisturbed", **flags)
    runs.assert_same_bits(runs.last_variables(tmp_path / "moved"), runs.last_variables(tmp_path / "undisturbed"))


@pytest.mark.parametrize("history", [{"starts": "x"}, [], {"starts": 1, "kills": None, "steps_done_again": 0}])
def test_history_that_makes_no_sense_is_counted_anew(history, data, tmp_path):
    runs.train("lowlevel", tmp_path, stop_after=2, num_epochs=1, **data)
    run_file = tmp_path / "run.json"
    run_file.write_text(json.dumps({**json.loads(run_file.read_text()), "history": history}))
    assert runs.train("lowlevel", tmp_path, num_epochs=1, **data).finished
    assert runs.history(tmp_path) == {"starts": 1, "kills": 0, "steps_done_again": 0}
