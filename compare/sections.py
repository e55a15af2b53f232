"""What a report says: from what report.json holds to headings, tables, figures."""

import re
from typing import Any, Collection, Dict, List

from compare import cells
from compare.cells import NOTHING
from compare.document import Document, Heading, Output, Paragraph, Piece, Table, Verdicts
from compare.section_costs import code, cost, features, peak_memory, stored
from compare.section_outcomes import equality, kills, pictures
from midepoch.console import count, size


def make(report: Dict[str, Any], drawn: Collection[str]) -> Document:
    """Returns the report.

    Args:
      report: what report.json holds.
      drawn: the names of its figures.
    """
    pieces = [
        *_introduction(report),
        *_runs(report),
        *_differing_settings(report),
        *equality(report),
        *kills(report),
        *pictures(report, drawn),
        *cost(report),
        *stored(report),
        *features(report),
        *code(report),
        *_failures(report),
        *_how(report),
    ]
    names = " and ".join(
        dict.fromkeys(run["name"] if report["plan"] is None else run["program"] for run in own_runs(report))
    )
    return Document(f"midepoch: {names or 'peers'} compared", pieces)


def own_runs(report: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Returns the runs of the two programs."""
    return [run for run in report["runs"] if not run["is_peer"]]


def _introduction(report: Dict[str, Any]) -> List[Piece]:
    plan, made = report["plan"], report["made"]
    if plan is None:
        text = "Two directories, compared as they are. Nothing was trained for this."
    else:
        steps = f"{count(plan['total_steps'], 'step')} long" if plan["total_steps"] else "how many steps long is not known"
        text = (
            f"Each program trained the same task with the same seed and flags, as real processes, {steps}: once"
            f" undisturbed, {_second_runs(report)}"
        )
    pieces: List[Piece] = [
        Paragraph(f"{text} {made['at']}, {made['machine']}, Python {made['python']}, TensorFlow {made['tensorflow']}.")
    ]
    if report["verdict"]:
        pieces.append(Verdicts([(good, text) for good, text in report["verdict"]]))
    return pieces


def _second_runs(report: Dict[str, Any]) -> str:
    """Returns what has become of the runs that are called killed, as the end of a sentence; what was seen, not the plan."""
    disturbed = [run["observed"]["kills"] for run in report["runs"] if run["killed"] and run["observed"]]
    steps = sorted({kill["planned_step"] for kills_of_run in disturbed for kill in kills_of_run})
    if not steps:
        # A run that has left nothing to look at may have been killed all the same.
        unseen = any(failure["name"] not in {run["name"] for run in report["runs"]} for failure in report["failures"])
        known = "as far as can be seen, " if unseen and report["plan"]["kill_steps"] else ""
        called = ", though the second runs are called “killed”" if disturbed else ""
        return f"and once more by the same command; {known}nothing was killed{called}."
    least, most = (of(map(len, disturbed)) for of in (min, max))
    number = count(most, "kill") if least == most else f"{least} to {count(most, 'kill')}"
    planned = f"planned after {'step' if len(steps) == 1 else 'steps'} {', '.join(map(str, steps))}"
    return f"and once with {number} by SIGKILL ({planned}), each time started again by the same command."


def _differing_settings(report: Dict[str, Any]) -> List[Piece]:
    """Returns the table of what two directories that were given were not trained alike with; nothing if there is none."""
    if report["plan"] is not None:
        return []
    runs = report["runs"]
    settings = {name: [run[name] for run in runs] for name in ("program", "task", "seed", "batch_size")}
    for name in dict.fromkeys(name for run in runs for name in run["versions"] or ()):
        settings[f"version of {name}"] = [(run["versions"] or {}).get(name) for run in runs]
    rows = [
        [name, *map(cells.text, values)]
        for name, values in settings.items()
        if any(value != values[0] for value in values[1:])
    ]
    if not rows:
        return []
    note = "Of the program, the task, the seed, the batch size and the versions; other flags are not compared."
    return [Heading("Settings that differ"), Table(["", *(run["name"] for run in runs)], rows, note)]


def runs_table(report: Dict[str, Any]) -> Table:
    """Returns the table of the runs, the one that the terminal shows too."""
    header = [
        "run",
        "state",
        "step",
        "kills",
        "steps done again",
        "lost",
        "repeated",
        "accuracy",
        "steps/s",
        "peak memory",
        "seconds",
    ]
    rows = []
    for run in report["runs"]:
        observed, examples = run["observed"], run["examples"]
        history = run["history"] or {}
        deaths = len(observed["kills"]) if observed else history.get("kills")
        again = (
            cells.total(kill["steps_done_again"] for kill in observed["kills"])
            if observed
            else history.get("steps_done_again")
        )
        rows.append(
            [
                run["name"],
                run["state"],
                cells.text(run["step"]),
                cells.text(deaths),
                cells.text(again),
                cells.text(examples and examples["lost"]),
                cells.text(examples and examples["repeated"]),
                cells.number((run["best"] or run["last"] or {}).get("accuracy"), 4),
                cells.number((observed or run)["steps_per_sec"], 0),
                size(peak_memory(run)),
                cells.number(observed and observed["secs"], 1),
            ]
        )
    rows += [[left["name"], "cannot run here", *[NOTHING] * (len(header) - 2)] for left in report["left_out"]]
    return Table(header, rows)


def _runs(report: Dict[str, Any]) -> List[Piece]:
    note = (
        "Lost: examples that an epoch should have used and has not. Repeated: every use of an example in an epoch but the"
        " first. Both are counted from the ledger examples.jsonl, in which the last line of a step counts, up to the newest"
        " checkpoint. Accuracy: of the best evaluation; of a peer, the one it reports. Steps/s: while training, without"
        " starting, saving, evaluating; of a directory that was given, the median of what TensorBoard has. Seconds: from the"
        " first start to the last exit, all starts included."
    )
    pieces: List[Piece] = [Heading("Runs"), runs_table(report)._replace(note=note)]
    for run in report["runs"]:
        if run["state"] == "unfinished":
            pieces.append(
                Paragraph(
                    f"{run['name']} is unfinished: it stands at step {run['step']}, and is compared as far as it goes."
                )
            )
        pieces += [Paragraph(f"{run['name']}: {problem}") for problem in run["problems"]]
    pieces += [Paragraph(f"{left['name']} was left out: {left['why']}.") for left in report["left_out"]]
    return pieces


def _failures(report: Dict[str, Any]) -> List[Piece]:
    if not report["failures"]:
        return []
    pieces: List[Piece] = [Heading("What went wrong")]
    for failure in report["failures"]:
        pieces.append(Paragraph(f"{failure['name']}: {failure['why']}. Its last output:"))
        pieces.append(
            Output([re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f]", "", line) for line in failure["last_lines"]])
        )
    return pieces


def _how(report: Dict[str, Any]) -> List[Piece]:
    made, plan = report["made"], report["plan"]
    pieces: List[Piece] = [Heading("How this was made"), Output([made["command"]])]
    if plan:
        pieces.append(Paragraph(f"Flags of each run: {' '.join(plan['flags'])}."))
        pieces.append(
            Paragraph(
                f"The kills are drawn by --kill_seed={plan['kill_seed']}, the same for every run. The directories, and all"
                f" that each run has printed, are in {made['out_dir']}."
            )
        )
    else:
        pieces.append(Paragraph(f"The directories: {', '.join(run['model_dir'] for run in report['runs'])}."))
    pieces.append(
        Paragraph(
            "report.json beside this file holds every number of it; compare/report.py and compare/analysis.py say what its entries"
            " mean."
        )
    )
    return pieces
