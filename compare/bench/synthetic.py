"""Records made on the spot, by the million: TFRecord files of `tf.train.Example`s that differ in two fields only.

All records of a call have one length, so that their frames are rows of a matrix and numpy writes them: about a million
small ones a second.
"""

import os
from typing import List, Optional

import numpy as np
import tensorflow as tf

from midepoch.frames import CRC32C_TABLE, masked_crc32c

_ROWS_AT_ONCE = 65536
_NUM_CLASSES = 10


def _crc32c_tables() -> np.ndarray:
    """Returns table[k][b]: the CRC-32C register after byte b and k zero bytes, uint32 [8, 256]."""
    tables = [CRC32C_TABLE]
    for _ in range(7):
        tables.append(CRC32C_TABLE[tables[-1] & 0xFF] ^ (tables[-1] >> 8))
    return np.stack(tables)


_TABLES = _crc32c_tables()


def _masked_crc32c(rows: np.ndarray) -> np.ndarray:
    """Returns the checksum that TFRecord files keep of each row; uint8 [n, bytes] to uint32 [n]. Eight bytes at a time."""
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    whole = rows.shape[1] // 8 * 8
    for at in range(0, whole, 8):
        low = crc ^ np.ascontiguousarray(rows[:, at : at + 4]).view("<u4")[:, 0]
        crc = np.zeros(len(rows), np.uint32)
        for byte in range(4):
            crc ^= _TABLES[7 - byte][(low >> (8 * byte)) & 0xFF] ^ _TABLES[3 - byte][rows[:, at + 4 + byte]]
    for at in range(whole, rows.shape[1]):
        crc = _TABLES[0][(crc ^ rows[:, at]) & 0xFF] ^ (crc >> 8)
    return masked_crc32c(crc)


def frames(payloads: np.ndarray) -> np.ndarray:
    """Returns rows framed as TFRecord files want them: uint8 [n, bytes] to uint8 [n, 12 + bytes + 4]."""
    count, size = payloads.shape
    framed = np.empty([count, 12 + size + 4], np.uint8)
    framed[:, :8] = np.frombuffer(np.array([size], "<u8").tobytes(), np.uint8)
    framed[:, 8:12] = _masked_crc32c(framed[:1, :8]).astype("<u4").view(np.uint8)
    framed[:, 12:-4] = payloads
    framed[:, -4:] = _masked_crc32c(payloads).astype("<u4").view(np.uint8).reshape(-1, 4)
    return framed


def example_rows(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns serialized examples of (`value`: bytes, `label`: a number below 128); uint8 [n, ...].

    Args:
      values: uint8 [n, bytes].
      labels: int [n].
    """
    marks = []
    for fill, label in ((0, 0), (255, 127)):
        example = tf.train.Example()
        example.features.feature["value"].bytes_list.value.append(bytes([fill]) * values.shape[1])
        example.features.feature["label"].int64_list.value.append(label)
        marks.append(np.frombuffer(example.SerializeToString(deterministic=True), np.uint8))
    # The two serialized examples differ in the label's one byte and in the value's: `label` sorts before `value`.
    where = np.flatnonzero(marks[0] != marks[1])
    rows = np.tile(marks[0], [len(values), 1])
    rows[:, where[0]] = labels
    rows[:, where[1:]] = values
    return rows


def write_examples(
    directory: str, num_records: int, value_bytes: int, num_files: int, values: Optional[np.ndarray] = None,
    labels: Optional[np.ndarray] = None,
) -> List[str]:
    """Writes examples in files of (nearly) the same number of records; see `parse`.

    Args:
      directory: where to; made if need be.
      num_records: in all files together.
      value_bytes: the size of `value`; its first eight bytes are the record's number unless `values` are given.
      num_files: how many files.
      values: uint8 [num_records, value_bytes] to write instead of made-up ones.
      labels: int [num_records], below 128; by default random ones below 10.

    Returns:
      The files' paths, sorted.
    """
    os.makedirs(directory, exist_ok=True)
    generator = np.random.default_rng(0)
    filler = generator.integers(0, 256, [min(num_records, _ROWS_AT_ONCE), value_bytes], dtype=np.uint8)
    bounds = [num_records * number // num_files for number in range(num_files + 1)]
    paths = []
    for number, (first, end) in enumerate(zip(bounds, bounds[1:])):
        paths.append(os.path.join(directory, f"train-{number:03}.tfrecord"))
        with open(paths[-1], "wb") as file:
            for at in range(first, end, _ROWS_AT_ONCE):
                stop = min(at + _ROWS_AT_ONCE, end)
                if values is None:
                    rows = filler[: stop - at].copy()
                    rows[:, :8] = np.arange(at, stop, dtype="<i8").view(np.uint8).reshape(-1, 8)
                else:
                    rows = values[at:stop]
                some = generator.integers(_NUM_CLASSES, size=stop - at) if labels is None else labels[at:stop]
                file.write(frames(example_rows(rows, some)).tobytes())
    return paths


def parse(serialized: tf.Tensor):
    """Turns serialized examples, string [B], into values, float32 [B, bytes] in 0 … 1, and labels, int64 [B]."""
    spec = {"value": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_example(serialized, spec)
    return tf.cast(tf.io.decode_raw(parsed["value"], tf.uint8), tf.float32) / 255.0, parsed["label"]
