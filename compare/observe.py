"""Watches a training process from outside: what it prints, which files it makes, when it dies, how much memory it took.

Nothing in the program knows of it. Steps are seen in two places, whichever is first: on the terminal (`step 30/288 ...`),
and in examples.jsonl, whose lines reach the disk some at a time. Saves, evaluations and exports are seen by the names of
files, as the kernel tells of them.
"""

import json
import os
import re
import select
import signal
import time
from typing import Callable, List, NamedTuple, Optional, Sequence

from compare.children import Children
from compare.watch import Change, Watch
from midepoch import exports, model_dir
from midepoch.errors import UserError

# What can happen in a process.
STEP, RESUMED, SAVE_BEGAN, SAVE_ENDED, EVALUATED, EXPORT_BEGAN, EXPORT_ENDED = (
    "step", "resumed", "save began", "save ended", "evaluated", "export began", "export ended"
)  # fmt: skip

STEP_LINE = re.compile(
    r"step (?P<step>\d+)/(?P<total>\d+)(\s+epoch \d+ \d+/(?P<epoch_steps>\d+))?(\s+loss (?P<loss>[-+.\de]+|nan|inf))?"
)
RESUME_LINE = re.compile(r"resume at step (\d+)\b")
_FRESH_LINE = re.compile(r"fresh start\b")
_MANIFEST = re.compile(r"(.*/)?" + re.escape(model_dir.CHECKPOINT_NAME) + r"-(\d+)\.manifest\.json(\.tmp)?")
_EXPORT = re.compile(re.escape(exports.EXPORT) + r"/(temp-.*|\d+)")
# Where else in the model_dir of a run of midepoch something happens.
SUBDIRECTORIES = (model_dir.BEST_WEIGHTS, exports.EXPORT)
_KEPT_LINES = 30
_READ_BYTES = 65536


class Event(NamedTuple):
    """Something that happened in a process.

    Attributes:
      at: when it was seen, in seconds of the monotonic clock.
      kind: STEP or another of the above.
      step: after STEP, the last step known to be done; the one resumed at (0: a fresh start); the one saved.
      loss: with STEP, as printed; None if it was seen elsewhere.
      in_best: whether it was saved as the best checkpoint.
    """

    at: float
    kind: str
    step: Optional[int] = None
    loss: Optional[float] = None
    in_best: bool = False


class Plan(NamedTuple):
    """What a `step` line tells of the run: its last step, and the steps per epoch, or None."""

    total_steps: int
    epoch_steps: Optional[int]


class Observation(NamedTuple):
    """What was seen of a process.

    Attributes:
      began, ended: in seconds of the monotonic clock.
      exit_code: its exit code; the negative number of the signal that ended it.
      was_killed: whether we have killed it.
      peak_memory_bytes: the most memory it had in use at once.
      cpu_secs: processor time.
      events: what happened, in order.
      last_lines: the last lines it printed.
    """

    began: float
    ended: float
    exit_code: int
    was_killed: bool
    peak_memory_bytes: int
    cpu_secs: float
    events: List[Event]
    last_lines: List[str]


class _LedgerTail:
    """Tells of the steps that are added to a ledger file from now on."""

    def __init__(self, path: str):
        self._path = path
        self._offset = os.path.getsize(path) if os.path.exists(path) else 0

    def newest_step(self) -> Optional[int]:
        """Returns the last step of which a line has come since the last call, or None."""
        step = None
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            for line in file:
                if line.endswith(b"\n"):
                    self._offset += len(line)
                    try:
                        step = int(json.loads(line)["step"])
                    except (ValueError, TypeError, KeyError):  # the end of a line that a kill had cut
                        pass
        return step


def observe(
    command: List[str],
    directory: str,
    subdirectories: Sequence[str],
    log: str,
    children: Children,
    is_to_die: Callable[[int, Optional[Plan]], bool],
    tell: Callable[[Event], None],
) -> Observation:
    """Runs a process to its end, or to the point where it is to die.

    Args:
      command: the command line.
      directory: its model_dir.
      subdirectories: of the model_dir, to be watched too; made if missing.
      log: the file that what it prints is added to.
      children: starts it, and may end it.
      is_to_die: asked with each step that is seen, and with what the line says of the run; True sends SIGKILL at once.
      tell: takes each event.

    Raises:
      compare.children.Stopped: the comparison has been stopped.
      UserError: the directory cannot be made or watched.
    """
    try:
        watch = Watch(directory, subdirectories)
    except (OSError, AttributeError) as error:  # the latter on another system than Linux
        raise UserError(
            f"{directory} cannot be made and watched: {error}; compare needs room there, and Linux with its inotify"
        ) from error
    tail = _LedgerTail(os.path.join(directory, model_dir.EXAMPLES_FILE))
    events: List[Event] = []
    was_killed = False

    def take(event: Optional[Event], plan: Optional[Plan] = None) -> None:
        nonlocal was_killed
        if event is None:
            return
        if event.kind == STEP and not was_killed and is_to_die(event.step, plan):
            children.kill(process)
            was_killed = True
        events.append(event)
        tell(event)

    def look_at_files() -> None:
        for change in watch.changes(0.0):
            if change.path == model_dir.EXAMPLES_FILE and change.kind == "modified":
                step = tail.newest_step()
                take(None if step is None else Event(time.monotonic(), STEP, step))
            else:
                take(_event_of_file(change, time.monotonic()))

    began = time.monotonic()
    lines: List[str] = []
    rest = b""
    with open(log, "ab") as file:
        process = children.start(command)
        output = process.stdout.fileno()
        open_still = True
        while open_still:
            ready = select.select([output, watch.fileno()], [], [])[0]
            if output in ready:
                data = os.read(output, _READ_BYTES)
                open_still = bool(data)
                file.write(data)
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    text = line.decode(errors="replace")
                    lines = [*lines[1 - _KEPT_LINES :], text]
                    take(*event_of_line(text, time.monotonic()))
            look_at_files()
    ending = children.wait(process)
    look_at_files()
    watch.close()
    ended = time.monotonic()
    if rest:
        lines.append(rest.decode(errors="replace"))
    was_killed = was_killed and ending.exit_code == -signal.SIGKILL  # else it had just ended by itself
    return Observation(
        began, ended, ending.exit_code, was_killed, ending.peak_memory_bytes, ending.cpu_secs, events, lines[-_KEPT_LINES:]
    )


def event_of_line(line: str, at: float) -> tuple:
    """Returns (what a line on the terminal tells of, or None; with a step, the plan it tells of, else None)."""
    match = STEP_LINE.match(line)
    if match:
        loss, epoch_steps = match["loss"], match["epoch_steps"]
        event = Event(at, STEP, int(match["step"]), None if loss is None else float(loss))
        return event, Plan(int(match["total"]), epoch_steps and int(epoch_steps))
    match = RESUME_LINE.match(line)
    if match:
        return Event(at, RESUMED, int(match.group(1))), None
    return (Event(at, RESUMED, 0) if _FRESH_LINE.match(line) else None), None


def _event_of_file(change: Change, at: float) -> Optional[Event]:
    """Returns what a change of a file tells of, or None."""
    match = _MANIFEST.fullmatch(change.path)
    if match:
        of_checkpoint = dict(step=int(match.group(2)), in_best=bool(match.group(1)))
        if match.group(3) and change.kind == "created":
            return Event(at, SAVE_BEGAN, **of_checkpoint)
        return Event(at, SAVE_ENDED, **of_checkpoint) if change.kind == "renamed" and not match.group(3) else None
    if change.path == model_dir.LAST_METRICS_FILE and change.kind == "renamed":
        return Event(at, EVALUATED)
    match = _EXPORT.fullmatch(change.path)
    if match and match.group(1).startswith("temp-"):
        return Event(at, EXPORT_BEGAN) if change.kind == "created" else None
    return Event(at, EXPORT_ENDED) if match and change.kind == "renamed" else None
