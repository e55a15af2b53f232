"""IDX files, the format that MNIST and its like come in, plain or as `.gz`.

A magic number (two zero bytes, the type of the values, the number of dimensions), each dimension as four bytes, big endian,
then the values, last dimension fastest. Source: https://yann.lecun.com/exdb/mnist/.
"""

import gzip
import os
import zlib

import numpy as np

from midepoch.errors import UserError

_UNSIGNED_BYTES = 0x08


def find_idx(directory: str, name: str) -> str:
    """Returns the path of an IDX file: `name`, or `name`.gz where there is no such file.

    Raises:
      UserError: there is neither.
    """
    plain = os.path.join(directory, name)
    path = plain if os.path.exists(plain) else f"{plain}.gz"
    if not os.path.exists(path):
        raise UserError(
            f"{directory} holds neither {name} nor {name}.gz; give the folder with the four files that the data set comes in"
        )
    return path


def read_idx(path: str, num_dimensions: int) -> np.ndarray:
    """Reads a whole file into memory.

    Args:
      path: the file; gzip if its name ends in `.gz`.
      num_dimensions: how many it must have: 3 for images, 1 for labels.

    Returns:
      The values, uint8 [...], read-only.

    Raises:
      UserError: it cannot be read or unpacked, its magic number is another one, or it is shorter or longer than it says.
    """
    data = _read_bytes(path)
    magic = _UNSIGNED_BYTES << 8 | num_dimensions
    if len(data) >= 4 and int.from_bytes(data[:4], "big") != magic:
        raise UserError(
            f"{path} has the magic number 0x{data[:4].hex()}, not 0x{magic:08x}, so it is no IDX file of bytes in "
            f"{num_dimensions} dimension{'s' if num_dimensions > 1 else ''}; check which file it is"
        )
    header_bytes = 4 + 4 * num_dimensions
    if len(data) < header_bytes:
        raise UserError(f"{path} is cut short: it ends {len(data)} bytes into its header; get it again")
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", num_dimensions, offset=4))
    missing = header_bytes + int(np.prod(shape, dtype=object)) - len(data)
    if missing:
        wrong = f"is cut short: {missing} bytes are missing" if missing > 0 else f"is {-missing} bytes too long"
        raise UserError(f"{path} {wrong}; its header says {' × '.join(map(str, shape))}; get it again")
    return np.frombuffer(data, np.uint8, offset=header_bytes).reshape(shape)


def _read_bytes(path: str) -> bytes:
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            return file.read()
    except EOFError as error:
        raise UserError(f"{path} is cut short: the gzip stream does not end; get it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is no readable gzip file ({error}); get it again") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
