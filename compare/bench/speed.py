"""How fast both programs train, beside what people would write instead: `python -m compare.bench.speed`.

The two sides of a comparison are started, warmed up, and then train by turns, so that whatever else the machine does meets
both; what counts is the median of the ratios of the pairs. Start-up, saving and evaluation lie outside of what is timed.
Everything runs with op determinism on. It reports and passes no judgement: the exit code is 0.
"""

import argparse
import contextlib
import io
import os
import platform
import statistics
import sys
from typing import Any, Callable, List, NamedTuple

from compare.bench.stopwatch import training
from midepoch import cli


class Comparison(NamedTuple):
    """One line of the table.

    Attributes:
      what: the name of the network.
      task: what both sides train.
      side: (name, arm) of ours; see `arms.py`.
      peer: (name, arm) of what it is measured against.
      bar: the least ratio wanted.
    """

    what: str
    task: Any
    side: tuple
    peer: tuple
    bar: float


def comparisons() -> List[Comparison]:
    """Returns the comparisons this TensorFlow can make."""
    import tensorflow as tf

    from compare.bench import arms
    from compare.bench.tasks import DigitsMlp
    from midepoch.tasks.digits import Digits

    fit = ("Model.fit", arms.model_fit)
    lowlevel, estimator = ("lowlevel", arms.lowlevel), ("estimator", arms.estimator)
    plain = ("estimator, plain input_fn", arms.plain_estimator)
    listed = [
        Comparison("MLP", DigitsMlp(), lowlevel, fit, 1.8),
        Comparison("MLP", DigitsMlp(), estimator, plain, 0.95),
        Comparison("CNN", Digits(), lowlevel, fit, 0.95),
        Comparison("CNN", Digits(), estimator, fit, 0.95),
    ]
    return [c for c in listed if c.side is not estimator or hasattr(tf, "estimator")]


def measure(comparison: Comparison, num_pairs: int, secs: float, say: Callable[[str], None]) -> str:
    """Measures pairs by turns and returns the line of the table."""
    (name, arm), (peer_name, peer_arm) = comparison.side, comparison.peer
    pairs = []
    with training(arm, comparison.task) as side, training(peer_arm, comparison.task) as peer:
        for number in range(1, num_pairs + 1):
            pair = side.measure(secs), peer.measure(secs)
            pairs.append(pair)
            say(f"{comparison.what} pair {number}/{num_pairs}: {name} {pair[0]:.0f}, {peer_name} {pair[1]:.0f} steps/s")
    ratios = [ours / theirs for ours, theirs in pairs]
    ours, theirs = (statistics.median(side) for side in zip(*pairs))
    ratio = statistics.median(ratios)
    met = "yes" if ratio >= comparison.bar else "no"
    return (
        f"| {comparison.what}: {name} | {peer_name} | {ours:.0f} | {theirs:.0f} "
        f"| {ratio:.2f} [{min(ratios):.2f}–{max(ratios):.2f}] | {comparison.bar:.2f} | {met} |"
    )


def machine() -> str:
    """Returns a line that says where the numbers come from."""
    import tensorflow as tf

    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{cpu}, {os.cpu_count()} cores · TF {tf.__version__} · Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=7, help="pairs of measurements for each line of the table")
    parser.add_argument("--secs", type=float, default=1.5, help="seconds of training timed in each measurement")
    args = parser.parse_args()
    cli.quiet_tensorflow()
    lines = [
        "| what | peer | steps/s | peer's steps/s | ratio: median [min–max] | bar | met |",
        "|---|---|---|---|---|---|---|",
    ]
    for comparison in comparisons():
        with contextlib.redirect_stdout(io.StringIO()):  # the programs' own lines
            lines.append(measure(comparison, args.pairs, args.secs, lambda text: print(text, file=sys.stderr, flush=True)))
    print("\n".join(lines))
    print(f"\n{machine()} · batch 64, op determinism on, medians of {args.pairs} alternating pairs")


if __name__ == "__main__":
    main()
