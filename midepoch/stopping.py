"""Stopping on purpose: a signal or a time limit; the loop acts on it between two steps.

A signal handler only sets a flag. The time limit is met by measuring: when what lies ahead, a step and a save, might not be
over before the limit, it is time to stop. Both are asked for in the same places: after every step, between two batches of an
evaluation, and between the parts of the start-up.
"""

import collections
import os
import signal
import time
from typing import Callable, Dict, Mapping, Optional

from midepoch.console import say
from midepoch.errors import UserError

# What is measured. A "step" is what lies between two looks at the flag: in lowlevel, a call of several.
STEP, SAVE, EVALUATION = "step", "save", "evaluation"

# The longest of the last so many counts: a slow save is remembered for a while, not for ever.
_RECENT = 20
# What took a second may take one and a half the next time.
_SLACK = 1.5
# For closing the files and for TensorFlow's own exit.
_CLOSING_SECS = 3.0

AUTO = "auto"
_SLURM_END = "SLURM_JOB_END_TIME"


class StoppedBeforeTraining(KeyboardInterrupt):
    """A signal came while the run was starting up; nothing has begun that would have to be saved."""


def check_max_run_secs(text: Optional[str]) -> None:
    """Raises UserError if `text` is no value for --max_run_secs: None, `auto`, or a number of seconds above 0."""
    if text is None or text == AUTO:
        return
    try:
        valid = 0 < float(text) < float("inf")
    except ValueError:
        valid = False
    if not valid:
        raise UserError(f"--max_run_secs={text} is neither a number of seconds above 0 nor {AUTO}; give one of them")


def secs_left(text: str, age_secs: float, environment: Mapping[str, str], time_now: float) -> float:
    """Returns the seconds from now to the limit.

    Args:
      text: the value of --max_run_secs.
      age_secs: seconds since the process started.
      environment: where Slurm says when the job ends, for `auto`: SLURM_JOB_END_TIME, in seconds since 1970.
      time_now: the same clock, now.

    Raises:
      UserError: `auto`, and there is no such time, or it has passed.
    """
    if text != AUTO:
        return float(text) - age_secs
    end = environment.get(_SLURM_END)
    if end is None:
        raise UserError(f"--max_run_secs={AUTO} reads {_SLURM_END}, which is not set; give seconds, or run a Slurm job")
    if not end.isdigit():
        raise UserError(f"--max_run_secs={AUTO}: {_SLURM_END}={end!r} is no time in seconds since 1970; give seconds")
    if int(end) <= time_now:
        raise UserError(f"--max_run_secs={AUTO}: {_SLURM_END}={end} has passed, now is {time_now:.0f}; give seconds")
    return int(end) - time_now


class Stopping:
    """Turns SIGTERM, SIGINT and SIGUSR1, and a time limit, into a request to stop after the step at hand.

    A context manager, which may be entered again within itself: the handlers are installed on entry and the previous ones
    put back on the last exit. Outside the main thread no handler can be installed; signals are then not heard here.

    Args:
      clock: returns seconds; another one for tests. The limit is counted from when this object was made.

    Attributes:
      reason: why the run is to stop, such as "SIGTERM"; None as long as it is not.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.reason: Optional[str] = None
        self._clock = clock
        self._made_at = clock()
        self._limit: Optional[str] = None
        self._deadline = float("inf")
        self._signal: Optional[int] = None
        self._expected: Dict[str, float] = {}
        self._measured = {kind: collections.deque(maxlen=_RECENT) for kind in (STEP, SAVE, EVALUATION)}
        self._announced = False
        self._previous: Dict[int, object] = {}
        self._entered = 0

    # Signals.

    def __enter__(self) -> "Stopping":
        self._entered += 1
        if self._entered == 1:
            try:
                for number in self.SIGNALS:
                    self._previous[number] = signal.signal(number, self._handle)
            except ValueError:  # not the main thread
                pass
        return self

    def __exit__(self, *unused) -> None:
        self._entered -= 1
        if self._entered == 0:
            for number, handler in self._previous.items():
                signal.signal(number, handler)
            self._previous.clear()

    def _handle(self, number, frame) -> None:
        self._signal = number

    # The limit.

    def set_limit(self, max_run_secs: Optional[str]) -> None:
        """Sets the limit: the value of --max_run_secs, or None for none.

        Raises:
          UserError: as `secs_left`.
        """
        if max_run_secs is not None:
            now = self._clock()
            self._deadline = now + secs_left(max_run_secs, now - self._made_at, os.environ, time.time())
            self._limit = f"--max_run_secs={max_run_secs}"

    @property
    def secs_left(self) -> float:
        """Seconds from now to the limit; infinite without one."""
        return self._deadline - self._clock()

    def took(self, kind: str, secs: float) -> None:
        """Takes how long a STEP, a SAVE or an EVALUATION took."""
        self._measured[kind].append(secs)

    def expect(self, longest_secs: Dict[str, float]) -> None:
        """Takes what an earlier process has measured; it counts until this one has measured the same for itself."""
        self._expected = dict(longest_secs)

    def longest_secs(self) -> Dict[str, float]:
        """Returns the longest recent time of each kind in seconds, for `expect`; of those that are known."""
        measured = {kind: max(recent) for kind, recent in self._measured.items() if recent}
        return {**self._expected, **measured}

    def secs_needed(self, *kinds: str) -> float:
        """Returns the seconds set aside for one of each of these kinds, and for the end of the process."""
        longest = self.longest_secs()
        return _SLACK * sum(longest.get(kind, 0.0) for kind in kinds) + _CLOSING_SECS

    # The questions.

    def now(self, *ahead: str) -> bool:
        """Says whether to stop now, because of a signal or for want of time; once it is yes, it stays yes.

        Args:
          *ahead: what has to fit in before the limit; by default a step and a save.
        """
        if self.reason is None:
            if self._signal is not None:
                self.reason = signal.Signals(self._signal).name
            elif self._limit is not None and self.secs_left < self.secs_needed(*(ahead or (STEP, SAVE))):
                self.reason = self._limit
        return self.reason is not None

    def requested(self, step: int) -> bool:
        """Says whether the run is to stop after `step`, the last one done; the first time, also to the user."""
        if self.now():
            self._announce(f"step {step} is finished, saving")
        return self.reason is not None

    def leaves(self, what: str, *ahead: str) -> bool:
        """Says whether something is left to the next start; the first time, also to the user.

        Args:
          what: its name, such as "the evaluation of step 6".
          *ahead: what has to fit in before the limit.
        """
        if self.now(*ahead):
            self._announce(f"{what} is left to the next start")
        return self.reason is not None

    def check(self) -> None:
        """To be called between the parts of the start-up.

        Raises:
          StoppedBeforeTraining: a signal has come.
          UserError: the limit is so near that nothing could be done.
        """
        if self.now() and self.out_of_time:
            raise self.too_short()
        if self.reason is not None:
            raise StoppedBeforeTraining(self.reason)

    @property
    def out_of_time(self) -> bool:
        """Whether it is the limit that stops the run."""
        return self.reason is not None and self.reason == self._limit

    def too_short(self) -> UserError:
        """Returns what there is to say where the limit ended the run before it had done anything."""
        needed = self.secs_needed(STEP, SAVE)
        return UserError(
            f"{self._limit} is too short to get anywhere: {max(0.0, self.secs_left):.0f} s are left after starting up, and a "
            f"step, a save and the exit are given {needed:.0f} s; raise it. Nothing is lost"
        )

    def _announce(self, what: str) -> None:
        if not self._announced:
            self._announced = True
            say(f"{self.reason}: {what}")
