"""The files of a model_dir: the commit, what counts as whole, what is swept, set aside and mended, and the lock."""

import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys

import pytest
import tensorflow as tf

from midepoch import model_dir
from midepoch.errors import UserError


def files_in(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_checkpoint_counts_only_once_its_manifest_is_there(tmp_path, fake_checkpoint):
    prefix = fake_checkpoint(tmp_path, 5, committed=False)
    assert model_dir.problem_with(prefix) == "it has no manifest"
    assert model_dir.newest_valid(str(tmp_path)) is None
    model_dir.commit(prefix, {"step": 5})
    assert model_dir.problem_with(prefix) is None
    assert model_dir.newest_valid(str(tmp_path)) == prefix
    manifest = model_dir.read_manifest(prefix)
    assert manifest["step"] == 5
    assert sorted(manifest["files"]) == ["model.ckpt-5.data-00000-of-00001", "model.ckpt-5.index"]


def test_commit_of_step_1_leaves_step_10_alone(tmp_path, fake_checkpoint):
    fake_checkpoint(tmp_path, 10)
    manifest = model_dir.read_manifest(fake_checkpoint(tmp_path, 1))
    assert all(name.startswith("model.ckpt-1.") for name in manifest["files"])


@pytest.mark.parametrize(
    "harm, problem",
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "has 19 bytes instead of 20"),
        (lambda path: path.write_bytes(b""), "has 0 bytes instead of 20"),
        (lambda path: path.write_bytes(b"X" + path.read_bytes()[1:]), "has changed since it was written"),
        (lambda path: path.unlink(), "No such file"),
    ],
)
@pytest.mark.parametrize("name", ["model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"])
def test_damage_is_found_in_any_file(tmp_path, fake_checkpoint, name, harm, problem):
    prefix = fake_checkpoint(tmp_path, 5)
    older = fake_checkpoint(tmp_path, 4)
    harm(tmp_path / name)
    found = model_dir.problem_with(prefix)
    assert name in found and problem in found
    assert model_dir.newest_valid(str(tmp_path)) == older


def test_sizes_only_sees_a_size_and_the_index_but_no_flipped_bit(tmp_path, fake_checkpoint):
    prefix = fake_checkpoint(tmp_path, 5)
    index, data = (tmp_path / f"model.ckpt-5.{name}" for name in ("index", "data-00000-of-00001"))
    for path, found in ((index, True), (data, False)):
        whole = path.read_bytes()
        path.write_bytes(b"X" + whole[1:])
        assert (model_dir.problem_with(prefix, sizes_only=True) is not None) is found
        assert model_dir.problem_with(prefix) is not None
        path.write_bytes(whole)
    data.write_bytes(b"")
    assert "has 0 bytes instead of 20" in model_dir.problem_with(prefix, sizes_only=True)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": 3}', '{"files": {}}'])
def test_manifest_that_is_none(tmp_path, fake_checkpoint, text):
    prefix = fake_checkpoint(tmp_path, 5)
    (tmp_path / "model.ckpt-5.manifest.json").write_text(text)
    assert model_dir.problem_with(prefix) == "its manifest is damaged"


def test_steps_on_disk_newest_first_with_unfinished_and_half_deleted_ones(tmp_path, fake_checkpoint):
    assert model_dir.steps_on_disk(str(tmp_path / "none")) == []
    fake_checkpoint(tmp_path, 9)
    fake_checkpoint(tmp_path, 10, committed=False)
    (tmp_path / "model.ckpt-11_temp").mkdir()
    (tmp_path / "model.ckpt-12.manifest.json").write_text("{}")
    for other in ("model.ckpt-x.index", "checkpoint", "model.ckpt", "other.ckpt-13.index"):
        (tmp_path / other).write_text("")
    assert model_dir.steps_on_disk(str(tmp_path)) == [12, 11, 10, 9]


def test_set_aside_moves_all_files_and_never_over_others(tmp_path, fake_checkpoint):
    for content in ("first", "second", "third"):
        prefix = fake_checkpoint(tmp_path, 5, content=content)
        folder = model_dir.set_aside(prefix, str(tmp_path))
        assert model_dir.steps_on_disk(str(tmp_path)) == []
        with open(os.path.join(folder, "model.ckpt-5.index")) as file:
            assert content in file.read()
    assert len(files_in(tmp_path)) == 9


def test_set_aside_keeps_the_best_apart_from_the_last(tmp_path, fake_checkpoint):
    (tmp_path / "best_weights").mkdir()
    for directory in (tmp_path, tmp_path / "best_weights"):
        model_dir.set_aside(fake_checkpoint(directory, 5), str(tmp_path))
    assert model_dir.steps_on_disk(str(tmp_path / "damaged")) == [5]
    assert model_dir.steps_on_disk(str(tmp_path / "damaged" / "best_weights")) == [5]


def state_file(directory, *steps):
    lines = [f'model_checkpoint_path: "model.ckpt-{steps[-1]}"']
    lines += [f'all_model_checkpoint_paths: "model.ckpt-{step}"' for step in steps]
    (directory / "checkpoint").write_text("\n".join(lines) + "\n")


def test_remains_tell_what_a_kill_left_from_what_was_lost(tmp_path, fake_checkpoint):
    for step in (1, 2, 3, 4):
        fake_checkpoint(tmp_path, step)
    state_file(tmp_path, 1, 2, 3, 4)
    os.remove(tmp_path / "model.ckpt-1.data-00000-of-00001")
    os.remove(tmp_path / "model.ckpt-3.index")
    os.remove(tmp_path / "model.ckpt-2.manifest.json")
    fake_checkpoint(tmp_path, 5, committed=False)
    (tmp_path / "model.ckpt-6_temp").mkdir()
    # Of the two that lost a file, retention with 2 kept was to delete 1, not 3.
    assert model_dir.remains(str(tmp_path), 4, keep_max=2) == {
        6: None,
        5: None,
        3: "model.ckpt-3.index: No such file or directory",
        2: "it has no manifest",
        1: None,
    }
    assert model_dir.remains(str(tmp_path), 4, keep_max=0)[1] == "model.ckpt-1.data-00000-of-00001: No such file or directory"
    state_file(tmp_path, 2, 3, 4)  # and it deletes only what it has listed
    assert model_dir.remains(str(tmp_path), 4, keep_max=2)[1] == "model.ckpt-1.data-00000-of-00001: No such file or directory"


def test_remains_do_not_tell_of_whole_ones_nor_of_other_files(tmp_path, fake_checkpoint):
    for step in (1, 2):
        fake_checkpoint(tmp_path, step)
    (tmp_path / "mine.txt").write_text("")
    assert model_dir.remains(str(tmp_path), 2, keep_max=1) == {}


def test_remove_takes_all_of_one_checkpoint_and_nothing_else(tmp_path, fake_checkpoint):
    fake_checkpoint(tmp_path, 10)
    prefix = fake_checkpoint(tmp_path, 1, committed=False)
    (tmp_path / "model.ckpt-1_temp").mkdir()
    (tmp_path / "model.ckpt-1_temp" / "part").write_text("")
    model_dir.remove(prefix)
    assert model_dir.steps_on_disk(str(tmp_path)) == [10]
    assert len(files_in(tmp_path)) == 3


def test_a_checkpoint_that_lost_its_manifest_is_no_unfinished_save(tmp_path, fake_checkpoint):
    killed, lost = (fake_checkpoint(tmp_path, step, committed=step == 2) for step in (1, 2))
    assert model_dir.is_unfinished(killed) and not model_dir.is_unfinished(lost)
    os.remove(model_dir.manifest_path(lost))
    assert not model_dir.is_unfinished(lost)


def test_copy_is_a_whole_checkpoint_of_the_same_files(tmp_path, fake_checkpoint):
    prefix = fake_checkpoint(tmp_path, 5, metrics=None, evaluate=True)
    copy = model_dir.copy_checkpoint(prefix, str(tmp_path / "best_weights"), metrics={"loss": 1.0})
    assert model_dir.problem_with(copy) is None
    first, second = model_dir.read_manifest(prefix), model_dir.read_manifest(copy)
    assert second == {**first, "metrics": {"loss": 1.0}}


@pytest.mark.parametrize("own", ["model.ckpt-5.manifest.json", "model.ckpt-5.manifest.json.tmp", "run.json", None])
def test_plain_tensorflow_directory_is_told_by_what_it_has_not(own, tmp_path):
    for name in ("ckpt-5.index", "ckpt-5.data-00000-of-00001", "checkpoint"):
        (tmp_path / name).write_text("")
    if own:
        (tmp_path / own).write_text("")
    assert model_dir.is_foreign(str(tmp_path)) is (own is None)
    assert not model_dir.is_foreign(str(tmp_path / "none"))


def test_remove_orphaned_manifests(tmp_path, fake_checkpoint):
    for step in (1, 10):
        fake_checkpoint(tmp_path, step)
    for name in ("index", "data-00000-of-00001"):
        os.remove(tmp_path / f"model.ckpt-1.{name}")
    model_dir.remove_orphaned_manifests(str(tmp_path))
    assert model_dir.steps_on_disk(str(tmp_path)) == [10]
    assert len(files_in(tmp_path)) == 3


GOOD_STATE = 'model_checkpoint_path: "model.ckpt-10"\nall_model_checkpoint_paths: "model.ckpt-10"\n'


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        'model_checkpoint_path: "mod',
        "\xff",
        GOOD_STATE + 'all_model_checkpoint_timestamqs: 1.5\n',
        GOOD_STATE.replace('paths: "', 'paths: "/elsewhere/'),
        '{"a": 1}',
    ],
)
def test_state_file_that_is_missing_or_cut_is_mended(tmp_path, fake_checkpoint, text):
    prefixes = [fake_checkpoint(tmp_path, step) for step in (5, 10)]
    if text is not None:
        (tmp_path / "checkpoint").write_bytes(text.encode("latin-1"))
    model_dir.point_state_at(str(tmp_path), prefixes[1])
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefixes[1]
    assert list(state.all_model_checkpoint_paths) == prefixes
    assert len(state.all_model_checkpoint_timestamps) == 2


def test_stale_state_file_names_the_newest_and_keeps_what_retention_has_to_delete(tmp_path, fake_checkpoint):
    prefixes = [fake_checkpoint(tmp_path, step) for step in (5, 10, 15)]
    # 5 has been kept for good and is not in the list; 15 was committed, and the process died before it was listed.
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-10"\n'
        'all_model_checkpoint_paths: "model.ckpt-10"\n'
        "last_preserved_timestamp: 12.5\n"
    )
    model_dir.point_state_at(str(tmp_path), prefixes[2])
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == prefixes[2]
    assert list(state.all_model_checkpoint_paths) == prefixes[1:]
    assert state.last_preserved_timestamp == 12.5


def test_one_for_every_n_hours_of_those_that_are_too_many_is_kept_for_good(tmp_path, fake_checkpoint):
    prefixes = [fake_checkpoint(tmp_path, step) for step in range(6)]
    for hour, prefix in enumerate(prefixes):
        os.utime(f"{prefix}.manifest.json", (10**9 + 3600 * hour, 10**9 + 3600 * hour))
    model_dir.point_state_at(str(tmp_path), prefixes[5])  # a list of all
    state = (tmp_path / "checkpoint").read_text()
    preserved = f"last_preserved_timestamp: {10**9 - 3600.0}"
    (tmp_path / "checkpoint").write_text(re.sub("last_preserved_timestamp: .*", preserved, state))
    model_dir.point_state_at(str(tmp_path), prefixes[5], keep_max=1, keep_every_n_hours=2.0)
    assert model_dir.steps_on_disk(str(tmp_path)) == [5, 3, 1]  # 1: two hours after -1; 3: two hours after 1
    assert tf.train.get_checkpoint_state(str(tmp_path)).last_preserved_timestamp == 10**9 + 3 * 3600


def test_what_a_kill_leaves_of_a_state_file_is_removed_and_nothing_else(tmp_path):
    tensorflow_writes = "checkpoint.tmp" + "0123456789abcdef" * 2
    others = ["checkpoint", "checkpoint.tmp-mine", tensorflow_writes + ".old"]
    for name in (tensorflow_writes, "checkpoint.tmp", *others):
        (tmp_path / name).touch()
    model_dir.remove_unfinished_state(str(tmp_path))
    assert files_in(tmp_path) == sorted(others)


def test_state_file_that_is_right_is_left_alone(tmp_path, fake_checkpoint):
    prefix = fake_checkpoint(tmp_path, 5)
    model_dir.point_state_at(str(tmp_path), prefix)
    before = os.stat(tmp_path / "checkpoint")
    model_dir.point_state_at(str(tmp_path), prefix)
    assert os.stat(tmp_path / "checkpoint").st_ino == before.st_ino


def test_moved_directory_finds_its_own_checkpoints(tmp_path, fake_checkpoint):
    old = tmp_path / "old"
    old.mkdir()
    prefix = fake_checkpoint(old, 5)
    (old / "checkpoint").write_text(f'model_checkpoint_path: "{prefix}"\nall_model_checkpoint_paths: "{prefix}"\n')
    new = tmp_path / "new"
    shutil.move(old, new)
    moved = model_dir.newest_valid(str(new))
    model_dir.point_state_at(str(new), moved)
    assert tf.train.latest_checkpoint(str(new)) == moved == str(new / "model.ckpt-5")


def test_small_files_are_written_whole_and_leave_no_temporary_file(tmp_path):
    path = str(tmp_path / "some.json")
    model_dir.write_json(path, {"a": 1})
    model_dir.write_json(path, {"a": 2})
    assert model_dir.read_json(path) == {"a": 2}
    assert files_in(tmp_path) == ["some.json"]


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe"])
def test_unreadable_json_is_none(tmp_path, content):
    if content is not None:
        (tmp_path / "some.json").write_bytes(content)
    assert model_dir.read_json(str(tmp_path / "some.json")) is None


def test_place_may_be_a_new_or_an_existing_directory_and_none_is_made(tmp_path):
    model_dir.check_place(str(tmp_path))
    model_dir.check_place(str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "file/run"])
def test_file_in_the_place_of_a_model_dir(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="file is a file; give a directory"):
        model_dir.check_place(str(tmp_path / name))


def test_dangling_link_in_the_place_of_a_model_dir(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match="link"):
        model_dir.check_place(str(tmp_path / "link"))


def test_directory_without_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the super-user may write anywhere
    said = str(model_dir.refusal(str(tmp_path / "run")))
    assert said.endswith(f"{tmp_path} cannot be written; change its permissions or give another")


def test_directory_with_permission(tmp_path):
    assert model_dir.refusal(str(tmp_path / "run")) is None


@pytest.mark.parametrize("name", ["best_weights", "eval", "damaged"])
def test_file_in_the_place_of_a_folder_of_a_run(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match=f"{name} is a file, but a run has a directory of that name; move it away"):
        model_dir.check_place(str(tmp_path))


@pytest.mark.parametrize("change", ["moved", "removed", "replaced", None])
def test_lock_notices_when_its_directory_is_another_one(tmp_path, change):
    run = tmp_path / "run"
    lock = model_dir.Lock(str(run))
    lock.note(7)
    if change:
        run.rename(tmp_path / "elsewhere")
    if change == "removed":
        shutil.rmtree(tmp_path / "elsewhere")
    if change == "replaced":
        model_dir.Lock(str(run)).release()
    if change:
        with pytest.raises(UserError, match="run has been moved or removed in mid-run, so nothing is saved there any more"):
            lock.check_in_place()
    else:
        lock.check_in_place()
    lock.release()


def test_lock_in_a_place_where_nothing_can_be_made():
    with pytest.raises(UserError, match="--model_dir=/proc/run: cannot write there"):
        model_dir.Lock("/proc/run")


def test_lock_excludes_a_second_process_and_is_free_once_the_first_is_gone(tmp_path):
    code = (
        "import sys; from midepoch.model_dir import Lock; lock = Lock(sys.argv[1]); lock.note(7); "
        "print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match=rf"is in use by process {holder.pid} on \S+ since \d{{4}}-\d\d-\d\d "):
            model_dir.Lock(str(tmp_path))
    finally:
        holder.kill()
        holder.communicate()
    lock = model_dir.Lock(str(tmp_path))
    assert (lock.left_behind["step"], lock.left_behind["running"]) == (7, True)
    lock.note(9, running=False)
    lock.release()
    again = model_dir.Lock(str(tmp_path))
    assert (again.left_behind["step"], again.left_behind["running"]) == (9, False)
    again.release()


def test_lock_that_was_taken_and_not_used_tells_how_far_the_last_one_had_come(tmp_path):
    lock = model_dir.Lock(str(tmp_path))
    lock.note(7)
    lock.release()
    second = model_dir.Lock(str(tmp_path))
    second.note_holder()
    second.release()
    again = model_dir.Lock(str(tmp_path))
    assert (again.left_behind["step"], again.left_behind["running"]) == (7, True)
    again.release()


def test_holder_that_has_not_told_yet_is_not_taken_for_the_dead_one_before(tmp_path):
    lock = model_dir.Lock(str(tmp_path))
    dead = subprocess.Popen(["true"])
    dead.wait()
    text = json.dumps({"pid": dead.pid, "host": socket.gethostname(), "since": "x", "step": 7, "running": True})
    (tmp_path / ".lock").write_text(text)
    with pytest.raises(UserError, match="a process on .* that has just started"):
        model_dir.Lock(str(tmp_path))
    lock.note_holder()
    with pytest.raises(UserError, match=f"process {os.getpid()} on "):
        model_dir.Lock(str(tmp_path))
    lock.release()


def test_lock_of_a_dead_process_of_another_host_is_no_obstacle(tmp_path):
    text = json.dumps({"pid": 1, "host": "another", "since": "2020-01-01 00:00:00", "step": 7, "running": True})
    (tmp_path / ".lock").write_text(text)
    lock = model_dir.Lock(str(tmp_path))
    assert lock.left_behind["step"] == 7
    lock.release()


def test_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    def flock(*unused):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(model_dir.fcntl, "flock", flock)
    with pytest.raises(UserError, match="no file can be locked there .No locks available."):
        model_dir.Lock(str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", "7"])
def test_lock_file_without_sense_is_taken_all_the_same(tmp_path, text):
    (tmp_path / ".lock").write_text(text)
    lock = model_dir.Lock(str(tmp_path))
    assert lock.left_behind == {}
    lock.release()


def test_note_replaces_a_longer_one(tmp_path):
    lock = model_dir.Lock(str(tmp_path))
    lock.note(123456)
    lock.note(7)
    assert json.loads((tmp_path / ".lock").read_text())["step"] == 7
    lock.release()


@pytest.mark.parametrize("old, new", [('"step": 7', '"step": 8'), ('"bytes": 20', '"bytes": 21'), ('"manifest_sha256"', '"x"')])
def test_a_manifest_that_was_changed_counts_for_nothing(old, new, tmp_path, fake_checkpoint):
    prefix = fake_checkpoint(tmp_path, 7)
    assert model_dir.problem_with(prefix) is None
    path = model_dir.manifest_path(prefix)
    text = open(path, encoding="utf-8").read()
    assert old in text
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    assert model_dir.problem_with(prefix) == "its manifest is damaged"


def test_the_manifest_of_another_checkpoint_counts_for_nothing(tmp_path, fake_checkpoint):
    prefix = fake_checkpoint(tmp_path, 7)
    for path in list(tmp_path.iterdir()):
        (tmp_path / path.name.replace("ckpt-7", "ckpt-9")).write_bytes(path.read_bytes())
    assert model_dir.problem_with(str(tmp_path / "model.ckpt-9")) == "its manifest is damaged"
    assert model_dir.newest_valid(str(tmp_path)) == prefix


@pytest.mark.parametrize("directory", ["run[1]", "a*/run", "gs://bucket/run"])
def test_a_directory_that_would_be_taken_for_a_pattern_or_is_no_path(directory):
    with pytest.raises(UserError, match="give a local path"):
        model_dir.check_place(directory)
