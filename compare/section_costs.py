"""Sections of a report: what runs cost, what they store, what they have shown that they can do, how long the code is."""

from typing import Any, Dict, List, Optional

from compare import cells
from compare.cells import NOTHING
from compare.document import Heading, Piece, Table
from compare.pairs import KILLED
from midepoch.console import count, size

_PARTS = ("weights", "optimizer", "iterator", "other", "total")


def cost(report: Dict[str, Any]) -> List[Piece]:
    """Returns the tables of the runs' times, and of the bytes on disk and in memory; nothing without runs."""
    if not report["runs"]:
        return []
    times, sizes = [], []
    for run in report["runs"]:
        observed, parts = run["observed"], run["checkpoint_bytes"] or {}
        processes = observed["processes"] if observed else []
        starts = [
            (process["resumed_at"] or 0, process["start_secs"]) for process in processes if process["start_secs"] is not None
        ]
        times.append(
            [
                run["name"],
                cells.number((observed or run)["steps_per_sec"], 0),
                cells.text(len(run["save_secs"]) or None),
                cells.spread(run["save_secs"]),
                cells.spread(run["restore_secs"]),
                cells.spread([secs for step, secs in starts if step == 0], 1),
                cells.spread([secs for step, secs in starts if step > 0], 1),
                cells.number(cells.total(process["cpu_secs"] for process in processes), 1),
            ]
        )
        sizes.append([run["name"], *(size(parts.get(part)) for part in _PARTS), size(peak_memory(run))])
    note = (
        "A save, a restore: as the program itself notes them in TensorBoard; where there are several, median [least–most]. A"
        " start: from the start of the process, the import of TensorFlow included, to the first step it tells of. CPU: of"
        " all processes of the run. "
    )
    if report["plan"]:
        made = report["made"]
        note += (
            f"{count(made['at_once'], 'run')} at a time on {count(made['cores'], 'core')}, so these are not the times of a"
            " quiet machine."
        )
    header = ["run", "steps/s", "saves", "a save, s", "a restore, s", "a fresh start, s", "a resumed start, s", "CPU, s"]
    of_bytes = (
        "Of the newest checkpoint; other: index, counters, object graph. Peak memory: resident, of the run's largest"
        " process."
    )
    return [
        Heading("What it cost"),
        Table(header, times, note),
        Table(["run", *_PARTS, "peak memory"], sizes, of_bytes),
    ]


def peak_memory(run: Dict[str, Any]) -> Optional[int]:
    """Returns the most memory that a process of a run had, in bytes; None if nobody has watched it."""
    return (
        max((process["peak_memory_bytes"] for process in run["observed"]["processes"]), default=None)
        if run["observed"]
        else None
    )


def stored(report: Dict[str, Any]) -> List[Piece]:
    """Returns the table of the files that each program leaves, those of one purpose side by side; nothing without files."""
    by_kind: Dict[tuple, List[Dict[str, Any]]] = {}
    seen = set()
    for number, run in enumerate(report["runs"]):
        name = run["program"] if report["plan"] else run["name"]
        if name not in seen:
            seen.add(name)
            for kind in run["stored"]:
                # The same thing of all programs together; what nobody knows the meaning of, at the end.
                by_kind.setdefault((not kind["what"], kind["what"], number, name, kind["what"] or kind["where"]), []).append(
                    kind
                )
    rows = []
    for (_, what, _, name, _), kinds in sorted(by_kind.items()):
        files, together = (sum(kind[of] for kind in kinds) for of in ("files", "bytes"))
        rows.append([what or NOTHING, name, ", ".join(kind["where"] for kind in kinds), str(files), size(together)])
    note = "At the end of the run; of several runs of a program, the first in the table of runs. <n> stands for a number."
    header = ["what", "program" if report["plan"] else "run", "where", "files", "bytes"]
    return [Heading("What each stores, and where"), Table(header, rows, note if report["plan"] else "")] if rows else []


def features(report: Dict[str, Any]) -> List[Piece]:
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
            # Not "no": where it has gone on with an epoch's first step, there may have been no checkpoint behind that.
            if epoch_steps and any(step and step % epoch_steps for step in again):
                shown["goes on in mid-epoch"] = "yes"
            examples = run["examples"]
            if examples:
                none = examples["lost"] == examples["repeated"] == 0
                shown["each example once an epoch, for all the kills"] = "yes" if none else "no"
    for pair in report["pairs"]:
        run = next(run for run in report["runs"] if run["name"] == pair["a"])
        # A run that is called killed may have been let live.
        if pair["kind"] == KILLED and run["observed"] and run["observed"]["kills"]:
            equal = [pair[name]["equal"] for name in ("weights", "losses", "metrics") if pair[name]]
            columns.setdefault(run["program"], {})["killed and undisturbed end alike, bit for bit"] = (
                "yes" if equal and all(equal) else "no"
            )
    names = list(dict.fromkeys(feature for shown in columns.values() for feature in shown))
    if not names:
        return []
    rows = [[feature, *(shown.get(feature, NOTHING) for shown in columns.values())] for feature in names]
    note = (
        f"As far as these runs have shown it; {NOTHING}: they have not. In mid-epoch: it says that it goes on at a step"
        " within an epoch; whether it does so with the right examples is in the row of the examples. What is promised beyond"
        " these runs, such as what comes of damage, stands in BUILD_NOTES.md."
    )
    pieces: List[Piece] = [Heading("What each can do"), Table(["", *columns], rows, note)]
    titles = [[program[name] for name in ("name", "title", "description", "needs")] for program in report["programs"]]
    return [*pieces, Table(["program", "built on", "how it saves and resumes", "needs"], titles)] if titles else pieces


def code(report: Dict[str, Any]) -> List[Piece]:
    """Returns the table of how long the programs are, and what they share; nothing where none was run."""
    if not report["programs"]:
        return []
    rows = [[p["name"], str(p["code_lines"]), str(p["files"])] for p in report["programs"]]
    rows.append(
        ["midepoch (the library of both programs)", str(report["library"]["code_lines"]), str(report["library"]["files"])]
    )
    note = "Without blank lines, comments and docstrings."
    if any(p["is_peer"] for p in report["programs"]):
        shared = report["shared_by_peers"]
        rows.append(["shared by the peers (compare/peers)", str(shared["code_lines"]), str(shared["files"])])
        note += (
            " Of a peer: only how it saves and goes on; what all of them need, such as flags, ledger, network and data, is"
            " in the modules that they share; no peer needs all of these."
        )
    return [Heading("Lines of code"), Table(["program", "lines of code", "files"], rows, note)]
