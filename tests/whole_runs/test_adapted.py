"""What a resumed run adapts to changes what it has to and nothing else, and both programs go on with the same bits."""

import numpy as np

from compare.weights import first_difference, read_variables
from midepoch import model_dir
from tests.whole_runs import runs

FROZEN = ("hidden/", "norm/")


def checkpoint(directory, step):
    return model_dir.prefix_of(str(directory), step)


def changed(directory, first, last):
    """Returns the names of the model's variables that differ between two checkpoints of a run."""
    before, after = (read_variables(checkpoint(directory, step)) for step in (first, last))
    return {name for name in before if not np.array_equal(before[name], after[name])}


def test_other_optimizer_and_frozen_variables(tmp_path, capsys):
    """One run of each program: frozen from the start, then another optimizer and all trained, then back."""
    data = runs.write_data(str(tmp_path))
    flags = dict(num_epochs=3, save_checkpoints_steps=1, keep_checkpoint_max=0, eval_every_epochs=3, log_every_steps=1, **data)
    parts = [
        (3, dict(optimizer="adam", freeze="^hidden/|norm|/body/hidden/")),
        (7, dict(optimizer="momentum")),
        (9, dict(optimizer="adam", freeze="hidden|norm")),
    ]
    for program in runs.PROGRAMS:
        run = tmp_path / program
        for step, changes in parts:
            result = runs.train(program, run, runs.SmallWithBatchNorm(), stop_after=step, **{**flags, **changes})
            assert (result.step, model_dir.read_manifest(checkpoint(run, step))["step"]) == (step, step)
        said = capsys.readouterr().out
        assert "--optimizer was adam, is momentum: weights, step and position are kept" in said
        assert "--freeze was hidden|norm, is" not in said and "is hidden|norm\n" in said

        names = set(read_variables(checkpoint(run, 0)))
        frozen = {name for name in names if name.startswith(FROZEN)}
        assert len(frozen) == 6  # BatchNorm's moving statistics too
        assert changed(run, 0, 3) == names - frozen
        assert changed(run, 3, 7) == names
        assert changed(run, 7, 9) == names - frozen
    if runs.HAS_ESTIMATOR:
        for step in (3, 4, 7, 9):  # 4: the first step of the other optimizer
            both = [read_variables(checkpoint(tmp_path / program, step), with_slots=True) for program in runs.PROGRAMS]
            assert first_difference(*both) is None
