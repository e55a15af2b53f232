"""TensorBoard's view of a run that was killed and resumed."""

import pytest
import tensorflow as tf

from midepoch.summaries import EventWriter, wait_for_a_name


def curve(directory, tag="loss"):
    """Returns the points that TensorBoard shows: {step: value}; fails where one step has two."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(directory))
    events.Reload()
    points = [(event.step, event.value) for event in events.Scalars(tag)]
    assert len({step for step, _ in points}) == len(points), points
    return dict(points)


def write(monkeypatch, directory, clock, next_step, steps, value):
    monkeypatch.setattr("midepoch.summaries.time.time", lambda: clock)
    writer = EventWriter(str(directory), next_step)
    for step in steps:
        writer.scalars(step, {"loss": value})
    writer.flush()  # and then killed: no close


def test_each_step_is_shown_once_after_a_kill_and_a_resume(tmp_path, monkeypatch):
    write(monkeypatch, tmp_path, 1000.0, 1, range(1, 31), 1.0)
    write(monkeypatch, tmp_path, 2000.0, 21, range(21, 41), 2.0)  # resumed at 20
    expected = {step: 1.0 if step <= 20 else 2.0 for step in range(1, 41)}
    assert curve(tmp_path) == expected


def test_killed_twice_before_the_same_checkpoint(tmp_path, monkeypatch):
    write(monkeypatch, tmp_path, 1000.0, 1, range(1, 31), 1.0)
    write(monkeypatch, tmp_path, 2000.0, 21, range(21, 26), 2.0)
    write(monkeypatch, tmp_path, 3000.0, 21, range(21, 31), 3.0)
    assert curve(tmp_path) == {step: 1.0 if step <= 20 else 3.0 for step in range(1, 31)}


def test_kill_in_the_middle_of_an_event(tmp_path, monkeypatch):
    write(monkeypatch, tmp_path, 1000.0, 1, range(1, 31), 1.0)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    write(monkeypatch, tmp_path, 2000.0, 21, range(21, 31), 2.0)
    assert curve(tmp_path) == {step: 1.0 if step <= 20 else 2.0 for step in range(1, 31)}


def test_control_without_a_session_start_steps_are_shown_twice(tmp_path, monkeypatch):
    class Silent:
        START = None

        def __new__(cls, status):
            return tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.STATUS_UNSPECIFIED)

    monkeypatch.setattr("midepoch.summaries._SessionLog", Silent)
    write(monkeypatch, tmp_path, 1000.0, 1, range(1, 31), 1.0)
    write(monkeypatch, tmp_path, 2000.0, 21, range(21, 31), 2.0)
    with pytest.raises(AssertionError):
        curve(tmp_path)


def test_file_is_one_that_tensorboard_looks_for(tmp_path):
    writer = EventWriter(str(tmp_path / "eval"), 6)
    writer.scalars(6, {"accuracy": 0.5, "loss": 1.0})
    writer.close()
    (path,) = (tmp_path / "eval").iterdir()
    assert "tfevents" in path.name
    events = [tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))]
    assert events[0].file_version == "brain.Event:2"
    assert (events[1].session_log.status, events[1].step) == (tf.compat.v1.SessionLog.START, 6)
    assert {value.tag: value.simple_value for value in events[2].summary.value} == {"accuracy": 0.5, "loss": 1.0}


def test_two_starts_within_a_second_do_not_write_over_each_others_file(tmp_path):
    """A FileWriter of the v1 API names its file by the whole second."""
    now, slept = [1700000000.9], []

    def sleep(secs):
        slept.append(secs)
        now[0] += secs

    (tmp_path / "events.out.tfevents.1699999999.host").touch()
    wait_for_a_name(str(tmp_path), lambda: now[0], sleep)
    assert not slept
    (tmp_path / "events.out.tfevents.1700000000.host").touch()
    wait_for_a_name(str(tmp_path), lambda: now[0], sleep)
    assert int(now[0]) == 1700000001 and 0.1 <= sum(slept) < 0.2
