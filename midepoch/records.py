"""TFRecord files as one list of records: finding, counting, indexing, and proving them whole.

A TFRecord file is a chain of frames: 8 bytes length (little endian), 4 bytes masked CRC-32C of the length, the record, 4
bytes masked CRC-32C of the record. So the offsets are found by hopping from length to length, without reading the data.
Source of the format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

import contextlib
import dataclasses
import glob
import mmap
import os
from typing import Iterator

import numpy as np
import tensorflow as tf

from midepoch.errors import UserError

_HEADER_BYTES = 12
_FOOTER_BYTES = 4
# Up to this much data is read in full at start-up, every checksum, so that damage shows before anything is written.
VERIFY_BYTES = 256 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class RecordIndex:
    """Where every record of some files starts. A record's example id is its index over all files, in sorted order.

    Attributes:
      paths: the files, sorted.
      offsets: for each file, the byte offset of each record's frame; int64 [records in the file].
      file_bytes: size of each file.
    """

    paths: tuple
    offsets: tuple
    file_bytes: tuple

    @property
    def num_records(self) -> int:
        return sum(len(offsets) for offsets in self.offsets)

    def fingerprint(self) -> list:
        """Returns [base name, bytes, records] of each file: what must be equal for example ids to mean the same."""
        return [
            [os.path.basename(path), size, len(offsets)]
            for path, size, offsets in zip(self.paths, self.file_bytes, self.offsets)
        ]

    def locate(self, ids) -> tuple:
        """Returns (file number, byte offset) of records; int64 arrays of the shape of `ids`, an int array."""
        first_ids = np.concatenate([[0], np.cumsum([len(offsets) for offsets in self.offsets])])
        files = np.searchsorted(first_ids, ids, side="right") - 1
        all_offsets = np.concatenate([*self.offsets, np.zeros(0, np.int64)])
        return files.astype(np.int64), all_offsets[np.asarray(ids, np.int64)]


def find_files(pattern: str, flag: str) -> tuple:
    """Returns the files that match a glob, sorted.

    Raises:
      UserError: nothing matches.
    """
    paths = tuple(sorted(path for path in glob.glob(pattern) if os.path.isfile(path)))
    if not paths:
        raise UserError(f"--{flag}={pattern} matches no file; check the path and quote the glob")
    return paths


def build_index(paths: tuple) -> RecordIndex:
    """Indexes TFRecord files and proves their frames whole.

    Args:
      paths: file names, in the order that numbers the examples.

    Raises:
      UserError: a file is not a TFRecord file, is cut short, or (files of up to `VERIFY_BYTES` in all) holds a record
        whose checksum is wrong; the line names file, record number and byte offset.
    """
    offsets = tuple(_index_file(path) for path in paths)
    index = RecordIndex(paths, offsets, tuple(os.path.getsize(path) for path in paths))
    if index.num_records == 0:
        raise UserError(f"{paths[0]}{' and the other files' if len(paths) > 1 else ''} hold no record; give files with data")
    if sum(index.file_bytes) <= VERIFY_BYTES:
        for path, file_offsets in zip(paths, offsets):
            _verify_records(path, file_offsets)
    return index


def _index_file(path: str) -> np.ndarray:
    try:
        size = os.path.getsize(path)
        if size == 0:
            return np.zeros(0, np.int64)
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            offsets = []
            at = 0
            while at < size:
                if at + _HEADER_BYTES > size:
                    raise _damaged(path, len(offsets), at, f"the file ends {size - at} bytes into its header")
                length = int.from_bytes(data[at : at + 8], "little")
                end = at + _HEADER_BYTES + length + _FOOTER_BYTES
                if end > size:
                    raise _damaged(
                        path, len(offsets), at, f"it claims {length} bytes, {end - size} more than the file holds"
                    )
                offsets.append(at)
                at = end
            offsets = np.asarray(offsets, np.int64)
            _verify_lengths(path, data, offsets)
            return offsets
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def _damaged(path: str, record: int, offset: int, why: str) -> UserError:
    return UserError(
        f"{path}: record {record} at byte {offset} is damaged or this is no (uncompressed) TFRecord file: {why}; "
        "restore the file from its source"
    )


def _crc32c_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table


def _verify_lengths(path: str, data, offsets: np.ndarray) -> None:
    """Compares the CRC-32C of every record's length with the one stored, all records at once."""
    raw = np.frombuffer(data, np.uint8)
    header = raw[offsets[:, None] + np.arange(_HEADER_BYTES)]
    del raw  # the map cannot be closed while an array looks at it
    table = _crc32c_table()
    crc = np.full(len(offsets), 0xFFFFFFFF, np.uint32)
    for column in range(8):
        crc = table[(crc ^ header[:, column]) & 0xFF] ^ (crc >> 8)
    crc = ~crc
    masked = ((crc >> 15) | (crc << 17)) + np.uint32(0xA282EAD8)
    stored = np.ascontiguousarray(header[:, 8:12]).view("<u4")[:, 0]
    wrong = np.flatnonzero(masked != stored)
    if len(wrong):
        raise _damaged(path, int(wrong[0]), int(offsets[wrong[0]]), "the checksum of its length is wrong")


def _verify_records(path: str, offsets: np.ndarray) -> None:
    """Reads a file through TensorFlow's own reader, which checks every record's checksum."""
    record = 0
    try:
        for record, _ in enumerate(tf.data.TFRecordDataset(path), start=1):
            pass
    except tf.errors.DataLossError as error:
        raise _damaged(path, record, int(offsets[record]), "its checksum is wrong") from error
    if record != len(offsets):
        raise _damaged(path, record, int(offsets[record]), "the reader stops here")


@contextlib.contextmanager
def damage_explained(paths: tuple) -> Iterator[None]:
    """Turns TensorFlow's error over a file that was damaged or removed since it was indexed into one that names the record.

    Args:
      paths: the files that are read within the context; on an error they are read again, in full.

    Raises:
      UserError: one of them cannot be read to its end. Any other error goes through as it is.
    """
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.NotFoundError):
        for path in paths:
            _verify_records(path, _index_file(path))
        raise
