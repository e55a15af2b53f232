"""Compressed files: `--shuffle=buffer` reads them as if they were plain, and resumes as exactly."""

import gzip
import os

import numpy as np
import pytest
import tensorflow as tf

from midepoch import records
from midepoch.config import TrainConfig
from midepoch.stream import ExampleStream, eval_dataset
from tests.whole_runs import runs


def stream_of(paths):
    config = TrainConfig(model_dir="unused", train_steps=1, batch_size=4, shuffle="buffer", shuffle_buffer_size=10)
    index = records.build_index(paths, by_offset=False)
    return ExampleStream(index, config.resolved(), lambda serialized: (serialized,) * 2)


def take(iterator, count):
    """Returns the next batches as (example ids, records)."""
    batches = (next(iterator) for _ in range(count))
    return [(info["example_ids"].numpy().tolist(), read.numpy().tolist()) for read, _, info in batches]


def test_buffer_restores_at_every_step_of_an_epoch(tmp_path, write_records):
    plain, packed = [], []
    for number, ids in enumerate([range(9), [], range(9, 23)]):
        plain.append(write_records(str(tmp_path / f"plain-{number}"), [str(i).encode() for i in ids]))
        packed.append(str(tmp_path / f"packed-{number}"))
        with open(plain[-1], "rb") as source, open(packed[-1], "wb") as file:
            file.write(gzip.compress(source.read()))
    iterator = iter(stream_of(tuple(packed)).dataset())
    batches = []
    for number in range(6):
        batches += take(iterator, 1)
        tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / str(number)))
    batches += take(iterator, 6)
    assert batches == take(iter(stream_of(tuple(plain)).dataset()), 12)
    for ids, read in batches:
        assert [str(i).encode() for i in ids] == read
    for epoch in (batches[:6], batches[6:]):
        assert sorted(np.concatenate([ids for ids, _ in epoch])) == list(range(23))
    for number in (0, 2, 4, 5):
        again = iter(stream_of(tuple(packed)).dataset())
        tf.train.Checkpoint(iterator=again).read(str(tmp_path / str(number))).assert_consumed()
        assert take(again, 11 - number) == batches[number + 1 :]
    evaluated = [read.numpy().tolist() for read, _ in eval_dataset(tuple(packed), 20, lambda serialized: (serialized,) * 2)]
    assert sum(evaluated, []) == [str(i).encode() for i in range(23)]


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_run_over_compressed_files_is_stopped_and_goes_on(program, tmp_path):
    """The same weights and ids as over the plain files, with a stop in between."""
    data = runs.write_data(str(tmp_path))
    packed = {name: pattern.replace(".tfrecord", ".gz") for name, pattern in data.items()}
    for name in os.listdir(tmp_path):
        (tmp_path / name.replace(".tfrecord", ".gz")).write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    flags = dict(num_epochs=2, save_checkpoints_steps=5, record_examples=True, shuffle="buffer", shuffle_buffer_size=10)
    runs.train(program, tmp_path / "plain", **flags, **data)
    runs.train(program, tmp_path / "packed", stop_after=8, **flags, **packed)
    result = runs.train(program, tmp_path / "packed", **flags, **packed)
    assert result.finished
    runs.assert_exactly_once(tmp_path / "packed", result.step)
    runs.assert_same_bits(runs.last_variables(tmp_path / "packed"), runs.last_variables(tmp_path / "plain"))
    assert runs.metrics_files(tmp_path / "packed") == runs.metrics_files(tmp_path / "plain")
