"""Files sorted by class, the worst that people bring: they train as well as any with the window shuffle."""

import numpy as np
import pytest
import tensorflow as tf

from midepoch.tasks.digits import Digits
from tests.whole_runs import runs


@pytest.fixture(scope="module")
def by_class(tmp_path_factory):
    """The glob of the training digits, sorted by label, in a file for each digit."""
    directory = tmp_path_factory.mktemp("by_class")
    paths = sorted(tf.io.gfile.glob(Digits.train_files))
    serialized = np.array(list(tf.data.TFRecordDataset(paths).as_numpy_iterator()), object)
    labels = Digits().parse(tf.constant(serialized))[1].numpy()
    for digit in range(10):
        with tf.io.TFRecordWriter(str(directory / f"{digit}.tfrecord")) as writer:
            for record in serialized[labels == digit]:
                writer.write(record)
    return str(directory / "*.tfrecord")


def accuracy(directory, files, **flags):
    defaults = dict(batch_size=64, num_epochs=6, eval_every_epochs=6, learning_rate=0.001, seed=1)
    defaults.update(shuffle_window=16384, shuffle_block=256)  # the defaults
    files = dict(train_files=files, eval_files=Digits.eval_files)
    result = runs.train("lowlevel", directory, Digits(), **files, **{**defaults, **flags})
    return float(result.metrics["accuracy"])


@pytest.mark.parametrize(
    "flags",
    [
        {},
        dict(shuffle_window=192, shuffle_block=3),  # as the defaults over 130,000 records: eight windows of 64 blocks
    ],
    ids=["default", "small"],
)
def test_sorted_files_train_well(by_class, flags, tmp_path):
    assert accuracy(tmp_path, by_class, **flags) > 0.85


def test_control_without_shuffle_they_do_not(by_class, tmp_path):
    assert accuracy(tmp_path, by_class, shuffle="none") < 0.7
