"""The files of a model_dir: their names, writing small ones whole, committing, verifying and listing checkpoints, the lock.

A checkpoint counts once its manifest exists: the manifest is written last, by rename, and holds size and SHA-256 of every
file of the checkpoint. That is the commit; what has no matching manifest is never restored.

A save begins with the manifest's temporary file, still empty, and ends with its rename. So what a kill left of a save always
has that file beside it, and a checkpoint that has neither it nor a manifest was somebody's: it has lost its manifest.
"""

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import time
from typing import Any, Dict, Iterable, List, Optional, Set

from midepoch.errors import UserError

CHECKPOINT_NAME = "model.ckpt"
BEST_WEIGHTS = "best_weights"
EVAL = "eval"  # where TensorBoard finds the evaluation curves
RUN_FILE = "run.json"
FLAGS_FILE = "flags.txt"
EXAMPLES_FILE = "examples.jsonl"
LAST_METRICS_FILE = "metrics_eval_last_weights.json"
BEST_METRICS_FILE = "metrics_eval_best_weights.json"

_STATE_FILE = "checkpoint"
_MANIFEST = ".manifest.json"
_TEMPORARY = ".tmp"
_OWN_DIGEST = "manifest_sha256"
_LOCK_FILE = ".lock"
_LOCK_BYTES = 512
_DAMAGED = "damaged"
_CHECKPOINT_FILE = re.compile(re.escape(CHECKPOINT_NAME) + r"-(\d+)(\.|_temp)")


def sync_path(path: str) -> None:
    """Makes a file's content, or what was created, renamed or removed in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot, such as some network ones
            raise
    finally:
        os.close(descriptor)


def make_directory(directory: str) -> None:
    """Makes a directory, with those above it, so that a power cut cannot take it."""
    directory = os.path.abspath(directory)
    if not os.path.isdir(directory):
        make_directory(os.path.dirname(directory))
        os.makedirs(directory, exist_ok=True)
        sync_path(os.path.dirname(directory))


def write_atomically(path: str, text: str) -> None:
    """Writes a small file under a temporary name and renames it: a reader sees the old text or the new, never half.

    When it returns, a power cut cannot take the new text: the file is on disk before the rename, the rename after it.
    """
    temporary = path + _TEMPORARY
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_path(os.path.dirname(os.path.abspath(path)))


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


def begin_save(prefix: str) -> None:
    """Marks a save that has begun; to be called before its first file is written. `commit` ends it.

    Without the mark nobody could tell the leftovers of a killed save, which are swept, from a checkpoint whose manifest is
    lost, which is kept.
    """
    make_directory(os.path.dirname(prefix))
    with open(manifest_path(prefix) + _TEMPORARY, "w", encoding="utf-8"):
        pass


def is_unfinished(prefix: str) -> bool:
    """Says whether what lies under `prefix` is all that a killed save has left."""
    if os.path.exists(manifest_path(prefix)):
        return False
    return os.path.exists(manifest_path(prefix) + _TEMPORARY) or not data_files(prefix)


def commit(prefix: str, facts: Dict[str, Any]) -> None:
    """Makes the files just written under `prefix` count, by writing their manifest.

    When it returns, a power cut cannot take the checkpoint: its files are on disk, then the manifest, then their names. So
    older checkpoints may be deleted after it, and not before.

    Args:
      prefix: the checkpoint prefix.
      facts: what the manifest says beside the files; see `contract.py`.
    """
    names = sorted(os.path.basename(path) for path in data_files(prefix))
    directory = os.path.dirname(prefix)
    files = {name: _size_and_digest(os.path.join(directory, name), sync=True) for name in names}
    manifest = {**facts, "files": files}
    write_json(manifest_path(prefix), {**manifest, _OWN_DIGEST: _digest_of(manifest)})


def _digest_of(manifest: Dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def data_files(prefix: str) -> List[str]:
    """Returns the files of a checkpoint that lie there, without its manifest."""
    return [path for path in glob.glob(glob.escape(prefix) + ".*") if not path.endswith((_MANIFEST, _TEMPORARY))]


def age_secs(paths: Iterable[str]) -> Optional[float]:
    """Returns how many seconds ago the newest of some files was changed; None if none of them is there."""
    changes = []
    for path in paths:
        with contextlib.suppress(OSError):
            changes.append(os.path.getmtime(path))
    return max(0.0, time.time() - max(changes)) if changes else None


def _size_and_digest(path: str, sync: bool = False) -> Dict[str, Any]:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
        if sync:
            os.fsync(file.fileno())
    return {"bytes": os.path.getsize(path), "sha256": digest.hexdigest()}


def read_manifest(prefix: str) -> Optional[Dict[str, Any]]:
    """Returns the manifest of a checkpoint, or None if there is none, or it is damaged, or that of another checkpoint."""
    manifest = read_json(manifest_path(prefix))
    if not isinstance(manifest, dict) or manifest.pop(_OWN_DIGEST, None) != _digest_of(manifest):
        return None
    names = manifest.get("files") or {"": None}
    belongs = all(name.startswith(os.path.basename(prefix) + ".") for name in names)
    return manifest if belongs and manifest.get("step") == step_of(prefix) else None


def problem_with(prefix: str, sizes_only: bool = False) -> Optional[str]:
    """Compares a checkpoint with its manifest.

    Args:
      prefix: the checkpoint.
      sizes_only: compare only the sizes of the large files, which is quick and shows most damage; the small index byte for
        byte all the same. What is restored must be compared in full.

    Returns:
      None if it is whole, or what is wrong.
    """
    manifest = read_manifest(prefix)
    if manifest is None:
        return "its manifest is damaged" if os.path.exists(manifest_path(prefix)) else "it has no manifest"
    for name, expected in manifest["files"].items():
        path = os.path.join(os.path.dirname(prefix), name)
        try:
            in_full = not sizes_only or name.endswith(".index")
            found = _size_and_digest(path) if in_full else {"bytes": os.path.getsize(path)}
        except OSError as error:
            return f"{name}: {error.strerror}"
        if found["bytes"] != expected["bytes"]:
            return f"{name} has {found['bytes']} bytes instead of {expected['bytes']}"
        if in_full and found["sha256"] != expected["sha256"]:
            return f"{name} has changed since it was written"
    return None


def steps_on_disk(directory: str) -> List[int]:
    """Returns the global steps of which any checkpoint file lies in a directory, newest first."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return sorted({int(match.group(1)) for match in map(_CHECKPOINT_FILE.match, names) if match}, reverse=True)


def is_foreign(directory: str) -> bool:
    """Says whether a directory holds checkpoints, and no trace of this program: somebody's plain TensorFlow one."""
    if os.path.exists(os.path.join(directory, RUN_FILE)):
        return False
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    own = any(name.endswith((_MANIFEST, _MANIFEST + _TEMPORARY)) for name in names)
    return not own and any(re.search(r"\.data-\d{5}-of-\d{5}$", name) for name in names)


def newest_manifest(directory: str) -> Optional[Dict[str, Any]]:
    """Returns the newest readable manifest of a directory, whether its checkpoint is whole or not; or None."""
    manifests = (read_manifest(prefix_of(directory, step)) for step in steps_on_disk(directory))
    return next((manifest for manifest in manifests if manifest), None)


def newest_valid(directory: str) -> Optional[str]:
    """Returns the prefix of the newest checkpoint that is whole, or None. Only reads."""
    for step in steps_on_disk(directory):
        prefix = prefix_of(directory, step)
        if problem_with(prefix) is None:
            return prefix
    return None


def set_aside(path: str, directory: str) -> str:
    """Moves a checkpoint that failed verification, or a small file, to `damaged/`, never over others.

    Args:
      path: a checkpoint prefix in the model_dir or in its best_weights, or a file.
      directory: the model_dir.

    Returns:
      The folder they are in now.
    """
    files, target = _files_at(path), place_aside(path, directory)
    os.makedirs(target, exist_ok=True)
    for file in files:
        shutil.move(file, target)
    return target


def _files_at(path: str) -> List[str]:
    return [path] if os.path.isfile(path) else glob.glob(glob.escape(path) + ".*")


def place_aside(path: str, directory: str) -> str:
    """Returns where `set_aside` would move a checkpoint or a file to."""
    files = _files_at(path)
    place = os.path.relpath(os.path.dirname(path), directory)  # "." or "best_weights"
    first = target = os.path.normpath(os.path.join(directory, _DAMAGED, place))
    number = 1
    while any(os.path.exists(os.path.join(target, os.path.basename(file))) for file in files):
        number += 1
        target = os.path.join(first, str(number))
    return target


def remove(prefix: str) -> None:
    """Deletes what lies under `prefix`: the manifest, or the mark of an unfinished save, after all else."""
    for path in glob.glob(glob.escape(prefix) + "_temp*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in sorted(glob.glob(glob.escape(prefix) + ".*"), key=lambda path: path.endswith((_MANIFEST, _TEMPORARY))):
        os.remove(path)


def remains(directory: str, newest: int, keep_max: int) -> Dict[int, Optional[str]]:
    """Returns what lies in a directory and is no whole checkpoint, as far as names tell; no file is read in full.

    Args:
      directory: a model_dir or its best_weights.
      newest: step of the newest valid checkpoint; -1 if there is none.
      keep_max: how many checkpoints retention keeps; 0 for all.

    Returns:
      step → None if a kill left it in the middle of a save or of its deletion; else what is wrong with it.
    """
    found: Dict[int, Optional[str]] = {}
    steps = steps_on_disk(directory)
    listed = _listed(_state_text(directory))
    for step in steps:
        prefix = prefix_of(directory, step)
        if is_unfinished(prefix):
            found[step] = None
        elif not os.path.exists(manifest_path(prefix)):
            found[step] = "it has no manifest"
        elif step < newest:
            names = (read_manifest(prefix) or {"files": ()})["files"]
            missing = [name for name in names if not os.path.exists(os.path.join(directory, name))]
            newer = [other for other in steps if step < other <= newest and read_manifest(prefix_of(directory, other))]
            if missing:  # retention deletes only what it has listed, and only once there are enough newer ones
                was_surplus = bool(keep_max) and len(newer) >= keep_max and step in listed
                nothing_left = not data_files(prefix)
                found[step] = None if was_surplus or nothing_left else f"{missing[0]}: No such file or directory"
    return found


def copy_checkpoint(prefix: str, directory: str, **changes: Any) -> str:
    """Copies a whole checkpoint and commits it there.

    Args:
      prefix: the checkpoint, known to be whole.
      directory: where to: a model_dir or its best_weights.
      **changes: what the manifest of the copy says otherwise.

    Returns:
      The prefix of the copy.
    """
    facts = read_manifest(prefix)
    target = prefix_of(directory, step_of(prefix))
    begin_save(target)
    for name in facts.pop("files"):
        shutil.copyfile(os.path.join(os.path.dirname(prefix), name), os.path.join(directory, name))
    commit(target, {**facts, **changes})
    return target


def remove_orphaned_manifests(directory: str) -> None:
    """Removes the manifests of checkpoints that retention has just deleted."""
    for path in glob.glob(os.path.join(glob.escape(directory), f"{CHECKPOINT_NAME}-*{_MANIFEST}")):
        if not data_files(path[: -len(_MANIFEST)]):
            os.remove(path)


def point_state_at(directory: str, prefix: str, keep_max: int = 0, keep_every_n_hours: Optional[float] = None) -> None:
    """Makes TensorFlow's `checkpoint` state file right: `prefix` the latest, and the list what retention will delete from.

    The file is rewritten where it is missing, cut, stale after a kill, or names files elsewhere after a move.

    Args:
      directory: a model_dir or its best_weights.
      prefix: the newest valid checkpoint in it.
      keep_max: how many checkpoints may be listed; the older ones, whose deletion a kill has prevented, are deleted now.
        0 for any number. Checkpoints kept for good are not in the list.
      keep_every_n_hours: of those older ones, one for every so many hours is kept for good; None for none.
    """
    path = state_path(directory)
    newest = step_of(prefix)
    text = _state_text(directory)
    named = _listed(text)
    listed = named or set(steps_on_disk(directory))
    listed = sorted({step for step in listed if step < newest and read_manifest(prefix_of(directory, step))} | {newest})
    kept = listed[-keep_max:] if keep_max else listed
    # Without a list nobody knows which ones are kept for good: then the older ones stay, unlisted.
    surplus = listed[: len(listed) - len(kept)] if named else []
    saved_at = {step: os.path.getmtime(manifest_path(prefix_of(directory, step))) for step in listed}
    # When the last one was saved that is kept for good. TensorFlow takes no checkpoint for one of a run that is older.
    noted = re.search(r"^last_preserved_timestamp: ([\d.e+]+)$", text, re.MULTILINE)
    preserved = float(noted.group(1)) if noted else min(saved_at.values()) - 1
    for step in surplus:  # before the list is written: a kill in between leaves none behind that nobody knows of
        if keep_every_n_hours and saved_at[step] - keep_every_n_hours * 3600 >= preserved:
            preserved = saved_at[step]
        else:
            remove(prefix_of(directory, step))
    lines = [f'model_checkpoint_path: "{os.path.basename(prefix)}"']
    lines += [f'all_model_checkpoint_paths: "{CHECKPOINT_NAME}-{step}"' for step in kept]
    if text.splitlines()[: len(lines)] != lines or len(named) != len(kept):
        lines += [f"all_model_checkpoint_timestamps: {saved_at[step]!r}" for step in kept]
        lines.append(f"last_preserved_timestamp: {preserved!r}")
        write_atomically(path, "\n".join(lines) + "\n")


# Under which name it is written first: by TensorFlow, with a random number of 32 hexadecimal digits.
_UNFINISHED_STATE = re.compile(re.escape(_STATE_FILE + _TEMPORARY) + "([0-9a-f]{32})?")
# As TensorFlow writes it, with names relative to the directory.
_STATE = re.compile(
    r'model_checkpoint_path: "[^"]*"\n(all_model_checkpoint_paths: "model\.ckpt-\d+"\n)*'
    r"(all_model_checkpoint_timestamps: [\d.e+]+\n)*(last_preserved_timestamp: [\d.e+]+\n)?"
)


def _state_text(directory: str) -> str:
    """Returns the text of a directory's `checkpoint` state file; "" if it is missing, damaged, or names files elsewhere."""
    try:
        with open(state_path(directory), encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if _STATE.fullmatch(text) else ""


def _listed(state_text: str) -> Set[int]:
    """Returns the steps in the list that retention deletes from."""
    return {int(step) for step in re.findall(r'^all_model_checkpoint_paths: "model\.ckpt-(\d+)"$', state_text, re.MULTILINE)}


def remove_unfinished_state(directory: str) -> None:
    """Removes what a kill leaves of a `checkpoint` state file that was being written."""
    for path in glob.glob(os.path.join(glob.escape(directory), _STATE_FILE + _TEMPORARY + "*")):
        if _UNFINISHED_STATE.fullmatch(os.path.basename(path)):
            os.remove(path)


def state_path(directory: str) -> str:
    """Returns the path of TensorFlow's `checkpoint` state file, which names the latest checkpoint of a directory."""
    return os.path.join(directory, _STATE_FILE)


def check_is_there(directory: str) -> None:
    """Raises UserError if there is no such directory to look into."""
    if not os.path.isdir(directory):
        what = "is a file" if os.path.exists(directory) else "does not exist"
        raise UserError(f"{directory} {what}; give the directory of a run")


def check_place(directory: str) -> None:
    """Makes sure that a model_dir is or can be a local directory; writes nothing.

    Raises:
      UserError: it cannot, or there is a file where it has a folder.
    """
    if "://" in directory or set(directory) & set("[]*?"):
        raise UserError(
            f"--model_dir={directory}: give a local path without [ ] * ?, which TensorFlow would take for a pattern when it "
            "deletes old checkpoints"
        )
    existing = _existing(directory)
    if not os.path.isdir(existing):
        raise UserError(f"--model_dir={directory}: {existing} is a file; give a directory")
    for name in (BEST_WEIGHTS, EVAL, _DAMAGED):
        path = os.path.join(directory, name)
        if os.path.lexists(path) and not os.path.isdir(path):
            raise UserError(f"--model_dir={directory}: {path} is a file, but a run has a directory of that name; move it away")


def refusal(directory: str) -> Optional[UserError]:
    """Returns what there is to say if a model_dir cannot be written, or None; writes nothing."""
    existing = _existing(directory)
    if os.access(existing, os.W_OK | os.X_OK):
        return None
    return UserError(f"--model_dir={directory}: {existing} cannot be written; change its permissions or give another")


def _existing(directory: str) -> str:
    """Returns a directory, or what there is of the path to it."""
    existing = os.path.abspath(directory)
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    return existing


def read_lock(directory: str) -> Dict[str, Any]:
    """Returns what whoever trained last in a model_dir has noted: `pid`, `host`, `step`, `running`; or an empty dict.

    Takes no lock, so it never stands in the way of a start. `running` stays true after a kill; `step` is missing while the
    very first process starts.
    """
    facts = read_json(os.path.join(directory, _LOCK_FILE))
    return facts if isinstance(facts, dict) else {}


def still_runs(noted: Dict[str, Any]) -> Optional[bool]:
    """Says whether the process that has noted its step still runs; None if it was on another host and may have been killed.

    A process that was killed, and whose number another one has by now, passes for running.

    Args:
      noted: as `read_lock` returns it.
    """
    pid = noted.get("pid")
    if not noted.get("running") or not isinstance(pid, int) or pid <= 0:
        return False
    if noted.get("host") != socket.gethostname():
        return None
    try:
        os.kill(pid, 0)  # signal 0 is none: it only asks
    except PermissionError:  # somebody else's
        return True
    except OSError:
        return False
    return pid != os.getpid()


def secs_since_note(directory: str) -> Optional[float]:
    """Returns how long ago a training process has last noted its step; None if none ever has."""
    return age_secs([os.path.join(directory, _LOCK_FILE)])


def _described(holder: Dict[str, Any]) -> str:
    """Says who holds a lock, from what its file says; that may still be of the one before, while a process starts."""
    pid, host = holder.get("pid"), holder.get("host")
    if host is None:
        return "a process that has just started"
    if host == socket.gethostname() and not os.path.exists(f"/proc/{pid}"):
        return f"a process on {host} that has just started"
    return f"process {pid} on {host} since {holder.get('since')}"


def in_use(directory: str, holder: Dict[str, Any]) -> UserError:
    """Returns what there is to say to somebody who wants to train where a process trains already."""
    return UserError(
        f"--model_dir={directory} is in use by {_described(holder)}; wait for it, stop it, or give another directory"
    )


class Lock:
    """Held while a process trains in a model_dir; readers need none.

    The lock is the kernel's (`flock`), and goes with its process, by whatever death: after a kill, a reboot, or on another
    machine, no file has to be removed. What the file says holds nobody up: it tells people, and the next start, who held the
    lock and how far that run had come.

    Args:
      directory: the model_dir, made if missing.

    Raises:
      UserError: another process holds it, or it cannot be written.
    """

    def __init__(self, directory: str):
        self._directory = directory
        self._noted: Dict[str, Any] = {}
        path = os.path.join(directory, _LOCK_FILE)
        try:
            make_directory(directory)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UserError(f"--model_dir={directory}: cannot write there: {error.strerror}; give another") from error
        self._noted_step: Optional[int] = None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise in_use(directory, read_lock(directory)) from None
        except OSError as error:
            os.close(self._file)
            raise UserError(
                f"--model_dir={directory}: no file can be locked there ({error.strerror}), so two processes could train in "
                "it; give a directory on a file system with locks"
            ) from error
        left = read_lock(directory)
        self.left_behind: Dict[str, Any] = left if isinstance(left.get("step"), int) else {}
        self.start: Optional[int] = None  # which start of the run this is, counted from 1; for whoever comes after a kill
        self._holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}

    def check_in_place(self) -> None:
        """Raises UserError if the model_dir has been moved or removed: what is saved there now would be another, unlocked one."""
        # By what the file says, not by its inode: some file systems number theirs anew at every look.
        if read_lock(self._directory) != self._noted:
            raise UserError(
                f"--model_dir={self._directory} has been moved or removed in mid-run, so nothing is saved there any more; its "
                "checkpoints are good, wherever they are now: put it back, or give the new place, and start again"
            )

    def note_holder(self) -> None:
        """Writes down who holds the lock, and still how far the last one had come; once it is sure that this one will run."""
        self._write({"running": False, **self.left_behind, **self._holder})

    def note(self, step: int, running: bool = True) -> None:
        """Writes down how far the run has come."""
        self._noted_step = step
        self._write({**self._holder, "start": self.start, "step": step, "running": running})

    def _write(self, facts: Dict[str, Any]) -> None:
        self._noted = facts
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
