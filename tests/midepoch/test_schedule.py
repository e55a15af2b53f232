"""The grid: what falls due at which step, whatever the process started from."""

import pytest

from midepoch.config import TrainConfig
from midepoch.errors import UserError
from midepoch.schedule import Limit, Schedule, its_time


@pytest.mark.parametrize(
    "before, now, every, expected",
    [
        (0, 1, 1, True),
        (0, 1, 2, False),
        (1, 2, 2, True),
        (2, 3, 2, False),
        (4, 5, 5, True),
        (3, 9, 5, True),
        (5, 9, 5, False),
        (3, 23, 5, True),  # several at once
        (0, 0, 5, False),
        (5, 5, 5, False),
        (7, 8, None, False),
    ],
)
def test_its_time(before, now, every, expected):
    assert its_time(before, now, every) is expected


def schedule(epoch_examples=23, **fields):
    fields.setdefault("num_epochs", None if "train_steps" in fields else 3)
    other_interval = {"save_checkpoints_epochs", "save_checkpoints_secs"} & set(fields)
    fields.setdefault("save_checkpoints_steps", None if other_interval else 1000)
    return Schedule(TrainConfig(model_dir="unused", **fields).resolved(), epoch_examples)


def walk(some_schedule, step, examples_seen, batch_size=5, epoch_examples=23):
    """Returns the steps saved, evaluated and logged from a place on, up to the target."""
    saved, evaluated, logged = [], [], []
    while not some_schedule.at_target(step, examples_seen):
        before, step = examples_seen, step + 1
        examples_seen = min(before + batch_size, (before // epoch_examples + 1) * epoch_examples)
        for steps, due in (
            (saved, some_schedule.save(step, before, examples_seen, 0.0)),
            (evaluated, some_schedule.evaluate(step, before, examples_seen)),
            (logged, some_schedule.log(step)),
        ):
            if due:
                steps.append(step)
    return saved, evaluated, logged


@pytest.mark.parametrize(
    "fields, saved, evaluated, logged",
    [
        (dict(log_every_steps=6), [5, 10, 15], [5, 10, 15], [6, 12]),
        (dict(save_checkpoints_steps=4), [4, 5, 8, 10, 12, 15], [5, 10, 15], []),
        (dict(eval_every_steps=4), [4, 8, 12, 15], [4, 8, 12, 15], []),
        (dict(eval_every_epochs=2), [10, 15], [10, 15], []),
        (dict(save_checkpoints_epochs=1, eval_every_epochs=3), [5, 10, 15], [15], []),
        (dict(train_steps=7, eval_every_steps=5), [5, 7], [5, 7], []),
        (dict(save_checkpoints_steps=1, eval_every_steps=7), list(range(1, 16)), [7, 14, 15], []),
    ],
)
def test_grid_is_independent_of_where_a_process_starts(fields, saved, evaluated, logged):
    fields = {"log_every_steps": 1000, **fields}
    some_schedule = schedule(**fields)
    target = 7 if "train_steps" in fields else 15
    for start in range(target + 1):
        epoch, in_epoch = divmod(start, 5)
        got = walk(schedule(**fields), start, 23 * epoch + 5 * in_epoch)
        assert got == tuple([step for step in steps if step > start] for steps in (saved, evaluated, logged)), start
    assert some_schedule.at_target(target, 0) == ("train_steps" in fields)


def test_seconds_save_when_they_have_passed_and_at_evaluations():
    some_schedule = schedule(save_checkpoints_secs=10)
    assert [some_schedule.save(3, 10, 15, secs) for secs in (0.0, 9.9, 10.0, 99.0)] == [False, False, True, True]
    assert some_schedule.save(5, 20, 23, 0.0)


def test_raised_target_continues_instead_of_starting_anew():
    assert schedule(num_epochs=2).at_target(10, 46)
    assert not schedule(num_epochs=3).at_target(10, 46)
    assert walk(schedule(num_epochs=3), 10, 46)[1] == [15]


@pytest.mark.parametrize(
    "fields, step, examples_seen, expected",
    [
        (dict(log_every_steps=6), 0, 0, Limit(6, 23)),
        (dict(log_every_steps=6), 6, 28, Limit(12, 46)),
        (dict(log_every_steps=6), 5, 23, Limit(6, 46)),
        (dict(save_checkpoints_steps=4), 4, 20, Limit(8, 23)),
        (dict(eval_every_steps=3), 0, 0, Limit(3, 69)),
        (dict(train_steps=7), 5, 23, Limit(7, 46)),
    ],
)
def test_next_limit_is_the_nearest_point_that_may_be_due(fields, step, examples_seen, expected):
    assert schedule(**fields).next_limit(step, examples_seen) == expected


def test_nothing_is_due_before_the_next_limit():
    fields = dict(save_checkpoints_steps=4, eval_every_steps=7, log_every_steps=6)
    some_schedule = schedule(**fields)
    due = sorted(set().union(*walk(some_schedule, 0, 0)))
    for step in range(15):
        epoch, in_epoch = divmod(step, 5)
        limit = some_schedule.next_limit(step, 23 * epoch + 5 * in_epoch)
        epochs_end = 5 * (limit.examples_seen // 23)
        assert min(limit.step, epochs_end) <= next(later for later in due if later > step)


@pytest.mark.parametrize(
    "examples_seen, batch_size, expected",
    [(0, 5, 15), (5, 5, 14), (20, 5, 11), (23, 5, 10), (69, 5, 0), (80, 5, 0), (3, 7, 11), (0, 100, 3)],
)
def test_steps_left(examples_seen, batch_size, expected):
    assert schedule().steps_left(examples_seen, batch_size) == expected


@pytest.mark.parametrize(
    "fields",
    [dict(num_epochs=3), dict(train_steps=5), dict(train_steps=5, eval_every_steps=2, save_checkpoints_epochs=1)],
)
def test_counting_in_epochs_without_their_length_is_refused(fields):
    with pytest.raises(UserError, match="counts epochs, but task digits does not say how long one is"):
        schedule(epoch_examples=None, **fields)


def test_counting_in_steps_needs_no_epochs():
    some_schedule = schedule(epoch_examples=None, train_steps=5, eval_every_steps=2)
    assert walk(some_schedule, 0, 0)[1] == [2, 4, 5]


def test_steps_left_where_batches_lie_across_epochs():
    config = TrainConfig(model_dir="run", num_epochs=10, batch_size=64).resolved()
    across = Schedule(config, 400, epochs_end_with_batch=False)
    assert [across.steps_left(seen, 64) for seen in (0, 64, 3999, 4000, 4032)] == [63, 62, 1, 0, 0]
    assert Schedule(config, 400).steps_left(0, 64) == 70
