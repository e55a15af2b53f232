"""TFRecord files as one list of records: finding, counting, indexing, and proving them whole.

    python -m midepoch.records 'data/train-*'             how many records each file holds
    python -m midepoch.records 'data/train-*' --verify    reads every checksum and lists the damaged records
"""

import argparse
import dataclasses
import glob
import os
import sys
import time
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from midepoch import cli, console, frames, index_cache
from midepoch.errors import UserError

# Up to this much data is read in full when it is indexed, every checksum, so that damage shows before anything is written.
VERIFY_BYTES = 256 * 1024 * 1024
# The index of more than this is remembered. Less is done in about a second, even for the smallest records, and the user's
# folder stays as it is.
REMEMBER_BYTES = 64 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class RecordIndex:
    """Where every record of some files starts. A record's example id is its index over all files, in sorted order.

    Eight bytes of memory a record.

    Attributes:
      paths: the files, sorted.
      offsets: for each file, the byte offset of each record's frame, in the decompressed data if it is compressed; int64
        [records in the file].
      file_bytes: size of each file.
      modified_ns: when each file was changed, in nanoseconds.
    """

    paths: tuple
    offsets: tuple
    file_bytes: tuple
    modified_ns: tuple

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
        ids = np.asarray(ids, np.int64)
        first_ids = np.cumsum([0, *map(len, self.offsets)])
        files = np.searchsorted(first_ids, ids, side="right") - 1
        offsets = np.empty(ids.shape, np.int64)
        for file in np.unique(files):
            in_file = files == file
            offsets[in_file] = self.offsets[file][ids[in_file] - first_ids[file]]
        return files.astype(np.int64), offsets

    def check_unchanged(self) -> None:
        """Raises UserError if a file is gone, or has another size or time of change than when it was indexed."""
        fix = "put the file back as it was and run the same command again; the last checkpoint is good"
        for path, size, modified_ns in zip(self.paths, self.file_bytes, self.modified_ns):
            try:
                now = os.stat(path)
            except OSError as error:
                raise UserError(f"{path} vanished during the run ({error.strerror}); {fix}") from error
            if (now.st_size, now.st_mtime_ns) != (size, modified_ns):
                how = f"{size} bytes then, {now.st_size} now" if now.st_size != size else "another time of change"
                raise UserError(f"{path} changed during the run ({how}); {fix}")


def find_files(pattern: str, flag: str, hint: Optional[str] = None) -> tuple:
    """Returns the files that match a glob, sorted.

    Args:
      pattern: the glob.
      flag: the flag it belongs to.
      hint: how to make files that match, or None; given where the glob is not the user's own.

    Raises:
      UserError: nothing matches.
    """
    paths = _matching(pattern)
    if not paths:
        fix = f"{hint}, or give your own" if hint else "check the path and quote the glob"
        raise UserError(f"--{flag}={pattern} matches no file; {fix}")
    return paths


def _matching(pattern: str) -> tuple:
    return tuple(sorted(path for path in glob.glob(pattern) if os.path.isfile(path)))


def build_index(
    paths: tuple, by_offset: bool = True, check_stop: Callable[[], None] = lambda: None, only_look: bool = False
) -> RecordIndex:
    """Indexes TFRecord files and proves their frames whole.

    The index of more than `REMEMBER_BYTES` is remembered (`index_cache`) until size or time of a file changes.

    Args:
      paths: file names, in the order that numbers the examples.
      by_offset: whether records are to be read by their offsets, which compressed files do not have.
      check_stop: called now and then; raises if the run is to stop.
      only_look: remember nothing; what is remembered is used.

    Raises:
      UserError: a file is not a TFRecord file, is cut short, is compressed in a way that does not do here, or (files of up
        to `VERIFY_BYTES` in all) holds a record whose checksum is wrong; the line names file, record number and byte offset.
    """
    began = time.monotonic()
    try:
        stats = [os.stat(path) for path in paths]
        total_bytes = sum(stat.st_size for stat in stats)
        verify, remember = total_bytes <= VERIFY_BYTES, total_bytes > REMEMBER_BYTES
        _check_compression([path for path, stat in zip(paths, stats) if stat.st_size], by_offset)
        with console.progress_bar(total_bytes * (1 + verify), "indexing") as show:

            def advance(num_bytes: int) -> None:
                show(num_bytes)
                check_stop()

            how = (verify, remember, only_look, advance)
            offsets = tuple(_offsets(path, stat, *how) for path, stat in zip(paths, stats))
    except OSError as error:
        raise UserError(f"cannot read {error.filename or 'the data'}: {error.strerror}") from error
    index = RecordIndex(paths, offsets, tuple(stat.st_size for stat in stats), tuple(stat.st_mtime_ns for stat in stats))
    if index.num_records == 0:
        raise UserError(f"{paths[0]}{' and the other files' if len(paths) > 1 else ''} hold no record; give files with data")
    secs = time.monotonic() - began
    if remember and secs > 1.0:  # where there is no terminal, and so no bar, this is the only sign
        of_files = console.count(len(paths), "file")
        console.say(f"indexed {index.num_records} records of {of_files} in {console.duration(secs)}")
    return index


def _check_compression(paths: List[str], by_offset: bool) -> None:
    kinds = [frames.compression(path) for path in paths]
    for path, kind in zip(paths, kinds):
        if kind and by_offset:
            unpack = {"GZIP": "gunzip", "ZLIB": "zlib-flate -uncompress"}[kind]
            raise UserError(
                f"{path} is {kind}-compressed, and this --shuffle reads records by their offsets: decompress it "
                f"({unpack} < {path} > ...), or use --shuffle=buffer, which reads it as it is"
            )
        if kind != kinds[0]:
            raise UserError(
                f"{path} is {kind or 'not'}-compressed and {paths[0]} is {kinds[0] or 'not'}-compressed; "
                "give files of one kind"
            )


def _offsets(
    path: str, stat: os.stat_result, verify: bool, remember: bool, only_look: bool, advance: Callable[[int], Any]
) -> np.ndarray:
    """Returns the offsets of a file's records: remembered ones, or those of a file that is found whole."""
    facts = (path, stat.st_size, stat.st_mtime_ns)
    offsets = index_cache.load(*facts) if remember else None
    if offsets is not None:
        advance(stat.st_size * (1 + verify))
        return offsets
    offsets, damage = frames.scan(path, advance)
    if verify and not damage:
        damage = next(_wrong_records(path, offsets, stat.st_size, advance), None)
    if damage:
        raise damaged(path, damage)
    if remember and not only_look:
        index_cache.store(*facts, offsets)
    return offsets


def damaged(path: str, damage: frames.Damage) -> UserError:
    """Returns what there is to say about a damaged record."""
    return UserError(
        f"{path}: record {damage.record} at byte {damage.offset} is damaged or this is no (uncompressed) TFRecord file: "
        f"{damage.why}; restore the file from its source"
    )


def _wrong_records(
    path: str, offsets: np.ndarray, size: int, advance: Callable[[int], Any]
) -> Iterator[frames.Damage]:
    """Yields the records of a file whose checksum is wrong."""
    from midepoch import checksums  # only here: it loads TensorFlow, which a listing can do without

    for record in checksums.wrong_records(path, offsets, size, advance):
        yield frames.Damage(record, int(offsets[record]), "its checksum is wrong")


def _look_into(path: str, verify: bool) -> Tuple[np.ndarray, List[frames.Damage]]:
    """Returns the offsets of a file's records and the damage that can be found."""
    stat = os.stat(path)
    remembered = None if verify else index_cache.load(path, stat.st_size, stat.st_mtime_ns)
    if remembered is not None:
        return remembered, []
    with console.progress_bar(stat.st_size * (1 + verify), os.path.basename(path)) as advance:
        offsets, broken = frames.scan(path, advance)
        damage = [broken] if broken else []
        if verify and not (broken and frames.compression(path)):  # a broken GZIP file breaks in the middle of any record
            damage = [*_wrong_records(path, offsets, stat.st_size, advance), *damage]
    return offsets, damage


def _print_files(paths: Sequence[str], verify: bool) -> int:
    """Prints a line for each file and for each damage in it; returns the exit code."""
    num_records = num_bytes = num_damages = 0
    for path in paths:
        try:
            offsets, damages = _look_into(path, verify)
            size = os.path.getsize(path)
        except OSError as error:
            print(f"{path}: cannot be read: {error.strerror}", flush=True)
            num_damages += 1
            continue
        for damage in damages:
            print(f"{path}: record {damage.record} at byte {damage.offset}: {damage.why}", flush=True)
        print(f"{path}: {console.count(len(offsets), 'record')}, {size} bytes", flush=True)
        num_records, num_bytes, num_damages = num_records + len(offsets), num_bytes + size, num_damages + len(damages)
    whole = "every checksum is right" if verify else "frames whole, checksums not read (--verify)"
    what = "damaged" if num_damages else whole
    print(f"{console.count(len(paths), 'file')}: {console.count(num_records, 'record')}, {num_bytes} bytes; {what}")
    return 1 if num_damages else 0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command line; returns the exit code, 0 if all is whole and 1 if not."""
    parser = argparse.ArgumentParser(
        prog="python -m midepoch.records", description="Lists TFRecord files, and damage in them. Only reads."
    )
    parser.add_argument("files", nargs="+", metavar="GLOB", help="files, or globs of files")
    parser.add_argument("--verify", action="store_true", help="read every checksum; without it, only those of the lengths")
    parser.error = lambda message: parser.exit(1, f"error: {message}\n")
    given = parser.parse_args(arguments)
    paths = sorted({path for pattern in given.files for path in _matching(pattern)})
    if not paths:
        parser.error(f"{' '.join(given.files)} matches no file; check the path")
    if given.verify:
        cli.quiet_tensorflow()
    try:
        return _print_files(paths, given.verify)
    except BrokenPipeError:  # `| head`: no failure
        console.discard(sys.stdout)
        return 0
    except KeyboardInterrupt:
        return 1


if __name__ == "__main__":
    sys.exit(main())
