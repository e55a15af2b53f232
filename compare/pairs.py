"""Two runs compared, as plain data: an entry of `pairs` in report.json.

`a`, `b`: names of the runs
`is_peer`: whether they are a peer's
`kind`: "killed" (a run and its undisturbed counterpart), "programs" (one program and the other), "given" (two
    directories)
`weights`: None where there is nothing to compare; else `steps`: those of which both have a whole checkpoint; `equal`: bit
    for bit, slots of the optimizer included; and of the first step that differs: `first_step`, `tensor`, `text`,
    `tensors_differing` and `largest`, the largest absolute difference of any value, None where there is none in numbers
`examples`: None; else `steps`: how many both have done; `equal`; `first_step` with other examples or another order
`losses`: None; else `steps`: how many both have told of; `equal`; `first_step` that differs, with `a`, `b` and `largest`:
    over all steps
`metrics`: None; else `equal`; `text`: the first that differs
"""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from compare import weights
from compare.analysis import Run
from midepoch.errors import UserError, one_line

KILLED, PROGRAMS, GIVEN = "killed", "programs", "given"


def compare(a: Run, b: Run, kind: str) -> Dict[str, Any]:
    """Compares two runs as far as both go.

    Raises:
      UserError: a checkpoint cannot be read, though it matches its manifest.
    """
    return {
        "a": a.facts["name"],
        "b": b.facts["name"],
        "kind": kind,
        "is_peer": a.facts["is_peer"],
        "weights": _weights(a.checkpoints, b.checkpoints),
        "examples": _examples(a, b),
        "losses": _losses(dict(a.facts["losses"]), dict(b.facts["losses"])),
        "metrics": _metrics(a.facts["last"], b.facts["last"]),
    }


def choose(runs: Sequence[Run]) -> List[tuple]:
    """Returns the pairs (a, b, kind) of a comparison that are worth looking at.

    Of each program that which was killed and that which was not. Of the two programs the undisturbed runs; the killed ones
    where one of those has failed.
    """
    by_kind = {(run.facts["program"], run.facts["killed"]): run for run in runs}
    programs = list(dict.fromkeys(run.facts["program"] for run in runs))
    chosen = [
        (by_kind[program, True], by_kind[program, False], KILLED)
        for program in programs
        if (program, True) in by_kind and (program, False) in by_kind
    ]
    for killed in (False, True):
        own = [by_kind.get((program, killed)) for program in ("lowlevel", "estimator")]
        if all(own):
            return [*chosen, (*own, PROGRAMS)]
    return chosen


def _weights(a: Dict[int, str], b: Dict[int, str]) -> Optional[Dict[str, Any]]:
    steps = sorted(a.keys() & b.keys())
    if not steps:
        return None
    for step in steps:
        found = list(weights.differences(*(_variables(run[step]) for run in (a, b))))
        if found:
            return {
                "steps": steps,
                "equal": False,
                "first_step": step,
                "tensor": found[0].name,
                "text": found[0].text,
                "tensors_differing": len(found),
                "largest": max((d.largest for d in found if d.largest is not None), default=None),
            }
    return {"steps": steps, "equal": True}


def _variables(prefix: str) -> Dict[str, np.ndarray]:
    try:
        return weights.read_variables(prefix, with_slots=True)
    except Exception as error:  # TensorFlow has many for damaged files
        raise UserError(f"{prefix} cannot be read: {one_line(error)}; remove it, or give another directory") from error


def _examples(a: Run, b: Run) -> Optional[Dict[str, Any]]:
    if not a.ledger or not b.ledger:
        return None
    steps = sorted(a.ledger.ids.keys() & b.ledger.ids.keys())
    first = next((step for step in steps if a.ledger.ids[step] != b.ledger.ids[step]), None)
    return {"steps": len(steps), "equal": first is None, "first_step": first} if steps else None


def _losses(a: Dict[int, float], b: Dict[int, float]) -> Optional[Dict[str, Any]]:
    steps = sorted(a.keys() & b.keys())
    if not steps:
        return None
    first = next((step for step in steps if not _same(a[step], b[step])), None)
    found = {"steps": len(steps), "equal": first is None, "first_step": first}
    if first is not None:
        found.update(a=a[first], b=b[first], largest=max(abs(a[step] - b[step]) for step in steps))
    return found


def _same(a: Any, b: Any) -> bool:
    """Says whether two values are equal; NaN is equal to NaN."""
    return a == b or (a != a and b != b)


def _metrics(a: Optional[Dict[str, Any]], b: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    if not a or not b:
        return None
    name = next((name for name in sorted({*a, *b}) if not _same(a.get(name), b.get(name))), None)
    return {"equal": name is None, "text": None if name is None else f"{name}: {a.get(name)} and {b.get(name)}"}
