"""Indexes of TFRecord files, remembered from one start to the next: a file each, beside the data or in the user's cache.

Beside the data they lie in a folder of their own, `.midepoch`: a `*` of Python and of the shell leaves out hidden names, but
TensorFlow's own globs do not, and `*.tfrecord*` would match `.train-0.tfrecord.index`.

The format: SHA-256 of what the index is for and of its content; then the offsets, int64, little endian. Whatever does not
match in full (another version of the data, a cut file, somebody else's) is no index, and is made again.
"""

import hashlib
import os
from typing import Optional

import numpy as np

FOLDER = ".midepoch"
_DIGEST_BYTES = 32


def _places(path: str) -> tuple:
    """Returns where the index of a data file may lie, in the order of preference."""
    path = os.path.abspath(path)
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(os.path.join("~", ".cache"))
    name = hashlib.sha256(path.encode()).hexdigest()[:32]
    return (
        os.path.join(os.path.dirname(path), FOLDER, f"{os.path.basename(path)}.index"),
        os.path.join(user_cache, "midepoch", f"{name}.index"),
    )


def _digest(path: str, size: int, modified_ns: int, offsets: np.ndarray) -> bytes:
    digest = hashlib.sha256(f"midepoch index 1\n{os.path.basename(path)}\n{size}\n{modified_ns}\n".encode())
    digest.update(offsets)
    return digest.digest()


def load(path: str, size: int, modified_ns: int) -> Optional[np.ndarray]:
    """Returns the remembered offsets of a data file, or None.

    Args:
      path: the data file.
      size: its size, in bytes.
      modified_ns: when it was changed, in nanoseconds.
    """
    for place in _places(path):
        try:
            content = np.fromfile(place, np.uint8)
        except OSError:
            continue
        if len(content) < _DIGEST_BYTES or len(content) % 8:
            continue
        offsets = content[_DIGEST_BYTES:].view("<i8")
        if content[:_DIGEST_BYTES].tobytes() == _digest(path, size, modified_ns, offsets):
            return offsets
    return None


def store(path: str, size: int, modified_ns: int, offsets: np.ndarray) -> Optional[str]:
    """Remembers the offsets of a data file where that can be done, and returns where; nowhere is no error.

    Args:
      path: the data file.
      size: its size, in bytes, when it was indexed.
      modified_ns: when it was changed, in nanoseconds.
      offsets: int64 [records].
    """
    offsets = np.ascontiguousarray(offsets, "<i8")
    for place in _places(path):
        temporary = f"{place}.{os.getpid()}.tmp"
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            try:
                with open(temporary, "wb") as file:
                    file.write(_digest(path, size, modified_ns, offsets))
                    file.write(offsets)
                os.replace(temporary, place)
            except OSError:
                os.remove(temporary)
                raise
            return place
        except OSError:
            continue
    return None
