"""The report of a comparison: gathers what it holds, and writes it as report.json, report.md and report.html.

report.json holds:

`made`: `at`, `command`, `machine`, `cores`, `python`, `tensorflow`; with a plan `out_dir` and `at_once`, the runs at a time
`plan`: None where directories were given; else `flags` of each run, `kills`, `kill_seed`, `kill_steps`, `total_steps`,
    `epoch_steps`; the last three None if no run has got so far
`runs`: see `analysis`; `pairs`: see `pairs`
`programs`: of each that ran `name`, `title`, `description`, `needs`, `is_peer`, `code_lines`, `files`
`library`: `code_lines` and `files` of midepoch/; `shared_by_peers`: of what the peers share, None where directories were given
`failures`: of each run that has not ended as it should `name`, `why`, `last_lines`
`left_out`: of each program that cannot run here `name`, `why`
`verdict`: [[whether it is as it should be, line], …]
"""

import json
import os
import platform
import shlex
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

import tensorflow as tf

from compare import analysis, code_lines, html_page, ledgers, markdown, pairs, programs, sections, verdict
from compare.cells import NOTHING
from compare.figures import drawings
from compare.programs import Program
from compare.runs import CRASHED, FINISHED, KillPlan, Outcome
from midepoch import config as config_lib
from midepoch import model_dir
from midepoch.errors import UserError, one_line

HTML_FILE, MARKDOWN_FILE, JSON_FILE = "report.html", "report.md", "report.json"
_FIGURES = "figures"


def of_outcomes(
    outcomes: Sequence[Outcome],
    chosen: Sequence[Program],
    kill_plan: KillPlan,
    kill_seed: int,
    kills: int,
    out_dir: str,
    at_once: int,
    least_accuracy: Optional[float],
) -> Dict[str, Any]:
    """Returns what report.json holds of runs that were made for it.

    Args:
      outcomes: of the runs.
      chosen: the programs, those that cannot run here included.
      kill_plan: by which they were killed.
      kill_seed: of the plan.
      kills: of each disturbed run, by the plan.
      out_dir: where the runs are.
      at_once: how many went on at the same time.
      least_accuracy: what they are to reach, or None.
    """
    failures, runs = [], []
    num_examples = None
    for outcome in outcomes:
        spec, directory = outcome.spec, outcome.spec.config.model_dir
        if outcome.state != FINISHED:
            failures.append(_failure(outcome))
        try:
            if spec.program.is_peer:
                num_examples = num_examples or _most_examples(outcomes)
                run = analysis.look_at_peer(directory, spec.name, spec.program.name, num_examples, spec.config.batch_size)
            else:
                run = analysis.look_at_directory(directory, spec.name, spec.killed)
                num_examples = run.facts["num_examples"]
        except (UserError, OSError, tf.errors.OpError) as error:  # what one run has left must not cost the report of all
            if outcome.state == FINISHED:
                last_lines = outcome.observations[-1].last_lines
                failures.append({"name": spec.name, "why": one_line(error), "last_lines": last_lines})
            continue
        runs.append(analysis.add_observed(run, outcome))
    ran = [program for program in chosen if program.why_not is None]
    flags = config_lib.to_flagfile(outcomes[0].spec.config).splitlines() if outcomes else []
    plan = kill_plan.plan
    report = {
        "made": {**_made(), "out_dir": out_dir, "at_once": at_once},
        "plan": {
            "flags": [flag for flag in flags if not flag.startswith("--model_dir=")],
            "kills": kills,
            "kill_seed": kill_seed,
            "kill_steps": kill_plan.steps,
            "total_steps": plan and plan.total_steps,
            "epoch_steps": plan and plan.epoch_steps,
        },
        "runs": [run.facts for run in runs],
        "pairs": [pairs.compare(*pair) for pair in pairs.choose(runs)],
        "programs": [_program(program) for program in ran],
        "library": _lines_of(programs.library()),
        "shared_by_peers": _lines_of(programs.shared_by_peers()),
        "failures": failures,
        "left_out": [{"name": p.name, "why": p.why_not} for p in chosen if p.why_not is not None],
    }
    return {**report, "verdict": [list(line) for line in verdict.judge(report, least_accuracy)]}


def of_directories(directories: Sequence[str]) -> Dict[str, Any]:
    """Returns what report.json holds of two model_dirs.

    Raises:
      UserError: one of them cannot be compared.
    """
    names = [os.path.basename(os.path.normpath(directory)) for directory in directories]
    names = names if len(set(names)) == len(names) else list(directories)
    runs = [analysis.look_at_directory(directory, name) for directory, name in zip(directories, names)]
    return {
        "made": _made(),
        "plan": None,
        "runs": [run.facts for run in runs],
        "pairs": [pairs.compare(*runs, pairs.GIVEN)],
        "programs": [],
        "library": None,
        "shared_by_peers": None,
        "failures": [],
        "left_out": [],
        "verdict": [],
    }


def write(report: Dict[str, Any], out_dir: str) -> str:
    """Writes a report; returns the path of the HTML file.

    Args:
      report: what report.json holds.
      out_dir: where to; made if missing.
    """
    drawn = drawings.draw(report)
    report_document = sections.make(report, drawn)
    images = {name: os.path.join(_FIGURES, f"{name}.png") for name in drawn}
    svgs = {name: drawing.svg for name, drawing in drawn.items()}
    texts = {
        JSON_FILE: json.dumps(report, indent=1, ensure_ascii=False) + "\n",
        MARKDOWN_FILE: markdown.render(report_document, images),
        HTML_FILE: html_page.render(report_document, svgs),
    }
    os.makedirs(os.path.join(out_dir, _FIGURES), exist_ok=True)
    for name, drawing in drawn.items():
        with open(os.path.join(out_dir, images[name]), "wb") as file:
            file.write(drawing.png)
    for name, text in texts.items():
        model_dir.write_atomically(os.path.join(out_dir, name), text)
    return os.path.join(out_dir, HTML_FILE)


def terminal_table(report: Dict[str, Any]) -> List[str]:
    """Returns the lines of the short table of the runs."""
    table = sections.runs_table(report)
    rows = [table.header, *table.rows]
    shown = [column for column in zip(*rows) if any(cell != NOTHING for cell in column[1:])]
    widths = [max(map(len, column)) for column in shown]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in zip(*shown)]


def _made() -> Dict[str, Any]:
    cores = len(os.sched_getaffinity(0))
    return {
        "at": time.strftime("%Y-%m-%d %H:%M"),
        "command": shlex.join(["python", "-m", "compare", *sys.argv[1:]]),
        "machine": f"{platform.machine()}, {cores} cores",
        "cores": cores,
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
    }


def _program(program: Program) -> Dict[str, Any]:
    facts = {name: getattr(program, name) for name in ("name", "title", "description", "needs", "is_peer")}
    return {**facts, **_lines_of(program.sources)}


def _lines_of(sources: Sequence[str]) -> Dict[str, int]:
    """Returns how many lines of code some source files have, and how many they are."""
    return {"code_lines": code_lines.count_files(sources), "files": len(sources)}


def _failure(outcome: Outcome) -> Dict[str, Any]:
    last = outcome.observations[-1]
    code = last.exit_code
    how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}, which was none of ours"
    if outcome.state != CRASHED:
        how += ", stopped in order before its target"
    said = next((line.strip() for line in reversed(last.last_lines) if line.strip()), "")
    return {"name": outcome.spec.name, "why": f"{how}: {said}" if said else how, "last_lines": last.last_lines}


def _most_examples(outcomes: Sequence[Outcome]) -> int:
    """Returns N where only peers have run, which do not say it: the largest example id of all of them tells."""
    paths = [os.path.join(outcome.spec.config.model_dir, model_dir.EXAMPLES_FILE) for outcome in outcomes]
    read = [ledger for ledger in map(ledgers.read, paths) if ledger]
    return 1 + max((i for ledger in read for ids in ledger.ids.values() for i in ids), default=0)
