"""The example stream: its definition in numbers, and that every way to any position gives the same examples."""

import functools
import hashlib
import os
import time

import numpy as np
import pytest
import tensorflow as tf

from compare.bench import scale
from midepoch import records
from midepoch.config import TrainConfig
from midepoch.stream import ExampleStream, WindowOrder, eval_dataset

# (records, seed, window, block, epoch) → the order of the epoch. It must never change, on no version of TensorFlow: whoever
# resumes relies on it. Seeds 11 and 267, and epochs e and e+256, are equal in their low 8 bits.
KNOWN_ORDERS = [
    ((23, 1, 8, 4, 0), [14, 15, 13, 10, 12, 8, 9, 11, 7, 5, 18, 16, 17, 4, 19, 6, 3, 21, 20, 1, 0, 22, 2]),
    ((23, 1, 8, 4, 1), [1, 2, 3, 12, 0, 14, 15, 13, 11, 17, 9, 18, 16, 10, 8, 19, 22, 21, 20, 6, 5, 7, 4]),
    ((23, 11, 8, 4, 0), [19, 0, 16, 3, 17, 18, 2, 1, 8, 13, 9, 12, 11, 14, 10, 15, 5, 20, 4, 6, 21, 7, 22]),
    ((23, 267, 8, 4, 0), [19, 6, 5, 4, 17, 7, 16, 18, 1, 2, 14, 3, 13, 0, 15, 12, 20, 21, 11, 8, 9, 22, 10]),
    ((23, 11, 8, 4, 3), [9, 8, 11, 19, 18, 16, 17, 10, 14, 2, 12, 13, 3, 15, 1, 0, 4, 21, 5, 7, 6, 22, 20]),
    ((23, 11, 8, 4, 259), [5, 6, 11, 4, 9, 10, 8, 7, 19, 2, 16, 3, 18, 0, 1, 17, 15, 14, 22, 12, 20, 13, 21]),
    ((10, 1, 4, 2, 0), [6, 4, 7, 5, 9, 8, 3, 2, 0, 1]),
    ((12, 5, 4, 4, 2), [0, 3, 1, 2, 9, 10, 11, 8, 5, 6, 4, 7]),
    ((9, 2, 6, 1, 0), [5, 2, 3, 1, 8, 7, 4, 0, 6]),
    ((7, 3, 100, 256, 0), [3, 0, 2, 1, 5, 4, 6]),
    ((7, 3, 100, 256, 1), [1, 2, 0, 3, 4, 5, 6]),
    ((5, 7, 2, 3, 0), [1, 0, 2, 3, 4]),
    ((1, 1, 16384, 256, 5), [0]),
]

# The same for orders too long to write down: the first six ids, and the SHA-256 of all as little-endian int64.
KNOWN_DIGESTS = [
    ((1797, 1, 256, 16, 0), [1222, 624, 297, 610, 1208, 1230], "5e2d3ba687310f60"),
    ((1797, 11, 256, 16, 7), [1289, 1282, 1452, 221, 1479, 215], "b5103f3abc3321fb"),
    ((1797, 267, 256, 16, 7), [818, 457, 826, 91, 80, 106], "49057d09e01da91c"),
    ((1797, 11, 256, 16, 263), [1286, 1769, 1295, 406, 1606, 1282], "6c7d99c0e96f32a5"),
    ((70001, 2**40 + 1, 16384, 256, 1), [17740, 58095, 46137, 3094, 22925, 48237], "16ef30c241ff8c83"),
    ((70001, 1, 16384, 256, 300), [44223, 39045, 62291, 29002, 12655, 16792], "01a3eb6fd71e100b"),
]


def order_of(num_records, seed, window, block, epoch):
    return WindowOrder(num_records, seed, window, block).epoch_order(epoch)


@pytest.mark.parametrize("case, expected", KNOWN_ORDERS)
def test_known_order(case, expected):
    assert order_of(*case).tolist() == expected


@pytest.mark.parametrize("case, first, digest", KNOWN_DIGESTS)
def test_known_digest_of_a_long_order(case, first, digest):
    order = order_of(*case)
    assert order[:6].tolist() == first
    assert hashlib.sha256(order.astype("<i8").tobytes()).hexdigest()[:16] == digest
    assert np.array_equal(np.sort(order), np.arange(case[0]))


def test_every_window_holds_whole_blocks_and_the_short_block_comes_last():
    order = order_of(23, 11, 8, 4, 0)
    for window in range(3):
        ids = sorted(order[8 * window : 8 * window + 8])
        blocks = sorted({i // 4 for i in ids})
        assert ids == [i for block in blocks for i in range(4 * block, min(4 * block + 4, 23))]
    assert 5 in {i // 4 for i in order[16:]}


def test_without_shuffle_the_order_is_file_order():
    assert WindowOrder(23, 1, 8, 4, shuffle=False).epoch_order(3).tolist() == list(range(23))


# Pipelines. Records are their own example ids, as text, so that what was read can be told from what was counted.


@pytest.fixture
def make_index(tmp_path, write_records):
    def make(*sizes):
        first, paths = 0, []
        for number, size in enumerate(sizes):
            values = [str(i).encode() for i in range(first, first + size)]
            paths.append(write_records(str(tmp_path / f"{number:02}.tfrecord"), values))
            first += size
        return records.build_index(tuple(paths))

    return make


def make_stream(index, batch_size, **fields):
    fields = {"shuffle_window": 4, "shuffle_block": 2, "seed": 1, **fields}
    config = TrainConfig(model_dir="unused", train_steps=1, batch_size=batch_size, **fields).resolved()
    return ExampleStream(index, config, lambda serialized: (tf.strings.to_number(serialized, tf.int64), tf.size(serialized)))


def take(iterator, count):
    """Returns the next batches as (position, example ids), after comparing ids and records; position None if undefined."""
    batches = []
    for _ in range(count):
        read, size, info = next(iterator)
        assert read.numpy().tolist() == info["example_ids"].numpy().tolist()
        assert size == len(read)
        batches.append((int(info["position"]) if "position" in info else None, read.numpy().tolist()))
    return batches


@functools.lru_cache(maxsize=None)
def cached_order(epoch, *of_window_order):
    return WindowOrder(*of_window_order).epoch_order(epoch)


def expected_batches(stream, position, count):
    """Returns what the definition says: the batches from a position on, each cut at the end of its epoch."""
    config, num_records = stream._config, stream.index.num_records
    shuffle = (num_records, config.seed, config.shuffle_window, config.shuffle_block, config.shuffle == "window")
    batches = []
    for _ in range(count):
        epoch, in_epoch = divmod(position, num_records)
        ids = cached_order(epoch, *shuffle)[in_epoch : in_epoch + config.batch_size].tolist()
        batches.append((position, ids))
        position += len(ids)
    return batches


def save(iterator, path):
    return tf.train.Checkpoint(iterator=iterator).write(str(path))


def restored(dataset, path):
    iterator = iter(dataset)
    tf.train.Checkpoint(iterator=iterator).read(str(path)).assert_consumed()
    return iterator


@pytest.mark.parametrize(
    "sizes, batch_size, fields",
    [
        ((9, 0, 14), 5, dict(shuffle_window=8, shuffle_block=4)),  # blocks across files, short last block, unaligned
        ((9, 0, 14), 4, dict(shuffle_window=8, shuffle_block=4)),  # aligned, last batch shorter
        ((0, 8, 0, 8, 0), 4, dict(shuffle_window=8, shuffle_block=4)),  # aligned, everything even
        ((3, 1, 1, 4), 20, dict(shuffle_window=4, shuffle_block=2)),  # fewer records than a batch
        ((9, 0, 14), 7, dict(shuffle_window=2, shuffle_block=1)),  # batches across four and five windows
        ((9, 0, 14), 11, dict(shuffle_window=8, shuffle_block=4)),  # a batch across the last windows of an epoch
        ((5, 2), 3, dict(shuffle_window=100, shuffle_block=2)),  # a window larger than all
        ((7,), 2, dict(shuffle_window=2, shuffle_block=3)),  # a block larger than the window
        ((5, 6), 3, dict(shuffle_window=1, shuffle_block=1)),  # no shuffling within windows
        ((1,), 4, {}),  # one record
        ((9, 0, 14), 6, dict(shuffle="none")),
    ],
)
def test_every_example_once_per_epoch_in_the_defined_order(make_index, sizes, batch_size, fields):
    stream = make_stream(make_index(*sizes), batch_size, **fields)
    steps_per_epoch = -(-sum(sizes) // batch_size)
    batches = take(iter(stream.dataset()), 2 * steps_per_epoch + 1)
    assert batches == expected_batches(stream, 0, len(batches))
    for epoch in range(2):
        ids = [i for _, batch in batches[epoch * steps_per_epoch :][:steps_per_epoch] for i in batch]
        assert sorted(ids) == list(range(sum(sizes)))


# 11 records: five full blocks of 2 and a short one, three windows, files that windows and blocks lie across.
SMALL = (3, 0, 5, 1, 2)
NUM_SMALL = sum(SMALL)


@pytest.mark.parametrize("start", range(NUM_SMALL))
def test_seek_is_restore_at_every_position_from_every_start(make_index, tmp_path, start):
    stream = make_stream(make_index(*SMALL), 3)
    count = 4 + 4  # beyond the end of the epoch, and an epoch more
    expected = expected_batches(stream, start, count)
    iterator = iter(stream.dataset(start))  # a seek to `start`
    for number in range(4):
        assert take(iterator, 1) == expected[number : number + 1]
        save(iterator, tmp_path / str(number))
    assert take(iterator, count - 4) == expected[4:]
    again = make_stream(stream.index, 3).dataset(start)
    for number in range(4):
        assert take(restored(again, tmp_path / str(number)), 4) == expected[number + 1 : number + 5]


@pytest.mark.parametrize("start", [0, 2, 15])
def test_seek_is_restore_where_batches_are_slices_of_windows(make_index, tmp_path, start):
    stream = make_stream(make_index(*SMALL), 2)
    expected = expected_batches(stream, start, 12)
    iterator = iter(stream.dataset(start))
    for number in range(7):
        assert take(iterator, 1) == expected[number : number + 1]
        save(iterator, tmp_path / str(number))
    again = make_stream(stream.index, 2).dataset(start)
    for number in range(7):
        assert take(restored(again, tmp_path / str(number)), 5) == expected[number + 1 : number + 6]


def test_stream_in_a_graph_as_the_estimator_builds_it(make_index):
    stream = make_stream(make_index(*SMALL), 3, shuffle_window=8)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.random.set_seed(1)  # as RunConfig's tf_random_seed does; one-shot iterators want it under op determinism
        iterator = tf.compat.v1.data.make_one_shot_iterator(stream.dataset(4))
        element = iterator.get_next()
        batches = []
        for _ in range(8):
            read, _, info = session.run(element)
            assert read.tolist() == info["example_ids"].tolist()
            batches.append((info["position"], read.tolist()))
    assert batches == expected_batches(stream, 4, 8)


@pytest.mark.parametrize("start", [0, 3, 10])
def test_seek_is_restore_where_a_batch_lies_across_many_windows(make_index, tmp_path, start):
    fields = dict(shuffle_window=2, shuffle_block=1)
    stream = make_stream(make_index(*SMALL), 5, **fields)
    expected = expected_batches(stream, start, 8)
    iterator = iter(stream.dataset(start))
    for number in range(4):
        assert take(iterator, 1) == expected[number : number + 1]
        save(iterator, tmp_path / str(number))
    again = make_stream(stream.index, 5, **fields).dataset(start)
    for number in range(4):
        assert take(restored(again, tmp_path / str(number)), 4) == expected[number + 1 : number + 5]


@pytest.mark.parametrize("start", [2 * NUM_SMALL + 4, 300 * NUM_SMALL + 9])
def test_seek_into_a_later_epoch(make_index, start):
    stream = make_stream(make_index(*SMALL), 3)
    assert take(iter(stream.dataset(start)), 5) == expected_batches(stream, start, 5)


def test_another_batch_size_continues_at_the_next_example(make_index):
    stream, other = make_stream(make_index(*SMALL), 3), make_stream(make_index(*SMALL), 4)
    seen = [i for _, ids in take(iter(stream.dataset()), 2) + take(iter(other.dataset(6)), 2) for i in ids]
    assert sorted(seen) == list(range(NUM_SMALL))


def test_control_a_state_in_a_pipeline_with_another_start_gives_wrong_positions(make_index, tmp_path):
    stream = make_stream(make_index(*SMALL), 3, shuffle_window=8)
    iterator = iter(stream.dataset(1))
    take(iterator, 1)
    save(iterator, tmp_path / "state")
    expected = expected_batches(stream, 4, 2)
    assert take(restored(stream.dataset(1), tmp_path / "state"), 2) == expected
    wrong = take(restored(stream.dataset(0), tmp_path / "state"), 2)
    assert [position for position, _ in wrong] != [position for position, _ in expected]


def test_state_stays_small_whatever_the_window(make_index, tmp_path):
    index = make_index(3000)
    sizes = []
    for window in (64, 2048):
        iterator = iter(make_stream(index, 32, shuffle_window=window, shuffle_block=16).dataset())
        take(iterator, 3)
        prefix = save(iterator, tmp_path / str(window))
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob(f"{window}.*")))
        assert prefix
    assert max(sizes) < 8192
    assert sizes[1] < sizes[0] + 512


@pytest.mark.parametrize("sizes", [(16,), (20,)], ids=["full windows", "last one not full"])
def test_the_next_window_is_read_while_one_is_used(make_index, sizes):
    """With op determinism on, TensorFlow switches off all prefetching behind a function with an op that it does not trust."""
    index = make_index(*sizes)
    iterator = iter(make_stream(index, 4, shuffle_window=8, shuffle_block=4).dataset())
    first = take(iterator, 1)
    time.sleep(1)
    os.remove(index.paths[0])
    assert [position for position, _ in first + take(iterator, 3)] == [0, 4, 8, 12]


def test_graph_grows_by_eight_bytes_a_block():
    """The graph is all that grows with the number of records, and it is in no checkpoint."""

    def graph_bytes(num_records):
        made = scale.MadeFiles(("a", "b"), (num_records * 10, num_records * 10), 2 * num_records, 10)
        variant = tf.data.experimental.to_variant(make_stream(made, 8, shuffle_window=64, shuffle_block=16).dataset(5))
        return len(tf.raw_ops.DatasetToGraphV2(input_dataset=variant).numpy())

    few, many = 1_000, 1_000_000
    assert graph_bytes(many) - graph_bytes(few) < 8.1 * 2 * (many - few) / 16


@pytest.mark.parametrize("buffer_size", [10, 100])
def test_buffer_mode_restores_its_buffer_at_every_step_of_an_epoch(make_index, tmp_path, buffer_size):
    fields = dict(shuffle="buffer", shuffle_buffer_size=buffer_size)
    stream = make_stream(make_index(9, 0, 14), 5, **fields)
    iterator = iter(stream.dataset())
    batches = []
    for number in range(5):
        batches += take(iterator, 1)
        save(iterator, tmp_path / str(number))
    batches += take(iterator, 10)
    epochs = [[i for _, ids in batches[5 * epoch : 5 * epoch + 5] for i in ids] for epoch in range(3)]
    assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    again = make_stream(stream.index, 5, **fields).dataset()
    for number in range(5):
        assert take(restored(again, tmp_path / str(number)), 14 - number) == batches[number + 1 :]


@pytest.mark.parametrize("seed", [0, 7])
def test_buffer_mode_depends_on_the_seed_alone(make_index, seed):
    first, second, other = (
        make_stream(make_index(23), 5, shuffle="buffer", shuffle_buffer_size=10, seed=s) for s in (seed, seed, seed + 1)
    )
    batches = take(iter(first.dataset()), 10)
    tf.random.set_seed(99)
    assert take(iter(second.dataset()), 10) == batches
    assert take(iter(other.dataset()), 10) != batches


def test_buffer_mode_cannot_seek(make_index):
    stream = make_stream(make_index(5), 2, shuffle="buffer")
    assert not stream.seekable
    with pytest.raises(ValueError, match="cannot seek to 2"):
        stream.dataset(2)


def test_fingerprint_changes_with_everything_that_moves_an_example(make_index):
    index = make_index(5, 2)
    base = make_stream(index, 2).fingerprint()
    assert make_stream(index, 3).fingerprint() == base
    for change in (dict(seed=2), dict(shuffle="none"), dict(shuffle_window=2), dict(shuffle_block=1)):
        assert make_stream(index, 2, **change).fingerprint() != base
    assert make_stream(make_index(2, 5), 2).fingerprint() != base


def test_a_step_at_another_position_fails_in_lowlevel(make_index):
    from lowlevel.inputs import next_batch

    dataset = make_stream(make_index(*SMALL), 5).dataset(5).map(lambda ids, _, info: (ids, ids, info))
    iterator, examples_seen = iter(dataset), tf.Variable(5, dtype=tf.int64)
    step = tf.function(lambda: next_batch(iterator, examples_seen)[2]["position"])
    assert step() == 5 and examples_seen == 10
    examples_seen.assign(11)
    with pytest.raises(tf.errors.InvalidArgumentError, match="drifted"):
        step()


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no tf.estimator")
def test_a_step_at_another_position_fails_in_the_estimator(make_index):
    from estimator.inputs import next_batch

    stream = make_stream(make_index(*SMALL), 5)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.random.set_seed(1)
        features, _, info = tf.compat.v1.data.make_one_shot_iterator(stream.dataset(5)).get_next()
        examples_seen = tf.compat.v1.get_variable("seen", [], tf.int64, tf.constant_initializer(5), use_resource=True)
        step = next_batch(features, features, info, examples_seen)
        session.run(examples_seen.initializer)
        session.run(step)
        assert session.run(examples_seen) == 10
        session.run(examples_seen.assign(11))
        with pytest.raises(tf.errors.InvalidArgumentError, match="drifted"):
            session.run(step)
        assert session.run(examples_seen) == 11


@pytest.mark.parametrize("fields", [{}, dict(shuffle="buffer"), dict(shuffle="none")])
def test_no_dataset_has_a_tuning_thread_to_wait_for(make_index, fields):
    index = make_index(*SMALL)
    assert make_stream(index, 5, **fields).dataset().options().autotune.enabled is False
    assert eval_dataset(index.paths, 4, lambda serialized: serialized).options().autotune.enabled is False


def test_evaluation_is_one_pass_in_file_order(make_index):
    index = make_index(3, 0, 2)
    batches = [serialized.numpy().tolist() for serialized, _ in eval_dataset(index.paths, 2, lambda s: (s, s))]
    assert batches == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


def test_buffer_larger_than_the_data_saves_no_empty_places(make_index, tmp_path, monkeypatch):
    index, places = make_index(*SMALL), []
    shuffle = tf.raw_ops.ShuffleDataset

    def shuffle_of_so_many(**arguments):
        places.append(arguments["buffer_size"])
        return shuffle(**arguments)

    monkeypatch.setattr(tf.raw_ops, "ShuffleDataset", shuffle_of_so_many)

    def order_and_bytes(size):
        iterator = iter(make_stream(index, 4, shuffle="buffer", shuffle_buffer_size=size).dataset())
        order = [next(iterator)[2]["example_ids"].numpy().tolist() for _ in range(3)]
        prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / str(size)))
        return order, os.path.getsize(prefix + ".data-00000-of-00001")

    (large, large_bytes), (exact, _), (small, _) = (order_and_bytes(size) for size in (10**6, 11, 5))
    assert places == [11, 11, 5]
    assert large == exact != small
    # How many batches have been made ahead differs from time to time; a million places would be some hundred megabytes.
    assert large_bytes < 100_000


def test_batch_larger_than_the_data_is_an_epoch_and_costs_no_more(make_index):
    index = make_index(*SMALL)
    for start in (0, 5):
        large, exact = (iter(make_stream(index, size).dataset(start)) for size in (2**31 - 1, 11))
        batches = take(large, 3)
        assert batches == take(exact, 3)
        assert [len(ids) for _, ids in batches] == [11 - start, 11, 11]
