"""The main job: both programs are killed in mid-epoch, started again by the same command, and compared with runs that
nobody disturbed: `python -m compare.demo`.

Every run is a real process and the kill a real SIGKILL. The exit code is 1 if an example was lost or repeated, a weight
differs in a bit, or the accuracy is poor.
"""

import argparse
import concurrent.futures
import importlib.util
import os
import shlex
import signal
import sys
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from compare import processes
from compare.ledger_check import Tally, tally_run
from midepoch import cli, model_dir
from midepoch.console import count, say
from midepoch.errors import UserError
from midepoch.ledger import read_ledger

STEPS_PER_EPOCH = 24  # 1,500 training examples in batches of 64
NUM_EPOCHS = 12
SAVE_STEPS = 50
LOG_STEPS = 30
LEAST_ACCURACY = 0.9

_PROCESSES_AT_ONCE = 2


class Kill(NamedTuple):
    """One death and what came after it.

    Attributes:
      step: the last step the process is known to have done.
      resumed_at: the step at which the next process said it goes on; None if it said nothing of the kind.
    """

    step: int
    resumed_at: Optional[int]


class Outcome(NamedTuple):
    """What came of one run.

    Attributes:
      kills: its deaths; empty for an undisturbed run.
      tally: examples lost and repeated.
      accuracy: the best one.
    """

    kills: List[Kill]
    tally: Tally
    accuracy: float


def flags(directory: str) -> List[str]:
    """Returns the flags of every run of the demo."""
    return [
        f"--model_dir={directory}",
        f"--num_epochs={NUM_EPOCHS}",
        f"--save_checkpoints_steps={SAVE_STEPS}",
        "--eval_every_epochs=3",
        f"--log_every_steps={LOG_STEPS}",
        "--record_examples",
    ]


def is_mid_epoch(step: int) -> bool:
    """Says whether a process that reports `step` is in the second half of the run, well inside an epoch, and well away
    from the checkpoints before and after."""
    in_epoch, since_save = step % STEPS_PER_EPOCH, step % SAVE_STEPS
    return step > NUM_EPOCHS * STEPS_PER_EPOCH // 2 and 6 <= in_epoch <= 16 and 20 <= since_save <= 40


def never(step: int) -> bool:
    """The moment to kill a run that is left in peace."""
    del step
    return False


def run_directory(out_dir: str, program: str, killed: bool) -> str:
    """Returns the model_dir of a run."""
    return os.path.join(out_dir, f"{program}_{'killed' if killed else 'undisturbed'}")


def train(program: str, directory: str, kill: bool) -> List[Kill]:
    """Trains to the end, with a SIGKILL on the way if told so, and returns the deaths.

    Raises:
      UserError: a process ends in another way than it should.
    """
    label = f"{program + (', killed' if kill else ', undisturbed'):<22} | "
    arguments = processes.command(program, flags(directory))

    def start(kill_at: Callable[[int], bool]) -> processes.Ended:
        say(f"{label}$ {shlex.join(['python', *arguments[1:]])}")
        return processes.run(arguments, lambda line: say(label + line), kill_at)

    kills: List[Kill] = []
    kill_at = is_mid_epoch if kill else never
    ended = start(kill_at)
    while kill_at is not never and ended.exit_code == -signal.SIGKILL:
        step, saved_step = last_step(directory, ended.step), model_dir.step_of(model_dir.newest_valid(directory))
        say(f"{label}Killed (SIGKILL)")
        # Should it have got as far as another save before it died, then nothing had to be done again: once more.
        kill_at = never if step > saved_step else is_mid_epoch
        ended = start(kill_at)
        kills.append(Kill(step, ended.resumed_at))
    if ended.exit_code != 0:
        raise UserError(f"{program} ended with exit code {ended.exit_code}; its lines above say why")
    return kills


def last_step(directory: str, told: int) -> int:
    """Returns the last step a dead process is known to have done: from its terminal, or from what it had written."""
    ledger = read_ledger(os.path.join(directory, model_dir.EXAMPLES_FILE), NUM_EPOCHS * STEPS_PER_EPOCH)
    return max(told, *ledger)


def train_all(programs: List[str], out_dir: str) -> Dict[Tuple[str, bool], Outcome]:
    """Trains each program twice, killed and undisturbed; returns the outcomes by (program, killed)."""
    kinds = [(program, killed) for killed in (True, False) for program in programs]
    with concurrent.futures.ThreadPoolExecutor(_PROCESSES_AT_ONCE) as pool:
        futures = [pool.submit(train, program, run_directory(out_dir, program, killed), killed) for program, killed in kinds]
        try:
            kills = [future.result() for future in futures]
        except UserError:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    outcomes = {}
    for kind, kills_of_run in zip(kinds, kills):
        directory = run_directory(out_dir, *kind)
        best = model_dir.read_json(os.path.join(directory, model_dir.BEST_METRICS_FILE))
        outcomes[kind] = Outcome(kills_of_run, tally_run(directory), best["accuracy"])
    return outcomes


def compare_weights(programs: List[str], out_dir: str) -> Dict[str, Optional[str]]:
    """Compares final weights and optimizer slots, bit for bit.

    Returns:
      For each program (killed against undisturbed), and for "parity" (the two programs), the first difference or None.
    """
    cli.quiet_tensorflow()
    from compare.weights import first_difference, read_variables

    def final(program: str, killed: bool) -> dict:
        return read_variables(model_dir.newest_valid(run_directory(out_dir, program, killed)), with_slots=True)

    differences = {program: first_difference(final(program, True), final(program, False)) for program in programs}
    if len(programs) == 2:
        differences["parity"] = first_difference(final(programs[0], False), final(programs[1], False))
    return differences


def report(outcomes: Dict[Tuple[str, bool], Outcome], differences: Dict[str, Optional[str]]) -> Tuple[List[str], bool]:
    """Judges the runs.

    Args:
      outcomes: by (program, killed).
      differences: as from `compare_weights`.

    Returns:
      (lines for a person, whether everything is as it should be).
    """
    lines: List[str] = []
    verdicts: List[bool] = []

    def judge(good: bool, text: str) -> None:
        verdicts.append(good)
        lines.append(f"{'ok ' if good else 'BAD'}  {text}")

    for program in dict.fromkeys(program for program, _ in outcomes):
        killed, undisturbed = outcomes[program, True], outcomes[program, False]
        for step, resumed_at in killed.kills:
            epoch, in_epoch = divmod(step, STEPS_PER_EPOCH)
            where = f"{program}: killed after step {step} (epoch {epoch + 1}, {in_epoch} of {STEPS_PER_EPOCH} batches done)"
            if resumed_at is None:
                judge(False, f"{where}, did not resume")
            else:
                judge(in_epoch > 0, f"{where}, resumed at step {resumed_at}, {count(step - resumed_at, 'step')} done again")
        if not any(kill.resumed_at is not None and kill.resumed_at < kill.step for kill in killed.kills):
            judge(False, f"{program}: it was never killed beyond its last checkpoint, so this shows nothing")
        judge(
            killed.tally == undisturbed.tally == Tally(0, 0),
            f"{program}: examples lost / repeated: {killed.tally.lost} / {killed.tally.repeated} "
            f"(undisturbed {undisturbed.tally.lost} / {undisturbed.tally.repeated})",
        )
        difference = differences[program]
        judge(difference is None, f"{program}: final weights, killed and undisturbed: {difference or 'bit-identical'}")
        judge(
            killed.accuracy == undisturbed.accuracy >= LEAST_ACCURACY,
            f"{program}: best accuracy {killed.accuracy:.4f} (undisturbed {undisturbed.accuracy:.4f})",
        )
    if "parity" in differences:
        difference = differences["parity"]
        judge(difference is None, f"final weights, lowlevel and estimator: {difference or 'bit-identical'}")
    return lines, all(verdicts)


def demo(out_dir: str) -> bool:
    """Runs everything and prints the outcome; returns whether it is as it should be."""
    started = time.monotonic()
    programs = ["lowlevel"]
    if importlib.util.find_spec("tensorflow_estimator"):
        programs.append("estimator")
    else:
        say("estimator is left out: this TensorFlow has no tf.estimator, 2.15 was the last that has it (Python 3.11)")
    outcomes = train_all(programs, out_dir)
    lines, good = report(outcomes, compare_weights(programs, out_dir))
    say("")
    for line in lines:
        say(line)
    verdict = "as if nothing had happened" if good else "not as it should be, see BAD"
    say(f"{verdict} · {time.monotonic() - started:.0f} s · the runs are in {out_dir}")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills both programs in mid-epoch and shows that nothing is lost.")
    parser.add_argument("--out_dir", help="where the runs go; new or empty (default: a new directory in runs/)")
    out_dir = processes.new_directory("demo", parser.parse_args().out_dir)
    try:
        sys.exit(0 if demo(out_dir) else 1)
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
