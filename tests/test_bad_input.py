"""Bad input to both programs: one clear line, exit code 1, nothing written, nothing of the user's touched."""

import gzip
import hashlib
import importlib
import os
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

from midepoch import cli, records
from midepoch.errors import UserError
from midepoch.opening import open_run
from midepoch.run import Run
from midepoch.stopping import Stopping
from tests import tiny_task
from tests.conftest import HAS_ESTIMATOR, REPOSITORY

MODULE = '''
import tensorflow as tf
from tests.tiny_task import Tiny

class NoLoss(Tiny):
    loss = None

class WrongShape(Tiny):
    def parse(self, serialized):
        features, labels = super().parse(serialized)
        return features[:, :3], labels

class Forgetful(Tiny):
    def hidden_layers(self, seed):
        return [*super().hidden_layers(seed), tf.keras.layers.Dropout(0.5, seed=7)]

class Uniform(Tiny):
    def call(self, model, features, training, seed):
        return super().call(model, features + tf.random.uniform([]), training, seed)

class WithTable(Tiny):
    def __init__(self):
        keys = tf.constant([0, 1, 2], tf.int64)
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys), 0)

    def parse(self, serialized):
        features, labels = super().parse(serialized)
        return features, self.table.lookup(labels)

class Unseeded(Tiny):
    def hidden_layers(self, seed):
        return [tf.keras.layers.Dense(8)]
'''


class StopAt(Stopping):
    """Stops after a given step."""

    def __init__(self, step):
        super().__init__()
        self._step = step

    def requested(self, step):
        return step >= self._step


def listing(directory):
    """Returns everything in a directory: names, kinds, contents, times of change."""
    found = {}
    for folder, folders, names in os.walk(directory):
        for name in folders + names:
            path = os.path.join(folder, name)
            content = hashlib.sha256(open(path, "rb").read()).hexdigest() if os.path.isfile(path) else None
            found[path] = (content, os.lstat(path).st_mtime_ns if content else None)
    return found


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory with data and a module of the user's, which is the current one; all that happens must leave it as it is."""
    tiny_task.write_data(tmp_path / "data")
    (tmp_path / "bad_tasks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def refuse(program, place, parse_flags, capsys):
    """`refuse(line, **flags)`: runs the program with flags, compares everything, and expects this in its one line."""

    def run(line, *arguments, **changes):
        flags = dict(
            model_dir="run",
            task=tiny_task.TASK,
            train_files="data/train-*",
            eval_files="data/eval-*",
            num_epochs=2,
            batch_size=5,
            save_checkpoints_steps=4,
        )
        flags.update(changes)
        before = listing(place)
        try:
            parse_flags(*(f"--{name}={value}" for name, value in flags.items() if value is not None), *arguments)
            code = cli._exit_code(importlib.import_module(f"{program}.train").train)
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        sys.modules.pop("bad_tasks", None)
        assert code == 1
        assert line in err, err
        assert err.startswith("error: ") and err.count("\n") == 1, err
        assert out == ""
        after = listing(place)
        assert {path: what for path, what in after.items() if "__pycache__" not in path} == before

    return run


@pytest.mark.parametrize(
    "line, changes",
    [
        ("--model_dir is not set", dict(model_dir=None)),
        ("--model_dir is not set", dict(model_dir="")),
        ("neither --num_epochs nor --train_steps is set", dict(num_epochs=None)),
        ("--num_epochs=2 and --train_steps=7 are both set", dict(train_steps=7)),
        ("--save_checkpoints_steps=4 and --save_checkpoints_secs=9 are both set", dict(save_checkpoints_secs=9)),
        ("are both set", dict(eval_every_steps=3, eval_every_epochs=1)),
        ("--num_epochs=-2 is too small", dict(num_epochs=-2)),
        ("--num_epochs=0 is too small", dict(num_epochs=0)),
        ("--batch_size=0 is too small", dict(batch_size=0)),
        ("--learning_rate=0.0 must be", dict(learning_rate=0)),
        ("--seed=-1 is too small", dict(seed=-1)),
        ("--shuffle=deck is not one of", dict(shuffle="deck")),
        ("batch_size", dict(batch_size="many")),
        ("--task=digit is unknown", dict(task="digit")),
        ("cannot import nowhere", dict(task="nowhere:Mine")),
        ("NoLoss lacks the method loss", dict(task="bad_tasks:NoLoss")),
        ("received input with shape (5, 3)", dict(task="bad_tasks:WrongShape")),
        ("draws from hidden random state", dict(task="bad_tasks:Forgetful")),
        ("RandomUniform) draws from hidden random state", dict(task="bad_tasks:Uniform")),
        ("other initial values the second time", dict(task="bad_tasks:Unseeded")),
        ("--train_files=none-* matches no file", dict(train_files="none-*")),
        ("--eval_files=none-* matches no file", dict(eval_files="none-*")),
        ("--train_files is not set", dict(train_files=None)),
        ("no (uncompressed) TFRecord file", dict(train_files="bad_tasks.py")),
        ("bad_tasks.py is a file; give a directory", dict(model_dir="bad_tasks.py")),
        ("bad_tasks.py is a file; give a directory", dict(model_dir="bad_tasks.py/run")),
        ("--model_dir=/proc/run: cannot write there", dict(model_dir="/proc/run")),
        ("--restore_from=nowhere is no checkpoint", dict(restore_from="nowhere")),
        ("--restore_from=data holds no valid checkpoint", dict(restore_from="data")),
        ("--best_metric=f1 is no metric of task", dict(best_metric="f1", best_mode="max")),
        ("--eval_files= is empty; give a value, or leave it out", dict(eval_files="")),
        ("has no effect: task iris brings its own dataset; leave it out", dict(task="iris", train_files="data/train-*")),
        ("has no effect: task iris", dict(task="iris", train_files=None, eval_files=None, shuffle="none")),
        ("--best_mode=auto cannot tell", dict(best_metric="gain")),
    ],
)
def test_bad_input(refuse, line, changes):
    refuse(line, **changes)


def test_lookup_table_is_refused_by_the_estimator_alone(refuse, program):
    if program == "estimator":
        refuse("parse() uses a lookup table or a variable, which an Estimator's input cannot", task="bad_tasks:WithTable")
    else:
        with pytest.raises(AssertionError):
            refuse("", task="bad_tasks:WithTable", export="False")


def test_unexpected_argument(refuse):
    refuse("unexpected argument 'train'", "train")


def test_directory_without_permission(refuse, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the super-user may write anywhere
    refuse("cannot be written; change its permissions or give another")


@pytest.mark.parametrize("kind", ["train", "eval"])
@pytest.mark.parametrize("harm, line", [("cut", "more than the file holds"), ("flip", "its checksum is wrong")])
def test_damaged_data(refuse, place, kind, harm, line):
    path = place / "data" / f"{kind}-0.tfrecord"
    content = bytearray(path.read_bytes())
    if harm == "cut":
        del content[-3:]
    else:
        content[20] ^= 1
    path.write_bytes(bytes(content))
    refuse(line)


@pytest.mark.parametrize("shuffle", ["window", "none"])
def test_compressed_data(refuse, place, shuffle):
    path = place / "data" / "train-0.tfrecord"
    (place / "data" / "some.gz").write_bytes(gzip.compress(path.read_bytes()))
    refuse("data/some.gz is GZIP-compressed", train_files="data/some.gz", shuffle=shuffle)


def test_empty_data(refuse, place):
    for name in ("train-0", "train-2"):
        (place / "data" / f"{name}.tfrecord").write_bytes(b"")
    refuse("hold no record")


@pytest.fixture
def stopped_run(train_and_evaluate, tiny_config, place, capsys):
    """A run of this program in `run`, over the data of `place`, stopped in its first epoch."""
    config = tiny_config(
        model_dir="run", train_files="data/train-*", eval_files="data/eval-*", num_epochs=2, save_checkpoints_steps=4
    )
    result = train_and_evaluate(config, stopping=StopAt(3))
    assert not result.finished
    capsys.readouterr()
    return place / "run"


# What fits the small windows of the run above; the flags of a contract have to be the same.
SAME_ORDER = dict(shuffle_window=8, shuffle_block=4)


def test_model_dir_of_another_kind(refuse, stopped_run, program, tiny_config):
    """All that a run refuses about a directory that holds one: in one test, since a run takes seconds."""
    refuse("--seed=2, but this run was trained with 1", seed=2, **SAME_ORDER)
    refuse("--freeze=nothing matches no variable of the model; it has", freeze="nothing", **SAME_ORDER)
    refuse("--freeze=. matches every variable that can be trained", freeze=".", **SAME_ORDER)
    refuse("the training files are not those of this run", train_files="data/train-0*", **SAME_ORDER)
    if HAS_ESTIMATOR:
        other = {"lowlevel": "estimator", "estimator": "lowlevel"}[program]
        with pytest.raises(UserError, match=f"belongs to {program}, this is {other}; run {program} on it"):
            with open_run(other, tiny_config(model_dir="run", train_files="data/train-*", eval_files="data/eval-*")):
                pass
    for path in stopped_run.glob("model.ckpt-*.index"):
        path.write_bytes(b"")
    refuse("holds checkpoint files, but none is whole", **SAME_ORDER)
    shutil.copytree(stopped_run, stopped_run.parent / "damaged_run")
    refuse("--restore_from=damaged_run holds no valid checkpoint", model_dir="new", restore_from="damaged_run")


def test_somebodys_plain_tensorflow_directory_stays_as_it_is(refuse, place):
    tf.train.Checkpoint(step=tf.Variable(5)).save(str(place / "run" / "ckpt"))
    refuse("--model_dir=run holds checkpoints that this program has not written")


def saved_steps(run):
    """Returns the steps of a model_dir's checkpoints, the best one's too."""
    return [int(path.name.split("-")[1].split(".")[0]) for path in run.rglob("model.ckpt-*")]


@pytest.mark.parametrize("shuffle", ["window", "buffer"])
def test_record_damaged_in_mid_training_is_named_and_not_saved_after(
    train_and_evaluate, tiny_config, place, monkeypatch, shuffle
):
    monkeypatch.setattr(records, "VERIFY_BYTES", 0)  # as with data too large to be read in full at the start
    path = place / "data" / "train-2.tfrecord"
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(bytes(content))
    config = tiny_config(train_files="data/train-*", shuffle=shuffle, save_checkpoints_steps=1)
    with pytest.raises(UserError, match="train-2.tfrecord: record 13 at byte .* its checksum is wrong"):
        train_and_evaluate(config)
    saved = saved_steps(place / "run")
    assert saved and max(saved) < 5


class HarmAt(Stopping):
    """Never stops, but does something to a file after a given step."""

    def __init__(self, step, harm):
        super().__init__()
        self._step, self._harm = step, harm

    def requested(self, step):
        if self._harm and step >= self._step:
            self._harm()
            self._harm = None
        return False


@pytest.mark.parametrize(
    "harm, line",
    [
        (os.remove, "train-2.tfrecord vanished during the run"),
        (lambda path: os.truncate(path, os.path.getsize(path) // 14 * 7), "train-2.tfrecord changed during the run"),
    ],
    ids=["vanished", "cut between two records"],
)
def test_file_changed_in_mid_training_is_named_and_not_saved_after(train_and_evaluate, tiny_config, place, harm, line):
    config = tiny_config(train_files="data/train-*", eval_files="data/eval-*")
    with pytest.raises(UserError, match=line):
        train_and_evaluate(config, stopping=HarmAt(3, lambda: harm("data/train-2.tfrecord")))
    assert max(saved_steps(place / "run")) == 3


def test_file_changed_during_an_evaluation_leaves_no_metrics(train_and_evaluate, tiny_config, place, monkeypatch):
    as_record = Run.as_record

    def change_a_file_first(self, *arguments):
        os.utime("data/eval-0.tfrecord", ns=(0, 0))
        return as_record(self, *arguments)

    monkeypatch.setattr(Run, "as_record", change_a_file_first)
    config = tiny_config(train_files="data/train-*", eval_files="data/eval-*")
    with pytest.raises(UserError, match="eval-0.tfrecord changed during the run"):
        train_and_evaluate(config)
    assert max(saved_steps(place / "run")) == 5 and not list((place / "run").glob("metrics*"))
    assert not list((place / "run" / "best_weights").glob("model*"))


# Real processes.


def start(module, *arguments, directory):
    environment = {**os.environ, "PYTHONPATH": REPOSITORY}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("name", ["lowlevel", "estimator"])
@pytest.mark.parametrize(
    "line, arguments",
    [
        ("--model_dir is not set", ["--num_epochs=1"]),
        ("--batch_size", ["--model_dir=run", "--num_epochs=1", "--batch_size=many"]),
        ("Unknown command line flag 'bach_size'", ["--model_dir=run", "--num_epochs=1", "--bach_size=8"]),
    ],
)
def test_process_with_bad_flags(tmp_path, name, line, arguments):
    done = start(f"{name}.train", *arguments, directory=tmp_path)
    assert done.returncode == 1
    assert line.lstrip("-") in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""
    assert os.listdir(tmp_path) == []


def test_process_with_bad_data(program, place):
    before = listing(place)
    done = start(
        f"{program}.train", "--model_dir=run", "--num_epochs=1", "--train_files=bad_tasks.py", directory=place
    )
    assert done.returncode == 1
    assert "no (uncompressed) TFRecord file" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert listing(place) == before


@pytest.mark.skipif(HAS_ESTIMATOR, reason="tf.estimator is there")
def test_estimator_without_tf_estimator_says_what_to_do(tmp_path):
    done = start("estimator.train", "--model_dir=run", "--num_epochs=1", directory=tmp_path)
    assert done.returncode == 1
    assert "has no tf.estimator" in done.stderr and "or use lowlevel here" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert os.listdir(tmp_path) == []
