"""The digits' files without TensorFlow, so that a PyTorch peer need not import it.

An `Example` is a protocol buffer: Features = 1, in it a map = 1 from name = 1 to Feature = 2, in that a bytes_list = 1 or an
int64_list = 3, whose values = 1. Source of the formats: tensorflow/core/example/{example,feature}.proto and
https://protobuf.dev/programming-guides/encoding/
"""

import glob
import os
from typing import Dict, List, Tuple

import numpy as np

import midepoch.tasks
from midepoch import frames

TRAIN, EVAL = "train-*.tfrecord", "eval-*.tfrecord"
_HEADER_BYTES, _FOOTER_BYTES = 12, 4


def _paths(pattern: str) -> List[str]:
    folder = os.path.join(os.path.dirname(midepoch.tasks.__file__), "digits_data")
    return sorted(glob.glob(os.path.join(folder, pattern)))


def num_records(pattern: str) -> int:
    """Returns the number of examples in the files of a pattern, TRAIN or EVAL."""
    return sum(len(frames.scan(path)[0]) for path in _paths(pattern))


def read(pattern: str) -> Tuple[np.ndarray, np.ndarray]:
    """Reads all examples of a pattern, TRAIN or EVAL, in the order of their ids.

    Returns:
      (images, float32 [N, 8, 8] in 0 … 1; labels, int64 [N]).
    """
    images, labels = [], []
    for path in _paths(pattern):
        with open(path, "rb") as file:
            data = file.read()
        starts = [int(offset) for offset in frames.scan(path)[0]]
        for start, end in zip(starts, [*starts[1:], len(data)]):
            features = _features(data[start + _HEADER_BYTES : end - _FOOTER_BYTES])
            images.append(np.frombuffer(features["image"], np.uint8).reshape(8, 8).astype(np.float32) / 16)
            labels.append(features["label"][0])  # a varint below 128 is its only byte
    return np.stack(images), np.array(labels, np.int64)


def _features(example: bytes) -> Dict[str, bytes]:
    """Returns the first value of each feature: the bytes, or a packed list of varints."""
    found = {}
    for entry in _fields(_fields(example)[1][0])[1]:
        name, feature = (_fields(entry)[number][0] for number in (1, 2))
        (values,) = _fields(feature).values()
        found[name.decode()] = _fields(values[0])[1][0]
    return found


def _fields(message: bytes) -> Dict[int, List[bytes]]:
    """Returns the fields of a message, all of which have to be length-delimited: number → contents."""
    fields: Dict[int, List[bytes]] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        length, at = _varint(message, at)
        fields.setdefault(tag >> 3, []).append(message[at : at + length])
        at += length
    return fields


def _varint(message: bytes, at: int) -> Tuple[int, int]:
    """Returns (the number that begins at a byte, where the next thing begins)."""
    value = shift = 0
    while True:
        byte = message[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
