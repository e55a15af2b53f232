"""What a report says: from what report.json holds to headings, tables, figures."""

import re
import statistics
from typing import Any, Collection, Dict, List, Optional, Sequence

from compare.document import Document, Heading, Output, Paragraph, Picture, Piece, Table, Verdicts
from midepoch.console import count, size

NOTHING = "–"
# What of two runs is compared.
COMPARED = ("weights", "examples", "losses", "metrics")
_PARTS = ("weights", "optimizer", "iterator", "other", "total")


def make(report: Dict[str, Any], drawn: Collection[str]) -> Document:
    """Returns the report.

    Args:
      report: what report.json holds.
      drawn: the names of its figures.
    """
    pieces = [
        *_introduction(report),
        *_runs(report),
        *_equality(report),
        *_kills(report),
        *_pictures(report, drawn),
        *_cost(report),
        *_stored(report),
        *_features(report),
        *_code(report),
        *_failures(report),
        *_how(report),
    ]
    names = " and ".join(dict.fromkeys(run["name"] if report["plan"] is None else run["program"] for run in own_runs(report)))
    return Document(f"midepoch: {names or 'peers'} compared", pieces)


def own_runs(report: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Returns the runs of the two programs."""
    return [run for run in report["runs"] if not run["is_peer"]]


def _introduction(report: Dict[str, Any]) -> List[Piece]:
    plan, made = report["plan"], report["made"]
    if plan is None:
        text = "Two directories, compared as they are. Nothing was trained for this."
    else:
        at = ", ".join(map(str, plan["kill_steps"] or []))
        deaths = f"and once killed {count(plan['kills'], 'time')} by SIGKILL (after step {at}) and started again"
        steps = count(plan["total_steps"], "step") if plan["total_steps"] else "its steps"
        text = (
            f"Each program trained the same task with the same seed and flags, as real processes, {steps} long: once undisturbed, "
            f"{deaths if plan['kills'] else 'and once more'} by the same command."
        )
    pieces: List[Piece] = [Paragraph(f"{text} {made['at']}, {made['machine']}, Python {made['python']}, TensorFlow {made['tensorflow']}.")]
    if report["verdict"]:
        pieces.append(Verdicts([(good, text) for good, text in report["verdict"]]))
    return pieces


def runs_table(report: Dict[str, Any]) -> Table:
    """Returns the table of the runs, the one that the terminal shows too."""
    header = ["run", "state", "step", "kills", "steps done again", "lost", "repeated", "accuracy", "steps/s", "peak memory", "seconds"]
    rows = []
    for run in report["runs"]:
        observed, examples = run["observed"], run["examples"]
        history = run["history"] or {}
        deaths = len(observed["kills"]) if observed else history.get("kills")
        again = _sum(kill["steps_done_again"] for kill in observed["kills"]) if observed else history.get("steps_done_again")
        rows.append(
            [
                run["name"],
                run["state"],
                _text(run["step"]),
                _text(deaths),
                _text(again),
                _text(examples and examples["lost"]),
                _text(examples and examples["repeated"]),
                _number((run["best"] or run["last"] or {}).get("accuracy"), 4),
                _number((observed or run)["steps_per_sec"], 0),
                size(_peak(run)),
                _number(observed and observed["secs"], 1),
            ]
        )
    rows += [[left["name"], "cannot run here", *[NOTHING] * (len(header) - 2)] for left in report["left_out"]]
    return Table(header, rows)


def _runs(report: Dict[str, Any]) -> List[Piece]:
    note = (
        "Lost: examples that an epoch should have used and has not. Repeated: every use of an example in an epoch but the first. Both "
        "are counted from the ledger examples.jsonl, in which the last line of a step counts, up to the newest checkpoint. Accuracy: "
        "of the best evaluation; of a peer, the one it reports. Steps/s: while training, without starting, saving, evaluating; of a "
        "directory that was given, the median of what TensorBoard has. "
        "Seconds: from the first start to the last exit, all starts included."
    )
    pieces: List[Piece] = [Heading("Runs"), runs_table(report)._replace(note=note)]
    for run in report["runs"]:
        if run["state"] == "unfinished":
            pieces.append(Paragraph(f"{run['name']} is unfinished: it stands at step {run['step']}, and is compared as far as it goes."))
        pieces += [Paragraph(f"{run['name']}: {problem}") for problem in run["problems"]]
    pieces += [Paragraph(f"{left['name']} was left out: {left['why']}.") for left in report["left_out"]]
    return pieces


def _equality(report: Dict[str, Any]) -> List[Piece]:
    if not report["pairs"]:
        return []
    rows = []
    for pair in report["pairs"]:
        rows.append([f"{pair['a']} / {pair['b']}", *(said_of(pair, what) for what in COMPARED)])
    note = (
        "Weights: all variables of the model and the slots of the optimizer, compared bit for bit in every checkpoint that both runs "
        "still have of the same step. Examples: their ids, in their order, step by step. Losses: as TensorBoard has them, or a peer's "
        "ledger. Metrics: of the last evaluation."
    )
    return [Heading("Equal bit for bit?"), Table(["runs", *COMPARED], rows, note)]


def said_of(pair: Dict[str, Any], what: str) -> str:
    """Returns in words how two runs compare in one of `COMPARED`."""
    found = pair[what]
    return NOTHING if not found else {"weights": _weights, "examples": _examples, "losses": _losses, "metrics": _metrics}[what](found)


def _weights(weights: Dict[str, Any]) -> str:
    if weights["equal"]:
        return f"bit-identical at {count(len(weights['steps']), 'step')}: {', '.join(map(str, weights['steps']))}"
    largest = "" if weights["largest"] is None else f"; largest difference {weights['largest']:.3g}"
    more = weights["tensors_differing"] - 1
    others = f" and {count(more, 'tensor')} more" if more else ""
    return f"differ first at step {weights['first_step']}: {weights['text']}{others}{largest}"


def _examples(examples: Dict[str, Any]) -> str:
    return f"equal in {count(examples['steps'], 'step')}" if examples["equal"] else f"differ first at step {examples['first_step']}"


def _losses(losses: Dict[str, Any]) -> str:
    if losses["equal"]:
        return f"equal at {count(losses['steps'], 'step')}"
    values = f"{losses['a']:.6g} and {losses['b']:.6g}, largest difference {losses['largest']:.3g}"
    return f"differ first at step {losses['first_step']}: {values}"


def _metrics(metrics: Dict[str, Any]) -> str:
    return "equal" if metrics["equal"] else metrics["text"]


def _kills(report: Dict[str, Any]) -> List[Piece]:
    rows = []
    for run in report["runs"]:
        for number, kill in enumerate(run["observed"]["kills"] if run["observed"] else (), 1):
            epoch_steps = report["plan"]["epoch_steps"]
            epoch, done = divmod(kill["step"], epoch_steps or 1)
            rows.append(
                [
                    f"{run['program']}, kill {number}",
                    str(kill["planned_step"]),
                    str(kill["step"]),
                    f"{epoch + 1}, {done}/{epoch_steps}" if epoch_steps else NOTHING,
                    _text(kill["resumed_at"]),
                    _text(kill["steps_done_again"]),
                    _number(kill["work_lost_secs"], 2),
                    _number(kill["to_first_step_secs"], 2),
                    _number(kill["to_new_step_secs"], 2),
                ]
            )
    if not rows:
        return []
    header = ["run", "planned after step", "had done step", "epoch, batch", "resumed at step", "steps done again", "work lost, s",
              "to the first step, s", "to the first new step, s"]  # fmt: skip
    note = (
        "Had done: the last step the process is known to have done, by its terminal or its ledger; it may have done a few more. Work "
        "lost: how long before its death it had been where the next start went on. The last two columns count from the death to the "
        "first step that the next process tells of, and to the first one that had not been done before. The next start comes at once."
    )
    return [Heading("What each kill cost"), Table(header, rows, note)]


def _pictures(report: Dict[str, Any], drawn: Collection[str]) -> List[Piece]:
    names = ", ".join(run["name"] for run in report["runs"])
    tallies = "; ".join(
        f"{run['name']}: {run['examples']['lost']} lost, {run['examples']['repeated']} repeated"
        for run in report["runs"]
        if run["examples"]
    )
    pictures = [
        (
            "Loss against step",
            Picture(
                "loss",
                f"Line chart of the training loss against the step, of {names}, with kills and resumes marked.",
                "Curves that lie on each other are equal; the undisturbed runs are drawn wide and pale beneath the killed ones. "
                "Dotted: steps that a process had done and its death has undone. Of a run that loses or repeats examples the curve "
                "leaves its undisturbed twin at the first resume. Of curves with many points each is the mean of some steps.",
            ),
        ),
        (
            "Which examples each epoch has used",
            Picture(
                "epochs",
                f"Map of every example id in every epoch: used once, never, or more than once. {tallies}.",
                "A row for each epoch, the example ids along it. A row without marks has used every example once. −n +m at the "
                "end of a row: n examples never used in that epoch, m uses too many. A cross: a kill came in that epoch.",
            ),
        ),
        (
            "What each run did when",
            Picture(
                "timeline",
                f"Timeline of {names}: starting, training, saving, evaluating, exporting, dead.",
                "As seen from outside. Starting lasts from the start of the process to the first step it tells of; saving from the "
                "first file of a checkpoint to its manifest. A run is dead from a kill to the next start, some milliseconds here. Runs that go on at the same time share the processor.",
            ),
        ),
    ]
    return [piece for title, picture in pictures if picture.name in drawn for piece in (Heading(title), picture)]


def _cost(report: Dict[str, Any]) -> List[Piece]:
    if not report["runs"]:
        return []
    times, sizes = [], []
    for run in report["runs"]:
        observed, parts = run["observed"], run["checkpoint_bytes"] or {}
        processes = observed["processes"] if observed else []
        starts = [(process["resumed_at"] or 0, process["start_secs"]) for process in processes if process["start_secs"] is not None]
        times.append(
            [
                run["name"],
                _number((observed or run)["steps_per_sec"], 0),
                _text(len(run["save_secs"]) or None),
                _spread(run["save_secs"]),
                _spread(run["restore_secs"]),
                _spread([secs for step, secs in starts if step == 0], 1),
                _spread([secs for step, secs in starts if step > 0], 1),
                _number(_sum(process["cpu_secs"] for process in processes), 1),
            ]
        )
        sizes.append([run["name"], *(size(parts.get(part)) for part in _PARTS), size(_peak(run))])
    note = (
        "A save, a restore: as the program itself notes them in TensorBoard; where there are several, median [least–most]. A start: "
        "from the start of the process, the import of TensorFlow included, to the first step it tells of. CPU: of all processes of "
        "the run. "
    )
    if report["plan"]:
        made = report["made"]
        note += f"{count(made['at_once'], 'run')} at a time on {count(made['cores'], 'core')}, so these are not the times of a quiet machine."
    header = ["run", "steps/s", "saves", "a save, s", "a restore, s", "a fresh start, s", "a resumed start, s", "CPU, s"]
    of_bytes = "Of the newest checkpoint; other: index, counters, object graph. Peak memory: resident, of the run's largest process."
    return [
        Heading("What it cost"),
        Table(header, times, note),
        Table(["run", *_PARTS, "peak memory"], sizes, of_bytes),
    ]


def _stored(report: Dict[str, Any]) -> List[Piece]:
    by_kind: Dict[tuple, List[Dict[str, Any]]] = {}
    seen = set()
    for number, run in enumerate(report["runs"]):
        name = run["program"] if report["plan"] else run["name"]
        if name not in seen:
            seen.add(name)
            for kind in run["stored"]:
                # The same thing of all programs together; what nobody knows the meaning of, at the end.
                by_kind.setdefault((not kind["what"], kind["what"], number, name, kind["what"] or kind["where"]), []).append(kind)
    rows = []
    for (_, what, _, name, _), kinds in sorted(by_kind.items()):
        files, together = (sum(kind[of] for kind in kinds) for of in ("files", "bytes"))
        rows.append([what or NOTHING, name, ", ".join(kind["where"] for kind in kinds), str(files), size(together)])
    note = "At the end of the run; of several runs of a program, the one that was killed. <n> stands for a number."
    header = ["what", "program" if report["plan"] else "run", "where", "files", "bytes"]
    return [Heading("What each stores, and where"), Table(header, rows, note if report["plan"] else "")] if rows else []


def _features(report: Dict[str, Any]) -> List[Piece]:
    """Returns the table of what each program can do: what its runs have shown, and no claim beyond that."""
    columns: Dict[str, Dict[str, str]] = {}
    for run in report["runs"]:
        name = run["program"] if report["plan"] else run["name"]
        shown = columns.setdefault(name, {})
        shown.update({feature: "yes" if has else "no" for feature, has in run["features"].items()})
        deaths = run["observed"]["kills"] if run["observed"] else []
        if deaths:
            again = [kill["resumed_at"] for kill in deaths]
            shown["goes on after SIGKILL"] = "no" if None in again else "from step 0" if not any(again) else "yes"
            epoch_steps = report["plan"]["epoch_steps"]
            if epoch_steps:
                shown["goes on in mid-epoch"] = "yes" if any(step and step % epoch_steps for step in again) else "no"
            examples = run["examples"]
            if examples:
                none = examples["lost"] == examples["repeated"] == 0
                shown["each example once an epoch, for all the kills"] = "yes" if none else "no"
    for pair in report["pairs"]:
        if pair["kind"] == "killed":
            program = next(run["program"] for run in report["runs"] if run["name"] == pair["a"])
            equal = [pair[name]["equal"] for name in ("weights", "losses", "metrics") if pair[name]]
            columns.setdefault(program, {})["killed and undisturbed end alike, bit for bit"] = "yes" if equal and all(equal) else "no"
    features = list(dict.fromkeys(feature for shown in columns.values() for feature in shown))
    if not features:
        return []
    rows = [[feature, *(shown.get(feature, NOTHING) for shown in columns.values())] for feature in features]
    note = "As far as these runs have shown it. What is promised beyond them, such as what comes of damage, stands in BUILD_NOTES.md."
    pieces: List[Piece] = [Heading("What each can do"), Table(["", *columns], rows, note)]
    titles = [[program[name] for name in ("name", "title", "description", "needs")] for program in report["programs"]]
    return [*pieces, Table(["program", "built on", "how it saves and resumes", "needs"], titles)] if titles else pieces


def _code(report: Dict[str, Any]) -> List[Piece]:
    if not report["programs"]:
        return []
    rows = [[p["name"], str(p["code_lines"]), str(p["files"])] for p in report["programs"]]
    rows.append(["midepoch (the library of both programs)", str(report["library"]["code_lines"]), str(report["library"]["files"])])
    note = "Without blank lines, comments and docstrings."
    return [Heading("Lines of code"), Table(["program", "lines of code", "files"], rows, note)]


def _failures(report: Dict[str, Any]) -> List[Piece]:
    if not report["failures"]:
        return []
    pieces: List[Piece] = [Heading("What went wrong")]
    for failure in report["failures"]:
        pieces.append(Paragraph(f"{failure['name']}: {failure['why']}. Its last output:"))
        pieces.append(Output([re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f]", "", line) for line in failure["last_lines"]]))
    return pieces


def _how(report: Dict[str, Any]) -> List[Piece]:
    made, plan = report["made"], report["plan"]
    pieces: List[Piece] = [Heading("How this was made"), Output([made["command"]])]
    if plan:
        pieces.append(Paragraph(f"Flags of each run: {' '.join(plan['flags'])}."))
        pieces.append(
            Paragraph(
                f"The kills are drawn by --kill_seed={plan['kill_seed']}, the same for every run. The directories, and all that "
                f"each run has printed, are in {made['out_dir']}."
            )
        )
    else:
        pieces.append(Paragraph(f"The directories: {', '.join(run['model_dir'] for run in report['runs'])}."))
    pieces.append(Paragraph("report.json beside this file holds every number of it; compare/analysis.py says what its entries mean."))
    return pieces


def _peak(run: Dict[str, Any]) -> Optional[int]:
    return max((process["peak_memory_bytes"] for process in run["observed"]["processes"]), default=None) if run["observed"] else None


def _sum(values: Any) -> Any:
    """Returns the sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _text(value: Any) -> str:
    return NOTHING if value is None else str(value)


def _number(value: Optional[float], digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _spread(values: Sequence[float], digits: int = 2) -> str:
    """Returns `median [least–most]` of some values."""
    if not values:
        return NOTHING
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} [{min(values):.{digits}f}–{max(values):.{digits}f}]"
