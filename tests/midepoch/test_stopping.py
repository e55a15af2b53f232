"""Signals set a flag; the time limit is met from what was measured. A clock that the test moves."""

import os
import signal

import pytest

from midepoch.errors import UserError
from midepoch.stopping import EVALUATION, SAVE, STEP, StoppedBeforeTraining, Stopping, check_max_run_secs, secs_left


class Clock:
    def __init__(self):
        self.secs = 100.0

    def __call__(self):
        return self.secs


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stopping(clock):
    return Stopping(clock)


@pytest.mark.parametrize("number", Stopping.SIGNALS)
def test_signal_is_heard_and_stays_heard(stopping, number, capsys):
    with stopping:
        assert not stopping.requested(6)
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert stopping.requested(7) and stopping.requested(8)
    assert stopping.reason == number.name
    assert capsys.readouterr().out == f"{number.name}: step 7 is finished, saving\n"


def test_handlers_are_put_back_on_the_last_exit(stopping):
    before = signal.getsignal(signal.SIGTERM)
    with stopping:
        with stopping:
            pass
        assert signal.getsignal(signal.SIGTERM) == stopping._handle
    assert signal.getsignal(signal.SIGTERM) == before


def test_signal_in_start_up(stopping):
    with stopping:
        stopping.check()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(StoppedBeforeTraining, match="SIGINT"):
            stopping.check()


def test_limit_leaves_time_for_the_longest_step_and_save_and_the_exit(stopping, clock, capsys):
    clock.secs += 7  # starting up
    stopping.set_limit("60")
    assert stopping.secs_left == 53
    stopping.took(STEP, 0.5)
    stopping.took(STEP, 2.0)
    stopping.took(STEP, 1.0)
    stopping.took(SAVE, 4.0)
    needed = 1.5 * (2 + 4) + 3
    clock.secs = 160 - needed
    assert not stopping.requested(30)
    clock.secs += 0.1
    assert stopping.requested(31) and stopping.out_of_time
    assert capsys.readouterr().out == "--max_run_secs=60: step 31 is finished, saving\n"


def test_a_slow_save_is_forgotten_after_a_while_and_an_earlier_process_when_this_one_knows(stopping):
    stopping.expect({SAVE: 9.0, EVALUATION: 7.0})
    assert stopping.longest_secs() == {SAVE: 9.0, EVALUATION: 7.0}
    stopping.took(SAVE, 5.0)
    assert stopping.longest_secs() == {SAVE: 5.0, EVALUATION: 7.0}
    for _ in range(20):
        stopping.took(SAVE, 1.0)
    assert stopping.longest_secs()[SAVE] == 1.0


def test_evaluation_that_does_not_fit_is_left_and_the_run_stops(stopping, capsys):
    stopping.set_limit("60")
    stopping.took(EVALUATION, 50.0)
    assert not stopping.now()
    assert stopping.leaves("the evaluation of step 24", EVALUATION, SAVE)
    assert stopping.requested(24)
    assert capsys.readouterr().out == "--max_run_secs=60: the evaluation of step 24 is left to the next start\n"


def test_limit_that_starting_up_has_used_up(stopping, clock):
    stopping.set_limit("5")
    clock.secs += 4
    with pytest.raises(UserError, match="--max_run_secs=5 is too short to get anywhere: 1 s are left"):
        stopping.check()


@pytest.mark.parametrize("text", ["0", "-3", "1h", "inf", "nan", ""])
def test_no_number_of_seconds(text):
    with pytest.raises(UserError, match=f"--max_run_secs={text} is neither"):
        check_max_run_secs(text)


def test_auto_is_the_end_of_the_slurm_job():
    check_max_run_secs("auto")
    assert secs_left("auto", 10.0, {"SLURM_JOB_END_TIME": "1796012345"}, 1796012000.0) == 345
    assert secs_left("90", 10.0, {}, 1796012000.0) == 80


@pytest.mark.parametrize(
    "environment, line",
    [
        ({}, "SLURM_JOB_END_TIME, which is not set"),
        ({"SLURM_JOB_END_TIME": "soon"}, "SLURM_JOB_END_TIME='soon' is no time"),
        ({"SLURM_JOB_END_TIME": "1796011999"}, "SLURM_JOB_END_TIME=1796011999 has passed"),
    ],
)
def test_auto_without_a_usable_end(environment, line):
    with pytest.raises(UserError, match=line):
        secs_left("auto", 10.0, environment, 1796012000.0)
