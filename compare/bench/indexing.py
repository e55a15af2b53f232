"""How long an index of many records takes, the first time and remembered: `python -m compare.bench.indexing [records]`."""

import os
import sys
import tempfile
import time

import numpy as np

from midepoch import cli

NUM_FILES = 4
LENGTHS = {"all of 64 bytes": (64, 65), "of 30 to 129 bytes": (30, 130)}


def write_files(directory: str, num_records: int, lengths: tuple) -> tuple:
    """Writes TFRecord files whose records have lengths drawn from a range; returns the paths."""
    import tensorflow as tf

    sample = os.path.join(directory, "sample")
    frames = []
    for length in range(*lengths):
        with tf.io.TFRecordWriter(sample) as writer:
            writer.write(bytes(length))
        with open(sample, "rb") as file:
            frames.append(file.read())
    os.remove(sample)
    random = np.random.default_rng(0)
    paths = tuple(os.path.join(directory, f"{number}.tfrecord") for number in range(NUM_FILES))
    for number, path in enumerate(paths):
        left = num_records // NUM_FILES + (number < num_records % NUM_FILES)
        with open(path, "wb") as file:
            while left:
                count = min(left, 65536)
                file.write(b"".join(frames[i] for i in random.integers(len(frames), size=count).tolist()))
                left -= count
    return paths


def measure(num_records: int) -> list:
    """Returns rows of (what, seconds of the first index, seconds of the remembered one, CPU seconds of both)."""
    from midepoch import records

    rows = []
    for what, lengths in LENGTHS.items():
        with tempfile.TemporaryDirectory() as directory:
            paths = write_files(directory, num_records, lengths)
            secs, cpu_secs = [], []
            for _ in range(2):
                began, cpu_began = time.monotonic(), time.process_time()
                assert records.build_index(paths).num_records == num_records
                secs.append(time.monotonic() - began)
                cpu_secs.append(time.process_time() - cpu_began)
            rows.append((what, *secs, *cpu_secs))
    return rows


def main() -> None:
    """Prints the table."""
    cli.quiet_tensorflow()
    num_records = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    rows = measure(num_records)
    print(f"| {num_records} records | first, s | remembered, s | first, CPU s | remembered, CPU s |\n|---|---|---|---|---|")
    for what, *secs in rows:
        print(f"| {what} | " + " | ".join(f"{value:.2f}" for value in secs) + " |")


if __name__ == "__main__":
    main()
