"""The converter, on small made-up files: what comes out is what went in; what is wrong is refused in one line."""

import glob
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from midepoch import convert_mnist
from midepoch.tasks.mnist import Mnist
from tests.conftest import REPOSITORY
from tests.mnist_data import NUM_EVAL, NUM_TRAIN, made_up, write_idx, write_source


@pytest.fixture
def source(tmp_path):
    return write_source(tmp_path / "source")


@pytest.fixture
def convert(tmp_path, source, capsys):
    """`convert(*arguments)`: converts `source` to `data`, expects it to work, and returns what it said."""

    def run(*arguments, output_dir=tmp_path / "data"):
        convert_mnist.main([f"--input_dir={source}", f"--output_dir={output_dir}", *arguments])
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


@pytest.fixture
def refused(tmp_path, source, capsys):
    """`refused(line, *arguments)`: expects one line, exit code 1, and every file as it was."""

    def contents():
        paths = sorted(tmp_path.rglob("*"))
        return {path: path.read_bytes() if path.is_file() else None for path in paths}

    def run(line, *arguments):
        before = contents()
        arguments = arguments or (f"--input_dir={source}", f"--output_dir={tmp_path / 'data'}")
        with pytest.raises(SystemExit) as end:
            convert_mnist.main(list(map(str, arguments)))
        text = end.value.code  # a text means: print it to standard error, exit with 1
        assert isinstance(text, str) and text.startswith("error: ") and "\n" not in text
        assert line in text, text
        assert capsys.readouterr().out == ""
        assert contents() == before

    return run


def read(pattern):
    """Returns images and labels of record files, by the task's own parse."""
    paths = sorted(glob.glob(str(pattern)))
    records = tf.constant([record.numpy() for record in tf.data.TFRecordDataset(paths)])
    images, labels = Mnist().parse(records)
    return images.numpy(), labels.numpy()


@pytest.mark.parametrize("packed", [False, True])
def test_images_and_labels_come_back_in_their_order(tmp_path, convert, source, packed):
    write_source(source, packed)
    assert len(os.listdir(source)) == 4
    convert()
    for part, number in (("train", NUM_TRAIN), ("eval", NUM_EVAL)):
        images, labels = read(tmp_path / "data" / f"{part}-*.tfrecord")
        expected_images, expected_labels = made_up(part, number)
        assert images.dtype == np.float32 and labels.dtype == np.int64
        assert np.array_equal(images, expected_images[..., None] / np.float32(255))
        assert np.array_equal(labels, expected_labels)


def test_shards_are_of_equal_size_but_for_one(tmp_path, convert):
    said = convert("--train_shards=7")
    names = [f"train-{shard:05}-of-00007.tfrecord" for shard in range(7)]
    assert sorted(os.listdir(tmp_path / "data")) == ["eval-00000-of-00001.tfrecord", *names]
    sizes = [len(read(tmp_path / "data" / name)[1]) for name in names]
    assert sum(sizes) == NUM_TRAIN and max(sizes) - min(sizes) == 1
    assert "200 train examples in 7 files, 50 eval examples" in said


def test_says_how_to_train(tmp_path, convert, monkeypatch):
    data = tmp_path / "my data"
    assert convert(output_dir=data).splitlines()[1] == (
        f"train with --task=mnist --train_files='{data}/train-*.tfrecord' --eval_files='{data}/eval-*.tfrecord'"
    )
    monkeypatch.chdir(tmp_path)
    assert convert(output_dir="data/mnist").splitlines()[1] == "train with --task=mnist"
    for pattern in (Mnist.train_files, Mnist.eval_files):
        assert glob.glob(pattern)


def test_existing_files_are_not_overwritten(tmp_path, convert, refused):
    convert()
    refused("holds eval-00000-of-00001.tfrecord already, and nothing is overwritten")


@pytest.mark.parametrize("name", ["train-0.tfrecord", "eval-00003-of-00004.tfrecord"])
def test_files_that_a_glob_would_mix_with_ours_are_not_joined(tmp_path, refused, name):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_bytes(b"precious")
    refused(f"holds {name} already")


def test_what_appears_meanwhile_is_not_overwritten(tmp_path, source, refused, monkeypatch):
    precious = tmp_path / "data" / "train-00000-of-00010.tfrecord"
    precious.parent.mkdir()
    check, times = convert_mnist._check_output, []

    def check_and_wait(output_dir):
        times.append(output_dir)
        if len(times) == 2:  # everything is written, nothing is renamed
            assert glob.glob(f"{output_dir}/.unfinished-*/train-00009-of-00010.tfrecord")
            assert not glob.glob(f"{output_dir}/*.tfrecord")
            precious.write_bytes(b"precious")
        check(output_dir)

    monkeypatch.setattr(convert_mnist, "_check_output", check_and_wait)
    with pytest.raises(SystemExit, match="holds train-00000-of-00010.tfrecord already"):
        convert_mnist.main([f"--input_dir={source}", f"--output_dir={precious.parent}"])
    assert os.listdir(precious.parent) == [precious.name] and precious.read_bytes() == b"precious"


def test_stop_in_the_middle_keeps_nothing(tmp_path, source, monkeypatch):
    class Stopped(tf.io.TFRecordWriter):
        def __init__(self, path):
            if "train-00003" in path:
                raise KeyboardInterrupt
            super().__init__(path)

    monkeypatch.setattr(tf.io, "TFRecordWriter", Stopped)
    with pytest.raises(SystemExit, match="stopped, nothing is kept"):
        convert_mnist.main([f"--input_dir={source}", f"--output_dir={tmp_path / 'data'}"])
    assert os.listdir(tmp_path / "data") == []


def test_stop_while_the_files_get_their_names_keeps_nothing(tmp_path, source, monkeypatch):
    rename = os.rename

    def stop_at_the_fourth(path, target):
        if "train-00003" in path:
            raise KeyboardInterrupt
        rename(path, target)

    monkeypatch.setattr(os, "rename", stop_at_the_fourth)
    with pytest.raises(SystemExit, match="stopped, nothing is kept"):
        convert_mnist.main([f"--input_dir={source}", f"--output_dir={tmp_path / 'data'}"])
    assert os.listdir(tmp_path / "data") == []


def test_full_disk_keeps_nothing(tmp_path, source, monkeypatch):
    class Full(tf.io.TFRecordWriter):
        def write(self, record):
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.io, "TFRecordWriter", Full)
    with pytest.raises(SystemExit, match="^error: --output_dir=.*No space left on device; nothing is kept$"):
        convert_mnist.main([f"--input_dir={source}", f"--output_dir={tmp_path / 'data'}"])
    assert os.listdir(tmp_path / "data") == []


def test_no_input_dir(refused, tmp_path):
    refused("--input_dir is not set", f"--output_dir={tmp_path / 'data'}")


def test_input_dir_that_is_not_there(refused, tmp_path):
    refused("nowhere is no folder", f"--input_dir={tmp_path / 'nowhere'}", f"--output_dir={tmp_path / 'data'}")


@pytest.mark.parametrize(
    "argument, line", [("--inputdir=x", "unrecognized arguments"), ("--train_shards=few", "invalid int")]
)
def test_mistyped_flag(refused, source, argument, line):
    refused(line, f"--input_dir={source}", argument)


@pytest.mark.parametrize("shards", [0, 201])
def test_number_of_shards_out_of_bounds(refused, source, tmp_path, shards):
    line = f"--train_shards={shards} is not between 1 and 200"
    refused(line, f"--input_dir={source}", f"--output_dir={tmp_path / 'data'}", f"--train_shards={shards}")


def test_output_dir_that_is_a_file(refused, source, tmp_path):
    (tmp_path / "data").write_bytes(b"precious")
    refused("data is no folder")


def test_output_dir_that_cannot_be_made(refused, source):
    refused("--output_dir=/proc/data: cannot write there", f"--input_dir={source}", "--output_dir=/proc/data")


@pytest.mark.parametrize(
    "name",
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"],
)
def test_missing_file(refused, source, name):
    (source / name).unlink()
    refused(f"holds neither {name} nor {name}.gz")


def test_wrong_magic_number(refused, source):
    write_idx(source / "train-images-idx3-ubyte", made_up("train", NUM_TRAIN)[1])
    refused("train-images-idx3-ubyte has the magic number 0x00000801, not 0x00000803")


def test_cut_short(refused, source):
    os.truncate(source / "t10k-images-idx3-ubyte", 1000)
    refused("t10k-images-idx3-ubyte is cut short")


def test_unreadable_gz(refused, source):
    os.rename(source / "train-labels-idx1-ubyte", source / "train-labels-idx1-ubyte.gz")
    refused("train-labels-idx1-ubyte.gz is no readable gzip file")


def test_images_and_labels_of_unequal_number(refused, source):
    write_idx(source / "train-labels-idx1-ubyte", made_up("train", 199)[1])
    refused("train-images-idx3-ubyte holds 200 images, but")


def test_images_of_another_size(refused, source):
    write_idx(source / "train-images-idx3-ubyte", np.zeros([200, 32, 30], np.uint8))
    refused("holds images of 32×30 pixels; the task mnist takes 28×28")


def test_label_beyond_the_classes(refused, source):
    labels = made_up("eval", NUM_EVAL)[1].copy()
    labels[7] = 26
    write_idx(source / "t10k-labels-idx1-ubyte", labels)
    refused("label 7 is 26; the task mnist takes 0 to 9")


def test_no_eval_image(refused, source):
    write_idx(source / "t10k-images-idx3-ubyte", np.zeros([0, 28, 28], np.uint8))
    write_idx(source / "t10k-labels-idx1-ubyte", np.zeros([0], np.uint8))
    refused("t10k-images-idx3-ubyte holds no image")


def test_as_a_process(tmp_path, source):
    """The command of the README: bad input is answered without TensorFlow, good input without its chatter."""

    def run(*arguments):
        command = [sys.executable, "-m", "midepoch.convert_mnist", *arguments]
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, encoding="utf-8", check=False)

    refused = run("--output_dir", str(tmp_path / "data"))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: --input_dir is not set") and refused.stderr.count("\n") == 1
    done = run("--input_dir", str(source), "--output_dir", str(tmp_path / "data"))
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 2)
