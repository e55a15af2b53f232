"""The export folder: named at last, numbered upwards, swept after a kill between any two acts."""

import os

import pytest

from midepoch import exports


class Killed(BaseException):
    """Stands for a SIGKILL: nothing catches it, nothing is cleaned up."""


def export(directory, step, timestamp=None):
    """Does what the programs do, with a file in place of a SavedModel; returns the export's name."""
    temporary = exports.begin(str(directory))
    written = os.path.join(temporary, str(timestamp)) if timestamp else exports.timestamped(temporary)
    os.mkdir(written)
    with open(os.path.join(written, "saved_model.pb"), "w") as file:
        file.write(f"{step}")
    return exports.commit(written, {"run_step": step})


def test_export_has_its_files_and_says_at_which_step(tmp_path):
    assert exports.newest(str(tmp_path)) is None and exports.exported_at(str(tmp_path)) is None
    name = export(tmp_path, 7)
    assert exports.newest(str(tmp_path)) == name and exports.exported_at(str(tmp_path)) == 7
    assert (tmp_path / name / "saved_model.pb").read_text() == "7"
    assert os.listdir(tmp_path / "export") == [os.path.basename(name)]


def test_the_newest_has_the_largest_number_whatever_the_clock_says(tmp_path):
    names = [export(tmp_path, step, timestamp) for step, timestamp in ((1, 2000), (2, 2000), (3, 1500), (4, 9000))]
    assert names == ["export/2000", "export/2001", "export/2002", "export/9000"]
    assert exports.exported_at(str(tmp_path)) == 4


@pytest.mark.parametrize("act", ["mkdir", "write_json", "fsync", "rename", "rmdir"])
def test_killed_before_any_act_is_exported_once_at_the_next_start(tmp_path, monkeypatch, act):
    export(tmp_path, 7, 2000)

    def killed(*args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(exports.model_dir if act == "write_json" else os, act, killed)
        with pytest.raises(Killed):
            export(tmp_path, 9, 3000)
    whole = exports.exported_at(str(tmp_path)) == 9
    assert whole == (act == "rmdir")  # nothing but the renaming makes it an export
    exports.sweep(str(tmp_path))
    if not whole:
        export(tmp_path, 9, 3000)
    assert sorted(os.listdir(tmp_path / "export")) == ["2000", "3000"]
    assert exports.exported_at(str(tmp_path)) == 9
    assert exports.sweep(str(tmp_path)) == []


def test_sweep_touches_nothing_else(tmp_path):
    name = export(tmp_path, 7)
    (tmp_path / "export" / "mine").mkdir()
    temporary = os.path.basename(exports.begin(str(tmp_path)))
    os.mkdir(os.path.join(tmp_path, "export", temporary, "1000"))
    (tmp_path / "export" / "temp-1").mkdir()
    assert exports.sweep(str(tmp_path)) == [
        "removed export/temp-1, the empty folder of an export",
        f"removed export/{temporary}, an export that was not finished",
    ]
    assert sorted(os.listdir(tmp_path / "export")) == sorted([os.path.basename(name), "mine"])
    assert exports.newest(str(tmp_path)) == name


def test_export_without_its_note_counts_as_none(tmp_path):
    name = export(tmp_path, 7)
    (tmp_path / name / exports.NOTE).write_text("{")
    assert exports.exported_at(str(tmp_path)) is None
