"""Small made-up IDX files, in the names that MNIST's come in."""

import gzip
import os

import numpy as np

NUM_TRAIN, NUM_EVAL = 200, 50
NAMES_IN_SOURCE = {"train": "train", "eval": "t10k"}


def made_up(part, number):
    """Returns images, uint8 [number, 28, 28], and labels, uint8 [number]: noise, and a bright row that tells the class."""
    random = np.random.RandomState(len(part))
    labels = random.randint(10, size=number).astype(np.uint8)
    images = random.randint(100, size=[number, 28, 28]).astype(np.uint8)
    images[np.arange(number), 4 + 2 * labels] = 255
    return images, labels


def write_idx(path, values, packed=False):
    """Writes uint8 values as an IDX file, with `.gz` at its name if packed."""
    data = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes() + values.tobytes()
    plain, gz = str(path), f"{path}.gz"
    for old in (plain, gz):
        if os.path.exists(old):
            os.remove(old)
    with gzip.open(gz, "wb", compresslevel=1) if packed else open(plain, "wb") as file:
        file.write(data)


def write_source(directory, packed=False):
    """Writes the four files; returns the directory."""
    os.makedirs(directory, exist_ok=True)
    for part, number in (("train", NUM_TRAIN), ("eval", NUM_EVAL)):
        images, labels = made_up(part, number)
        write_idx(os.path.join(directory, f"{NAMES_IN_SOURCE[part]}-images-idx3-ubyte"), images, packed)
        write_idx(os.path.join(directory, f"{NAMES_IN_SOURCE[part]}-labels-idx1-ubyte"), labels, packed)
    return directory
