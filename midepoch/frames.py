"""The frames of a TFRecord file: where each record starts, found without reading the records.

A TFRecord file is a chain of frames: 8 bytes length (little endian), 4 bytes masked CRC-32C of the length, the record, 4
bytes masked CRC-32C of the record. So the offsets are found by hopping from length to length. A compressed file holds the
same chain, GZIP or ZLIB around it, and has to be read in full.
Source of the format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details

TensorFlow is not needed here; the checksums of the records themselves are checked in `checksums.py`.
"""

import array
import mmap
import os
import struct
import zlib
from typing import Any, Callable, Iterator, NamedTuple, Optional, Tuple

import numpy as np

_HEADER_BYTES = 12
_FOOTER_BYTES = 4
# Frames looked at together: few where lengths differ, more and more where they are equal. A run of equal lengths is tried
# only as far as the last one held, so that large records do not cost reading where no header is.
_FEW, _MANY = 1024, 65536
_SHORTEST_RUN = 16
_PIECE_BYTES = 1024 * 1024
# A map of a file counts as memory of the process as far as it has been looked at; so it is given back as often as that.
_GIVE_BACK_BYTES = 64 * 1024 * 1024

_length_at = struct.Struct("<Q").unpack_from


class Damage(NamedTuple):
    """Where the chain of frames breaks.

    Attributes:
      record: number of the record in its file.
      offset: of its frame, in bytes; in a compressed file, of the decompressed data.
      why: what is wrong there.
    """

    record: int
    offset: int
    why: str


def compression(path: str) -> str:
    """Returns how a file is compressed, in TensorFlow's words: "GZIP", "ZLIB", or "" for plain and empty files.

    Raises:
      OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        header = file.read(_HEADER_BYTES)
    # A plain file first: a record of 35,615 bytes starts as GZIP does, but then its length has a checksum.
    if len(header) == _HEADER_BYTES and _lengths_hold(np.frombuffer(header, np.uint8)[np.newaxis])[0]:
        return ""
    if header[:2] == b"\x1f\x8b":
        return "GZIP"
    return "ZLIB" if header[:1] == b"\x78" and header[1:2] in (b"\x01", b"\x5e", b"\x9c", b"\xda") else ""


def scan(path: str, advance: Callable[[int], Any] = lambda num_bytes: None) -> Tuple[np.ndarray, Optional[Damage]]:
    """Finds the records of a file.

    Args:
      path: the file.
      advance: is told of every piece done, in bytes of the file.

    Returns:
      (offsets, damage): the offset of each record's frame as far as the chain holds, int64 [records], in the decompressed
      data if the file is compressed; and where the chain breaks, or None.

    Raises:
      OSError: the file cannot be read.
    """
    size = os.path.getsize(path)
    if size == 0:
        return np.zeros(0, np.int64), None
    found, count, problem = [], 0, None
    start, rest = 0, b""  # what no whole frame has had yet, and where it starts
    compressed = compression(path)
    for data in _decompressed(path, advance) if compressed else _mapped(path):
        if isinstance(data, Exception):
            problem = str(data)
            break
        data = rest + data if rest else data
        at, run, given_back = 0, _SHORTEST_RUN, 0
        while True:
            offsets, end, run = _some_frames(data, at, run)
            found.append(start + offsets)
            count += len(offsets)
            if not compressed:
                advance(end - at)
                while end - given_back > _GIVE_BACK_BYTES:
                    data.madvise(mmap.MADV_DONTNEED, given_back, _GIVE_BACK_BYTES)
                    given_back += _GIVE_BACK_BYTES
            if not len(offsets):
                break
            at = end
        left = len(data) - at
        rest, start = data[at:] if compressed else data[at : at + _HEADER_BYTES], start + at
        if left >= _HEADER_BYTES and not _lengths_hold(np.frombuffer(rest[:_HEADER_BYTES], np.uint8)[np.newaxis])[0]:
            problem = "the checksum of its length is wrong"
            break
    if problem is None and rest:
        if left < _HEADER_BYTES:
            problem = f"the file ends {left} bytes into its header"
        else:
            (length,) = _length_at(rest)
            more = _HEADER_BYTES + length + _FOOTER_BYTES - left
            problem = f"it claims {length} bytes, {more} more than the file holds"
    return np.concatenate([*found, np.zeros(0, np.int64)]), problem and Damage(count, start, problem)


def _mapped(path: str) -> Iterator[Any]:
    """Yields a plain file as one piece. It is unmapped when nothing looks at it any more."""
    with open(path, "rb") as file:
        yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _decompressed(path: str, advance: Callable[[int], Any]) -> Iterator[Any]:
    """Yields the content of a compressed file piece by piece; at the end an exception if that is not its end."""
    inflate = None
    with open(path, "rb") as file:
        while raw := file.read(_PIECE_BYTES):
            advance(len(raw))
            while raw:
                # A file may hold several compressed streams, one after another.
                inflate = zlib.decompressobj(wbits=47) if inflate is None or inflate.eof else inflate  # 47: either kind
                try:
                    yield inflate.decompress(raw)
                except zlib.error as error:
                    yield error
                    return
                raw = inflate.unused_data
    if inflate and not inflate.eof:
        yield EOFError("the compressed data ends too early")


def _some_frames(data: Any, at: int, run: int) -> Tuple[np.ndarray, int, int]:
    """Finds the next whole frames whose lengths have the right checksum.

    Args:
      data: bytes, or a map of a file.
      at: offset of the first frame.
      run: frames to try for equal lengths.

    Returns:
      (offsets int64 [n], the offset after them, the next `run`); n is 0 if no whole frame starts at `at`.
    """
    size = len(data)
    if at + _HEADER_BYTES > size:
        return np.zeros(0, np.int64), at, run
    frame_bytes = _length_at(data, at)[0] + _HEADER_BYTES + _FOOTER_BYTES
    most = min(run, (size - at) // frame_bytes)
    if most >= _SHORTEST_RUN:
        # If a header is equal to the first, so is the length, and the next header lies where it is looked for: no guess.
        headers = np.ndarray([most, 3], "<u4", data, at, [frame_bytes, 4])
        equal = (headers == headers[0]).all(axis=1)
        num_equal = most if equal.all() else int(equal.argmin())
        if num_equal >= _SHORTEST_RUN and _lengths_hold(headers[:1].copy().view(np.uint8))[0]:
            grown = min(2 * run, _MANY) if num_equal == most else _SHORTEST_RUN
            return at + frame_bytes * np.arange(num_equal, dtype=np.int64), at + num_equal * frame_bytes, grown
    starts = array.array("q")
    last = size - _HEADER_BYTES
    while at <= last and len(starts) < _FEW:
        end = at + _length_at(data, at)[0] + (_HEADER_BYTES + _FOOTER_BYTES)
        if end > size:
            break
        starts.append(at)
        at = end
    offsets = np.frombuffer(starts, np.int64) if starts else np.zeros(0, np.int64)
    hold = _lengths_hold(np.frombuffer(data, np.uint8)[offsets[:, np.newaxis] + np.arange(_HEADER_BYTES)])
    if not hold.all():
        good = int(hold.argmin())
        return offsets[:good], int(offsets[good]), _SHORTEST_RUN
    return offsets, at, _SHORTEST_RUN


def _crc32c_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table


CRC32C_TABLE = _crc32c_table()  # the register after each byte, uint32 [256]


def masked_crc32c(register: np.ndarray) -> np.ndarray:
    """Returns what a TFRecord file keeps of CRC-32C registers, uint32 [n], that have taken all their bytes."""
    crc = ~register
    return ((crc >> 15) | (crc << 17)) + np.uint32(0xA282EAD8)


def _lengths_hold(headers: np.ndarray) -> np.ndarray:
    """Says of headers, uint8 [n, 12], whether the CRC-32C of the length is the one stored; bool [n]."""
    crc = np.full(len(headers), 0xFFFFFFFF, np.uint32)
    for column in range(8):
        crc = CRC32C_TABLE[(crc ^ headers[:, column]) & 0xFF] ^ (crc >> 8)
    return masked_crc32c(crc) == np.ascontiguousarray(headers[:, 8:12]).view("<u4")[:, 0]
