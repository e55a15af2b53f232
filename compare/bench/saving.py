"""What saving costs while a run trains, and what resuming costs when it starts: `python -m compare.bench.saving`.

Real processes of each program, on the digits and on a network of 25 million weights, whose checkpoints have 300 MB. What a
save takes is what the program says in its TensorBoard summaries: syncing, checksums and the removal of old checkpoints
included. Starts are timed from outside, fresh ones and resumed ones by turns, from the start of the process to its first
training step. It reports and passes no judgement: the exit code is 0.
"""

import argparse
import glob
import os
import statistics
import sys
import tempfile
import time
from typing import List, NamedTuple

from compare import processes
from compare.bench.speed import machine
from compare.event_files import read_scalars
from midepoch import cli

SAVE_EVERY_SECS = 60
SHARE_BAR, START_BAR = 0.035, 1.15
NUM_SAVES, NUM_PAIRS = 7, 5


class Network(NamedTuple):
    """A network to be saved.

    Attributes:
      what: its name in the table.
      task: the flag's value.
      save_steps: steps from one save to the next, some seconds of training.
    """

    what: str
    task: str
    save_steps: int


NETWORKS = (
    Network("digits CNN", "digits", 300),
    Network("25 million weights", "compare.bench.tasks:LargeMlp", 10),
)


def _command(program: str, task: str, directory: str, save_steps: int, train_steps: int, log_steps: int) -> List[str]:
    flags = dict(
        task=task, model_dir=directory, save_checkpoints_steps=save_steps, train_steps=train_steps,
        log_every_steps=log_steps, eval_every_steps=10**9, keep_checkpoint_max=2, export=False,
    )  # fmt: skip
    return processes.command(program, [f"--{name}={value}" for name, value in flags.items()])


def secs_to_first_step(command: List[str]) -> float:
    """Starts a process, kills it at the first step it tells of, and returns how long that took.

    Raises:
      RuntimeError: it ended before.
    """
    lines, began, secs = [], time.monotonic(), []

    def kill_at(step: int) -> bool:
        secs.append(time.monotonic() - began)
        return True

    processes.run(command, lines.append, kill_at)
    if not secs:
        raise RuntimeError("\n".join(lines))
    return secs[0]


def measure(program: str, network: Network, num_saves: int = NUM_SAVES, num_pairs: int = NUM_PAIRS) -> str:
    """Returns a line of the table."""
    with tempfile.TemporaryDirectory() as scratch:
        run, steps = os.path.join(scratch, "run"), network.save_steps * num_saves
        lines: List[str] = []
        if processes.run(_command(program, network.task, run, network.save_steps, steps, steps), lines.append).exit_code:
            raise RuntimeError("\n".join(lines))
        secs = read_scalars(run).written["save_secs"]
        megabytes = sum(os.path.getsize(path) for path in glob.glob(os.path.join(run, f"model.ckpt-{steps}.*"))) / 1e6
        pairs = []
        never = 10**9
        for number in range(num_pairs):
            new = os.path.join(scratch, f"fresh{number}")
            fresh = secs_to_first_step(_command(program, network.task, new, never, never, 1))
            resumed = secs_to_first_step(_command(program, network.task, run, never, never, 1))
            pairs.append((fresh, resumed))
            print(f"{program}, {network.what}: start {fresh:.2f} s, resume {resumed:.2f} s", file=sys.stderr, flush=True)
    share = statistics.median(secs) / (SAVE_EVERY_SECS + statistics.median(secs))
    fresh, resumed = (statistics.median(side) for side in zip(*pairs))
    ratio = statistics.median(after / before for before, after in pairs)
    met = "yes" if share < SHARE_BAR and ratio <= START_BAR else "**no**"
    return (
        f"| {program} | {network.what} | {megabytes:.1f} | {statistics.median(secs):.2f} [{min(secs):.2f}–{max(secs):.2f}] "
        f"| {share:.2%} | {fresh:.2f} | {resumed:.2f} | {ratio:.2f} | {met} |"
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    cli.quiet_tensorflow()
    import tensorflow as tf

    lines = [
        "| program | network | checkpoint, MB | a save, s: median [min–max] | share at one a minute | fresh start, s "
        "| resumed, s | ratio | met |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for program in ["lowlevel"] + ["estimator"] * hasattr(tf, "estimator"):
        lines += [measure(program, network) for network in NETWORKS]
    print("\n".join(lines))
    print(f"\nbars: share below {SHARE_BAR:.1%}, ratio at most {START_BAR} · {machine()}")


if __name__ == "__main__":
    main()
