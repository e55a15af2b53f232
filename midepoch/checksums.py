"""The checksums of records, read by TensorFlow's own reader; and what lies behind its errors in mid-training."""

import contextlib
import os
import re
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from midepoch import frames
from midepoch.records import RecordIndex, damaged

_READ_BYTES = 1024 * 1024


def read(paths: Sequence[str]) -> tf.data.Dataset:
    """Returns the records of files, one after another; string []. The files are plain, or all compressed in one way."""
    not_empty = next(filter(os.path.getsize, paths), paths[0])
    return tf.data.TFRecordDataset(list(paths), compression_type=frames.compression(not_empty), buffer_size=_READ_BYTES)


def wrong_records(
    path: str, offsets: np.ndarray, size: int, advance: Callable[[int], Any] = lambda num_bytes: None
) -> Iterator[int]:
    """Reads a file and yields the numbers of the records that cannot be read: the checksum is wrong, or the file is cut.

    Args:
      path: the file.
      offsets: of its frames, int64 [records], as `frames.scan` finds them.
      size: of the file, in bytes.
      advance: is told of every piece done, in bytes of the file.
    """
    if not len(offsets):
        return
    compressed = bool(frames.compression(path))
    together = int(np.clip(_READ_BYTES * len(offsets) // max(size, 1), 1, 4096))
    first = 0
    while first < len(offsets):
        # Many at a time up to the error, then one at a time up to the record.
        wrong = first
        for at_once in (together, 1):
            if compressed:
                wrong = _count_readable(path, 0, at_once)  # there is no starting in the middle
            elif wrong < len(offsets):
                wrong += _count_readable(path, int(offsets[wrong]), at_once)
        advance(size * min(wrong + 1, len(offsets)) // len(offsets) - size * first // len(offsets))
        if wrong < len(offsets):
            yield wrong
        if compressed:
            return
        first = wrong + 1


def _count_readable(path: str, offset: int, at_once: int, limit: int = -1) -> int:
    """Returns how many records can be read from an offset up to the first error, as multiples of `at_once` or all.

    Args:
      path: the file.
      offset: of the first record's frame, in bytes; 0 if the file is compressed.
      at_once: records to read together.
      limit: the most to read, or -1.
    """
    kind = frames.compression(path)

    @tf.autograph.experimental.do_not_convert
    def records_from(offset: tf.Tensor) -> tf.data.Dataset:
        reader = tf.raw_ops.TFRecordDatasetV2(
            filenames=[path], compression_type=kind, buffer_size=_READ_BYTES, byte_offsets=[offset]
        )
        return tf.data.experimental.from_variant(reader, tf.TensorSpec([], tf.string))

    if offset:  # within flat_map, since TensorFlow cannot iterate over this op itself
        records = tf.data.Dataset.from_tensors(np.int64(offset)).flat_map(records_from)
    else:
        records = tf.data.TFRecordDataset([path], kind, _READ_BYTES)
    count = 0
    try:
        for batch in records.take(limit).batch(at_once):
            count += len(batch)
    except tf.errors.DataLossError:
        pass
    return count


@contextlib.contextmanager
def damage_explained(indexes: Sequence[RecordIndex]) -> Iterator[None]:
    """Turns an error over data that was damaged, changed or removed since it was indexed into one that says so.

    Args:
      indexes: of the files that are read within the context.

    Raises:
      UserError: a file is gone or another one than at the start, or a record's checksum is wrong. Any other error goes
        through as it is.
    """
    try:
        yield
    except Exception as error:
        for index in indexes:
            index.check_unchanged()
        if isinstance(error, tf.errors.DataLossError):
            for index in indexes:
                _find_damage(index, error.message)
        raise


def _find_damage(index: RecordIndex, message: str) -> None:
    """Raises UserError if a record is damaged where TensorFlow says that it met one."""
    met = re.search(r"record at (\d+)", message)
    for path, offsets, size in zip(index.paths, index.offsets, index.file_bytes):
        record = np.searchsorted(offsets, int(met.group(1)), side="right") - 1 if met else -1
        if frames.compression(path):
            record = next(wrong_records(path, offsets, size), -1)
        elif record >= 0 and _count_readable(path, int(offsets[record]), 1, limit=1):
            record = -1
        if record >= 0:
            raise damaged(path, frames.Damage(int(record), int(offsets[record]), "its checksum is wrong"))
