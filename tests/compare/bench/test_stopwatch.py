import time

import pytest

from compare.bench import speed
from compare.bench.stopwatch import training
from midepoch.errors import UserError


@pytest.fixture(autouse=True)
def no_warm_up(monkeypatch):
    for name in ("_WARM_UP_SECS", "_PAUSE_SECS", "_LEAD_IN_SECS"):
        monkeypatch.setattr(f"compare.bench.stopwatch.{name}", 0.01)


def sleeper(step_secs):
    def arm(task, stopwatch):
        task.append("started")
        step = 0
        while not stopwatch.requested(step):
            time.sleep(step_secs)
            step += 1
        task.append(step)
        assert stopwatch.requested(step)  # a loop may ask again once it has left

    return arm


def test_loop_trains_only_in_its_turns():
    log = []
    with training(sleeper(0.002), log) as stopwatch:
        rate = stopwatch.measure(0.1)
        time.sleep(0.3)
        assert 0 < rate <= 500
    assert 0 < log[-1] <= 60


def test_an_arm_that_fails_is_heard():
    def arm(task, stopwatch):
        raise UserError("no data")

    with pytest.raises(UserError, match="no data"), training(arm, None):
        pass


@pytest.mark.parametrize("bar, met", [(1.0, "yes"), (50.0, "no")])
def test_line_of_the_table(bar, met):
    comparison = speed.Comparison("sleep", [], ("fast", sleeper(0.002)), ("slow", sleeper(0.02)), bar)
    said = []
    line = speed.measure(comparison, 3, 0.1, said.append)
    assert line.startswith("| sleep: fast | slow |") and line.endswith(f"| {met} |")
    assert len(said) == 3
