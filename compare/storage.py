"""What a model_dir stores, and where: its files, those of one kind together."""

import os
import re
from typing import Any, Dict, List

# Kinds of files of the programs' model_dirs, and what they are; the README says more.
_KNOWN = (
    (r"model\.ckpt-<n>\.(index|data-.*)", "last checkpoints: weights, optimizer, iterator, counters"),
    (r"model\.ckpt-<n>\.manifest\.json", "their manifests: sizes, checksums, position; what has none does not count"),
    (r"checkpoint", "TensorFlow's list of the last checkpoints"),
    (r"best_weights/.*", "the best checkpoint, complete"),
    (r"metrics.*\.json", "metrics of the last and of the best evaluation"),
    (r"run\.json|flags\.txt", "configuration and history, for people"),
    (r"(eval/)?events\.out\.tfevents\.<n>", "TensorBoard"),
    (r"examples\.jsonl", "example ids of every step"),
    (r"export/.*", "SavedModel of the best weights"),
    (r"damaged/.*", "checkpoints that failed verification"),
    (r"\.lock", "held while a process trains"),
)
# A number on its own; a shard's is kept.
_NUMBER = re.compile(r"(-\d{5}-of-\d{5})|(?<![A-Za-z\d])\d+(?![A-Za-z\d])")


def stored(directory: str) -> List[Dict[str, Any]]:
    """Returns what lies in a directory.

    Returns:
      A dict for each kind of file, by name: `where`: the name, with <n> for numbers; `files`: how many; `bytes`: together;
      `what`: what it is, "" if that is not known.
    """
    found: Dict[str, List[int]] = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            try:
                size = os.lstat(path).st_size
            except OSError:  # deleted meanwhile
                continue
            found.setdefault(_kind(os.path.relpath(path, directory)), []).append(size)
    return [
        {"where": kind, "files": len(sizes), "bytes": sum(sizes), "what": _what(kind)}
        for kind, sizes in sorted(found.items())
    ]


def _kind(path: str) -> str:
    """Returns the name of a file with <n> for numbers, but those of shards; only the folders of what lies deep."""
    path = re.sub(r"(events\.out\.tfevents\.).*", r"\1<n>", path)
    parts = [_NUMBER.sub(lambda match: match.group(1) or "<n>", part) for part in path.split(os.sep)]
    return "/".join(parts) if len(parts) < 3 else "/".join(parts[:2]) + "/…"


def _what(kind: str) -> str:
    return next((text for pattern, text in _KNOWN if re.fullmatch(pattern, kind)), "")
