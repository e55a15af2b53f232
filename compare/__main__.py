"""Runs both programs on the same task, undisturbed and killed, and writes a report: `python -m compare`.

    python -m compare                                    both programs on the embedded digits; the report is in runs/
    python -m compare --task=mnist --num_epochs=3        any training flag is passed through
    python -m compare --kills=5 --kill_seed=7            other deaths
    python -m compare --peers                            also the usual ways of doing it, under the same kills
    python -m compare DIR_A DIR_B                        two model_dirs as they are; nothing is trained

Exit code 1: a program has crashed, an example was lost or repeated, a weight differs in a bit, or something was refused. Two
directories may differ: that is what the report is for, and the exit code is 0.
"""

import contextlib
import importlib.util
import os
import signal
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence

from absl import flags

from compare import processes, programs, runs
from compare.children import Children
from compare.programs import Program
from compare.progress import Display
from midepoch import cli
from midepoch import config as config_lib
from midepoch.config import TrainConfig
from midepoch.console import count, say
from midepoch.errors import UserError

# What a comparison trains if it is not told otherwise: the digits, with everything that midepoch does in half a minute.
_DEFAULTS = dict(num_epochs=12, save_checkpoints_steps=50, eval_every_epochs=3, log_every_steps=5, record_examples=True)
# Of these, a regime sets its own.
_OF_REGIME = ("save_checkpoints_steps", "eval_every_epochs")
# Training flags that make no sense here, and why.
_REFUSED = {
    "model_dir": "each run gets its own in --out_dir",
    "mode": "this trains",
    "checkpoint": "this trains",
    "max_run_secs": "the runs go on to their end",
}


class Interrupted(Exception):
    """A signal has asked the comparison to end."""


def define_flags(values: flags.FlagValues) -> None:
    """Defines the training flags and those of the comparison."""
    config_lib.define_flags(values)
    own = dict(flag_values=values)
    flags.DEFINE_bool("help", False, "Shows this help.", **own)
    flags.DEFINE_string("out_dir", None, "Where runs and report go; new or empty. Unset: a new directory in runs/.", **own)
    flags.DEFINE_integer("kills", 2, "SIGKILLs for each run that is disturbed.", lower_bound=0, **own)
    flags.DEFINE_integer("kill_seed", 1, "Decides after which steps they come.", **own)
    flags.DEFINE_bool("peers", False, "Also the usual ways of saving and resuming, under the same kills.", **own)
    flags.DEFINE_list("programs", None, "Only these programs or peers, by name. Unset: all.", **own)
    flags.DEFINE_integer("at_once", None, "Runs at a time. Unset: as many as there are cores.", lower_bound=1, **own)
    flags.DEFINE_float(
        "least_accuracy", None, "Exit code 1 if a run ends with a lower best accuracy. Unset: any will do.", **own
    )


def choose_programs(names: Optional[Sequence[str]], with_peers: bool) -> List[Program]:
    """Returns the programs to compare.

    Args:
      names: those that are wanted, or None for all.
      with_peers: whether peers are among all.

    Raises:
      UserError: there is none of a name.
    """
    names = list(dict.fromkeys(name for name in names or () if name)) or None
    known = programs.own_programs()
    if with_peers or set(names or ()) - {program.name for program in known}:
        known += programs.peers()
    by_name = {program.name: program for program in known}
    unknown = [name for name in names or () if name not in by_name]
    if unknown:
        raise UserError(f"--programs={','.join(names)}: there is no {unknown[0]}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names] if names else known


def make_config(given: Dict[str, Any], has_peers: bool) -> TrainConfig:
    """Returns the config of all runs, with a model_dir that is none yet.

    Args:
      given: the training flags of the command line.
      has_peers: whether a peer is among the programs.

    Raises:
      UserError: a flag that makes no sense here, or that a peer does not have.
    """
    for name, why in _REFUSED.items():
        if name in given:
            raise UserError(f"--{name}={given[name]} is not for a comparison: {why}; leave it out")
    defaults = {name: value for name, value in _DEFAULTS.items() if "regime" not in given or name not in _OF_REGIME}
    config = config_lib.merged(defaults, {**given, "model_dir": "of a run"})
    if has_peers:
        missing = [name for name in given if name not in (*programs.PEER_FLAGS, "log_every_steps")]
        if missing or not config.num_epochs or not config.save_checkpoints_steps:
            name = (missing or ["train_steps"])[0]
            allowed = ", ".join(f"--{flag}" for flag in programs.PEER_FLAGS)
            raise UserError(
                f"--{name} is set, but peers train the digits and have only {allowed}; leave it, or the peers, out"
            )
    return config.resolved()


@contextlib.contextmanager
def ending_by_signal() -> Iterator[None]:
    """Turns SIGINT, SIGTERM and SIGHUP into `Interrupted`."""

    def interrupt(number: int, frame: Any) -> None:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)  # the children are being ended: one more signal must not prevent it
        raise Interrupted(signal.Signals(number).name)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def compare_runs(values: flags.FlagValues, given: Dict[str, Any], out_dir: str) -> bool:
    """Makes the runs and the report; returns whether all is as it should be."""
    chosen = choose_programs(values["programs"].value, values["peers"].value)
    config = make_config(given, any(program.is_peer for program in chosen))
    for program in chosen:
        if program.why_not is not None:
            say(f"{program.name} is left out: {program.why_not}")
    specs = runs.specs(chosen, config, out_dir)
    if not specs:
        raise UserError("none of the programs can run here; give others to --programs")
    at_once = min(values["at_once"].value or len(os.sched_getaffinity(0)), len(specs))
    kills, kill_seed = values["kills"].value, values["kill_seed"].value
    say(f"{count(len(specs), 'run')}, {at_once} at a time, {count(kills, 'kill')} for each that is disturbed · {out_dir}")
    make_out_dir(out_dir)
    kill_plan = runs.KillPlan(config, kills, kill_seed)
    display = Display(specs, lambda: kill_plan.plan and kill_plan.plan.total_steps)
    try:
        outcomes = runs.carry_out(specs, kill_plan, Children(), at_once, display.event, display.ended)
    except UserError:
        if kill_plan.plan is None:  # refused before any run has told of a step
            runs.remove(specs, out_dir)
        raise
    finally:
        display.close()
    say("comparing")
    # Only now: a process counts the memory of the one that has started it as its own, so this one stays small till here.
    cli.quiet_tensorflow()
    from compare import report

    accuracy = values["least_accuracy"].value
    found = report.of_outcomes(outcomes, chosen, kill_plan, kill_seed, kills, out_dir, at_once, accuracy)
    path = report.write(found, out_dir)
    _say_table(report.terminal_table(found))
    for good, line in found["verdict"]:
        say(f"{'ok ' if good else 'BAD'}  {line}")
    good = all(good for good, _ in found["verdict"])
    if found["verdict"]:
        say("as if nothing had happened" if good else "not as it should be, see BAD")
    say(f"report: {path}")
    return good


def compare_directories(directories: Sequence[str], out_dir: str) -> bool:
    """Makes the report of two model_dirs; returns True."""
    cli.quiet_tensorflow()
    from compare import report
    from compare.section_outcomes import COMPARED, said_of

    found = report.of_directories(directories)
    path = report.write(found, out_dir)
    _say_table(report.terminal_table(found))
    for run_found in found["runs"]:
        for problem in run_found["problems"]:
            say(f"{run_found['name']}: {problem}")
    [pair] = found["pairs"]
    for what in COMPARED:
        say(f"{what}: {said_of(pair, what)}")
    say(f"report: {path}")
    return True


def make_out_dir(out_dir: str) -> None:
    """Makes the directory of --out_dir.

    Raises:
      UserError: it cannot be made.
    """
    try:
        os.makedirs(out_dir, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out_dir={out_dir} cannot be made: {error.strerror}; give a place that may be written") from error


def _say_table(lines: Sequence[str]) -> None:
    for line in ("", *lines, ""):
        say(line)


def run(argv: List[str]) -> int:
    """Does what a command line says, and returns the exit code."""
    values = flags.FlagValues()
    define_flags(values)
    try:
        directories = values(argv)[1:]
        if values["help"].value:
            print(f"{__doc__}\n{values.get_help(include_special_flags=False)}")
            return cli.EXIT_FINISHED
        if importlib.util.find_spec("matplotlib") is None:
            raise UserError("the report needs matplotlib, which is not installed; pip install -e .[report]")
        given = config_lib.given_flags(values)
        if directories:
            check_directories(
                directories, [name for name in values if name not in ("out_dir", "help") and values[name].present]
            )
        out_dir = processes.new_directory("compare", values["out_dir"].value)
        with ending_by_signal():
            good = compare_directories(directories, out_dir) if directories else compare_runs(values, given, out_dir)
    except (UserError, flags.Error, OSError) as error:
        return cli.fail(" ".join(str(error).split()))
    except Interrupted as error:
        return cli.fail(f"stopped by {error}; the processes have been ended, what they had written is left as it is")
    return cli.EXIT_FINISHED if good else cli.EXIT_FAILED


def check_directories(directories: Sequence[str], others: Sequence[str]) -> None:
    """Raises UserError if what was given is not two directories and nothing else.

    Args:
      directories: what was given without a flag.
      others: the names of the flags given, apart from --out_dir.
    """
    if len(directories) != 2:
        raise UserError(
            f"expected two directories, or none, received {' '.join(directories)}; flags are written --name=value"
        )
    if others:
        raise UserError(f"--{others[0]} is set, but two directories are compared as they are; leave it out")
    if os.path.realpath(directories[0]) == os.path.realpath(directories[1]):
        raise UserError(f"{directories[0]} and {directories[1]} are the same directory; give two")


def main() -> None:
    """The console script `midepoch-compare`."""
    cli.serve_any_terminal()
    sys.exit(run(sys.argv))


if __name__ == "__main__":
    main()
