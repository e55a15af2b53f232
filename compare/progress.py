"""What a comparison shows while it runs: a bar for each run on a terminal, and a line for each thing that happens."""

import sys
import threading
from typing import Callable, Dict, Optional, Sequence

import tqdm

from compare import observe
from compare.observe import Event, Observation
from compare.runs import RunSpec
from midepoch.console import say


class Display:
    """Takes what happens in the runs, from several threads.

    Args:
      runs: the runs to come.
      total_steps: returns how long a run is, or None while that is not known.
    """

    def __init__(self, runs: Sequence[RunSpec], total_steps: Callable[[], Optional[int]]):
        self._total_steps = total_steps
        self._lock = threading.Lock()
        self._width = max((len(spec.name) for spec in runs), default=0)
        self._steps: Dict[str, int] = {}
        self._bar_of: Dict[str, tqdm.tqdm] = {}
        self._on_terminal = sys.stdout.isatty()

    def event(self, spec: RunSpec, event: Event) -> None:
        """Takes what a process has done."""
        with self._lock:
            if event.kind == observe.RESUMED:
                first = spec.name not in self._steps
                self._say(spec, "starts" if event.step == 0 and first else f"resumes at step {event.step}")
                self._steps[spec.name] = event.step
            elif event.kind == observe.STEP or (event.kind == observe.SAVE_ENDED and not event.in_best):
                # The terminal, the ledger and the checkpoints tell of the same steps, each at another time.
                self._steps[spec.name] = max(self._steps.get(spec.name, 0), event.step)
            self._show(spec)

    def ended(self, spec: RunSpec, observation: Observation) -> None:
        """Takes how a process has ended."""
        with self._lock:
            step = self._steps.get(spec.name, 0)
            if observation.was_killed:
                self._say(spec, f"killed after step {step} (SIGKILL)")
                return
            self._say(spec, f"finished at step {step}" if observation.exit_code == 0 else self._failure(observation))
            if spec.name in self._bar_of:
                self._bar_of.pop(spec.name).close()

    @staticmethod
    def _failure(observation: Observation) -> str:
        last = next((line for line in reversed(observation.last_lines) if line.strip()), "it printed nothing")
        return f"ended with exit code {observation.exit_code}: {last.strip()}"

    def _show(self, spec: RunSpec) -> None:
        total = self._total_steps()
        if not self._on_terminal or not total:
            return
        if spec.name not in self._bar_of:
            self._bar_of[spec.name] = tqdm.tqdm(
                total=total, desc=spec.name.ljust(self._width), unit=" steps", leave=False, file=sys.stdout,
                bar_format="{desc} {percentage:3.0f}% |{bar:30}| step {n_fmt}/{total_fmt} {elapsed}",
            )  # fmt: skip
        bar = self._bar_of[spec.name]
        bar.update(min(self._steps.get(spec.name, 0), total) - bar.n)  # a few times a second, however often this is called

    def _say(self, spec: RunSpec, text: str) -> None:
        line = f"{spec.name.ljust(self._width)} | {text}"
        if self._on_terminal:
            tqdm.tqdm.write(line, file=sys.stdout)
        else:
            say(line)

    def close(self) -> None:
        """Wipes off the bars."""
        for bar in self._bar_of.values():
            bar.close()
        self._bar_of.clear()
