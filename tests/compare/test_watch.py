"""What the kernel tells of a directory."""

import os

from compare.watch import Change, Watch


def test_changes_come_in_order_with_their_kind_and_place(tmp_path):
    watch = Watch(str(tmp_path / "run"), ("best",))
    with open(tmp_path / "run" / "a.tmp", "w") as file:
        file.write("x")
    os.replace(tmp_path / "run" / "a.tmp", tmp_path / "run" / "best" / "a")
    os.remove(tmp_path / "run" / "best" / "a")
    assert [change for change in watch.changes(0.0)] == [
        Change("created", "a.tmp"), Change("modified", "a.tmp"), Change("closed", "a.tmp"), Change("renamed", "best/a"),
        Change("deleted", "best/a"),
    ]
    assert list(watch.changes(0.0)) == []
    watch.close()
