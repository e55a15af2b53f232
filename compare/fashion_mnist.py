"""The classic job at full size: the 70,000 images of Fashion-MNIST are converted, and both programs train a CNN on them for
three epochs: `python -m compare.fashion_mnist`.

Each program is killed with SIGKILL in its second epoch and started again by the same command. Beside them lowlevel trains
undisturbed. The runs follow one another, so that their times mean something. The exit code is 1 if an example was lost or
repeated, the weights of two runs differ in a bit, or the accuracy is below 0.89. The images are those of Debian's package
dataset-fashion-mnist.
"""

import argparse
import importlib.util
import os
import signal
import sys
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from compare import processes
from compare.ledger_check import Tally, tally_run
from midepoch import cli, convert_mnist, model_dir
from midepoch.console import duration, say
from midepoch.errors import UserError

DEBIAN_DIR = "/usr/share/datasets/fashion-mnist"
NUM_EPOCHS = 3
STEPS_PER_EPOCH = 938  # 60,000 training images in batches of 64
SAVE_STEPS = 400
LOG_STEPS = 100
KILL_STEP = 1300  # in the second epoch, 100 steps after a checkpoint
LEAST_ACCURACY = 0.89


class Outcome(NamedTuple):
    """What came of one run.

    Attributes:
      resumed_at: the step at which the process after the kill went on; None without a kill.
      tally: examples lost and repeated.
      accuracy: the best one, on the 10,000 test images.
      secs: of all its processes together, starts and evaluations included.
    """

    resumed_at: Optional[int]
    tally: Tally
    accuracy: float
    secs: float


def train(program: str, directory: str, data_dir: str, kill: bool) -> Outcome:
    """Trains to the end, with a SIGKILL on the way if told so.

    Raises:
      UserError: a process ends in another way than it should.
    """
    arguments = processes.command(
        program,
        [
            "--task=mnist",
            f"--train_files={data_dir}/train-*.tfrecord",
            f"--eval_files={data_dir}/eval-*.tfrecord",
            f"--model_dir={directory}",
            f"--num_epochs={NUM_EPOCHS}",
            f"--save_checkpoints_steps={SAVE_STEPS}",
            f"--log_every_steps={LOG_STEPS}",
            "--record_examples",
        ],
    )
    label = f"{program}, {'killed' if kill else 'undisturbed'}"
    started = time.monotonic()
    resumed_at = None
    if kill:
        ended = processes.run(arguments, lambda line: say(f"{label} | {line}"), lambda step: step >= KILL_STEP)
        if ended.exit_code != -signal.SIGKILL:
            raise UserError(f"{label}: it ended with exit code {ended.exit_code} before step {KILL_STEP}; its lines say why")
        say(f"{label} | Killed (SIGKILL)")
    ended = processes.run(arguments, lambda line: say(f"{label} | {line}"))
    if ended.exit_code != 0:
        raise UserError(f"{label}: it ended with exit code {ended.exit_code}; its lines above say why")
    if kill:
        resumed_at = ended.resumed_at
    secs = time.monotonic() - started
    best = model_dir.read_json(os.path.join(directory, model_dir.BEST_METRICS_FILE))
    return Outcome(resumed_at, tally_run(directory), best["accuracy"], secs)


def report(outcomes: Dict[Tuple[str, bool], Outcome], differences: Dict[str, Optional[str]]) -> Tuple[List[str], bool]:
    """Judges the runs.

    Args:
      outcomes: by (program, killed).
      differences: for each killed program, the first difference of its last weights and slots from those of the undisturbed
        lowlevel run, or None.

    Returns:
      (lines for a person, whether everything is as it should be).
    """
    lines: List[str] = []
    verdicts: List[bool] = []
    for (program, killed), outcome in outcomes.items():
        good = outcome.tally == Tally(0, 0) and outcome.accuracy >= LEAST_ACCURACY
        text = f"{program}: best accuracy {outcome.accuracy:.4f}, {duration(outcome.secs)}"
        if killed:
            in_second_epoch = outcome.resumed_at is not None and STEPS_PER_EPOCH < outcome.resumed_at < KILL_STEP
            good = good and in_second_epoch and differences[program] is None
            text += f", killed at step {KILL_STEP}, went on at {outcome.resumed_at}"
            text += f", weights: {differences[program] or 'bit-identical to those of the undisturbed run'}"
        text += f", examples lost / repeated {outcome.tally.lost} / {outcome.tally.repeated}"
        verdicts.append(good)
        lines.append(f"{'ok ' if good else 'BAD'}  {text}")
    return lines, all(verdicts)


def compare(input_dir: str, out_dir: str) -> bool:
    """Converts, trains, and prints the outcome; returns whether it is as it should be."""
    data_dir = os.path.join(out_dir, "data")
    parts = convert_mnist.read_source(input_dir, data_dir, convert_mnist.TRAIN_SHARDS)
    cli.quiet_tensorflow()
    convert_mnist.write_shards(parts, data_dir, convert_mnist.TRAIN_SHARDS)
    from compare.weights import first_difference, read_variables

    killed = ["lowlevel"]
    if importlib.util.find_spec("tensorflow_estimator"):
        killed.append("estimator")
    else:
        say("estimator is left out: this TensorFlow has no tf.estimator, 2.15 was the last that has it (Python 3.11)")
    outcomes = {}
    for program, kill in [("lowlevel", False), *((program, True) for program in killed)]:
        outcomes[program, kill] = train(program, _run_directory(out_dir, program, kill), data_dir, kill)

    def last(program: str, kill: bool) -> dict:
        return read_variables(model_dir.newest_valid(_run_directory(out_dir, program, kill)), with_slots=True)

    undisturbed = last("lowlevel", False)
    lines, good = report(outcomes, {program: first_difference(last(program, True), undisturbed) for program in killed})
    for line in lines:
        say(line)
    return good


def _run_directory(out_dir: str, program: str, kill: bool) -> str:
    return os.path.join(out_dir, f"{program}_{'killed' if kill else 'undisturbed'}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains both programs on Fashion-MNIST, kills them, and compares.")
    parser.add_argument("--input_dir", default=DEBIAN_DIR, help=f"the folder of the four IDX files (default: {DEBIAN_DIR})")
    parser.add_argument("--out_dir", help="where data and runs go; new or empty (default: a new directory in runs/)")
    flags = parser.parse_args()
    out_dir = processes.new_directory("fashion-mnist", flags.out_dir)
    try:
        sys.exit(0 if compare(flags.input_dir, out_dir) else 1)
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
