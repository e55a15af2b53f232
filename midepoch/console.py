"""What a person sees: one short line for each thing that happened."""

import contextlib
import os
import sys
import time
from typing import Any, Callable, Iterator, Optional, TextIO

import tqdm


def duration(secs: float) -> str:
    """Returns a duration as `0:03`, `12:40` or `3:05:00`."""
    minutes, seconds = divmod(int(secs + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def count(number: int, noun: str) -> str:
    """Returns `1 step`, `2 steps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def age(secs: Optional[float]) -> str:
    """Returns how long ago something was, as `14 s`, `3 min`, `2.5 h`, `4 days`."""
    if secs is None:
        return "–"
    if secs < 90:
        return f"{secs:.0f} s"
    if secs < 90 * 60:
        return f"{secs / 60:.0f} min"
    return f"{secs / 3600:.1f} h" if secs < 48 * 3600 else f"{secs / 86400:.0f} days"


def size(number: Optional[int]) -> str:
    """Returns a number of bytes as `512 B`, `3.1 kB`, `62.0 MB`; a kB is 1000 bytes."""
    if number is None:
        return "–"
    units = iter(("kB", "MB", "GB", "TB"))
    unit, value = "B", float(number)
    while value >= 999.95 and unit != "TB":
        unit, value = next(units), value / 1000
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def every(number: int, noun: str) -> str:
    """Returns `every step`, `every 2 steps`."""
    return f"every {noun}" if number == 1 else f"every {number} {noun}s"


def say(text: str, out: Optional[TextIO] = None) -> None:
    """Prints a line at once, so that nothing of it is lost in a kill.

    Where nobody takes it any more, since the reader of a pipe is gone or the disk of a log is full, it is given up, and so
    are all later ones: a run must not end for want of somebody to talk to.
    """
    out = out or sys.stdout
    try:
        print(text, file=out, flush=True)
    except OSError:
        discard(out)


def discard(out: TextIO) -> None:
    """Sends what is still to be written on a stream nowhere, so that Python's own last flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out.fileno())
    os.close(nowhere)


@contextlib.contextmanager
def progress_bar(total: int, what: str, unit: str = "B") -> Iterator[Callable[[int], Any]]:
    """Shows a progress bar after the first second, on a terminal only, and wipes it off at the end.

    Args:
      total: how much work there is, in units.
      what: what is being done, such as "indexing".
      unit: what the work is counted in; bytes by default.

    Yields:
      A function that takes the number of units done since its last call.
    """
    scale = dict(total=total, desc=what, unit=unit, unit_scale=True)
    with tqdm.tqdm(**scale, delay=1, leave=False, disable=None) as bar:  # None: disabled where there is no terminal
        yield bar.update


class Progress:
    """Turns steps done into examples per second and time left.

    Args:
      step: global step at the start.
      examples_seen: position at the start.
      clock: returns seconds; another one for tests.
    """

    def __init__(self, step: int, examples_seen: int, clock=time.monotonic):
        self._clock = clock
        self._mark(step, examples_seen)

    def _mark(self, step: int, examples_seen: int) -> None:
        self._step, self._examples_seen, self._at = step, examples_seen, self._clock()

    def pause(self, step: int, examples_seen: int) -> None:
        """Starts measuring anew, after something that was not training."""
        self._mark(step, examples_seen)

    def rates(self, step: int, examples_seen: int) -> tuple:
        """Returns (steps per second, examples per second) since the last call; 0.0 where no time or step has passed."""
        secs = self._clock() - self._at
        rates = (0.0, 0.0) if secs <= 0 else ((step - self._step) / secs, (examples_seen - self._examples_seen) / secs)
        self._mark(step, examples_seen)
        return rates
