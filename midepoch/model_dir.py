"""The files of a model_dir: their names, writing small ones whole, committing, verifying and listing checkpoints, the lock.

A checkpoint counts once its manifest exists: the manifest is written last, by rename, and holds size and SHA-256 of every
file of the checkpoint. That is the commit; what has no matching manifest is never restored.
"""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import time
from typing import Any, Dict, List, Optional

from midepoch.errors import UserError

CHECKPOINT_NAME = "model.ckpt"
BEST_WEIGHTS = "best_weights"
RUN_FILE = "run.json"
FLAGS_FILE = "flags.txt"
EXAMPLES_FILE = "examples.jsonl"
LAST_METRICS_FILE = "metrics_eval_last_weights.json"
BEST_METRICS_FILE = "metrics_eval_best_weights.json"

_STATE_FILE = "checkpoint"
_MANIFEST = ".manifest.json"
_OWN_DIGEST = "manifest_sha256"
_LOCK_FILE = ".lock"
_LOCK_BYTES = 512
_DAMAGED = "damaged"
_CHECKPOINT_FILE = re.compile(re.escape(CHECKPOINT_NAME) + r"-(\d+)(\.|_temp)")


def write_atomically(path: str, text: str) -> None:
    """Writes a small file under a temporary name and renames it: a reader sees the old text or the new, never half."""
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_json(path: str, value: Any) -> None:
    """Writes a value as JSON, whole or not at all."""
    write_atomically(path, json.dumps(value, indent=2) + "\n")


def read_json(path: str) -> Optional[Any]:
    """Returns what a JSON file holds, or None if it is missing or no JSON."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def prefix_of(directory: str, step: int) -> str:
    """Returns the checkpoint prefix of a global step."""
    return os.path.join(directory, f"{CHECKPOINT_NAME}-{step}")


def step_of(prefix: str) -> int:
    """Returns the global step in a checkpoint prefix."""
    return int(prefix.rsplit("-", 1)[1])


def manifest_path(prefix: str) -> str:
    """Returns the path of a checkpoint's manifest; once that file is there, the checkpoint is committed."""
    return prefix + _MANIFEST


def commit(prefix: str, facts: Dict[str, Any]) -> None:
    """Makes the files just written under `prefix` count, by writing their manifest.

    Args:
      prefix: the checkpoint prefix.
      facts: what the manifest says beside the files; see `contract.py`.
    """
    names = sorted(os.path.basename(path) for path in _data_files(prefix))
    directory = os.path.dirname(prefix)
    files = {name: _size_and_digest(os.path.join(directory, name)) for name in names}
    manifest = {**facts, "files": files}
    write_json(manifest_path(prefix), {**manifest, _OWN_DIGEST: _digest_of(manifest)})


def _digest_of(manifest: Dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _data_files(prefix: str) -> List[str]:
    return [path for path in glob.glob(glob.escape(prefix) + ".*") if not path.endswith((_MANIFEST, ".tmp"))]


def _size_and_digest(path: str) -> Dict[str, Any]:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return {"bytes": os.path.getsize(path), "sha256": digest.hexdigest()}


def read_manifest(prefix: str) -> Optional[Dict[str, Any]]:
    """Returns the manifest of a checkpoint, or None if there is none, or it is damaged, or that of another checkpoint."""
    manifest = read_json(manifest_path(prefix))
    if not isinstance(manifest, dict) or manifest.pop(_OWN_DIGEST, None) != _digest_of(manifest):
        return None
    names = manifest.get("files") or {"": None}
    belongs = all(name.startswith(os.path.basename(prefix) + ".") for name in names)
    return manifest if belongs and manifest.get("step") == step_of(prefix) else None


def problem_with(prefix: str) -> Optional[str]:
    """Compares a checkpoint with its manifest, byte for byte; returns None if it is whole, or what is wrong."""
    manifest = read_manifest(prefix)
    if manifest is None:
        return "its manifest is damaged" if os.path.exists(manifest_path(prefix)) else "it has no manifest"
    for name, expected in manifest["files"].items():
        path = os.path.join(os.path.dirname(prefix), name)
        try:
            found = _size_and_digest(path)
        except OSError as error:
            return f"{name}: {error.strerror}"
        if found["bytes"] != expected["bytes"]:
            return f"{name} has {found['bytes']} bytes instead of {expected['bytes']}"
        if found["sha256"] != expected["sha256"]:
            return f"{name} has changed since it was written"
    return None


def steps_on_disk(directory: str) -> List[int]:
    """Returns the global steps of which any checkpoint file lies in a directory, newest first."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return sorted({int(match.group(1)) for match in map(_CHECKPOINT_FILE.match, names) if match}, reverse=True)


def newest_valid(directory: str) -> Optional[str]:
    """Returns the prefix of the newest checkpoint that is whole, or None. Only reads."""
    for step in steps_on_disk(directory):
        prefix = prefix_of(directory, step)
        if problem_with(prefix) is None:
            return prefix
    return None


def set_aside(prefix: str) -> str:
    """Moves the files of a checkpoint that failed verification to `damaged/`, never over others; returns the folder."""
    directory = os.path.dirname(prefix)
    target = os.path.join(directory, _DAMAGED)
    number = 1
    while glob.glob(glob.escape(os.path.join(target, os.path.basename(prefix))) + ".*"):
        number += 1
        target = os.path.join(directory, _DAMAGED, str(number))
    os.makedirs(target, exist_ok=True)
    for path in glob.glob(glob.escape(prefix) + ".*"):
        shutil.move(path, target)
    return target


def sweep(directory: str, newest: int) -> List[int]:
    """Removes what kills left: files of a save newer than the newest checkpoint, remains of one half deleted.

    Args:
      directory: a model_dir or its best_weights.
      newest: step of the newest valid checkpoint; -1 if the run never committed one.

    Returns:
      The steps of the unfinished saves.
    """
    unfinished_steps = []
    for step in steps_on_disk(directory):
        prefix = prefix_of(directory, step)
        unfinished = step > newest and not os.path.exists(manifest_path(prefix))
        manifest = read_manifest(prefix)
        names = manifest["files"] if manifest else ()
        half_deleted = step < newest and any(not os.path.exists(os.path.join(directory, name)) for name in names)
        if unfinished:
            unfinished_steps.append(step)
        if unfinished or half_deleted:
            for path in glob.glob(glob.escape(prefix) + ".*"):
                os.remove(path)
        for path in glob.glob(glob.escape(prefix) + "_temp*"):
            shutil.rmtree(path, ignore_errors=True)
    return unfinished_steps


def remove_orphaned_manifests(directory: str) -> None:
    """Removes the manifests of checkpoints that retention has just deleted."""
    for path in glob.glob(os.path.join(glob.escape(directory), f"{CHECKPOINT_NAME}-*{_MANIFEST}")):
        if not _data_files(path[: -len(_MANIFEST)]):
            os.remove(path)


def point_state_at(directory: str, prefix: str, keep_max: int = 0) -> None:
    """Makes TensorFlow's `checkpoint` state file right: `prefix` the latest, and the list what retention will delete from.

    The file is rewritten where it is missing, cut, stale after a kill, or names files elsewhere after a move.

    Args:
      directory: a model_dir or its best_weights.
      prefix: the newest valid checkpoint in it.
      keep_max: how many checkpoints may be listed; the older ones, whose deletion a kill has prevented, are deleted now.
        0 for any number. Checkpoints kept for good are not in the list.
    """
    path = os.path.join(directory, _STATE_FILE)
    newest = step_of(prefix)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        text = ""
    named = re.findall(r'^all_model_checkpoint_paths: "' + re.escape(CHECKPOINT_NAME) + r'-(\d+)"$', text, re.MULTILINE)
    listed = {int(step) for step in named} or set(steps_on_disk(directory))
    listed = sorted({step for step in listed if step < newest and read_manifest(prefix_of(directory, step))} | {newest})
    kept = listed[-keep_max:] if keep_max else listed
    # Without a list nobody knows which ones are kept for good: then the older ones stay, unlisted.
    surplus = listed[: len(listed) - len(kept)] if named else []
    lines = [f'model_checkpoint_path: "{os.path.basename(prefix)}"']
    lines += [f'all_model_checkpoint_paths: "{CHECKPOINT_NAME}-{step}"' for step in kept]
    if text.splitlines()[: len(lines)] != lines or len(named) != len(kept):
        for step in kept:
            modified = os.path.getmtime(manifest_path(prefix_of(directory, step)))
            lines.append(f"all_model_checkpoint_timestamps: {modified!r}")
        preserved = re.search(r"^last_preserved_timestamp: .*$", text, re.MULTILINE)
        lines.append(preserved.group() if preserved else f"last_preserved_timestamp: {time.time()!r}")
        write_atomically(path, "\n".join(lines) + "\n")
    for step in surplus:
        for leftover in glob.glob(glob.escape(prefix_of(directory, step)) + ".*"):
            os.remove(leftover)


def forget_state(directory: str) -> None:
    """Removes a `checkpoint` state file where there is no checkpoint: an Estimator would try to restore what it names."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(directory, _STATE_FILE))


def prepare(directory: str) -> None:
    """Makes sure that a model_dir can be made and written, without writing anything of the run yet.

    Raises:
      UserError: it is a file, or cannot be written.
    """
    if "://" in directory or set(directory) & set("[]*?"):
        raise UserError(
            f"--model_dir={directory}: give a local path without [ ] * ?, which TensorFlow would take for a pattern when it "
            "deletes old checkpoints"
        )
    existing = os.path.abspath(directory)
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        raise UserError(f"--model_dir={directory}: {existing} is a file; give a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"--model_dir={directory}: {existing} cannot be written; change its permissions or give another")


class Lock:
    """Held while a process trains in a model_dir; the kernel releases it when the process dies.

    The file tells people, and the next start, who held it and how far that run had come.

    Args:
      directory: the model_dir, made if missing.

    Raises:
      UserError: another process holds it, or it cannot be written.
    """

    def __init__(self, directory: str):
        path = os.path.join(directory, _LOCK_FILE)
        try:
            os.makedirs(directory, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UserError(f"--model_dir={directory}: cannot write there: {error.strerror}; give another") from error
        try:
            left_behind = json.loads(os.pread(self._file, _LOCK_BYTES, 0))
        except ValueError:
            left_behind = None
        self._noted_step: Optional[int] = None
        readable = isinstance(left_behind, dict) and isinstance(left_behind.get("step"), int)
        self.left_behind: Dict[str, Any] = left_behind if readable else {}
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = self.left_behind
            raise UserError(
                f"--model_dir={directory} is in use by process {holder.get('pid')} on {holder.get('host')}; "
                "wait for it, stop it, or give another directory"
            ) from None

    def note(self, step: int, running: bool = True) -> None:
        """Writes down how far the run has come."""
        facts = {"pid": os.getpid(), "host": socket.gethostname(), "step": step, "running": running}
        self._noted_step = step
        # One write of one size: a kill leaves the old text or the new.
        os.pwrite(self._file, json.dumps(facts).ljust(_LOCK_BYTES - 1).encode() + b"\n", 0)

    def note_end(self) -> None:
        """Writes down that the process ended by itself, without saying how far it came."""
        if self._noted_step is not None:
            self.note(self._noted_step, running=False)

    def release(self) -> None:
        """Gives the model_dir free."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)
