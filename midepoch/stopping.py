"""Stopping on purpose: a signal sets a flag, the loop acts on it at a step boundary."""

import signal
from typing import Optional


class Stopping:
    """Turns SIGTERM and SIGINT into a request to stop after the step at hand.

    A context manager: the handlers are installed on entry and the previous ones put back on exit. Outside the main thread
    no handler can be installed; the object then only answers "no".
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.signal_name: Optional[str] = None
        self._previous = {}

    def __enter__(self) -> "Stopping":
        try:
            for number in self.SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
        except ValueError:  # not the main thread
            pass
        return self

    def __exit__(self, *unused) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _handle(self, number, frame) -> None:
        self.signal_name = signal.Signals(number).name

    def requested(self, step: int) -> bool:
        """Says whether the run is to stop after `step`, the last one done."""
        del step  # for subclasses that stop at a given one
        return self.signal_name is not None
