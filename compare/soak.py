"""Hundreds of real SIGKILLs, signals and time limits for each program: `make soak`, or `python -m compare.soak`.

A run is started again and again by the same command and killed each time: at a random moment, or just when a certain file is
created, written, renamed or deleted, which the kernel tells (`compare/watch.py`). Nothing is built into the programs for it.
When the run has come to its end it must be the undisturbed one: the same weights and optimizer slots to the bit, the same
examples in the same order, each exactly once an epoch, the same metrics and best checkpoint, the same files. Then the next run
begins, until there have been enough kills. Signals go the same way, but no step may have to be done again after one. Time
limits: each process has ended before its limit, with every step saved.

Importing TensorFlow takes longer than what is tested here. So it is imported once, and not used; each process is a fork of
that one, and runs the program's own command line.
"""

import argparse
import collections
import importlib
import importlib.util
import os
import random
import re
import signal
import subprocess
import sys
import time
from typing import Counter, List, NamedTuple, Optional

from compare import processes
from compare.ledger_check import Tally, tally_run
from compare.watch import Change, Watch
from midepoch import cli, model_dir
from midepoch.console import say
from midepoch.ledger import read_ledger
from midepoch.stopping import Stopping

EPOCHS = 15
STEPS_PER_EPOCH = 32  # 1,500 training examples in batches of 48
STEPS = EPOCHS * STEPS_PER_EPOCH
LOG_STEPS = 4
FLAGS = (
    "--task=compare.bench.tasks:DigitsMlp",
    f"--num_epochs={EPOCHS}",
    "--batch_size=48",
    "--shuffle_window=600",
    "--shuffle_block=50",
    "--save_checkpoints_steps=11",
    "--eval_every_epochs=1",
    "--keep_checkpoint_max=2",
    f"--log_every_steps={LOG_STEPS}",
    "--record_examples",
)
_ENDLESS = "--num_epochs=100000"

_AIMED = 0.6  # this share of the kills is aimed, the others come at random
# A process that does not meet its aim is killed after so many changes of files, some fifty steps.
_MOST_CHANGES = 400
_LOOK_SECS = 0.5
_JUST_AFTER_SECS = 0.002
_EVALUATION_SECS = 0.3
# A limit leaves so much more than a whole undisturbed run takes, which is mostly start-up.
_LIMIT_SECS = (4.0, 8.0)
_CKPT = r"model\.ckpt-\d+"


class Aim(NamedTuple):
    """When to kill: at a change of a file.

    Attributes:
      name: what is met by it.
      kind: pattern for the kind of the change; see `Change`.
      path: pattern for the path.
      up_to: which change it is, is drawn from the first … this one.
      within_secs: the kill comes so much later at most.
    """

    name: str
    kind: str
    path: str
    up_to: int = 3
    within_secs: float = _JUST_AFTER_SECS

    def meets(self, change: Change) -> bool:
        """Says whether a change is one of those aimed at."""
        return bool(re.fullmatch(self.kind, change.kind) and re.fullmatch(self.path, change.path))


AT_RANDOM = Aim("at random", ".*", ".*", 300, _EVALUATION_SECS)
AIMS = (
    Aim("start-up", "created|renamed", r"\.lock|run\.json.*|flags\.txt.*|events\.out.*|examples\.jsonl", 8, 0.02),
    Aim("mending after a kill", "deleted|renamed", rf"(best_weights/)?({_CKPT}.*|checkpoint)", 1),
    Aim("before the data", "created", rf"{_CKPT}_temp"),
    Aim("between data and index", "renamed", rf"{_CKPT}\.data.*"),
    Aim("in the index", "created|modified", rf"{_CKPT}\.index"),
    Aim("between index and manifest", "closed", rf"{_CKPT}\.index"),
    Aim("in the manifest", "created|closed", rf"{_CKPT}\.manifest\.json\.tmp"),
    Aim("between manifest and state file", "renamed", rf"{_CKPT}\.manifest\.json"),
    Aim("in the state file", "created|closed", r"checkpoint\.tmp.*"),
    Aim("between state file and retention", "renamed", "checkpoint"),
    Aim("in retention", "deleted", rf"{_CKPT}\..*", 6),
    Aim("in the evaluation", "renamed", "checkpoint", 4, _EVALUATION_SECS),
    Aim("in the best checkpoint", "created|renamed", rf"best_weights/{_CKPT}.*", 3),
    Aim("in the retention of the best", "deleted", rf"best_weights/{_CKPT}\..*", 3),
    Aim("between best and its metrics", "renamed", r"best_weights/checkpoint", 2),
    Aim("in the metrics of the best", "created|closed", r"metrics_eval_best.*\.tmp", 1),
    Aim("between the two metrics files", "renamed", r"metrics_eval_best_weights\.json", 1),
    Aim("after the metrics", "renamed", r"metrics_eval_last_weights\.json", 2),
)
# What happens once in a run, at its end.
AIMS_AT_THE_END = (
    Aim("in the export", "created", "export/temp-.*", 1, 0.5),
    Aim("after the export", "renamed", r"export/\d+", 1, 0.02),
)
_LAST_STEPS = 32


class Program:
    """A training program of which each process is a fork of this one, which has imported TensorFlow but never used it.

    Args:
      name: "lowlevel" or "estimator".
    """

    def __init__(self, name: str):
        self.name = name
        cli.quiet_tensorflow()
        importlib.import_module(f"{name}.loop")
        self._train = importlib.import_module(f"{name}.train").train

    def start(self, directory: str, *flags: str) -> int:
        """Starts a process in a model_dir; what it prints is added to `<directory>.txt`; returns its id."""
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            code = 1
            try:
                output = os.open(directory + ".txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(output, 1)
                os.dup2(output, 2)
                sys.argv = [f"{self.name}.train", f"--model_dir={directory}", *FLAGS, *flags]
                cli.run(self._train, readers={})
            except SystemExit as end:
                code = end.code
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)  # not back into what the parent was about to do
        return process


def exit_code(process: int, wait: bool = True) -> Optional[int]:
    """Returns the exit code of a process, or the negative number of the signal that ended it; None if it still runs."""
    done, status = os.waitpid(process, 0 if wait else os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def bytes_printed(directory: str) -> int:
    """Returns how much the processes of a model_dir have printed."""
    return os.path.getsize(directory + ".txt") if os.path.exists(directory + ".txt") else 0


def printed(directory: str, since: int) -> str:
    """Returns what the processes of a model_dir have printed, from a byte on."""
    if not bytes_printed(directory):
        return ""
    with open(directory + ".txt", "rb") as file:
        file.seek(since)
        return file.read().decode(errors="replace")  # the last character may be half written


class Soak:
    """Disturbs runs of one program.

    Args:
      program: the program.
      out_dir: where the runs go.
      seed: of all that is random here.

    Attributes:
      problems: what was not as it should be.
      finished_runs: model_dirs of disturbed runs that have come to their end.
      met: how many kills met which aim.
      exit_codes: of the processes that got a signal or a limit.
      least_secs_left: how long before its limit a process had ended, at least.
    """

    def __init__(self, program: Program, out_dir: str, seed: int):
        self._program = program
        self._out_dir = out_dir
        self._random = random.Random(f"{program.name} {seed}")
        self._number = 0
        self.problems: List[str] = []
        self.finished_runs: List[str] = []
        self.met: Counter[str] = collections.Counter()
        self.exit_codes: Counter[int] = collections.Counter()
        self.least_secs_left = float("inf")
        self.undisturbed = self._directory("undisturbed")
        started = time.monotonic()
        self._finish(self.undisturbed)
        self._run_secs = time.monotonic() - started

    def _directory(self, kind: str) -> str:
        self._number += 1
        return os.path.join(self._out_dir, f"{self._program.name}-{self._number}-{kind}")

    def _problem(self, directory: str, text: str) -> None:
        self.problems.append(f"{os.path.basename(directory)}: {text}")
        say(f"{self._program.name}: BAD {self.problems[-1]}")

    def _finish(self, directory: str) -> None:
        """Lets a run come to its end; that it was there before is an end too."""
        code = exit_code(self._program.start(directory))
        if code != 0:
            self._problem(directory, f"the last start ended with {code}")
        self.finished_runs.append(directory)

    # Kills.

    def kill(self, kills: int) -> None:
        """Kills so many processes, and lets the last run come to its end."""
        directory, done = self._directory("killed"), 0
        while done < kills and not self.problems:
            code = self._start_and_kill(directory, self._aim(directory))
            if code == -signal.SIGKILL:
                done += 1
                if done % 10 == 0:
                    say(f"{self._program.name}: {done} of {kills} kills")
            elif code == 0:
                self.finished_runs.append(directory)
                directory = self._directory("killed")
            else:
                self._problem(directory, f"a process ended with {code}")
        self._finish(directory)

    def _aim(self, directory: str) -> Aim:
        if self._random.random() >= _AIMED:
            return AT_RANDOM
        at_the_end = max(model_dir.steps_on_disk(directory), default=0) >= STEPS - _LAST_STEPS
        return self._random.choice(AIMS_AT_THE_END if at_the_end else AIMS)

    def _start_and_kill(self, directory: str, aim: Aim) -> int:
        """Starts a process, kills it when the aim is met, but in any case before long; returns how it ended."""
        watch = Watch(directory, ("best_weights", "eval", "export"))
        process = self._program.start(directory)
        to_meet, to_see, code = self._random.randint(1, aim.up_to), _MOST_CHANGES, None
        while code is None and to_meet and to_see:
            for change in watch.changes(_LOOK_SECS):
                to_see -= 1
                to_meet -= aim.meets(change)
                if not to_meet or not to_see:
                    break
            else:
                code = exit_code(process, wait=False)
        if code is None:
            time.sleep(self._random.random() * aim.within_secs)
            os.kill(process, signal.SIGKILL)
            code = exit_code(process)
            if code == -signal.SIGKILL:
                self.met[AT_RANDOM.name if to_meet else aim.name] += 1
        watch.close()
        return code

    # Signals and time limits.

    def signal(self, signals: int) -> None:
        """Sends signals at random moments after the program has announced itself; to every other process two of them."""
        directory = self._directory("signalled")
        for _ in range(signals):
            before = bytes_printed(directory)
            process = self._program.start(directory)
            code = None
            while code is None and "\ntarget " not in "\n" + printed(directory, before):
                time.sleep(0.01)
                code = exit_code(process, wait=False)
            time.sleep(self._random.random() * self._random.choice((0.1, 1.0, self._run_secs)))
            for _ in range(self._random.randint(1, 2)):
                code = exit_code(process, wait=False) if code is None else code
                if code is None:
                    os.kill(process, self._random.choice(Stopping.SIGNALS))
                    time.sleep(self._random.random() * 0.1)
            code = exit_code(process) if code is None else code
            self._judge_stop(directory, before, code)
            if code == 0:
                self.finished_runs.append(directory)
                directory = self._directory("signalled")
        self._finish(directory)
        for run in self.finished_runs:
            history = model_dir.read_json(os.path.join(run, model_dir.RUN_FILE))["history"]
            if "signalled" in run and (history["kills"] or history["steps_done_again"]):
                self._problem(run, f"work was lost: {history}")

    def limit(self, limits: int) -> None:
        """Starts one run again and again with time limits that it cannot reach its target in."""
        if not limits:
            return
        directory = self._directory("limited")
        for _ in range(limits):
            secs = self._run_secs + self._random.uniform(*_LIMIT_SECS)
            before, started = bytes_printed(directory), time.monotonic()
            code = exit_code(self._program.start(directory, _ENDLESS, f"--max_run_secs={secs:.2f}"))
            left = secs - (time.monotonic() - started)
            self.least_secs_left = min(self.least_secs_left, left)
            if left < 0:
                self._problem(directory, f"--max_run_secs={secs:.2f}: ended {-left:.2f} s too late")
            self._judge_stop(directory, before, code)
        tally = tally_run(directory)
        if tally != Tally(0, 0):
            self._problem(directory, f"examples lost / repeated: {tally.lost} / {tally.repeated}")

    def _judge_stop(self, directory: str, before: int, code: int) -> None:
        """Judges the end of a process that was to stop: all its steps are saved."""
        self.exit_codes[code] += 1
        text = printed(directory, before)
        stopped = re.search(r"^stopped at (\d+)/", text, re.MULTILINE)
        if code == 0 and re.search(r"^(done|already done)", text, re.MULTILINE):
            return
        if code != 75 or not stopped:
            return self._problem(directory, f"a process that was to stop ended with {code}: {text.splitlines()[-1:]}")
        step, newest = int(stopped.group(1)), model_dir.newest_valid(directory)
        steps_done = read_ledger(os.path.join(directory, model_dir.EXAMPLES_FILE), sys.maxsize)
        if newest is None or model_dir.step_of(newest) != step or max(steps_done, default=step) != step:
            self._problem(directory, f"stopped at {step}, but saved {newest}, steps done {max(steps_done, default=0)}")


def files(directory: str) -> List[str]:
    """Returns the names of all files under a directory; not the event files, of which there is one for every start.

    An export, whose name is the time, is called `export/<time>`.
    """
    found = (os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)
    names = (os.path.relpath(path, directory) for path in found if "tfevents" not in path)
    return sorted(re.sub(r"^export/\d+", "export/<time>", name) for name in names)


def differences(run: str, undisturbed: str) -> List[str]:
    """Returns all in which a run differs from the undisturbed one, in words."""
    from compare.weights import first_difference, read_variables

    found = []
    if files(run) != files(undisturbed):
        found.append(f"other files: {sorted(set(files(run)) ^ set(files(undisturbed)))}")
    tally = tally_run(run)
    if tally != Tally(0, 0):
        found.append(f"examples lost / repeated: {tally.lost} / {tally.repeated}")
    ledgers = [read_ledger(os.path.join(directory, model_dir.EXAMPLES_FILE), STEPS) for directory in (run, undisturbed)]
    if ledgers[0] != ledgers[1]:
        found.append("other examples, or in another order")
    for name in (model_dir.LAST_METRICS_FILE, model_dir.BEST_METRICS_FILE):
        metrics = [model_dir.read_json(os.path.join(directory, name)) for directory in (run, undisturbed)]
        if metrics[0] != metrics[1]:
            found.append(f"{name}: {metrics[0]} and {metrics[1]}")
    for place in ("", model_dir.BEST_WEIGHTS):
        newest = [model_dir.newest_valid(os.path.join(directory, place)) for directory in (run, undisturbed)]
        if None in newest or model_dir.step_of(newest[0]) != model_dir.step_of(newest[1]):
            found.append(f"newest checkpoints {newest[0]} and {newest[1]}")
            continue
        difference = first_difference(*(read_variables(prefix, with_slots=True) for prefix in newest))
        if difference:
            found.append(f"{place or 'last'} weights: {difference}")
    return found


def soak(name: str, out_dir: str, seed: int, kills: int, signals: int, limits: int) -> bool:
    """Does everything for one program and prints the outcome; returns whether it is as it should be."""
    started = time.monotonic()
    os.makedirs(out_dir, exist_ok=True)
    this = Soak(Program(name), out_dir, seed)
    this.kill(kills)
    this.signal(signals)
    this.limit(limits)
    problems = list(this.problems)
    for run in this.finished_runs:
        problems += [f"{os.path.basename(run)}: {difference}" for difference in differences(run, this.undisturbed)]
    for aim, number in this.met.most_common():
        say(f"{name}: {number:4} kills {aim}")
    codes = ", ".join(f"{number} × exit {code}" for code, number in sorted(this.exit_codes.items()))
    in_time = f"; ended {this.least_secs_left:.1f} s before the limit at least" if limits else ""
    say(f"{name}: signals and limits: {codes or 'none'}{in_time}")
    for problem in problems:
        say(f"{name}: BAD {problem}")
    say(
        f"{name}: {'BAD' if problems else 'ok'}: {sum(this.met.values())} kills, {len(this.finished_runs) - 1} disturbed runs "
        f"of {STEPS} steps compared with the undisturbed one, {time.monotonic() - started:.0f} s"
    )
    return not problems


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills and stops both programs many times and shows that nothing is lost.")
    parser.add_argument("--program", choices=("lowlevel", "estimator"), help="only this one (default: both, side by side)")
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs for each program")
    parser.add_argument("--signals", type=int, default=100, help="processes of each program that get a signal")
    parser.add_argument("--limits", type=int, default=30, help="processes of each program with a time limit")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all that is random here (default: the time)")
    parser.add_argument("--out_dir", help="where the runs go; new or empty (default: a new directory in runs/)")
    arguments = parser.parse_args()
    shared = arguments.program and arguments.out_dir  # by the two processes that this one starts for both programs
    out_dir = arguments.out_dir if shared else processes.new_directory("soak", arguments.out_dir)
    numbers = (arguments.kills, arguments.signals, arguments.limits)
    if arguments.program:
        sys.exit(0 if soak(arguments.program, out_dir, arguments.seed, *numbers) else 1)
    programs = ["lowlevel"] + ["estimator"] * bool(importlib.util.find_spec("tensorflow_estimator"))
    each = f"{numbers[0]} kills, {numbers[1]} signals, {numbers[2]} limits each"
    say(f"{', '.join(programs)}: {each}; seed {arguments.seed}; {out_dir}")
    flags = [f"--out_dir={out_dir}", f"--seed={arguments.seed}"]
    flags += [f"--{name}={number}" for name, number in zip(("kills", "signals", "limits"), numbers)]
    running = [subprocess.Popen([sys.executable, "-m", "compare.soak", f"--program={name}", *flags]) for name in programs]
    codes = [process.wait() for process in running]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    main()
