"""What a comparison says of its runs while they go on."""

import types

from compare import observe
from compare.observe import Event, Observation
from compare.progress import Display

RUN = types.SimpleNamespace(name="lowlevel, killed")


def told(capsys, *events, exit_code=0, was_killed=False):
    display = Display([RUN], lambda: 57)
    for event in events:
        display.event(RUN, event)
    display.ended(RUN, Observation(0.0, 1.0, exit_code, was_killed, 0, 0.0, list(events), ["error: no more fingers"]))
    display.close()
    return [line.split(" | ")[1] for line in capsys.readouterr().out.splitlines()]


def step(number, kind=observe.STEP, **more):
    return Event(0.0, kind, number, **more)


def test_last_step_is_that_of_the_last_checkpoint_where_no_line_told_of_it(capsys):
    events = [step(0, observe.RESUMED), step(55), step(57, observe.SAVE_ENDED), step(40, observe.SAVE_ENDED, in_best=True)]
    assert told(capsys, *events) == ["starts", "finished at step 57"]


def test_killed_and_failed(capsys):
    assert told(capsys, step(50, observe.RESUMED), step(55), was_killed=True, exit_code=-9) == [
        "resumes at step 50",
        "killed after step 55 (SIGKILL)",
    ]
    assert told(capsys, exit_code=1) == ["ended with exit code 1: error: no more fingers"]
