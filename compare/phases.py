"""What a run did when, and what its deaths have cost: worked out from what was seen of its processes."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from compare import observe
from compare.observe import Event, Observation

STARTING, TRAINING, SAVING, EVALUATING, EXPORTING, ENDING, DEAD = (
    "starting", "training", "saving", "evaluating", "exporting", "ending", "dead"
)  # fmt: skip

_DURING = {SAVING: 2, EVALUATING: 1, EXPORTING: 1}  # what goes on at the same time: the innermost is shown


class Span(NamedTuple):
    """A stretch of time in one phase, in seconds from the start of the run's first process."""

    phase: str
    begin: float
    end: float


def timeline(observations: Sequence[Observation]) -> List[Span]:
    """Returns the phases of a run, one after the other, without a gap."""
    spans: List[Span] = []
    if not observations:
        return spans
    zero = observations[0].began
    for before, observation in zip((None, *observations), observations):
        if before is not None:
            spans.append(Span(DEAD, before.ended - zero, observation.began - zero))
        spans += [Span(phase, begin - zero, end - zero) for phase, begin, end in _phases(observation)]
    return [span for span in spans if span.end > span.begin]


def _phases(observation: Observation) -> List[Span]:
    """Returns the phases of one process, on the monotonic clock."""
    began, ended, events = observation.began, observation.ended, observation.events
    first_step = next((event.at for event in events if event.kind == observe.STEP), None)
    base = [Span(STARTING, began, first_step or ended)]
    if first_step is not None:
        last = events[-1].at if observation.exit_code == 0 else ended
        base += [Span(TRAINING, first_step, last), Span(ENDING, last, ended)]
    inner = _inner(observation)
    cuts = sorted({began, ended, *(at for span in base + inner for at in (span.begin, span.end))})
    phases: List[Span] = []
    for begin, end in zip(cuts, cuts[1:]):
        there = [span.phase for span in inner if span.begin <= begin and end <= span.end]
        phase = max(there, key=_DURING.get) if there else next(s.phase for s in base if s.begin <= begin and end <= s.end)
        if phases and phases[-1].phase == phase:
            phases[-1] = phases[-1]._replace(end=end)
        else:
            phases.append(Span(phase, begin, end))
    return phases


def _inner(observation: Observation) -> List[Span]:
    """Returns the saves, evaluations and exports of one process; one that a death cut short ends there."""
    spans, open_since = [], {}
    ready = observation.began  # since when the process may have been evaluating, should it turn out to have evaluated
    for event in observation.events:
        if event.kind == observe.RESUMED:
            ready = event.at
        elif event.kind == observe.SAVE_BEGAN:
            open_since[SAVING] = event.at
        elif event.kind == observe.SAVE_ENDED:
            spans.append(Span(SAVING, open_since.pop(SAVING, event.at), event.at))
            ready = ready if event.in_best else event.at
        elif event.kind == observe.EVALUATED:
            spans.append(Span(EVALUATING, ready, event.at))
            ready = event.at
        elif event.kind == observe.EXPORT_BEGAN:
            open_since[EXPORTING] = event.at
        elif event.kind == observe.EXPORT_ENDED:
            spans.append(Span(EXPORTING, open_since.pop(EXPORTING, event.at), event.at))
    return spans + [Span(phase, since, observation.ended) for phase, since in open_since.items()]


def steps_of(observation: Observation) -> List[Event]:
    """Returns the events of a process that tell of a step not told of before."""
    steps: List[Event] = []
    for event in observation.events:
        if event.kind == observe.STEP and (not steps or event.step > steps[-1].step):
            steps.append(event)
    return steps


def resumed_at(observation: Observation) -> Optional[int]:
    """Returns the step a process said to go on at, 0 for a fresh start; None if it said nothing of the kind."""
    return next((event.step for event in observation.events if event.kind == observe.RESUMED), None)


def start_secs(observation: Observation) -> Optional[float]:
    """Returns the seconds from the start of a process to the first step it told of, or None if it told of none."""
    steps = steps_of(observation)
    return steps[0].at - observation.began if steps else None


def steps_per_sec(observations: Sequence[Observation]) -> Optional[float]:
    """Returns the steps per second while training: without starting, saving, evaluating; None if too little was seen."""
    done, secs = 0, 0.0
    for observation in observations:
        steps = steps_of(observation)
        if len(steps) > 1:
            begin, end = steps[0].at, steps[-1].at
            done += steps[-1].step - steps[0].step
            within = (
                (max(span.begin, begin), min(span.end, end)) for span in _phases(observation) if span.phase == TRAINING
            )
            secs += sum(max(0.0, stop - start) for start, stop in within)
    return done / secs if secs > 0 else None


def kills(observations: Sequence[Observation], planned: Sequence[int]) -> List[Dict[str, Any]]:
    """Returns what each death has cost.

    Args:
      observations: the processes of a run, in order.
      planned: the steps after which they were to die.

    Returns:
      For each death a dict:
        `planned_step`: the step after which it was to be killed;
        `step`: the last step it is known to have done;
        `at_secs`: when, in seconds from the start of the run;
        `resumed_at`: the step the next process went on at; None if there was none, or it did not say;
        `steps_done_again`: steps between the two; None where that is not known;
        `work_lost_secs`: how long before its death the process had been at the step that is resumed at;
        `to_first_step_secs`: from the death to the first step the next process told of;
        `to_new_step_secs`: from the death to the first step that had not been done before.
    """
    found = []
    for number, killed in enumerate(observations):
        if not killed.was_killed:
            continue
        after = observations[number + 1] if number + 1 < len(observations) else None
        steps = steps_of(killed)
        step = steps[-1].step if steps else resumed_at(killed) or 0
        resumed = resumed_at(after) if after else None
        told = steps_of(after) if after else []
        first_new = next((event.at for event in told if event.step > step), None)
        found.append(
            {
                "planned_step": planned[len(found)],
                "step": step,
                "at_secs": killed.ended - observations[0].began,
                "resumed_at": resumed,
                "steps_done_again": None if resumed is None else max(0, step - resumed),
                "work_lost_secs": None if resumed is None else _since_step(observations[: number + 1], resumed),
                "to_first_step_secs": told[0].at - killed.ended if told else None,
                "to_new_step_secs": None if first_new is None else first_new - killed.ended,
            }
        )
    return found


def _since_step(observations: Sequence[Observation], step: int) -> float:
    """Returns how long before its death the last process was at a step; all its life if it never was."""
    killed = observations[-1]
    at = [event.at for event in killed.events if event.kind in (observe.STEP, observe.SAVE_ENDED) and event.step >= step]
    started_beyond = (resumed_at(killed) or 0) >= step
    return killed.ended - (killed.began if started_beyond or not at else at[0])


def losses_told(observations: Sequence[Observation]) -> List[List[Tuple[int, float]]]:
    """Returns the (step, loss) that each process has printed."""
    return [[(e.step, e.loss) for e in o.events if e.kind == observe.STEP and e.loss is not None] for o in observations]
