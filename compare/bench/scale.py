"""What a resume costs, by how many records there are: `python -m compare.bench.scale [--records=60000,1000000]`.

The ways compared:

* window: this repository's default; the state is a place, not a buffer.
* buffer: `shuffle(n)`, whose whole buffer is saved and restored.
* replay: nothing of the input is saved; a seeded `shuffle(10000)` is read again up to the place.
* skip: nothing is saved; the files are read again, and as many records skipped as were used, before the shuffle.

Each is measured in a process of its own, on the same small records, made on the spot, with op determinism on. Nothing but
the input is measured: there is no model. Buffer, replay and skip are read for at most a million records, since nothing can
bring them further but reading; their times beyond that are in proportion, and marked with ~.
"""

import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, List, NamedTuple, Tuple

import numpy as np
import tensorflow as tf

from compare.bench import synthetic
from compare.bench.speed import machine
from midepoch.config import TrainConfig
from midepoch.randomness import make_deterministic
from midepoch.stream import ExampleStream, window_memory_bytes

RECORDS = (60_000, 1_000_000, 10_000_000)
BUFFERS = (1_000, 10_000, 60_000)
REPLAY_BUFFER = 10_000
ARMS = ("window", *(f"buffer {size}" for size in BUFFERS), "replay", "skip")
BATCH_SIZE = 64
VALUE_BYTES = 16
NUM_FILES = 8
LATE = 0.9  # of the epoch
EARLY_BATCHES = 10
READ_AT_MOST = 1_000_000
COMPARE_AT_MOST = 100_000  # examples read after a resume, to count those lost and repeated
SPEED_SECS = 2.0
TIMES = 3

# column: (key, its text)
_COLUMNS = {
    "state_bytes": "state bytes",
    "save_ms": "save ms",
    "fresh_ms": "fresh start + first batch ms",
    "early_ms": "restore + first batch ms, early",
    "late_ms": "the same, late",
    "lost": "examples lost",
    "repeated": "repeated",
    "examples_per_sec": "examples/s",
    "peak_mb": "peak MB",
}


class MadeFiles(NamedTuple):
    """The files of one size, and where their records are: what `ExampleStream` asks an index, in arithmetic.

    Attributes:
      paths: the files, sorted.
      file_bytes: their sizes.
      num_records: in all of them.
      frame_bytes: the size of each record's frame.
    """

    paths: tuple
    file_bytes: tuple
    num_records: int
    frame_bytes: int

    def locate(self, ids) -> tuple:
        """Returns (file number, byte offset) of records, int64 arrays of the shape of `ids`."""
        first_ids = np.concatenate([[0], np.cumsum(self.file_bytes)]) // self.frame_bytes
        files = np.searchsorted(first_ids, ids, side="right") - 1
        return files, (np.asarray(ids, np.int64) - first_ids[files]) * self.frame_bytes


def made_files(directory: str) -> MadeFiles:
    """Describes files of `synthetic.write_examples`."""
    paths = tuple(sorted(os.path.join(directory, name) for name in os.listdir(directory)))
    first = next(iter(tf.data.TFRecordDataset(paths[0]).take(1))).numpy()
    sizes = tuple(os.path.getsize(path) for path in paths)
    frame_bytes = 12 + len(first) + 4
    return MadeFiles(paths, sizes, sum(sizes) // frame_bytes, frame_bytes)


def stream_of(files: Any, **fields) -> ExampleStream:
    """Returns an `ExampleStream` over the files; `fields` are those of `TrainConfig`."""
    config = TrainConfig(model_dir="unused", train_steps=1, **{"batch_size": BATCH_SIZE, **fields}).resolved()
    return ExampleStream(files, config, synthetic.parse)


def buffered(files: Any, buffer_size: int) -> tf.data.Dataset:
    """Returns batches by a `shuffle` of that size."""
    return stream_of(files, shuffle="buffer", shuffle_buffer_size=buffer_size).dataset()


def skipping(files: Any, skip: int) -> tf.data.Dataset:
    """Returns batches by a `shuffle`, after leaving out the first records of the files."""
    records = tf.data.TFRecordDataset(list(files.paths)).enumerate().skip(skip).shuffle(REPLAY_BUFFER, seed=1)

    def parse_batch(ids, serialized):
        return (*synthetic.parse(serialized), {"example_ids": ids})

    return records.batch(BATCH_SIZE).map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def ids_of(iterator: Any, count: int) -> np.ndarray:
    """Reads batches until they hold `count` examples or more, or end; returns their ids, int64."""
    ids: List[np.ndarray] = []
    while count > 0:
        batch = next(iterator, None)
        if batch is None:
            break
        ids.append(batch[2]["example_ids"].numpy())
        count -= len(ids[-1])
    return np.concatenate(ids)


def milliseconds(act: Callable[[], Any], times: int = TIMES) -> float:
    """Returns the median time of an act, in ms."""
    taken = []
    for _ in range(times):
        gc.collect()
        began = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


def memory_kb(key: str) -> int:
    """Returns a number of /proc/self/status: VmRSS, the memory in use, or VmHWM, the most since `forget_peak`."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return int(re.search(rf"{key}:\s+(\d+) kB", file.read()).group(1))


def forget_peak() -> None:
    """Makes VmHWM count from here."""
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def reader(dataset: tf.data.Dataset) -> Callable[[float], float]:
    """Returns a function that reads an endless dataset for so many seconds and returns the examples per second."""
    iterator = iter(dataset)

    @tf.function
    def read(batches):
        count = tf.constant(0, tf.int64)
        for _ in tf.range(batches):
            count += tf.shape(next(iterator)[1], out_type=tf.int64)[0]
        return count

    def for_secs(secs: float) -> float:
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < secs:
            count += int(read(50))
        return count / (time.perf_counter() - began)

    return for_secs


def speed_and_memory(dataset: tf.data.Dataset, secs: float = SPEED_SECS) -> Tuple[float, float]:
    """Reads batches for some seconds, after as many to warm up; returns (examples per second, peak MB of it all)."""
    gc.collect()
    forget_peak()
    before = memory_kb("VmRSS")
    for_secs = reader(dataset.repeat())  # `skip` ends with the epoch
    for_secs(secs)
    speed = for_secs(secs)
    return speed, (memory_kb("VmHWM") - before) / 1024


class Saved:
    """Saves iterators to a scratch directory, and restores them."""

    def __init__(self, directory: str):
        self._directory = directory

    def save(self, iterator: Any, name: str = "state") -> int:
        """Returns the bytes written."""
        tf.train.Checkpoint(iterator=iterator).write(os.path.join(self._directory, name))
        names = (other for other in os.listdir(self._directory) if other.startswith(name + "."))
        return sum(os.path.getsize(os.path.join(self._directory, other)) for other in names)

    def restored(self, dataset: tf.data.Dataset, name: str = "state") -> Any:
        iterator = iter(dataset)
        tf.train.Checkpoint(iterator=iterator).read(os.path.join(self._directory, name)).assert_consumed()
        return iterator


def late_position(num_records: int, bounded: bool) -> int:
    """Returns a multiple of the batch size."""
    late = int(LATE * num_records)
    return (min(late, READ_AT_MOST) if bounded else late) // BATCH_SIZE * BATCH_SIZE


def measure_saved(files: MadeFiles, make: Callable[[int], tf.data.Dataset], seekable: bool) -> dict:
    """Measures an arm that saves its iterator.

    Args:
      files: the data.
      make: the dataset from a position on.
      seekable: whether it can start elsewhere than at 0.
    """
    num_records = files.num_records
    ids_of(iter(make(0)), 1)  # what happens once a process is not counted
    fresh_ms = milliseconds(lambda: ids_of(iter(make(0)), 1))
    late = late_position(num_records, bounded=not seekable)
    # Nobody reads nine million records only to be late in the epoch, if there is another way.
    begin = late - 64 * BATCH_SIZE if num_records > READ_AT_MOST and seekable else 0
    with tempfile.TemporaryDirectory() as scratch:
        saved = Saved(scratch)
        iterator = iter(make(0))
        ids_of(iterator, EARLY_BATCHES * BATCH_SIZE)
        saved.save(iterator, "early")
        iterator = iter(make(begin))
        before = ids_of(iterator, late - begin)
        state_bytes = saved.save(iterator, "late")
        save_ms = milliseconds(lambda: saved.save(iterator, "again"))
        early_ms = milliseconds(lambda: ids_of(saved.restored(make(0), "early"), 1))
        late_ms = milliseconds(lambda: ids_of(saved.restored(make(begin), "late"), 1))
        rest = min(num_records - late, COMPARE_AT_MOST)
        after = ids_of(saved.restored(make(begin), "late"), rest)[:rest]
    undisturbed = ids_of(iterator, rest)[:rest]
    return dict(
        state_bytes=state_bytes, save_ms=save_ms, fresh_ms=fresh_ms, early_ms=early_ms, late_ms=late_ms,
        lost=len(np.setdiff1d(undisturbed, after)), repeated=len(after) - len(np.setdiff1d(after, before)),
    )


def measure_unsaved(files: MadeFiles, restart: Callable[[int], Any]) -> dict:
    """Measures an arm that saves nothing.

    Args:
      files: the data.
      restart: from a position to an iterator that is there, or takes itself to be.
    """
    num_records = files.num_records
    late = late_position(num_records, bounded=True)
    beyond = int(LATE * num_records) / late  # times in proportion
    ids_of(restart(0), 1)
    fresh_ms = milliseconds(lambda: ids_of(restart(0), 1))
    early_ms = milliseconds(lambda: ids_of(restart(EARLY_BATCHES * BATCH_SIZE), 1))
    late_ms = milliseconds(lambda: ids_of(restart(late), 1), times=1)
    before = ids_of(restart(0), late)
    # The epoch's rest need not be read: what was used twice, and what can no more come, is known from what was used.
    ahead = ids_of(restart(late), min(num_records - late, COMPARE_AT_MOST))
    repeated = int(np.isin(ahead, before).sum())
    return dict(
        state_bytes=0, save_ms=0.0, fresh_ms=fresh_ms, early_ms=early_ms, late_ms=fresh_ms + (late_ms - fresh_ms) * beyond,
        lost=repeated, repeated=repeated, in_proportion=beyond > 1.01,
    )


def measure(arm: str, directory: str) -> dict:
    """Measures one arm; in a process of its own."""
    make_deterministic(1)
    files = made_files(directory)
    kind, _, size = arm.partition(" ")
    if kind == "window":
        make = stream_of(files).dataset
    elif kind == "buffer":
        make = lambda start: buffered(files, int(size))
    elif kind == "replay":
        make = lambda start: buffered(files, REPLAY_BUFFER)
    else:
        make = lambda start: skipping(files, start)
    speed, peak_mb = speed_and_memory(make(0))

    def replayed(start):
        iterator = iter(make(0))
        if start:
            ids_of(iterator, start)
        return iterator

    if kind in ("window", "buffer"):
        numbers = measure_saved(files, make, seekable=kind == "window")
    else:
        numbers = measure_unsaved(files, replayed if kind == "replay" else lambda start: iter(make(start)))
    return dict(numbers, arm=arm, num_records=files.num_records, examples_per_sec=speed, peak_mb=peak_mb)


def measure_in_a_process(arm: str, directory: str) -> dict:
    """Returns what `measure` returns there."""
    command = [sys.executable, "-m", "compare.bench.scale", f"--arm={arm}", f"--directory={directory}"]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def table(measured: List[dict]) -> str:
    """Returns the table of all arms, as Markdown."""
    lines = ["| records | input | " + " | ".join(_COLUMNS.values()) + " |", "|---|---|" + "---|" * len(_COLUMNS)]
    for numbers in measured:
        cells = []
        for key in _COLUMNS:
            value = numbers[key]
            text = f"{value:,.1f}" if key == "save_ms" else f"{value:,.0f}"
            cells.append("~" + text if key == "late_ms" and numbers.get("in_proportion") else text)
        lines.append(f"| {numbers['num_records']:,} | {numbers['arm']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def bars(measured: List[dict]) -> str:
    """Returns what is wanted of `window`, and whether it is met, as Markdown."""
    by = {(numbers["arm"], numbers["num_records"]): numbers for numbers in measured}
    sizes = sorted({numbers["num_records"] for numbers in measured})
    lines = ["| wanted of window | records | measured | bar | met |", "|---|---|---|---|---|"]
    record_bytes = synthetic.example_rows(np.zeros([1, VALUE_BYTES], np.uint8), np.zeros(1, int)).shape[1]
    bound_mb = window_memory_bytes(TrainConfig(model_dir="unused", train_steps=1).shuffle_window, record_bytes) / 2**20

    def line(what, size, value, bar, at_most):
        met = "yes" if (value <= bar if at_most else value >= bar) else "**no**"
        lines.append(f"| {what} | {size:,} | {value:,.2f} | {'≤' if at_most else '≥'} {bar:,} | {met} |")

    for size in sizes:
        window, buffer = by["window", size], by[f"buffer {BUFFERS[-1]}", size]
        line("state bytes", size, window["state_bytes"], 4096, True)
        line("peak MB, by the formula in midepoch/stream.py", size, window["peak_mb"], round(bound_mb), True)
        line(f"saving, times faster than shuffle({BUFFERS[-1]})", size, buffer["save_ms"] / window["save_ms"], 20, False)
        line("restore + first batch, late / early", size, window["late_ms"] / window["early_ms"], 1.3, True)
        line("restore + first batch, late / fresh start", size, window["late_ms"] / window["fresh_ms"], 2, True)
        if size >= RECORDS[-1]:
            replay_ms = by["replay", size]["late_ms"] * 0.5 / LATE
            line("restore + first batch, times faster than replay to mid-epoch", size, replay_ms / window["late_ms"], 50,
                 at_most=False)
    if len(sizes) > 1:
        ratio = by["window", sizes[-1]]["save_ms"] / by["window", sizes[0]]["save_ms"]
        line(f"saving, against {sizes[0]:,} records", sizes[-1], ratio, 1.5, True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", default=",".join(map(str, RECORDS)), help="how many records, a list")
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.arm:
        print(json.dumps(measure(args.arm, args.directory)))
        return
    measured = []
    for num_records in map(int, args.records.split(",")):
        with tempfile.TemporaryDirectory() as directory:
            synthetic.write_examples(directory, num_records, VALUE_BYTES, NUM_FILES)
            for arm in ARMS:
                measured.append(measure_in_a_process(arm, directory))
                print(f"{num_records:,} records, {arm}: {measured[-1]}", file=sys.stderr, flush=True)
    print(table(measured))
    print()
    print(bars(measured))
    print(f"\n{machine()} · records of {VALUE_BYTES}-byte values, batch {BATCH_SIZE}, op determinism on")


if __name__ == "__main__":
    main()
