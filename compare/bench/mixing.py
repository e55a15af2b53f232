"""How well a shuffle mixes: `python -m compare.bench.mixing`.

The worst case that is common: files sorted by class, ten classes of equal size. Measured on one epoch of

* window: the default sizes, as the programs order an epoch;
* buffer: `Dataset.shuffle` with a buffer of as many records as window holds in memory at most;
* uniform: a permutation drawn by numpy, which is as good as it gets.

Only numbers are shuffled; nothing is read.
"""

import argparse
from typing import Dict

import numpy as np
import tensorflow as tf

from midepoch.config import TrainConfig
from midepoch.stream import WINDOWS_IN_MEMORY, WindowOrder

NUM_CLASSES = 10
BATCH_SIZE = 64
NEAR = 1000  # examples; a few steps, over which a change of the mix would be felt


def buffer_order(num_records: int, buffer_size: int, seed: int) -> np.ndarray:
    """Returns the order in which `Dataset.shuffle` gives records 0, 1, 2 …; int64 [N]."""
    batches = tf.data.Dataset.range(num_records).shuffle(buffer_size, seed=seed).batch(10_000)
    return np.concatenate(list(batches.as_numpy_iterator()))


def mixing(order: np.ndarray) -> Dict[str, float]:
    """Measures an order of records that were sorted by class.

    Args:
      order: int64 [N], a permutation; record r is of class r · classes div N.

    Returns:
      moved_median, moved_p10: how far records moved, as a fraction of N: the median, and what a tenth stays below.
      classes_per_batch: the mean number of classes in a batch.
      longest_run: the most examples of one class in a row.
      largest_share: the largest share that one class has of any `NEAR` examples in a row.
      neighbours: of each thousand pairs of records that lay side by side, how many are in one batch.
    """
    num_records = len(order)
    labels = order * NUM_CLASSES // num_records
    place = np.empty(num_records, np.int64)
    place[order] = np.arange(num_records)
    moved = np.abs(place - np.arange(num_records)) / num_records
    batches = labels[: num_records // BATCH_SIZE * BATCH_SIZE].reshape(-1, BATCH_SIZE)
    has = np.stack([(batches == label).any(axis=1) for label in range(NUM_CLASSES)])
    changes = np.flatnonzero(np.diff(labels))
    runs = np.diff(np.concatenate([[-1], changes, [num_records - 1]]))
    shares = []
    for label in range(NUM_CLASSES):
        counts = np.concatenate([[0], np.cumsum(labels == label)])
        shares.append((counts[NEAR:] - counts[:-NEAR]).max() / NEAR)
    return dict(
        moved_median=float(np.median(moved)),
        moved_p10=float(np.quantile(moved, 0.1)),
        classes_per_batch=float(has.sum(axis=0).mean()),
        longest_run=float(runs.max()),
        largest_share=float(max(shares)),
        neighbours=1000 * float((place[1:] // BATCH_SIZE == place[:-1] // BATCH_SIZE).mean()),
    )


def orders(num_records: int, window: int, block: int, seed: int) -> Dict[str, np.ndarray]:
    """Returns one epoch by each way; name → int64 [N]."""
    size = WINDOWS_IN_MEMORY * window
    return {
        f"window {window}, block {block}": WindowOrder(num_records, seed, window, block).epoch_order(0),
        f"buffer {size}": buffer_order(num_records, size, seed),
        "uniform": np.random.default_rng(seed).permutation(num_records),
    }


def main() -> None:
    defaults = TrainConfig(model_dir="unused", train_steps=1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", default="60000,1000000", help="how many records, a list")
    parser.add_argument("--window", type=int, default=defaults.shuffle_window, help="in records")
    parser.add_argument("--block", type=int, default=defaults.shuffle_block, help="in records")
    args = parser.parse_args()
    print(
        "| records | shuffle | moved, of N: median (10 %) | classes in a batch | longest run of a class "
        f"| largest share of a class in {NEAR} | neighbours in a batch, per 1000 |\n|---|---|---|---|---|---|---|"
    )
    for num_records in map(int, args.records.split(",")):
        for name, order in orders(num_records, args.window, args.block, seed=1).items():
            m = mixing(order)
            print(
                f"| {num_records:,} | {name} | {m['moved_median']:.3f} ({m['moved_p10']:.3f}) "
                f"| {m['classes_per_batch']:.2f} | {m['longest_run']:,.0f} | {m['largest_share']:.3f} | {m['neighbours']:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
