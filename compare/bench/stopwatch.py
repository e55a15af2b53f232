"""Times a training loop from inside, and lets two loops train by turns in one process."""

import contextlib
import queue
import threading
import time
from typing import Any, Callable, Iterator, Optional

from midepoch.stopping import Stopping

_WARM_UP_SECS = 2.0
# A loop that waits for its turn leaves its input pipeline running until every buffer is full. Without a pause that work
# would be done in the other loop's time, and without a lead-in the slower a pipeline, the more of its steps would be free.
_PAUSE_SECS = 0.4
_LEAD_IN_SECS = 0.6


class Stopwatch(Stopping):
    """Sits where a loop asks after steps whether to stop: holds it there until it is its turn, and times the turn.

    So what is timed is the loop itself with all it does between steps, and nothing had to be added to it.
    """

    def __init__(self):
        super().__init__()
        self._turns: queue.Queue = queue.Queue()  # seconds to train; None to stop
        self._results: queue.Queue = queue.Queue()  # steps per second, or the exception that ended the loop
        self._turn: Optional[tuple] = None  # (seconds, first step, when it began)
        self._stopped = False

    def requested(self, step: int) -> bool:
        """Called by the loop, in its own thread; once it has said yes it always does, as a real stop would."""
        if self._stopped:
            return True
        if self._turn is not None:
            secs, first_step, began = self._turn
            elapsed = time.monotonic() - began
            if elapsed < secs:
                return False
            self._results.put((step - first_step) / elapsed)
        secs = self._turns.get()
        if secs is None:
            self._stopped = True
            return True
        self._turn = secs, step, time.monotonic()
        return False

    def measure(self, secs: float) -> float:
        """Lets the loop train for at least so many seconds, after a lead-in; returns steps per second."""
        time.sleep(_PAUSE_SECS)
        self.train(_LEAD_IN_SECS)
        return self.train(secs)

    def train(self, secs: float) -> float:
        """Lets the loop train for at least so many seconds; returns steps per second."""
        self._turns.put(secs)
        result = self._results.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def stop(self) -> None:
        """Ends the loop at its next turn."""
        self._turns.put(None)

    def fail(self, error: BaseException) -> None:
        """Hands on what ended the loop."""
        self._results.put(error)


@contextlib.contextmanager
def training(arm: Callable[[Any, Stopwatch], None], task: Any) -> Iterator[Stopwatch]:
    """Runs an arm in a thread of its own: starts it, warms it up, and from then on lets it train when the stopwatch says so.

    Arms start one after the other: Keras 2 turns its classes, for all threads, into those for graphs or for eager execution
    while a model is built.
    """
    stopwatch = Stopwatch()

    def work() -> None:
        try:
            arm(task, stopwatch)
        except BaseException as error:  # pylint: disable=broad-except; raised again by `measure`
            stopwatch.fail(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        stopwatch.train(_WARM_UP_SECS)
        yield stopwatch
    finally:
        stopwatch.stop()
        thread.join()
