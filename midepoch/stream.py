"""The example stream: which example comes at which position, and the tf.data pipeline that reads it.

The definition. The N records are numbered by **example id**, 0 … N−1. Position p of the endless stream holds

    x[p] = π(seed, p div N)[p mod N]

where π(seed, e) is the permutation of epoch e:

* `none`: the identity.
* `window`: the ids are cut into blocks of K consecutive ids; the one block that may be shorter is always the last. The
  full blocks are permuted by RandomIndexShuffle (8 rounds), whose three seeds are philox numbers of (seed, e); the short
  block keeps the last place. Every M = max(1, W div K) blocks in that order make a window. The ids of a window, ascending,
  are shuffled by StatelessShuffle with a philox seed of (seed, e, window).
* `buffer`: whatever `Dataset.shuffle` makes of two philox seeds of (seed, e); only reproducible, not defined.

A batch is x[p … p+B−1], cut at the end of the epoch. Since p alone says what comes next, seeking to p and restoring an
iterator saved at p are the same thing.

While a window is used, the next one is read; a step that takes longer than the making of its batch waits for none of that,
but where the last window of an epoch is so short that it is used up before the next one has been read.

Memory of `window`: at most 4 × W × (bytes of a record + 64) + 16 MB, and the parsed batches that tf.data prefetches. Of the
four, one is the window in use; the next one is read while it is used, copied into a matrix, and copied in its new order.
"""

from typing import Any, Callable, Tuple

import numpy as np
import tensorflow as tf

from midepoch import checksums
from midepoch.config import TrainConfig
from midepoch.records import RecordIndex

# Counted up when a change of the pipeline makes old iterator states unusable (positions stay valid for ever).
PIPELINE_VERSION = 4

WINDOWS_IN_MEMORY = 4  # at most; see above
_MORE_BYTES_PER_RECORD, _MORE_BYTES = 64, 16 * 2**20

_ROUNDS = 8
_PHILOX = tf.random.Algorithm.PHILOX.value
_READ_BYTES = 256 * 1024
_MOST_BLOCKS_PER_READING = 16  # each has its file open, and a buffer
_NO_BLOCK, _END_OF_WINDOW = -1, -2  # among the blocks of a window, to make their number the same in all


def seeds(seed, epoch, count: int) -> tf.Tensor:
    """Returns `count` philox numbers of (seed, epoch); int64 [count]. Scalars int64 in, `seed` >= 0."""
    return _numbers(tf.stack([tf.cast(seed, tf.int64), tf.cast(epoch, tf.int64)]), [count])


# What tf.random.stateless_uniform and stateless_shuffle compute with alg="philox", by two ops instead of some forty: they
# count at every start.


def _numbers(seed: tf.Tensor, shape: list) -> tf.Tensor:
    """Returns philox numbers of a seed, int64 [2]; int64."""
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    return tf.raw_ops.StatelessRandomUniformFullIntV2(shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=tf.int64)


def _shuffled(values: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns a vector in an order that is a function of a seed, int64 [2]."""
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    return tf.raw_ops.StatelessShuffle(value=values, key=key, counter=counter, alg=_PHILOX)


class WindowOrder:
    """π of `window` and `none`: pure arithmetic, no files.

    Args:
      num_records: N, at least 1.
      seed: the run's seed; ignored without `shuffle`.
      window: W, in records.
      block: K, in records.
      shuffle: False gives file order.
    """

    def __init__(self, num_records: int, seed: int, window: int, block: int, shuffle: bool = True):
        self.num_records = num_records
        self.seed = seed
        self.shuffle = shuffle
        self.block = block
        self.num_blocks = -(-num_records // block)
        self.blocks_per_window = max(1, window // block)
        if self.blocks_per_window >= self.num_blocks:
            # The window holds the whole epoch, and sorts its blocks: one big block is the same order for less work.
            self.block, self.num_blocks, self.blocks_per_window = num_records, 1, 1
        self.window = self.blocks_per_window * self.block
        self.num_windows = -(-self.num_blocks // self.blocks_per_window)

    def window_blocks(self, epoch, window) -> tf.Tensor:
        """Returns the blocks of a window, ascending; int64 [M], shorter in the last window. Scalars int64 in."""
        first = window * self.blocks_per_window
        places = tf.range(first, tf.minimum(first + self.blocks_per_window, self.num_blocks))
        full_blocks = self.num_records // self.block
        if not self.shuffle or full_blocks < 2:
            return places
        # An index above max_index would send RandomIndexShuffle into an endless loop.
        permuted = tf.raw_ops.RandomIndexShuffle(
            index=tf.minimum(places, full_blocks - 1),
            seed=tf.tile(seeds(self.seed, epoch, 3)[tf.newaxis], [tf.size(places), 1]),
            max_index=tf.constant(full_blocks - 1, tf.int64),
            rounds=_ROUNDS,
        )
        return tf.sort(tf.where(places < full_blocks, permuted, places))

    def window_order(self, epoch, window) -> Tuple[tf.Tensor, tf.Tensor]:
        """Returns a window's example ids in stream order, and where each lies among the window's records as read.

        Args:
          epoch: scalar int64.
          window: scalar int64, its number in the epoch.

        Returns:
          (example ids, places), both int64 [records in the window].
        """
        starts = self.window_blocks(epoch, window) * self.block
        ids = tf.reshape(starts[:, tf.newaxis] + tf.range(self.block, dtype=tf.int64), [-1])
        # Only the last window is shorter, and the short block is the last of its ids.
        ids = ids[: self.num_records - window * self.window]
        places = tf.range(tf.size(ids, out_type=tf.int64))
        if self.shuffle:
            # The seed of an epoch, folded with the window as tf.random.experimental.stateless_fold_in does it.
            of_epoch = _numbers(seeds(self.seed, epoch, 2), [])
            places = _shuffled(places, tf.stack([of_epoch, tf.cast(window, tf.int64)]))
        return tf.gather(ids, places), places

    def epoch_order(self, epoch: int) -> np.ndarray:
        """Returns π(seed, epoch); int64 [N]. For tests and people; the pipeline never needs all of it."""
        windows = tf.range(self.num_windows, dtype=tf.int64)
        return np.concatenate([self.window_order(tf.constant(epoch, tf.int64), w)[0].numpy() for w in windows])


# No function of the pipeline has Python control flow over tensors. Converting them all would take a second of every start.
_plain = tf.autograph.experimental.do_not_convert


def window_memory_bytes(window: int, record_bytes: float) -> int:
    """Returns what a window shuffle needs at most, parsed batches not counted; `window` in records."""
    return int(WINDOWS_IN_MEMORY * window * (record_bytes + _MORE_BYTES_PER_RECORD)) + _MORE_BYTES


Batch = Tuple[Any, Any, dict]
ParseFn = Callable[[tf.Tensor], Tuple[Any, Any]]


class ExampleStream:
    """The endless stream of training batches over some TFRecord files.

    Args:
      index: the files' records.
      config: a resolved config; its batch size, seed and shuffle flags are used.
      parse: serialized records, string [B], to (features, labels), both [B, ...].

    Attributes:
      index: the files' records.
      seekable: whether `dataset` can start anywhere.
      version: of the pipeline; an iterator's state fits only the same one.
    """

    def __init__(self, index: RecordIndex, config: TrainConfig, parse: ParseFn):
        self.index = index
        self._config = config
        self._parse = parse
        self.seekable = config.shuffle != "buffer"
        self.version: Any = PIPELINE_VERSION
        if config.shuffle == "none":  # read in blocks as well, which move no example, but the iterator counts in them
            self.version = f"{PIPELINE_VERSION}, {config.shuffle_window} records in blocks of {config.shuffle_block}"

    def fingerprint(self) -> dict:
        """Returns what fixes the order of the examples: equal fingerprints, equal streams."""
        config = self._config
        order = {"shuffle": config.shuffle, "seed": config.seed, "data": self.index.fingerprint()}
        if config.shuffle == "window":
            order.update(shuffle_window=config.shuffle_window, shuffle_block=config.shuffle_block)
        if config.shuffle == "buffer":
            # The batch size too: there is no seeking, so a buffer's state has to fit as it is.
            order.update(shuffle_buffer_size=config.shuffle_buffer_size, batch_size=config.batch_size)
        return order

    def dataset(self, start: int = 0) -> tf.data.Dataset:
        """Returns the batches from position `start` on, without end.

        Args:
          start: the first position, `examples_seen` of the run; a seek costs at most the reading of one window.

        Returns:
          A dataset of (features, labels, info): features and labels as `parse` gives them, [B, ...]; info holds
          `example_ids`, int64 [B], and, unless the shuffle is `buffer`, `position`, int64 [], that of the batch's first
          example.

        Raises:
          ValueError: a shuffle buffer is to start elsewhere than at 0.
        """
        pipeline = self._windowed(start) if self.seekable else self._buffered(start)
        options = tf.data.Options()
        options.deterministic = True
        # Cursors instead of buffers in the iterator's state; tf.data's shuffle saves its buffer in either mode, and restores
        # faster in the other.
        options.experimental_symbolic_checkpoint = self.seekable
        return untuned(pipeline.prefetch(tf.data.AUTOTUNE).with_options(options))

    def _buffered(self, start: int) -> tf.data.Dataset:
        """The op behind `Dataset.shuffle`, an epoch at a time, each with seeds of its own.

        The usual `shuffle(size, seed).batch(n).repeat()` draws the seeds of all epochs from one hidden generator. A state
        saved when the whole rest of an epoch was in the buffer mostly went on with another order in the next epoch.
        """
        if start:
            raise ValueError(f"a shuffle buffer cannot seek to {start}; only its saved state can be restored")
        config = self._config
        records = checksums.read(self.index.paths).enumerate()

        def epoch_batches(epoch) -> tf.data.Dataset:
            epoch_seeds = seeds(config.seed, epoch, 2)
            shuffled = tf.raw_ops.ShuffleDataset(
                input_dataset=tf.data.experimental.to_variant(records),
                buffer_size=min(config.shuffle_buffer_size, self.index.num_records),  # its empty places would be saved too
                seed=epoch_seeds[0],
                seed2=epoch_seeds[1],
                reshuffle_each_iteration=False,
                output_types=[tf.int64, tf.string],
                output_shapes=[[], []],
            )
            return tf.data.experimental.from_variant(shuffled, records.element_spec).batch(config.batch_size)

        def parse_batch(ids, serialized) -> Batch:
            return (*self._parse(serialized), {"example_ids": ids})

        batches = tf.data.Dataset.range(2**62).flat_map(epoch_batches)
        return batches.map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE)

    def _windowed(self, start: int) -> tf.data.Dataset:
        """Blocks are read, gathered into windows, permuted, and cut into batches; every stage is a plain cursor.

        A window is a matrix whose rows are batches, since a stage that handles rows costs a fraction of one that handles
        records. Where a batch may lie across windows, each of them holds a piece of it: a row filled up with −1. Every
        batch then consists of the same number of rows, as many of them empty as need be.
        """
        config = self._config
        shuffle = config.shuffle == "window"
        # File order needs no window; reading it in the same blocks keeps one pipeline for both.
        order = WindowOrder(self.index.num_records, config.seed, config.shuffle_window, config.shuffle_block, shuffle)
        num_records = order.num_records
        batch_size = min(config.batch_size, num_records)  # as wide as a row may be: a batch ends with its epoch
        start_epoch, start_in_epoch = divmod(start, num_records)
        start_window, start_in_window = divmod(start_in_epoch, order.window)
        first = start_epoch * order.num_windows + start_window  # windows are counted through all epochs
        aligned = order.num_windows == 1 or (order.window % batch_size == 0 and start_in_window % batch_size == 0)
        rows_per_batch = 1 if aligned else (batch_size + order.window - 2) // order.window + 1  # windows a batch can meet

        readings = -(-order.blocks_per_window // _MOST_BLOCKS_PER_READING)
        blocks_per_reading = -(-order.blocks_per_window // readings)
        rows_per_window = readings * blocks_per_reading  # a block each

        @_plain
        def blocks(window) -> tf.Tensor:
            listed = order.window_blocks(window // order.num_windows, window % order.num_windows)
            listed = tf.pad(listed, [[0, rows_per_window - tf.size(listed)]], constant_values=_NO_BLOCK)
            listed = tf.reshape(listed, [readings, blocks_per_reading])
            return tf.pad(listed, [[0, 1], [0, 0]], constant_values=_END_OF_WINDOW)

        @_plain
        def permute(window, records) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            # tf.equal, since in an Estimator's graph `==` between tensors asks whether they are the same object.
            epoch, in_epoch = window // order.num_windows, window % order.num_windows
            ids, places = order.window_order(epoch, in_epoch)
            zero = tf.constant(0, tf.int64)
            skip = tf.where(tf.equal(window, first), tf.constant(start_in_window, tf.int64), zero)
            # Where in the epoch its batches begin.
            first_batch = tf.where(tf.equal(epoch, start_epoch), tf.constant(start_in_epoch, tf.int64), zero)
            begin = in_epoch * order.window + skip  # in the epoch
            positions = epoch * num_records + tf.range(begin, in_epoch * order.window + tf.size(ids, out_type=tf.int64))
            # A window as read ends with an empty row: what fills a batch up.
            empty = tf.constant(rows_per_window * order.block, tf.int64)
            numbers = tf.stack([positions, ids[skip:], places[skip:]])
            lead = (begin - first_batch) % batch_size
            trail = -(lead + tf.size(positions, out_type=tf.int64)) % batch_size
            rows = tf.reshape(tf.pad(numbers, [[0, 0], [lead, trail]], constant_values=-1), [3, -1, batch_size])
            if rows_per_batch > 1:
                earlier = in_epoch - (begin - lead) // order.window  # windows that hold pieces of the first row's batch
                goes_on = tf.logical_and(trail > 0, in_epoch < order.num_windows - 1)
                rows = _with_empty_rows(rows, rows_per_batch, earlier, goes_on)
            positions, ids, places = tf.unstack(rows)
            return positions, ids, tf.gather(tf.reshape(records, [-1]), tf.where(places < 0, empty, places))

        def parse_batch(positions, ids, serialized) -> Batch:
            if rows_per_batch == 1:  # then what fills it up comes last; a slice costs a step less than what follows
                size = tf.reshape(tf.math.count_nonzero(ids >= 0), [1])
                begin = tf.constant([0], tf.int64)
                position, ids, serialized = positions[0], tf.slice(ids, begin, size), tf.slice(serialized, begin, size)
            else:
                positions, ids, serialized = (tf.reshape(part, [-1]) for part in (positions, ids, serialized))
                real = tf.reshape(tf.where(ids >= 0), [-1])
                position = tf.gather(positions, real[0])
                ids, serialized = tf.gather(ids, real), tf.gather(serialized, real)
            features, labels = self._parse(serialized)
            return features, labels, {"position": position, "example_ids": ids}

        rows = (
            tf.data.Dataset.range(first, 2**62)
            .map(blocks)
            .unbatch()
            .flat_map(self._reading(order))
            .padded_batch(rows_per_window + 1, [order.block])
            .enumerate(first)
            .map(permute)
            .prefetch(1)
            .unbatch()
        )
        batches = rows if rows_per_batch == 1 else rows.batch(rows_per_batch)
        return batches.map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE)

    def _reading(self, order: WindowOrder) -> Callable[[tf.Tensor], tf.data.Dataset]:
        """Returns a function from the numbers of some blocks, int64 [*], to a dataset of the records of each, string [K].

        For `_NO_BLOCK` an element is empty; for `_END_OF_WINDOW` there is just one, and it is empty.

        What it needs to know of the files is in the graph: 8 bytes for each block, a third of a megabyte for 10 million
        records in blocks of 256, and the names of the files.
        """
        first_ids = np.arange(order.num_blocks) * order.block
        files, offsets = self.index.locate(first_ids)
        last_files, _ = self.index.locate(np.minimum(first_ids + order.block, order.num_records) - 1)
        files_per_block = int((last_files - files).max()) + 1
        # One number says both file and offset: the offset in all files, one after another.
        file_starts = np.concatenate([[0], np.cumsum(self.index.file_bytes)[:-1]]).astype(np.int64)
        block_starts, file_starts = tf.constant(file_starts[files] + offsets), tf.constant(file_starts)
        all_paths = tf.constant(self.index.paths)
        mean_block_bytes = sum(self.index.file_bytes) // order.num_blocks
        buffer_bytes = min(max(mean_block_bytes, 4096), _READ_BYTES)

        def nothing() -> tf.data.Dataset:
            # Not `from_tensors`: with op determinism on, one such op switches off every prefetch and parallel map.
            return tf.data.Dataset.from_tensor_slices(tf.constant([[]], tf.string))

        @_plain
        def read(block) -> tf.data.Dataset:
            # The reader starts at the block's offset and goes on into the next files, where the block does. Where there is no
            # block it has no file, and an empty row comes from what stands behind it.
            start = tf.gather(block_starts, tf.maximum(block, 0))
            file = tf.math.count_nonzero(file_starts <= start) - 1
            paths = all_paths[file : tf.where(block < 0, file, file + files_per_block)]
            offsets = tf.pad([start - tf.gather(file_starts, file)], [[0, files_per_block - 1]])[: tf.size(paths)]
            reader = tf.raw_ops.TFRecordDatasetV2(
                filenames=paths, compression_type="", buffer_size=buffer_bytes, byte_offsets=offsets
            )
            records = tf.data.experimental.from_variant(reader, tf.TensorSpec([], tf.string)).batch(order.block)
            return records.concatenate(nothing())

        @_plain
        def read_together(blocks) -> tf.data.Dataset:
            def rows() -> tf.Tensor:
                # Each reader gives one block and is then left alone. None ever ends: all are forgotten at once, when the
                # dataset of these rows has ended. Each end of an iterator costs a step a good part of a millisecond.
                readers = tf.data.Dataset.from_tensor_slices(blocks).interleave(read, blocks.shape[0], block_length=1)
                return tf.data.experimental.to_variant(readers.take(blocks.shape[0]))

            def one_empty_row() -> tf.Tensor:
                return tf.data.experimental.to_variant(nothing())

            variant = tf.cond(tf.equal(blocks[0], _END_OF_WINDOW), one_empty_row, rows)
            return tf.data.experimental.from_variant(variant, tf.TensorSpec([None], tf.string))

        return read_together


def check_position(position: tf.Tensor, examples_seen: tf.Tensor) -> tf.Operation:
    """Makes a step fail with InvalidArgumentError if its batch is not the one that is due.

    Args:
      position: int64 [], the batch's.
      examples_seen: int64 [].

    Returns:
      The op to run; in a `tf.function` it runs by itself.
    """
    # The bare op, since tf.debugging.assert_equal wraps it into a tf.cond that costs every step.
    drifted = "the input has drifted from examples_seen: position and examples_seen are"
    return tf.raw_ops.Assert(condition=tf.equal(position, examples_seen), data=[drifted, position, examples_seen])


def _with_empty_rows(rows: tf.Tensor, rows_per_batch: int, earlier: tf.Tensor, goes_on: tf.Tensor) -> tf.Tensor:
    """Gives every batch the same number of rows, counted through all windows.

    Args:
      rows: int64 [3, R, B], a window's; the first may be the end, or the middle, of a batch, the last the beginning of one.
      rows_per_batch: how many rows each batch is to have.
      earlier: int64 [], rows that earlier windows gave to the batch of the first row.
      goes_on: bool [], whether the next window adds to the batch of the last row.

    Returns:
      int64 [3, *, B]: each row, followed by the empty ones, all −1, of its batch.
    """
    empty = rows_per_batch - 1
    padded = tf.pad(rows[:, :, tf.newaxis], [[0, 0], [0, 0], [0, empty], [0, 0]], constant_values=-1)
    padded = tf.reshape(padded, [3, -1, rows.shape[-1]])
    padded = tf.concat([padded[:, :1], padded[:, 1 + earlier :]], axis=1)
    only_one = tf.equal(tf.shape(rows)[1], 1)
    left_out = tf.where(goes_on, empty - tf.where(only_one, earlier, tf.zeros_like(earlier)), tf.zeros_like(earlier))
    return padded[:, : tf.shape(padded, tf.int64)[1] - left_out]


def eval_dataset(paths: tuple, batch_size: int, parse: ParseFn) -> tf.data.Dataset:
    """Returns one pass over evaluation files in file order; (features, labels), the last batch may be smaller."""
    records = checksums.read(paths).batch(batch_size)
    return untuned(records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE))


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset without tf.data's tuning thread: AUTOTUNE means as many calls at once as there are cores, at most 16.

    Closing an iterator waits for that thread, and now and then it sleeps on, for up to as long again as the iterator has
    lived: a run that had stopped in time ended seconds too late. Tuning also took more of two cores than it gave.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
