"""The scale bench: its records are TFRecords, its arithmetic is the index's, and its counts count."""

import json

import numpy as np
import pytest
import tensorflow as tf

from compare.bench import mixing, scale, synthetic
from midepoch import records


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("made"))
    synthetic.write_examples(path, 700, value_bytes=13, num_files=3)
    return path


def test_made_files_are_examples_that_tensorflow_reads(directory):
    paths = sorted(tf.io.gfile.glob(directory + "/*"))
    assert [sum(1 for _ in tf.data.TFRecordDataset(path)) for path in paths] == [233, 233, 234]
    values, labels = synthetic.parse(next(iter(tf.data.TFRecordDataset(paths).batch(1000))))
    assert values.shape == [700, 13] and labels.shape == [700]
    assert set(labels.numpy()) == set(range(10))
    numbers = np.round(values.numpy()[:, :8] * 255).astype(np.uint8)
    assert np.ascontiguousarray(numbers).view("<i8")[:, 0].tolist() == list(range(700))


def test_given_values_and_labels_are_written(tmp_path):
    given = np.arange(60, dtype=np.uint8).reshape(6, 10)
    paths = synthetic.write_examples(str(tmp_path), 6, 10, 2, values=given, labels=np.arange(6))
    values, labels = synthetic.parse(next(iter(tf.data.TFRecordDataset(paths).batch(6))))
    assert np.array_equal(np.round(values.numpy() * 255), given)
    assert labels.numpy().tolist() == list(range(6))


def test_made_files_lie_where_the_index_says(directory):
    made = scale.made_files(directory)
    index = records.build_index(made.paths)
    assert made.num_records == index.num_records == 700
    for ours, theirs in zip(made.locate(np.arange(700)), index.locate(np.arange(700))):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("arm, lost", [("buffer 1000", False), ("skip", True)])
def test_an_arm_measured(arm, lost, directory, monkeypatch):
    monkeypatch.setattr(scale, "TIMES", 1)
    monkeypatch.setattr(scale, "SPEED_SECS", 0.1)
    numbers = scale.measure(arm, directory)
    assert json.loads(json.dumps(numbers)) == numbers
    # skip: all 700 are in the buffer, and some of those used before were among the last records.
    assert (numbers["lost"] > 0) == lost and numbers["repeated"] == numbers["lost"]
    assert numbers["examples_per_sec"] > 0 and numbers["late_ms"] > 0
    assert (numbers["state_bytes"] == 0) == (arm in ("replay", "skip"))


def test_table_and_bars_say_what_is_missed():
    numbers = dict(
        state_bytes=3000, save_ms=4.0, fresh_ms=100.0, early_ms=100.0, late_ms=120.0, lost=0, repeated=0,
        examples_per_sec=1000.0, peak_mb=5.0, num_records=60_000,
    )
    measured = [dict(numbers, arm=arm, in_proportion=arm == "replay") for arm in scale.ARMS]
    assert "| ~120 |" in scale.table(measured)
    lines = scale.bars(measured).splitlines()
    assert any(line.startswith("| state bytes") and line.endswith("yes |") for line in lines)
    assert any(line.startswith("| saving, times faster") and line.endswith("**no** |") for line in lines)


def test_mixing_tells_a_shuffle_from_none():
    num_records = 20_000
    for name, order in mixing.orders(num_records, window=2000, block=50, seed=3).items():
        assert np.array_equal(np.sort(order), np.arange(num_records)), name
        measured = mixing.mixing(order)
        if not name.startswith("buffer"):
            assert measured["moved_median"] == pytest.approx(1 - 0.5**0.5, abs=0.05), name  # of a uniform permutation
            assert measured["classes_per_batch"] > 9.5, name
    in_order = mixing.mixing(np.arange(num_records))
    assert in_order["moved_median"] == 0 and in_order["longest_run"] == 2000 and in_order["largest_share"] == 1
    assert in_order["classes_per_batch"] < 1.1 and in_order["neighbours"] > 980
