"""--restore_from: the previous job's output is the next job's input, and is only read."""

import os

import pytest

from compare.weights import first_difference, read_variables
from midepoch import model_dir
from midepoch.errors import UserError
from tests.whole_runs import runs

FLAGS = dict(save_checkpoints_steps=2, record_examples=True)


def state_of(directory):
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in directory.rglob("*")}


@pytest.fixture(params=runs.PROGRAMS)
def previous(request, tmp_path):
    """(program, data flags, a finished run of two epochs)."""
    data = runs.write_data(str(tmp_path))
    runs.train(request.param, tmp_path / "previous", num_epochs=2, **FLAGS, **data)
    return request.param, data, tmp_path / "previous"


@pytest.mark.parametrize("what", ["", "best_weights", "model.ckpt-10", "model.ckpt-10.index"])
def test_goes_on_from_a_directory_its_best_weights_or_a_checkpoint(what, previous, tmp_path):
    program, data, source = previous
    before = state_of(source)
    runs.train(program, tmp_path / "undisturbed", num_epochs=3, **FLAGS, **data)
    runs.train(program, tmp_path / "next", num_epochs=3, restore_from=os.path.join(source, what), **FLAGS, **data)
    runs.assert_same_bits(runs.last_variables(tmp_path / "next"), runs.last_variables(tmp_path / "undisturbed"))
    assert state_of(source) == before
    first = model_dir.read_json(str(tmp_path / "next" / model_dir.RUN_FILE))["first_step"]
    assert first == {"": 12, "best_weights": first, "model.ckpt-10": 10, "model.ckpt-10.index": 10}[what]


def test_a_restored_run_that_is_stopped_goes_on_from_its_own_checkpoint(previous, tmp_path):
    program, data, source = previous
    flags = dict(num_epochs=4, restore_from=str(source), log_every_steps=1, **FLAGS, **data)
    runs.train(program, tmp_path / "undisturbed", **{**flags, "restore_from": None})
    for stop in (12, 15, 21):
        assert runs.train(program, tmp_path / "next", stop_after=stop, **flags).step == stop
    runs.train(program, tmp_path / "next", **flags)
    runs.assert_same_bits(runs.last_variables(tmp_path / "next"), runs.last_variables(tmp_path / "undisturbed"))


def test_with_another_seed_the_weights_are_kept_and_the_stream_starts_anew(previous, tmp_path, capsys):
    program, data, source = previous
    result = runs.train(program, tmp_path / "next", num_epochs=1, seed=99, restore_from=str(source), **FLAGS, **data)
    assert "starting at the first example" in capsys.readouterr().out
    assert (result.step, result.examples_seen) == (12 + runs.STEPS_PER_EPOCH, runs.NUM_EXAMPLES)
    saved = [runs.variables(model_dir.prefix_of(str(directory), 12)) for directory in (tmp_path / "next", source)]
    for variables in saved:
        variables.pop(next(key for key in variables if key.startswith("examples_seen")))
    runs.assert_same_bits(*saved)  # weights, slots and step


def test_another_model_is_refused_before_anything_is_written(previous, tmp_path):
    program, data, source = previous
    with pytest.raises(UserError, match="does not fit the model"):
        runs.train(program, tmp_path / "next", runs.SmallWithBatchNorm(), num_epochs=3, restore_from=str(source), **data)
    assert not (tmp_path / "next").exists()


def test_another_optimizer_takes_weights_step_and_position(previous, tmp_path, capsys):
    program, data, source = previous
    flags = dict(optimizer="momentum", restore_from=str(source), **FLAGS, **data)
    result = runs.train(program, tmp_path / "next", stop_after=13, num_epochs=3, log_every_steps=1, **flags)
    assert "--optimizer was adam, is momentum: weights, step and position are kept" in capsys.readouterr().out
    assert (result.step, result.examples_seen) == (13, 2 * runs.NUM_EXAMPLES + runs.BATCH_SIZE)
    weights = [read_variables(model_dir.prefix_of(str(directory), 12)) for directory in (source, tmp_path / "next")]
    assert first_difference(*weights) is None
