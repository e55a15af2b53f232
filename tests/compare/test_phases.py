import pytest

from compare import phases
from compare.observe import Event, Observation


def process(began, ended, events, killed=False, code=0):
    return Observation(began, ended, -9 if killed else code, killed, 10**8, 5.0, events, [])


FIRST = process(
    100.0,
    112.0,
    [
        Event(103.0, "resumed", 0),
        Event(103.5, "save began", 0), Event(104.0, "save ended", 0),
        Event(105.0, "step", 10, 2.0),
        Event(106.0, "step", 20, 1.5),
        Event(107.0, "save began", 24), Event(107.5, "save ended", 24),
        Event(108.5, "save began", 24, in_best=True), Event(109.0, "save ended", 24, in_best=True),
        Event(109.5, "evaluated"),
        Event(110.5, "step", 30, 1.0),
        Event(111.0, "step", 27),  # the ledger, some steps late
        Event(111.5, "save began", 36),
    ],
    killed=True,
)  # fmt: skip
SECOND = process(
    113.0,
    120.0,
    [
        Event(115.0, "resumed", 24),
        Event(116.0, "step", 30, 1.0),
        Event(117.0, "step", 40, 0.5),
        Event(118.0, "export began"), Event(118.5, "export ended"),
    ],
)  # fmt: skip


def test_timeline_has_every_moment_in_one_phase():
    assert phases.timeline([FIRST, SECOND]) == [
        ("starting", 0.0, 3.5), ("saving", 3.5, 4.0), ("starting", 4.0, 5.0), ("training", 5.0, 7.0), ("saving", 7.0, 7.5),
        ("evaluating", 7.5, 8.5), ("saving", 8.5, 9.0), ("evaluating", 9.0, 9.5), ("training", 9.5, 11.5),
        ("saving", 11.5, 12.0), ("dead", 12.0, 13.0), ("starting", 13.0, 16.0), ("training", 16.0, 18.0),
        ("exporting", 18.0, 18.5), ("ending", 18.5, 20.0),
    ]  # fmt: skip
    assert phases.timeline([]) == []


def test_process_that_never_took_a_step_was_starting_all_the_time():
    assert phases.timeline([process(1.0, 3.0, [], code=1)]) == [("starting", 0.0, 2.0)]


def test_speed_is_that_of_training_alone():
    # 20 steps in 5.5 s, of which 2.5 s saved and evaluated; 10 steps in 1 s.
    assert phases.steps_per_sec([FIRST, SECOND]) == pytest.approx(30 / 4.0)
    assert phases.steps_per_sec([process(1.0, 3.0, [])]) is None


def test_starts_and_resumes():
    assert phases.start_secs(FIRST) == 5.0 and phases.start_secs(SECOND) == 3.0
    assert phases.resumed_at(FIRST) == 0 and phases.resumed_at(SECOND) == 24
    assert phases.start_secs(process(0.0, 1.0, [])) is None and phases.resumed_at(process(0.0, 1.0, [])) is None


def test_what_a_kill_has_cost():
    [kill] = phases.kills([FIRST, SECOND], [29])
    assert kill == {
        "planned_step": 29,
        "step": 30,
        "at_secs": 12.0,
        "resumed_at": 24,
        "steps_done_again": 6,
        "work_lost_secs": 4.5,  # since the checkpoint of step 24
        "to_first_step_secs": 4.0,
        "to_new_step_secs": 5.0,
    }


def test_kill_with_nothing_after_it():
    [kill] = phases.kills([FIRST], [29])
    assert kill["resumed_at"] is kill["steps_done_again"] is kill["to_new_step_secs"] is None


def test_second_kill_before_the_first_checkpoint_loses_all_that_the_process_did():
    restarted = process(113.0, 118.0, [Event(115.0, "resumed", 24), Event(117.0, "step", 30)], killed=True)
    third = process(118.0, 125.0, [Event(120.0, "resumed", 24), Event(121.0, "step", 40)])
    kill = phases.kills([FIRST, restarted, third], [29, 30])[1]
    assert (kill["step"], kill["steps_done_again"], kill["work_lost_secs"]) == (30, 6, 5.0)


def test_losses_of_each_process():
    assert phases.losses_told([FIRST, SECOND]) == [[(10, 2.0), (20, 1.5), (30, 1.0)], [(30, 1.0), (40, 0.5)]]
