"""What happens to the files of a directory, told by the kernel (inotify) as it happens."""

import ctypes
import os
import select
import struct
import time
from typing import Iterator, NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)

# From <sys/inotify.h>.
_KINDS = {0x2: "modified", 0x8: "closed", 0x80: "renamed", 0x100: "created", 0x200: "deleted"}
_EVENT = struct.Struct("iIII")
_READ_BYTES = 65536


class Change(NamedTuple):
    """A change of a file.

    Attributes:
      kind: "created", "modified", "closed" (after writing), "renamed" (this is the new name) or "deleted".
      path: the file, relative to the directory watched.
    """

    kind: str
    path: str


class Watch:
    """Tells of every change in a directory and in those of its subdirectories that are named.

    Args:
      directory: made if missing.
      subdirectories: names; made if missing.

    Raises:
      OSError: the kernel gives no watch.
    """

    def __init__(self, directory: str, subdirectories=()):
        self._descriptor = self._checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._names = {}
        paths = {name: os.path.join(directory, name) for name in ("", *subdirectories)}
        for path in paths.values():
            os.makedirs(path, exist_ok=True)
        for name, path in paths.items():
            number = _libc.inotify_add_watch(self._descriptor, os.fsencode(path), ctypes.c_uint32(sum(_KINDS)))
            self._names[self._checked(number)] = name

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), f"inotify: {os.strerror(ctypes.get_errno())}")
        return result

    def changes(self, secs: float) -> Iterator[Change]:
        """Yields the changes of the next so many seconds, each as it happens."""
        end = time.monotonic() + secs
        while select.select([self._descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
            data, at = os.read(self._descriptor, _READ_BYTES), 0
            while at < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
                at += _EVENT.size + length
                if mask & sum(_KINDS):
                    yield Change(_KINDS[mask & sum(_KINDS)], os.path.join(self._names[number], os.fsdecode(name)))

    def fileno(self) -> int:
        """Returns what `select` takes: it is ready when there are changes to be told."""
        return self._descriptor

    def close(self) -> None:
        """Ends the watch."""
        os.close(self._descriptor)
