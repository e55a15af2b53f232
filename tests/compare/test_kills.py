import time

import pytest

from compare.kills import Grid, kill_steps, make_grid
from midepoch.config import TrainConfig
from midepoch.errors import UserError


def config(**fields):
    return TrainConfig(**{"model_dir": "run", "num_epochs": 12, "log_every_steps": 5, **fields}).resolved()


GRID = make_grid(config(save_checkpoints_steps=50, eval_every_epochs=3), total_steps=288, epoch_steps=24)


def test_grid_has_every_step_that_is_saved():
    assert GRID == Grid(288, 24, (0, 50, 72, 100, 144, 150, 200, 216, 250, 288), 5)
    by_epochs = make_grid(config(save_checkpoints_epochs=4, eval_every_steps=100), total_steps=288, epoch_steps=24)
    assert by_epochs.saves == (0, 96, 100, 192, 200, 288)
    assert make_grid(config(save_checkpoints_secs=60, eval_every_steps=200), 288, None).saves == (0, 200, 288)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kills", [1, 2, 3])
def test_kills_fall_in_mid_epoch_and_away_from_the_checkpoints(kills, seed):
    steps = kill_steps(GRID, kills, seed)
    assert len(steps) == kills and steps == sorted(set(steps))
    for step in steps:
        assert 4 <= step % 24 <= 20 and step % 5 == 0 and step > 50
        if kills < 3:  # in a smaller part of the run there may be none so far away
            assert min(abs(step - save) for save in GRID.saves) >= 13
            assert step - max(save for save in GRID.saves if save <= step) >= 15


def test_the_same_seed_chooses_the_same_steps_and_another_one_others():
    assert kill_steps(GRID, 2, 1) == kill_steps(GRID, 2, 1)
    assert len({tuple(kill_steps(GRID, 2, seed)) for seed in range(20)}) > 3


def test_no_kills():
    assert kill_steps(GRID, 0, 1) == []


def test_many_kills_are_spread_over_the_run_and_none_falls_on_a_checkpoint():
    steps = kill_steps(GRID, 40, 1)
    assert len(set(steps)) == 40 and not set(steps) & set(GRID.saves)


def test_run_without_epochs_and_with_saves_by_the_clock():
    [step] = kill_steps(Grid(30, None, (0, 30), 7), 1, 1)
    assert step in (14, 21)


def test_too_many_kills():
    with pytest.raises(UserError, match="--kills=300 is too many for a run of 288 steps"):
        kill_steps(GRID, 300, 1)
    with pytest.raises(UserError, match="--kills=1 is too many"):  # every step is saved
        kill_steps(make_grid(config(save_checkpoints_steps=1), 288, 24), 1, 1)


def test_a_long_run_is_planned_at_once():
    long = config(num_epochs=None, train_steps=200_000, save_checkpoints_steps=10)
    grid = make_grid(long, 200_000, None)
    began = time.process_time()
    assert len(kill_steps(grid, 3, 1)) == 3
    assert time.process_time() - began < 5  # was minutes: each step looked at every checkpoint


def test_a_run_that_goes_on_from_another_is_killed_beyond_its_beginning(tmp_path, fake_checkpoint):
    fake_checkpoint(tmp_path, 288)
    fields = dict(num_epochs=16, save_checkpoints_steps=50, eval_every_epochs=3)
    for source in (str(tmp_path), str(tmp_path / "model.ckpt-288")):
        grid = make_grid(config(restore_from=source, **fields), total_steps=384, epoch_steps=24)
        assert all(290 < step < 384 for seed in range(5) for step in kill_steps(grid, 2, seed))
    assert min(kill_steps(make_grid(config(**fields), 384, 24), 2, 1)) < 288
