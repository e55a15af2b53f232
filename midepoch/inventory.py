"""What is in a model_dir, as plain values that JSON can hold. Only reads, and takes no lock.

It knows the runs of both programs, and tells what it can of a plain Estimator's or `tf.train.Checkpoint`'s directory. A run
may be training meanwhile: files appear and vanish between being listed and being read.
"""

import os
import time
from typing import Any, Dict, List, Optional

from midepoch import checkpoint_parts, foreign, model_dir
from midepoch.best import read_metrics
from midepoch.errors import UserError
from midepoch.schedule import place_in_epoch

# How long a checkpoint of a run that is training may look incomplete, because it is being deleted just now.
_SETTLE_SECS = 3.0


def take_inventory(directory: str, verify: bool = False) -> Dict[str, Any]:
    """Returns what there is to know about a model_dir.

    Args:
      directory: the model_dir; may be read-only, or in use, or hold somebody else's checkpoints.
      verify: read every byte of every checkpoint and compare the checksums.

    Returns:
      A dict:
        `model_dir`: the directory.
        `foreign`: whether its checkpoints are TensorFlow's own, not of a run of ours.
        `program`, `task`, `target`: whose run it is and how far it is to go; None for a directory of somebody else's.
        `step`, `examples_seen`, `epoch`: of the newest checkpoint that is whole; epoch is a float, None without epochs.
        `finished`: whether that is the target; None if there is none.
        `process`: who trained here last; see `_process`; None if nobody has noted that.
        `history`: starts, kills and steps done again; or None.
        `best`, `last`: metrics of the best and of the last evaluation; or None.
        `contract`: the newest checkpoint's, or where there is none, run.json's; or None.
        `config`, `versions`: as run.json holds them; or None.
        `checkpoints`: newest first, then the best one; see `_look_at`.
        `verified`: whether every byte was read.
        `problems`: a line for each thing that is not whole; a save that was killed, or goes on, is none.

    Raises:
      UserError: there is no such directory, or nothing of a run in it.
    """
    model_dir.check_is_there(directory)
    run = model_dir.read_json(os.path.join(directory, model_dir.RUN_FILE))
    run = run if isinstance(run, dict) else {}
    best_weights = os.path.join(directory, model_dir.BEST_WEIGHTS)
    manifest = model_dir.newest_manifest(directory) or model_dir.newest_manifest(best_weights) or {}
    contract = _dict(manifest.get("contract")) or _dict(run.get("contract"))
    config = _dict(run.get("config"))
    process = _process(directory)
    in_use = bool(process) and process["running"] is not False
    # First: they are written after the checkpoints they tell of.
    best, last = (read_metrics(directory, name) for name in (model_dir.BEST_METRICS_FILE, model_dir.LAST_METRICS_FILE))
    is_foreign = model_dir.is_foreign(directory)
    if is_foreign:
        checkpoints = foreign.checkpoints(directory, verify)
    else:
        kept = config.get("keep_checkpoint_max") or 0
        checkpoints = _checkpoints_in(directory, "last", verify, contract, in_use, kept)
        checkpoints += _checkpoints_in(best_weights, "best", verify, contract, in_use, 1)
    if not run and not checkpoints:
        raise UserError(f"{directory} holds neither run.json nor a checkpoint; give the directory of a run")
    whole = [c for c in checkpoints if c["problem"] is None]
    newest = max(whole, key=lambda c: -1 if c["step"] is None else c["step"], default={})  # a start takes the best one too
    epoch_examples, examples_seen = contract.get("epoch_examples"), newest.get("examples_seen")
    has_epochs = bool(epoch_examples) and examples_seen is not None
    target = {name: config[name] for name in ("num_epochs", "train_steps") if config.get(name)}
    return {
        "model_dir": directory,
        "foreign": is_foreign,
        "program": contract.get("program"),
        "task": contract.get("task"),
        "target": target or None,
        "step": newest.get("step"),
        "examples_seen": examples_seen,
        "epoch": examples_seen / epoch_examples if has_epochs else None,
        "finished": _finished(target, newest.get("step"), examples_seen, epoch_examples),
        "process": process,
        "history": run.get("history"),
        "best": best,
        "last": last,
        "contract": contract or None,
        "config": config or None,
        "versions": run.get("versions"),
        "checkpoints": checkpoints,
        "verified": verify,
        "problems": _problems(directory, checkpoints, best, last, run.get("first_step")),
    }


def _dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _finished(target: Dict[str, int], step: Any, examples_seen: Any, epoch_examples: Any) -> Optional[bool]:
    if step is not None and "train_steps" in target:
        return step >= target["train_steps"]
    if examples_seen is not None and "num_epochs" in target and epoch_examples:
        return examples_seen >= target["num_epochs"] * epoch_examples
    return None


def _process(directory: str) -> Optional[Dict[str, Any]]:
    """Returns who trained in a model_dir last, from its `.lock`, without taking it.

    Returns:
      None if nobody has noted anything; else `pid`, `host`, `step`: how far it has said it had come, `noted_secs_ago`;
      `running`: whether it still runs, None if it was on another host and has not said that it ended; `killed`: it does not
      run, and has not said that it ended.
    """
    facts = model_dir.read_lock(directory)
    if not isinstance(facts.get("step"), int):
        return None
    running = model_dir.still_runs(facts)
    return {
        "pid": facts.get("pid"),
        "host": facts.get("host"),
        "step": facts["step"],
        "noted_secs_ago": model_dir.secs_since_note(directory),
        "running": running,
        "killed": bool(facts.get("running")) and running is False,
    }


def _checkpoints_in(
    folder: str, kind: str, verify: bool, contract: Dict[str, Any], in_use: bool, keep_max: int
) -> List[Dict[str, Any]]:
    """Returns what there is to know about each checkpoint in a folder, newest first; see `_look_at`."""
    steps = model_dir.steps_on_disk(folder)
    while True:
        found: List[Dict[str, Any]] = []
        for step in steps:
            deadline = time.monotonic() + _SETTLE_SECS
            checkpoint = _look_at(model_dir.prefix_of(folder, step), kind, verify, contract)
            while checkpoint and checkpoint["problem"] and in_use and time.monotonic() < deadline:
                time.sleep(0.1)  # retention deletes the files of a checkpoint one after the other
                checkpoint = _look_at(model_dir.prefix_of(folder, step), kind, verify, contract)
            if checkpoint:
                found.append(checkpoint)
        listed, steps = steps, model_dir.steps_on_disk(folder)
        if found or steps == listed:
            break
        # All that were listed have been replaced by newer ones while they were read.
    newest = next((checkpoint["step"] for checkpoint in found if checkpoint["problem"] is None), -1)
    leftovers = [step for step, problem in model_dir.remains(folder, newest, keep_max).items() if problem is None]
    for checkpoint in found:
        if checkpoint["problem"] and checkpoint["step"] in leftovers:
            checkpoint.update(unfinished=True, problem="its save or its deletion has not ended")
    return found


def _look_at(prefix: str, kind: str, verify: bool, contract: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Returns what there is to know about one checkpoint of a run, or None if it has been deleted meanwhile.

    Args:
      prefix: its prefix.
      kind: "last" or "best".
      verify: read every byte and compare the checksums; else only the index, and the sizes.
      contract: of the run, for where the manifest is damaged.

    Returns:
      `path`; `kind`; `step`; `examples_seen`; `epoch` and `batches_done`, counted from 1 and from 0, `batches_per_epoch`;
      `bytes`: of `weights`, `optimizer`, `iterator`, `other` and `total`, the parts None where they cannot be told;
      `age_secs`; `unfinished`: a save or a deletion that was killed or goes on, so that it does not count; `problem`: None,
      or why it would not be used. What is not known is None.
    """
    problem = model_dir.problem_with(prefix, sizes_only=not verify)
    manifest = model_dir.read_manifest(prefix) or {}
    files = model_dir.data_files(prefix)
    sizes, problem = checkpoint_parts.sizes(prefix, files, problem)
    unfinished = model_dir.is_unfinished(prefix)
    if unfinished and not model_dir.data_files(prefix):
        return None
    examples_seen = manifest.get("examples_seen")
    epoch_examples = (_dict(manifest.get("contract")) or contract).get("epoch_examples")
    batch_size = _dict(manifest.get("pipeline")).get("batch_size")
    epoch = batches_done = batches_per_epoch = None
    if epoch_examples and batch_size and examples_seen is not None:
        epoch, batches_done, batches_per_epoch = place_in_epoch(examples_seen, epoch_examples, batch_size)
    return {
        "path": prefix,
        "kind": kind,
        "step": model_dir.step_of(prefix),
        "examples_seen": examples_seen,
        "epoch": epoch,
        "batches_done": batches_done,
        "batches_per_epoch": batches_per_epoch,
        "bytes": sizes,
        "age_secs": model_dir.age_secs(files),
        "unfinished": unfinished,
        "problem": "its save or its deletion has not ended" if unfinished else problem,
    }


def _problems(
    directory: str, checkpoints: List[Dict[str, Any]], best: Any, last: Any, first_step: Optional[int]
) -> List[str]:
    not_whole = [c for c in checkpoints if c["problem"] and not c["unfinished"]]
    problems = [f"{os.path.relpath(c['path'], directory)}: {c['problem']}" for c in not_whole]
    # As in `startup.choose_start`: what is left of a first save that was killed is no loss.
    had_some = best or last or any(c["step"] != first_step for c in checkpoints)
    if had_some and all(c["unfinished"] for c in checkpoints):
        problems.append("there is no checkpoint to go on from")
    best_steps = [c["step"] for c in checkpoints if c["kind"] == "best" and not c["unfinished"]]
    # A newer one than its metrics file tells of is the best all the same: a kill came between the two.
    if best and not any(step >= best["global_step"] for step in best_steps):
        problems.append(f"{model_dir.BEST_WEIGHTS}: the best checkpoint, of step {best['global_step']}, is not there")
    return problems
