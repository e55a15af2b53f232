"""What a model_dir tells of its run, as plain data: a run's entry in report.json.

`name`, `program`, `killed`: which run it is; `killed` is None for a directory that was given
`is_peer`: whether it is one of compare/peers
`model_dir`: the directory
`state`: "finished", "unfinished", "unknown" (its run.json is lost), "stopped" (early, in order), "crashed"; `problems`: lines, what is not whole or is missing
`task`, `versions`, `batch_size`, `num_examples`: None where nobody knows
`step`, `epoch`, `examples_seen`: of the newest checkpoint that is whole
`history`: starts, kills and steps done again by run.json; or None
`best`, `last`: metrics of the best and of the last evaluation, or None
`losses`: [[step, loss], …] as TensorBoard shows them, or a peer's by its ledger
`resumes`: steps after which a start went on, by the event files or, of a peer, where its ledger goes back
`examples`: None if not recorded; else `lost`, `repeated`, `lines_done_again`, and `epochs`: for each `number`, `expected`,
    `examples`: how many different ones it has used, `never`: ids it should have used and has not, `again`: id → times, where
    more than once
`save_secs`, `restore_secs`: of each save and each restore that was noted
`steps_per_sec`: by the program's own words: the median of what TensorBoard has; None for a peer
`checkpoint_bytes`: of the newest checkpoint: weights, optimizer, iterator, other, total; or None
`stored`: as `storage.stored`
`features`: what the run has shown, as `_features`
`observed`: None for a directory that was given; else as `_observed`
"""

import os
import statistics
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from compare import event_files, ledgers, phases, storage
from compare.ledger_check import Epoch, split_epochs, total
from compare.ledgers import Ledger
from compare.observe import Observation
from compare.peers.harness import METRICS_FILE
from compare.runs import FINISHED, Outcome
from midepoch import checkpoint_parts, exports, inventory, model_dir
from midepoch.errors import UserError

UNFINISHED, UNKNOWN = "unfinished", "unknown"


class Run(NamedTuple):
    """A run that was looked at.

    Attributes:
      facts: its entry in report.json.
      ledger: its ledger up to the newest checkpoint, or None.
      checkpoints: prefix of each whole checkpoint by step, the best one's included.
    """

    facts: Dict[str, Any]
    ledger: Optional[Ledger]
    checkpoints: Dict[int, str]


def look_at_directory(directory: str, name: str, killed: Optional[bool] = None) -> Run:
    """Looks at a model_dir of either program, finished or not.

    Args:
      directory: the model_dir.
      name: of the run, for people.
      killed: whether it was disturbed; None if nobody knows.

    Raises:
      UserError: there is no such directory, or no run of midepoch in it, or none of its checkpoints is whole.
    """
    found = inventory.take_inventory(directory, verify=True)
    if found["foreign"]:
        raise UserError(
            f"{directory} holds checkpoints of TensorFlow's own, and no run of midepoch; give a model_dir of a run"
        )
    if found["step"] is None:
        problems = found["problems"][0] if found["problems"] else "none has been saved yet"
        raise UserError(f"{directory} holds no checkpoint that is whole ({problems}); train on, or give another directory")
    scalars = event_files.read_scalars(directory)
    speeds = scalars.written.get("examples_per_sec", [])
    whole = [c for c in found["checkpoints"] if c["problem"] is None]
    newest = next(c for c in whole if c["step"] == found["step"])
    config = found["config"] or {}
    batch_size = model_dir.read_manifest(newest["path"])["pipeline"]["batch_size"]
    num_examples = found["contract"].get("epoch_examples")
    problems = list(found["problems"]) + [f"{name} ends in the middle of a record" for name in scalars.cut]
    ledger = ledgers.read(os.path.join(directory, model_dir.EXAMPLES_FILE))
    examples, first_step = None, _first_step(directory)
    if ledger and num_examples:
        ledger = ledger.up_to(found["step"])
        examples = _examples(ledger, num_examples, batch_size, found["step"], first_step, found["examples_seen"], problems)
    facts = {
        "name": name,
        "program": found["program"],
        "is_peer": False,
        "killed": killed,
        "model_dir": directory,
        "state": {True: FINISHED, False: UNFINISHED}.get(found["finished"], UNKNOWN),
        "problems": problems,
        "task": found["task"],
        "versions": found["versions"],
        "batch_size": batch_size,
        "num_examples": num_examples,
        "seed": config.get("seed"),
        "step": found["step"],
        "epoch": found["epoch"],
        "examples_seen": found["examples_seen"],
        "history": found["history"] if isinstance(found["history"], dict) else None,
        "best": found["best"],
        "last": found["last"],
        # What lies beyond the newest checkpoint would be done again.
        "losses": [list(point) for point in sorted(scalars.shown.get("loss", {}).items()) if point[0] <= found["step"]],
        "resumes": [start.step - 1 for start in scalars.starts if start.step - 1 > first_step],
        "examples": examples,
        "save_secs": scalars.written.get("save_secs", []),
        "restore_secs": scalars.written.get("restore_secs", []),
        "steps_per_sec": statistics.median(speeds) / batch_size if speeds else None,
        "checkpoint_bytes": newest["bytes"],
        "stored": storage.stored(directory),
        "observed": None,
    }
    facts["features"] = _features(directory, facts)
    # The last one of a step, where it is there, is the one that is compared.
    checkpoints = {c["step"]: c["path"] for c in sorted(whole, key=lambda c: c["kind"])}
    return Run(facts, ledger, checkpoints)


def look_at_peer(directory: str, name: str, program: str, num_examples: int, batch_size: int) -> Run:
    """Looks at what a peer has left: a ledger and a metrics file.

    Args:
      directory: its model_dir.
      name: of the run, for people.
      program: the peer.
      num_examples: N.
      batch_size: examples per step.
    """
    problems: List[str] = []
    ledger = ledgers.read(os.path.join(directory, model_dir.EXAMPLES_FILE))
    metrics = model_dir.read_json(os.path.join(directory, METRICS_FILE))
    metrics = metrics if isinstance(metrics, dict) else None
    step = max(ledger.ids, default=0) if ledger else 0
    examples = _examples(ledger, num_examples, batch_size, step, 0, None, problems) if ledger else None
    pieces = ledger.pieces if ledger else []
    facts = {
        "name": name,
        "program": program,
        "is_peer": True,
        "killed": None,
        "model_dir": directory,
        "state": FINISHED if metrics else UNFINISHED,
        "problems": problems,
        "task": None,
        "versions": None,
        "batch_size": batch_size,
        "num_examples": num_examples,
        "seed": None,
        "step": step,
        "epoch": step / -(-num_examples // batch_size),
        "examples_seen": None,
        "history": None,
        "best": None,
        "last": metrics,
        "losses": [list(point) for point in sorted(ledger.losses.items())] if ledger else [],
        "resumes": [piece[0][0] - 1 for piece in pieces[1:]],
        "examples": examples,
        "save_secs": [],
        "restore_secs": [],
        "steps_per_sec": None,
        "checkpoint_bytes": None,
        "stored": storage.stored(directory),
        "features": {},
        "observed": None,
    }
    return Run(facts, ledger, {})


def add_observed(run: Run, outcome: Outcome) -> Run:
    """Returns a run with what was seen of its processes."""
    facts = {**run.facts, "killed": outcome.spec.killed, "observed": _observed(outcome)}
    if outcome.state != FINISHED:
        facts["state"] = outcome.state
    return run._replace(facts=facts)


def _observed(outcome: Outcome) -> Dict[str, Any]:
    """Returns what was seen of the processes of a run, in seconds from the start of the first one.

    Returns:
      `processes`: of each its `began_secs` and `ended_secs`, `exit_code` (negative: a signal), `was_killed` (by us),
      `resumed_at`, `start_secs` (to the first step it told of), `peak_memory_bytes`, `cpu_secs`, `last_lines`;
      `kills`: as `phases.kills`; `timeline`: [[phase, begin, end], …]; `steps_per_sec`; `secs`: of the whole run;
      `losses_told`: [[step, loss], …] of each process, as printed.
    """
    seen: Sequence[Observation] = outcome.observations
    zero = seen[0].began
    return {
        "processes": [
            {
                "began_secs": process.began - zero,
                "ended_secs": process.ended - zero,
                "exit_code": process.exit_code,
                "was_killed": process.was_killed,
                "resumed_at": phases.resumed_at(process),
                "start_secs": phases.start_secs(process),
                "peak_memory_bytes": process.peak_memory_bytes,
                "cpu_secs": process.cpu_secs,
                "last_lines": process.last_lines,
            }
            for process in seen
        ],
        "kills": phases.kills(seen, outcome.planned_kills),
        "timeline": [list(span) for span in phases.timeline(seen)],
        "steps_per_sec": phases.steps_per_sec(seen),
        "secs": seen[-1].ended - zero,
        "losses_told": [[list(point) for point in points] for points in phases.losses_told(seen)],
    }


def _first_step(directory: str) -> int:
    """Returns the step a run began after; not 0 if it went on from another run's checkpoint."""
    run = model_dir.read_json(os.path.join(directory, model_dir.RUN_FILE))
    first_step = run.get("first_step") if isinstance(run, dict) else None
    return first_step if isinstance(first_step, int) else 0


def _examples(
    ledger: Ledger,
    num_examples: int,
    batch_size: int,
    step: int,
    first_step: int,
    examples_seen: Optional[int],
    problems: List[str],
) -> Optional[Dict[str, Any]]:
    """Returns which examples were lost and repeated; None, and a line more among the problems, if the ids make no sense."""
    try:
        epochs = split_epochs(ledger.ids, num_examples, batch_size, step, first_step, examples_seen)
    except ValueError as error:
        problems.append(f"{model_dir.EXAMPLES_FILE}: {error}")
        return None
    tally = total(epochs)
    return {
        "lost": tally.lost,
        "repeated": tally.repeated,
        "lines_done_again": ledger.done_again,
        "epochs": [_epoch(epoch, num_examples) for epoch in epochs],
    }


def _epoch(epoch: Epoch, num_examples: int) -> Dict[str, Any]:
    whole = epoch.expected >= num_examples
    return {
        "number": epoch.number,
        "expected": epoch.expected,
        "examples": len(epoch.times),
        "never": [i for i in range(num_examples) if i not in epoch.times] if whole else [],
        "again": {str(i): times for i, times in sorted(epoch.times.items()) if times > 1},
        # Of an epoch that the run has not come through, nobody can say which ones are missing; these are the ones it had.
        "seen": None if whole else sorted(epoch.times),
    }


def _features(directory: str, facts: Dict[str, Any]) -> Dict[str, bool]:
    """Returns what the files of a run show that it does."""
    parts = facts["checkpoint_bytes"]
    return {
        "iterator state in the checkpoint of the weights": bool(parts[checkpoint_parts.ITERATOR]),
        "optimizer in it": bool(parts[checkpoint_parts.OPTIMIZER]),
        "a manifest with checksums for each checkpoint": bool(facts["step"] is not None),
        "best weights kept": model_dir.newest_valid(os.path.join(directory, model_dir.BEST_WEIGHTS)) is not None,
        "metrics of the evaluations in files": bool(facts["last"]),
        "loss in TensorBoard": bool(facts["losses"]),
        "SavedModel exported": exports.newest(directory) is not None,
        "ledger of the examples": facts["examples"] is not None,
    }
