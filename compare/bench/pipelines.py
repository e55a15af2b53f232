"""How fast the input alone is, beside what people would write instead: `python -m compare.bench.pipelines`.

`--shuffle=window` against `interleave + shuffle(window) + batch + parse`, on small records, on images of 784 bytes, and with
a batch size that does not divide the window. Both sides read by turns in one process, with op determinism on. The longest
wait for a batch, beside the median one and the longest of the usual pipeline, says whether there is a stall at the end of a
window or an epoch.
"""

import argparse
import statistics
import sys
import tempfile
import time
from typing import NamedTuple, Tuple

import tensorflow as tf

from compare.bench import scale, synthetic
from compare.bench.arms import usual_dataset
from compare.bench.speed import machine
from midepoch.config import TrainConfig
from midepoch.randomness import make_deterministic

BAR = 1.0


class Case(NamedTuple):
    """One line of the table.

    Attributes:
      what: its name.
      num_records: in all.
      value_bytes: of each.
      batch_size: of both sides.
    """

    what: str
    num_records: int
    value_bytes: int
    batch_size: int


CASES = (
    Case("small records", 1_000_000, 16, 64),
    Case("small records", 1_000_000, 16, 100),
    Case("images, 784 bytes", 60_000, 784, 64),
)


def waits(dataset: tf.data.Dataset, num_examples: int, step_ms: float) -> Tuple[float, float]:
    """Returns the (median, longest) wait for a batch in ms, of a loop that does something else for `step_ms` in between."""
    iterator = iter(dataset)
    next(iterator)
    taken, count = [], 0
    while count < num_examples:
        time.sleep(step_ms / 1000)
        began = time.perf_counter()
        batch = next(iterator)
        taken.append(1000 * (time.perf_counter() - began))
        count += len(batch[1])
    return statistics.median(taken), max(taken)


def measure(case: Case, num_pairs: int, secs: float) -> str:
    """Returns the line of the table."""
    window = TrainConfig(model_dir="unused", train_steps=1).shuffle_window
    with tempfile.TemporaryDirectory() as directory:
        synthetic.write_examples(directory, case.num_records, case.value_bytes, scale.NUM_FILES)
        files = scale.made_files(directory)
        ours = scale.reader(scale.stream_of(files, batch_size=case.batch_size).dataset())
        peers = scale.reader(usual_dataset(files.paths, synthetic.parse, window, case.batch_size))
        for side in (ours, peers):
            side(1.0)  # to warm up
        pairs = []
        for _ in range(num_pairs):
            pair = []
            for side in (ours, peers):
                time.sleep(0.3)
                side(secs / 2)  # what was made ahead while the other side had its turn
                pair.append(side(secs))
            pairs.append(pair)
            print(f"{case}: {pair[0]:.0f}, {pair[1]:.0f} examples/s", file=sys.stderr, flush=True)
        # Twice as long a step as a batch takes to make: what is then waited for is a stall. Over two windows' ends and more.
        step_ms = 2000 * case.batch_size / statistics.median(pair[0] for pair in pairs)
        near_the_end = scale.stream_of(files, batch_size=case.batch_size).dataset(case.num_records - window)
        median_ms, longest_ms = waits(near_the_end, 4 * window, step_ms)
        usual = usual_dataset(files.paths, synthetic.parse, window, case.batch_size)
        _, usual_longest_ms = waits(usual, 4 * window, 2000 * case.batch_size / statistics.median(pair[1] for pair in pairs))
    ratio = statistics.median(a / b for a, b in pairs)
    speeds = [statistics.median(side) for side in zip(*pairs)]
    return (
        f"| {case.what} | {case.batch_size} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | {ratio:.2f} | {BAR:.2f} "
        f"| {'yes' if ratio >= BAR else '**no**'} | {median_ms:.2f} | {longest_ms:.1f} | {usual_longest_ms:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="pairs of measurements for each line")
    parser.add_argument("--secs", type=float, default=1.5, help="seconds of reading in each measurement")
    args = parser.parse_args()
    make_deterministic(1)
    lines = [
        "| records | batch | window, examples/s | usual | ratio | bar | met "
        "| wait for a batch: median ms | longest ms | longest of usual ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(measure(case, args.pairs, args.secs) for case in CASES),
    ]
    print("\n".join(lines))
    print(f"\n{machine()} · op determinism on, medians of {args.pairs} alternating pairs")


if __name__ == "__main__":
    main()
