"""Carries out the runs of a comparison: which there are, several at a time, each killed and started again by the plan."""

import concurrent.futures
import contextlib
import dataclasses
import os
import shutil
import threading
from typing import Callable, List, NamedTuple, Optional, Sequence

from compare import kills, observe, programs
from compare.children import Children, Stopped
from compare.observe import Event, Observation, Plan
from compare.programs import Program
from midepoch import cli
from midepoch.config import TrainConfig
from midepoch.errors import UserError

FINISHED, STOPPED, CRASHED = "finished", "stopped", "crashed"


class RunSpec(NamedTuple):
    """A run to be made.

    Attributes:
      program: what trains.
      killed: whether it is disturbed.
      config: what it trains; its `model_dir` is the run's own.
    """

    program: Program
    killed: bool
    config: TrainConfig

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.program.name}, {'killed' if self.killed else 'undisturbed'}"


class Outcome(NamedTuple):
    """What came of a run.

    Attributes:
      spec: the run.
      state: FINISHED, STOPPED (by a signal that was not ours) or CRASHED.
      observations: of its processes, in order.
      planned_kills: the steps after which it was to be killed, as far as it came to them.
    """

    spec: RunSpec
    state: str
    observations: List[Observation]
    planned_kills: List[int]


class KillPlan:
    """The steps after which every disturbed run is killed; known once the first run has told how long it is.

    Args:
      config: of the runs.
      number: kills for each disturbed run.
      seed: of the choice.
    """

    def __init__(self, config: TrainConfig, number: int, seed: int):
        self._config, self._number, self._seed = config, number, seed
        self._lock = threading.Lock()
        self.plan: Optional[Plan] = None
        self.steps: Optional[List[int]] = None

    def learn(self, plan: Plan) -> None:
        """Takes what a run says of itself. The first one counts: all are to die at the same steps.

        Raises:
          UserError: a run is too short for so many kills.
        """
        with self._lock:
            if self.plan is None:
                grid = kills.make_grid(self._config, plan.total_steps, plan.epoch_steps)
                self.steps = kills.kill_steps(grid, self._number, self._seed)
                self.plan = plan


def specs(chosen: Sequence[Program], config: TrainConfig, out_dir: str) -> List[RunSpec]:
    """Returns the runs of a comparison, those that take longest and those that are surest first."""
    made = []
    for is_peer in (False, True):
        for killed in (True, False):
            for program in chosen:
                if program.is_peer == is_peer and program.why_not is None:
                    directory = os.path.join(out_dir, f"{program.name}_{'killed' if killed else 'undisturbed'}")
                    made.append(RunSpec(program, killed, dataclasses.replace(config, model_dir=directory)))
    return made


def log_of(spec: RunSpec) -> str:
    """Returns the file that holds what a run's processes print."""
    return spec.config.model_dir + ".log"


def carry_out(
    runs: Sequence[RunSpec],
    kill_plan: KillPlan,
    children: Children,
    at_once: int,
    tell: Callable[[RunSpec, Event], None],
    tell_end: Callable[[RunSpec, Observation], None],
) -> List[Outcome]:
    """Makes the runs, so many at a time, and returns what came of them, in their order.

    Args:
      runs: the runs.
      kill_plan: when those that are to be disturbed are killed.
      children: starts the processes; where this is left by an exception, it ends them.
      at_once: how many runs go on at the same time.
      tell: takes each event of a run.
      tell_end: takes each process that has ended.

    Raises:
      UserError: a program refuses what it is to train, a run cannot be killed as planned, or not be watched.
      BaseException: what a signal handler raises.
    """
    pool = concurrent.futures.ThreadPoolExecutor(at_once)
    try:
        futures = [pool.submit(_carry_out, spec, kill_plan, children, tell, tell_end) for spec in runs]
        concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_EXCEPTION)
        failed = [future for future in futures if future.done() and future.exception()]
        if failed:
            raise failed[0].exception()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        children.stop()
        raise
    finally:
        pool.shutdown()
    return [future.result() for future in futures]


def _carry_out(
    spec: RunSpec,
    kill_plan: KillPlan,
    children: Children,
    tell: Callable[[RunSpec, Event], None],
    tell_end: Callable[[RunSpec, Observation], None],
) -> Outcome:
    """Makes one run."""
    directory = spec.config.model_dir
    subdirectories = () if spec.program.is_peer else observe.SUBDIRECTORIES
    observations: List[Observation] = []
    planned: List[int] = []

    def is_to_die(step: int, plan: Optional[Plan]) -> bool:
        if plan:
            kill_plan.learn(plan)
        steps = kill_plan.steps
        return spec.killed and steps is not None and len(planned) < len(steps) and step >= steps[len(planned)]

    while True:
        command = programs.command(spec.program, spec.config)
        observation = observe.observe(
            command, directory, subdirectories, log_of(spec), children, is_to_die, lambda event: tell(spec, event)
        )
        if children.stopped:
            raise Stopped
        if kill_plan.plan is None and not spec.program.is_peer and _was_refused(observation):
            raise UserError(f"{spec.program.name}: {observation.last_lines[-1][len(cli.ERROR):]}")
        observations.append(observation)
        if observation.was_killed:
            planned.append(kill_plan.steps[len(planned)])
        tell_end(spec, observation)
        if not observation.was_killed:
            ends = {cli.EXIT_FINISHED: FINISHED, cli.EXIT_STOPPED: STOPPED}
            return Outcome(spec, ends.get(observation.exit_code, CRASHED), observations, planned)


def _was_refused(observation: Observation) -> bool:
    """Says whether a process has ended with a line for the user before it began."""
    lines, began = observation.last_lines, any(event.kind == observe.RESUMED for event in observation.events)
    return observation.exit_code == cli.EXIT_FAILED and not began and bool(lines) and lines[-1].startswith(cli.ERROR)


def remove(runs: Sequence[RunSpec], out_dir: str) -> None:
    """Removes what runs have left that were refused before any step.

    Args:
      runs: the runs; none of their processes is running.
      out_dir: where they are; removed too, unless there is something else in it.
    """
    for spec in runs:
        shutil.rmtree(spec.config.model_dir, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.remove(log_of(spec))
    with contextlib.suppress(OSError):
        os.rmdir(out_dir)
