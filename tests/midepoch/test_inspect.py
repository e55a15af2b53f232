"""What is in a model_dir, whether it is whole, what the next start would do; and that looking changes nothing."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys

import pytest
import tensorflow as tf

from midepoch import config as config_lib
from midepoch import console, inspect, inventory, model_dir, records
from midepoch.config import TrainConfig
from tests import tiny_task
from tests.conftest import HAS_ESTIMATOR, REPOSITORY

WEIGHTS_BYTES = 4 * (4 * 8 + 8 + 8 * 2 + 2)  # float32


def entry_point(program):
    if program == "estimator":
        from estimator.loop import train_and_evaluate
    else:
        from lowlevel.loop import train_and_evaluate
    return train_and_evaluate


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_files):
    """`trained(program)`: a model_dir with 3 epochs of 5 steps, checkpoints at steps 13 to 15; made once, not changed."""
    made = {}

    def make(program):
        if program not in made:
            made[program] = str(tmp_path_factory.mktemp(program) / "run")
            config = TrainConfig(
                model_dir=made[program],
                task=tiny_task.TASK,
                batch_size=5,
                num_epochs=3,
                save_checkpoints_steps=1,
                keep_checkpoint_max=3,
                shuffle_window=8,
                shuffle_block=4,
                **tiny_files._asdict(),
            )
            entry_point(program)(config)
        return made[program]

    return make


@pytest.fixture
def run(trained, program, tmp_path):
    """A copy of the trained model_dir of each program in turn; it has been moved, so to speak."""
    return shutil.copytree(trained(program), tmp_path / "moved")


@pytest.fixture
def lowlevel_run(trained, tmp_path):
    """A copy of lowlevel's, where the program is not the point."""
    return shutil.copytree(trained("lowlevel"), tmp_path / "moved")


@pytest.fixture
def look(capsys):
    """`look(*arguments)`: the exit code, standard output and standard error of the command line."""

    def call(*arguments):
        capsys.readouterr()
        code = inspect.run(["inspect", *map(str, arguments)])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def look_json(look):
    """`look_json(*arguments)`: the exit code, and what --json gives."""

    def call(*arguments):
        code, out, _ = look(*arguments, "--json")
        return code, json.loads(out)

    return call


def tree(*directories):
    """Returns what could tell of a change: names, sizes, modes and times of all files and folders."""
    found = {}
    for directory in directories:
        for folder, _, names in os.walk(directory):
            for path in [folder, *(os.path.join(folder, name) for name in names)]:
                facts = os.stat(path)
                found[path] = (facts.st_size, facts.st_mode, facts.st_mtime_ns)
    return found


def flip_byte(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def data_file(folder, step):
    return next(folder.glob(f"model.ckpt-{step}.data-00000-of-*"))


def note(directory, **facts):
    """Writes what a training process notes."""
    noted = {"pid": os.getppid(), "host": socket.gethostname(), "step": 15, "running": True, **facts}
    (directory / ".lock").write_text(json.dumps(noted).ljust(511) + "\n")


# What is there.


def test_progress_and_checkpoints(run, program, look_json):
    code, found = look_json(run)
    assert code == 0 and found["problems"] == []
    assert (found["program"], found["task"], found["target"]) == (program, tiny_task.TASK, {"num_epochs": 3})
    assert (found["step"], found["examples_seen"], found["epoch"], found["finished"]) == (15, 69, 3.0, True)
    assert found["history"] == {"starts": 1, "kills": 0, "steps_done_again": 0}
    assert found["best"] == json.loads((run / model_dir.BEST_METRICS_FILE).read_text())
    assert found["last"]["global_step"] == 15
    assert found["contract"]["order"]["shuffle_window"] == 8
    assert found["next_start"] is None
    kinds = [(c["kind"], c["step"]) for c in found["checkpoints"]]
    assert kinds == [("last", 15), ("last", 14), ("last", 13), ("best", found["best"]["global_step"])]
    fourteen = found["checkpoints"][1]
    assert fourteen["path"] == str(run / "model.ckpt-14")
    assert (fourteen["examples_seen"], fourteen["epoch"]) == (66, 3)  # 2 × 23 + 4 × 5
    assert (fourteen["batches_done"], fourteen["batches_per_epoch"]) == (4, 5)
    assert not fourteen["unfinished"] and 0 <= fourteen["age_secs"] < 600


def test_bytes_by_part_are_those_of_the_files(run, program, look_json):
    _, found = look_json(run)
    for checkpoint in found["checkpoints"]:
        sizes = checkpoint["bytes"]
        files = model_dir.data_files(checkpoint["path"])
        assert sizes["total"] == sum(map(os.path.getsize, files)) == sum(sizes.values()) - sizes["total"]
        assert sizes["weights"] == WEIGHTS_BYTES
        assert 2 * WEIGHTS_BYTES <= sizes["optimizer"] < 2 * WEIGHTS_BYTES + 64  # Adam's two slots, and some scalars
        if program == "estimator":  # the iterator has a shard of its own, which examples_seen shares
            shard = next(path for path in files if path.endswith("data-00001-of-00002"))
            assert sizes["iterator"] == os.path.getsize(shard) - 8
        assert 1000 < sizes["iterator"] < 6000


def test_text_for_people(lowlevel_run, look):
    (lowlevel_run / "run.json").write_text((lowlevel_run / "run.json").read_text().replace('"kills": 0', '"kills": 2'))
    code, out, err = look(lowlevel_run)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"{lowlevel_run}: lowlevel · {tiny_task.TASK} · TF {tf.__version__}, Keras ")
    assert "step 15 · 3.00 of 3 epochs · 69 examples seen · at its target" in lines
    assert "1 start, 2 kills, 0 steps done again" in lines
    ended = r"nobody trains here; process \d+ on .* ended in order at step 15, \d+ (s|min) ago"
    assert any(re.fullmatch(ended, line) for line in lines)
    assert any(re.match(r"best: accuracy [\d.]+, loss [\d.]+ at step \d+$", line) for line in lines)
    assert any("task tests.tiny_task:Tiny, shuffle window, seed 1" in line for line in lines)
    assert "trained with: optimizer adam" in lines
    assert any("the data (23 examples in 3 files)" in line for line in lines)
    row = next(line for line in lines if line.startswith("model.ckpt-14"))
    assert re.match(r"model.ckpt-14 +14 +3 +4/5 +66 +232 B +4\d\d B +[\d.]+ kB .* sizes match$", row)


def test_a_run_that_has_lost_its_run_file(lowlevel_run, look, look_json):
    os.remove(lowlevel_run / "run.json")
    _, found = look_json(lowlevel_run)
    assert (found["program"], found["step"], found["epoch"], found["target"]) == ("lowlevel", 15, 3.0, None)
    assert not found["foreign"]
    assert "run.json is lost or damaged" in look(lowlevel_run)[1]


# Whether it is whole.


def test_verify_a_whole_run(run, look_json, look):
    code, found = look_json(run, "--verify")
    assert (code, found["verified"], found["problems"]) == (0, True, [])
    assert look(run, "--verify")[1].count(" whole\n") == 4


@pytest.mark.parametrize("place", ["last", "best"])
def test_only_verify_finds_a_flipped_bit(lowlevel_run, look_json, look, place):
    best_step = look_json(lowlevel_run)[1]["best"]["global_step"]
    damaged = data_file(lowlevel_run, 14) if place == "last" else data_file(lowlevel_run / "best_weights", best_step)
    flip_byte(damaged, at=5)
    code, found = look_json(lowlevel_run)
    assert (code, found["problems"]) == (0, [])
    code, found = look_json(lowlevel_run, "--verify")
    assert code == 1
    prefix = os.path.relpath(damaged, lowlevel_run).partition(".data")[0]
    assert found["problems"] == [f"{prefix}: {damaged.name} has changed since it was written"]
    assert f"not whole: {found['problems'][0]}" in look(lowlevel_run, "--verify")[1]


@pytest.mark.parametrize(
    "harm, problem",
    [
        (lambda run: os.truncate(data_file(run, 15), 10), "has 10 bytes instead of"),
        (lambda run: os.remove(data_file(run, 15)), "No such file"),
        (lambda run: flip_byte(run / "model.ckpt-15.index", at=50), "has changed since it was written"),
        (lambda run: flip_byte(run / "model.ckpt-15.manifest.json", at=20), "its manifest is damaged"),
    ],
)
def test_damage_found_without_verify_is_not_opened(lowlevel_run, look_json, monkeypatch, harm, problem):
    harm(lowlevel_run)
    opened = []
    load = tf.train.load_checkpoint
    monkeypatch.setattr(tf.train, "load_checkpoint", lambda prefix: opened.append(prefix) or load(prefix))
    code, found = look_json(lowlevel_run, "--verify")
    newest = found["checkpoints"][0]
    assert code == 1 and newest["step"] == 15 and problem in newest["problem"]
    assert newest["bytes"]["weights"] is None
    assert found["step"] == 14  # of the newest that is whole
    assert [os.path.basename(prefix) for prefix in opened[:2]] == ["model.ckpt-14", "model.ckpt-13"]


def test_a_checkpoint_without_manifest_among_older_ones_is_a_problem(lowlevel_run, look_json):
    os.remove(lowlevel_run / "model.ckpt-14.manifest.json")
    code, found = look_json(lowlevel_run, "--verify")
    assert (code, found["problems"]) == (1, ["model.ckpt-14: it has no manifest"])


def test_a_save_that_was_killed_is_no_problem(lowlevel_run, look_json):
    (lowlevel_run / "model.ckpt-15.manifest.json").rename(lowlevel_run / "model.ckpt-15.manifest.json.tmp")
    code, found = look_json(lowlevel_run, "--verify")
    assert (code, found["problems"], found["step"]) == (0, [], 14)
    assert found["checkpoints"][0]["unfinished"]


def test_a_deletion_that_was_killed_is_no_problem(lowlevel_run, look_json):
    for path in (*lowlevel_run.glob("model.ckpt-13.data*"), lowlevel_run / "model.ckpt-13.index"):
        path.unlink()
    code, found = look_json(lowlevel_run, "--verify")
    assert (code, found["problems"]) == (0, [])
    assert [c["unfinished"] for c in found["checkpoints"]] == [False, False, True, False]


def test_no_checkpoint_left_and_no_best_left(lowlevel_run, look_json):
    shutil.rmtree(lowlevel_run / "best_weights")
    assert look_json(lowlevel_run, "--verify")[1]["problems"][0].startswith("best_weights: the best checkpoint, of step ")
    for path in lowlevel_run.glob("model.ckpt-*"):
        path.unlink()
    code, found = look_json(lowlevel_run, "--verify")
    assert code == 1 and found["problems"][0] == "there is no checkpoint to go on from"


# While a run is writing.


def test_who_trains_here(lowlevel_run, look_json, look):
    ended = subprocess.Popen(["true"])
    ended.wait()
    cases = [
        (dict(), True, False, "trains here now: step 15, 0 s ago"),
        (dict(pid=ended.pid), False, True, "nobody trains here; process"),
        (dict(running=False), False, False, "ended in order at step 15"),
        (dict(host="elsewhere"), None, False, "on elsewhere trains here, or was killed"),
    ]
    for facts, running, killed, line in cases:
        note(lowlevel_run, **facts)
        process = look_json(lowlevel_run)[1]["process"]
        assert (process["running"], process["killed"], process["step"]) == (running, killed, 15)
        assert line in look(lowlevel_run)[1]
    (lowlevel_run / ".lock").write_text("{")
    assert look_json(lowlevel_run)[1]["process"] is None


def test_no_lock_is_taken(lowlevel_run, look, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a start would be blocked")

    lock = model_dir.Lock(str(lowlevel_run))
    monkeypatch.setattr(model_dir.fcntl, "flock", refuse)
    try:
        assert look(lowlevel_run, "--verify", "--num_epochs=4")[0] == 0
    finally:
        monkeypatch.undo()
        lock.release()


def test_a_checkpoint_deleted_between_listing_and_reading_is_not_shown(lowlevel_run, look_json, monkeypatch):
    note(lowlevel_run)
    compare = model_dir.problem_with

    def delete_and_compare(prefix, **kwargs):
        if prefix.endswith("-13"):
            for path in lowlevel_run.glob("model.ckpt-13.*"):
                path.unlink()
        return compare(prefix, **kwargs)

    monkeypatch.setattr(model_dir, "problem_with", delete_and_compare)
    code, found = look_json(lowlevel_run, "--verify")
    assert code == 0 and [c["step"] for c in found["checkpoints"] if c["kind"] == "last"] == [15, 14]


def test_all_checkpoints_replaced_while_they_are_read(lowlevel_run, look_json, monkeypatch):
    note(lowlevel_run)
    compare, elsewhere = model_dir.problem_with, lowlevel_run.parent / "newer"
    elsewhere.mkdir()
    for path in lowlevel_run.glob("model.ckpt-15.*"):
        path.rename(elsewhere / path.name)

    def replace_and_compare(prefix, **kwargs):
        for path in elsewhere.glob("*"):
            path.rename(lowlevel_run / path.name)
        for step in (13, 14):
            for path in lowlevel_run.glob(f"model.ckpt-{step}.*"):
                path.unlink()
        return compare(prefix, **kwargs)

    monkeypatch.setattr(model_dir, "problem_with", replace_and_compare)
    code, found = look_json(lowlevel_run, "--verify")
    assert (code, found["step"]) == (0, 15)


def test_a_checkpoint_half_deleted_is_waited_for(lowlevel_run, look_json, monkeypatch):
    note(lowlevel_run)
    data_file(lowlevel_run, 13).unlink()

    def delete_the_rest(secs):
        for path in lowlevel_run.glob("model.ckpt-13.*"):
            path.unlink()

    monkeypatch.setattr(inventory.time, "sleep", delete_the_rest)
    code, found = look_json(lowlevel_run, "--verify")
    assert code == 0 and [c["step"] for c in found["checkpoints"] if c["kind"] == "last"] == [15, 14]


def test_what_stays_half_deleted_is_a_problem(lowlevel_run, look_json, monkeypatch):
    monkeypatch.setattr(inventory, "_SETTLE_SECS", 0.2)
    note(lowlevel_run)
    data_file(lowlevel_run, 13).unlink()
    assert look_json(lowlevel_run, "--verify")[0] == 1


# The next start.


def without_ages(text):
    return re.sub(r"[\d.]+ (s|min|h) old", "_ s old", text)


def compare_with_a_start(run, program, given, expected, look_json, capsys):
    """Makes sure that a start prints what was foretold, and that foretelling has changed nothing."""
    before = tree(run)
    code, found = look_json(run, *(f"--{name}={value}" for name, value in given.items()))
    assert code == 0 and found["next_start"]["refused"] is None
    assert tree(run) == before
    said = without_ages("\n".join(found["next_start"]["lines"]))
    assert expected in said
    config = config_lib.merged(config_lib.read_flagfile(run / "flags.txt"), {**given, "model_dir": str(run)})
    entry_point(program)(config)
    assert without_ages(capsys.readouterr().out).startswith(said + "\n")


def test_next_start_of_a_run_that_is_done(run, program, look_json, capsys):
    compare_with_a_start(run, program, {"seed": 1}, "already done: 15/15 steps, nothing to do", look_json, capsys)


def test_next_start_that_resumes_and_adapts(lowlevel_run, look_json, capsys):
    given = {"train_steps": 16, "batch_size": 7}
    adapted = "the pipeline changed (batch_size was 5, is 7): seeking to example 69\n"
    resumed = "resume at step 15 from model.ckpt-15 (verified, _ s old): epoch 4, 0 of 4 batches done\ntarget 16 steps"
    compare_with_a_start(lowlevel_run, "lowlevel", given, adapted + resumed, look_json, capsys)


def test_next_start_that_heals(lowlevel_run, look_json, capsys):
    """A checkpoint and the best one are damaged, and kills have left half a save and half an export."""
    best_step = look_json(lowlevel_run)[1]["best"]["global_step"]
    for path in (data_file(lowlevel_run, 15), data_file(lowlevel_run / "best_weights", best_step)):
        flip_byte(path)
    (lowlevel_run / "model.ckpt-16.manifest.json.tmp").touch()
    (lowlevel_run / "model.ckpt-16.index").touch()
    (lowlevel_run / "export" / "temp-1").mkdir(parents=True)
    expected = "model.ckpt-15 is damaged (model.ckpt-15.data-00000-of-00001 has changed since it was written): moved to "
    compare_with_a_start(lowlevel_run, "lowlevel", {"num_epochs": 3}, expected, look_json, capsys)
    assert not (lowlevel_run / "model.ckpt-16.index").exists() and (lowlevel_run / "damaged" / "best_weights").exists()


def test_next_start_leaves_no_index_of_large_files(lowlevel_run, look_json, monkeypatch):
    stored = []
    monkeypatch.setattr(records, "REMEMBER_BYTES", 0)
    monkeypatch.setattr(records.index_cache, "store", lambda *facts: stored.append(facts))
    assert look_json(lowlevel_run, "--num_epochs=4")[1]["next_start"]["refused"] is None
    assert stored == []


def test_next_start_that_would_be_refused(lowlevel_run, look, look_json):
    code, out, _ = look(lowlevel_run, "--seed=2")
    assert code == 1
    assert "  refused: --seed=2, but this run was trained with 1; set it back" in out
    note(lowlevel_run)
    code, found = look_json(lowlevel_run, "--num_epochs=4")
    assert code == 1 and f"is in use by process {os.getppid()} on" in found["next_start"]["refused"]


def test_next_start_after_a_kill(lowlevel_run, look_json):
    note(lowlevel_run, running=True, pid=0, step=18)
    said = look_json(lowlevel_run, "--num_epochs=4")[1]["next_start"]["lines"]
    assert "the killed run had reached step 18: 3 steps done again" in said


def test_next_start_without_flags_file_takes_the_flags_of_the_run_file(lowlevel_run, look_json):
    with_file = look_json(lowlevel_run, "--num_epochs=4")[1]["next_start"]
    (lowlevel_run / "flags.txt").write_text("--no_such_flag=1\n")
    damaged = look_json(lowlevel_run, "--num_epochs=4")[1]["next_start"]
    assert without_ages(str(damaged)) == without_ages(str(with_file)) and with_file["refused"] is None


def test_next_start_of_a_job_outside_of_it(lowlevel_run, look_json):
    """The limit of a Slurm job means nothing where only somebody looks; asked for, it is refused as a start would be."""
    with open(lowlevel_run / "flags.txt", "a", encoding="utf-8") as file:
        file.write("--max_run_secs=auto\n")
    assert look_json(lowlevel_run, "--num_epochs=4")[1]["next_start"]["refused"] is None
    refused = look_json(lowlevel_run, "--max_run_secs=auto")[1]["next_start"]["refused"]
    assert "SLURM_JOB_END_TIME, which is not set" in refused


def test_nothing_is_written_anywhere(lowlevel_run, tmp_path):
    """As a process, in a read-only directory, with a task whose module Python would compile into a file."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "my_tiny.py").write_text("from tests.tiny_task import Tiny\n\n\nclass Mine(Tiny):\n    pass\n")
    for name in ("run.json", "flags.txt"):
        (lowlevel_run / name).write_text((lowlevel_run / name).read_text().replace(tiny_task.TASK, "my_tiny:Mine"))
    for path in (lowlevel_run, lowlevel_run / "best_weights", *lowlevel_run.glob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = tree(lowlevel_run, place)
    command = [sys.executable, "-m", "midepoch.inspect", str(lowlevel_run), "--verify", "--num_epochs=4"]
    environment = {**os.environ, "PYTHONPATH": REPOSITORY}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
        assert tree(lowlevel_run, place) == before
    finally:
        for path in (lowlevel_run, lowlevel_run / "best_weights"):
            path.chmod(0o755)
    assert ended.stdout.count(" whole\n") == 4 and ended.stderr == ""
    assert "the next start, with these flags:" in ended.stdout


# Directories of somebody else's.


def plain_checkpoint(directory):
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, name="dense")])
    model.build([None, 4])
    iterator = iter(tf.data.Dataset.range(9))
    checkpoint = tf.train.Checkpoint(net=model, step=tf.Variable(40, dtype=tf.int64), iterator=iterator)
    manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2)
    for _ in range(3):
        checkpoint.step.assign_add(1)
        manager.save()
    return [("ckpt-3", 43), ("ckpt-2", 42)], 4 * (4 * 3 + 3)


def plain_estimator(directory):
    column = tf.feature_column.numeric_column("x", [4])
    config = tf.estimator.RunConfig(model_dir=directory, save_checkpoints_steps=2, keep_checkpoint_max=2)
    estimator = tf.estimator.LinearRegressor([column], config=config)
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": tf.zeros([2, 4])}, tf.zeros([2]))).repeat(), max_steps=3)
    return [("model.ckpt-3", 3), ("model.ckpt-2", 2)], 4 * (4 + 1)


needs_estimator = pytest.mark.skipif(not HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")


@pytest.mark.parametrize("make", [plain_checkpoint, pytest.param(plain_estimator, marks=needs_estimator)])
def test_a_plain_tensorflow_directory(tmp_path, look, look_json, make):
    expected, weights_bytes = make(str(tmp_path))
    code, found = look_json(tmp_path, "--verify")
    assert code == 0 and found["foreign"] and found["problems"] == [] and found["program"] is None
    assert [(os.path.basename(c["path"]), c["step"]) for c in found["checkpoints"]] == expected
    for checkpoint in found["checkpoints"]:
        assert checkpoint["bytes"]["weights"] == weights_bytes
        assert (checkpoint["bytes"]["iterator"] > 0) == (make is plain_checkpoint)
    assert look(tmp_path)[1].startswith(f"{tmp_path}: checkpoints of TensorFlow's own")
    name = expected[0][0]
    reader = tf.train.load_checkpoint(str(tmp_path / name))
    kernel = next(key for key, shape in reader.get_variable_to_shape_map().items() if len(shape) == 2)
    data = next(tmp_path.glob(f"{name}.data-00000-of-*"))
    flip_byte(data, at=data.read_bytes().find(reader.get_tensor(kernel).tobytes()))
    assert look_json(tmp_path)[0] == 0
    code, found = look_json(tmp_path, "--verify")
    assert code == 1 and len(found["problems"]) == 1 and found["problems"][0].startswith(f"{name}: it cannot be read: ")
    data.unlink()
    assert look_json(tmp_path)[1]["problems"] == [f"{name}: 1 of its data files are missing"]


# What is no model_dir.


def test_reader_that_has_seen_enough(lowlevel_run):
    """`| head`: no failure, and no traceback."""
    command = [sys.executable, "-m", "midepoch.inspect", str(lowlevel_run)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == ("", 0)


def test_one_line_for_what_is_no_model_dir(tmp_path, look):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    cases = {
        "nothing": "does not exist; give the directory of a run",
        "file": "is a file; give the directory of a run",
        "empty": "holds neither run.json nor a checkpoint; give the directory of a run",
    }
    for name, line in cases.items():
        assert look(tmp_path / name, "--json") == (1, "", f"error: {tmp_path / name} {line}\n")


@pytest.mark.parametrize(
    "arguments, line",
    [
        ((), "expected one directory, received none; give the directory of a run"),
        (("a", "b"), "expected one directory, received a b; give the directory of a run"),
        (("a", "--batch_size=many"), "flag --batch_size=many"),
        (("a", "--no_such_flag"), "Unknown command line flag 'no_such_flag'"),
    ],
)
def test_one_line_for_a_command_line_that_says_nothing(look, arguments, line):
    code, out, err = look(*arguments)
    assert (code, out) == (1, "") and err.startswith("error: ") and line in err and err.count("\n") == 1


def test_help(look):
    code, out, _ = look("--help")
    assert code == 0 and "python -m midepoch.inspect run1 --verify" in out and "--num_epochs" in out




@pytest.mark.parametrize(
    "secs, shown", [(None, "–"), (14.2, "14 s"), (200, "3 min"), (9000, "2.5 h"), (4 * 86400, "4 days")]
)
def test_ages(secs, shown):
    assert console.age(secs) == shown
