"""Sections of a report: whether runs are equal, what the kills cost, the figures."""

from typing import Any, Collection, Dict, List

from compare import cells
from compare.cells import NOTHING
from compare.document import Heading, Picture, Piece, Table
from compare.verdict import place
from midepoch.console import count

# What of two runs is compared.
COMPARED = ("weights", "examples", "losses", "metrics")


def equality(report: Dict[str, Any]) -> List[Piece]:
    """Returns the table of the pairs of runs that were compared, and in what they are equal; nothing without pairs."""
    if not report["pairs"]:
        return []
    rows = []
    for pair in report["pairs"]:
        rows.append([f"{pair['a']} / {pair['b']}", *(said_of(pair, what) for what in COMPARED)])
    note = (
        "Weights: all variables of the model and the slots of the optimizer, compared bit for bit in every checkpoint that"
        " both runs still have of the same step. Examples: their ids, in their order, step by step. Losses: as TensorBoard"
        " has them, or a peer's ledger. Metrics: of the last evaluation."
    )
    return [Heading("Equal bit for bit?"), Table(["runs", *COMPARED], rows, note)]


def said_of(pair: Dict[str, Any], what: str) -> str:
    """Returns in words how two runs compare in one of `COMPARED`."""
    found = pair[what]
    if not found:
        # Into the checkpoints of a peer nobody looks.
        return "no checkpoint of the same step" if what == "weights" and not pair["is_peer"] else NOTHING
    return {"weights": _weights, "examples": _examples, "losses": _losses, "metrics": _metrics}[what](found)


def _weights(weights: Dict[str, Any]) -> str:
    if weights["equal"]:
        return f"bit-identical at {count(len(weights['steps']), 'step')}: {', '.join(map(str, weights['steps']))}"
    largest = "" if weights["largest"] is None else f"; largest difference {weights['largest']:.3g}"
    more = weights["tensors_differing"] - 1
    others = f" and {count(more, 'tensor')} more" if more else ""
    first, steps = weights["first_step"], weights["steps"]
    before = [step for step in steps if step < first]
    if before:
        known = f"still equal at step {before[-1]}"
    else:
        known = f"the {f'first of {len(steps)} steps' if len(steps) > 1 else 'only one'} that both still have"
    return f"differ first at step {first} ({known}): {weights['text']}{others}{largest}"


def _examples(examples: Dict[str, Any]) -> str:
    return (
        f"equal in {count(examples['steps'], 'step')}"
        if examples["equal"]
        else f"differ first at step {examples['first_step']}"
    )


def _losses(losses: Dict[str, Any]) -> str:
    if losses["equal"]:
        return f"equal at {count(losses['steps'], 'step')}"
    values = f"{losses['a']:.6g} and {losses['b']:.6g}, largest difference {losses['largest']:.3g}"
    return f"differ first at step {losses['first_step']}: {values}"


def _metrics(metrics: Dict[str, Any]) -> str:
    return "equal" if metrics["equal"] else metrics["text"]


def kills(report: Dict[str, Any]) -> List[Piece]:
    """Returns the table of the kills that were seen, with what each has cost in steps and seconds; nothing without kills."""
    rows = []
    for run in report["runs"]:
        for number, kill in enumerate(run["observed"]["kills"] if run["observed"] else (), 1):
            rows.append(
                [
                    f"{run['program']}, kill {number}",
                    str(kill["planned_step"]),
                    str(kill["step"]),
                    place(kill["step"], report["plan"]["epoch_steps"]).strip(" ()") or NOTHING,
                    cells.text(kill["resumed_at"]),
                    cells.text(kill["steps_done_again"]),
                    cells.number(kill["work_lost_secs"], 2),
                    cells.number(kill["to_first_step_secs"], 2),
                    cells.number(kill["to_new_step_secs"], 2),
                ]
            )
    if not rows:
        return []
    header = [
        "run", "planned after step", "had done step", "which is", "resumed at step", "steps done again", "work lost, s",
        "to the first step, s", "to the first new step, s",
    ]  # fmt: skip
    note = (
        "Had done: the last step the process is known to have done, by its terminal or its ledger; it may have done a few"
        " more. Work lost: how long before its death it had been where the next start went on. The last two columns count"
        " from the death to the first step that the next process tells of, and to the first one that had not been done"
        " before. The next start comes at once."
    )
    return [Heading("What each kill cost"), Table(header, rows, note)]


def pictures(report: Dict[str, Any], drawn: Collection[str]) -> List[Piece]:
    """Returns the figures, each under its heading.

    Args:
      report: what report.json holds.
      drawn: the names of the figures that there are; the others are left out.
    """
    names = ", ".join(run["name"] for run in report["runs"])
    tallies = "; ".join(
        f"{run['name']}: {run['examples']['lost']} lost, {run['examples']['repeated']} repeated"
        for run in report["runs"]
        if run["examples"]
    )
    found = [
        (
            "Loss against step",
            Picture(
                "loss",
                f"Line chart of the training loss against the step, of {names}, with kills and resumes marked.",
                "Curves that lie on each other are equal; the undisturbed runs are drawn wide and pale beneath the killed"
                " ones. Dotted: steps that a process had done and its death has undone. Of a run that loses or repeats"
                " examples the curve leaves its undisturbed twin at the first resume. Of curves with many points each is the"
                " mean of some steps.",
            ),
        ),
        (
            "Which examples each epoch has used",
            Picture(
                "epochs",
                f"Map of every example id in every epoch: used once, never, or more than once. {tallies}.",
                "A row for each epoch, the example ids along it. A row without marks has used every example once. −n +m at"
                " the end of a row: n examples never used in that epoch, m uses too many. A cross: a kill came in that"
                " epoch. Of more than four runs, undisturbed ones without marks are left out.",
            ),
        ),
        (
            "What each run did when",
            Picture(
                "timeline",
                f"Timeline of {names}: starting, training, saving, evaluating, exporting, dead.",
                "As seen from outside. Starting lasts from the start of the process to the first step it tells of; saving"
                " from the first file of a checkpoint to its manifest. A run is dead from a kill to the next start, some"
                " milliseconds here. Runs that go on at the same time share the processor.",
            ),
        ),
    ]
    return [piece for title, picture in found if picture.name in drawn for piece in (Heading(title), picture)]
