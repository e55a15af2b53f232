import os

from compare.event_files import read_scalars
from midepoch.summaries import EventWriter


def write(directory, first, points):
    events = EventWriter(str(directory), first)
    for step, values in points:
        events.scalars(step, values)
    events.close()


def test_each_step_is_shown_once_and_every_value_is_remembered(tmp_path):
    write(tmp_path, 1, [(1, {"loss": 4.0, "save_secs": 0.5}), (2, {"loss": 3.0}), (3, {"loss": 2.0})])
    write(tmp_path, 3, [(3, {"loss": 2.5, "save_secs": 1.5})])
    scalars = read_scalars(str(tmp_path))
    assert scalars.shown["loss"] == {1: 4.0, 2: 3.0, 3: 2.5}
    assert scalars.written == {"loss": [4.0, 3.0, 2.0, 2.5], "save_secs": [0.5, 1.5]}
    assert [start.step for start in scalars.starts] == [1, 3]
    assert scalars.cut == []


def test_file_that_a_kill_has_cut_is_read_as_far_as_it_goes(tmp_path):
    write(tmp_path, 1, [(1, {"loss": 4.0}), (2, {"loss": 3.0})])
    [name] = os.listdir(tmp_path)
    os.truncate(tmp_path / name, os.path.getsize(tmp_path / name) - 3)
    scalars = read_scalars(str(tmp_path))
    assert scalars.shown == {"loss": {1: 4.0}}
    assert scalars.cut == [name]


def test_directory_without_event_files(tmp_path):
    assert read_scalars(str(tmp_path)) == ({}, {}, [], [])
