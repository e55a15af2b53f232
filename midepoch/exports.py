"""The exports of a model_dir, `export/<timestamp>/`: written under a temporary name, and renamed when they are whole.

What is exported stands in `assets.extra/export.json`, the place a SavedModel has for files of one's own. It is written
before the renaming, so an export that has its final name also says for which end of the run it was made.
"""

import os
import shutil
import time
from typing import Any, Dict, List, Optional

from midepoch import model_dir

EXPORT = "export"
NOTE = os.path.join("assets.extra", "export.json")

_TEMPORARY = "temp-"  # as tf.estimator names what it has not finished


def newest(directory: str) -> Optional[str]:
    """Returns the name of a model_dir's newest export, such as `export/1796012345`, or None."""
    try:
        timestamps = [int(name) for name in os.listdir(os.path.join(directory, EXPORT)) if name.isdecimal()]
    except FileNotFoundError:
        return None
    return os.path.join(EXPORT, str(max(timestamps))) if timestamps else None


def exported_at(directory: str) -> Optional[int]:
    """Returns the global step of the run at the time of its newest export, or None."""
    name = newest(directory)
    note = model_dir.read_json(os.path.join(directory, name, NOTE)) if name else None
    return note.get("run_step") if isinstance(note, dict) else None


def unfinished(directory: str) -> Dict[str, str]:
    """Returns the temporary folders that kills have left of exports, each with the line for the user who starts."""
    parent = os.path.join(directory, EXPORT)
    names = os.listdir(parent) if os.path.isdir(parent) else []
    lines = {}
    for name in sorted(name for name in names if name.startswith(_TEMPORARY)):
        path = os.path.join(parent, name)
        # An empty one has had its export taken out of it, or was to get one.
        what = "an export that was not finished" if os.listdir(path) else "the empty folder of an export"
        lines[path] = f"removed {os.path.join(EXPORT, name)}, {what}"
    return lines


def sweep(directory: str) -> List[str]:
    """Removes the exports that kills have left unfinished; returns lines for the user."""
    found = unfinished(directory)
    for path in found:
        shutil.rmtree(path)
    return list(found.values())


def begin(directory: str) -> str:
    """Makes a temporary folder in a model_dir's `export/`; the SavedModel is to be written to a timestamp's folder in it."""
    parent = os.path.join(directory, EXPORT)
    os.makedirs(parent, exist_ok=True)
    temporary = os.path.join(parent, f"{_TEMPORARY}{int(time.time())}")
    os.mkdir(temporary)
    return temporary


def timestamped(temporary: str) -> str:
    """Returns where in a temporary folder to write, named as an Estimator names it."""
    return os.path.join(temporary, str(int(time.time())))


def commit(written: str, note: Dict[str, Any]) -> str:
    """Gives a SavedModel its final name, once all of it is on disk.

    Args:
      written: its folder, in that of `begin`.
      note: what is exported; `run_step`, the step at which the run ended, and whatever a reader of the export may want.

    Returns:
      Its name in the model_dir, such as `export/1796012345`.
    """
    note_path = os.path.join(written, NOTE)
    os.makedirs(os.path.dirname(note_path), exist_ok=True)
    model_dir.write_json(note_path, note)
    for folder, _, names in os.walk(written):
        for path in (*(os.path.join(folder, name) for name in names), folder):
            model_dir.sync_path(path)
    temporary = os.path.dirname(written)
    parent = os.path.dirname(temporary)
    before = newest(os.path.dirname(parent))
    # Newer than all before, whatever the clock says: the newest is found by its number.
    timestamp = max(int(os.path.basename(written)), int(os.path.basename(before)) + 1 if before else 0)
    os.rename(written, os.path.join(parent, str(timestamp)))
    model_dir.sync_path(parent)
    os.rmdir(temporary)
    return os.path.join(EXPORT, str(timestamp))
