"""Checkpoints of somebody else's: of a plain Estimator, or a plain `tf.train.Checkpoint`. They have no manifest."""

import os
import re
from typing import Any, Dict, List, Optional

from midepoch import checkpoint_parts, model_dir

_DATA_FILE = re.compile(r"\.data-\d{5}-of-(\d{5})$")


def checkpoints(directory: str, verify: bool) -> List[Dict[str, Any]]:
    """Returns what there is to know about each checkpoint in a directory, last written first.

    Args:
      directory: the directory.
      verify: read every tensor, which compares TensorFlow's own checksums; but not the states of iterators.

    Returns:
      For each the same as `inventory` tells of a run's, as far as the files themselves tell it.
    """
    try:
        indexes = [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".index")]
    except OSError:
        return []
    ages = {path: model_dir.age_secs([path]) for path in indexes}
    there = sorted((age, path) for path, age in ages.items() if age is not None)
    found = [_look_at(path[: -len(".index")], verify) for _, path in there]
    return [checkpoint for checkpoint in found if checkpoint]


def _look_at(prefix: str, verify: bool) -> Optional[Dict[str, Any]]:
    """Returns what there is to know about a checkpoint, or None if it has been deleted meanwhile."""
    files = [path for path in model_dir.data_files(prefix) if path.endswith((".index", ".meta")) or _DATA_FILE.search(path)]
    shards = [match for match in map(_DATA_FILE.search, files) if match]
    missing = int(shards[0].group(1)) - len(shards) if shards else 1
    problem = f"{missing} of its data files are missing" if missing else None
    sizes, problem = checkpoint_parts.sizes(prefix, files, problem)
    counters: Dict[str, int] = {}
    if problem is None:
        counters, problem = checkpoint_parts.read(prefix, everything=verify)
    if not os.path.exists(prefix + ".index"):
        return None
    return {
        "path": prefix,
        "kind": "last",
        "step": counters.get("global_step", counters.get("step")),
        "examples_seen": counters.get("examples_seen"),
        "epoch": None,
        "batches_done": None,
        "batches_per_epoch": None,
        "bytes": sizes,
        "age_secs": model_dir.age_secs(files),
        "unfinished": False,
        "problem": problem,
    }
