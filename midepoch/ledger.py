"""examples.jsonl: which examples every step was trained on.

A line a step: {"step": s, "example_ids": [...]}, s counted from 1. After a kill some steps are done again and get a second
line: the last line for a step is the one that counts.
"""

import json
import os
from typing import Dict, List, Sequence


class Ledger:
    """Appends to a ledger file.

    Args:
      path: the file; a last line that a kill cut short is completed by a line end, and ignored by `read_ledger`.
    """

    def __init__(self, path: str):
        self._file = open(path, "ab+")
        if self._file.seek(0, os.SEEK_END):
            self._file.seek(-1, os.SEEK_END)
            if self._file.read() != b"\n":
                self._file.write(b"\n")

    def add(self, step: int, example_ids: Sequence[int], **more: float) -> None:
        """Adds the line of a step; `more` numbers of it stand behind the ids."""
        line = json.dumps({"step": int(step), "example_ids": [int(i) for i in example_ids], **more}) + "\n"
        self._file.write(line.encode())

    def flush(self, on_disk: bool = True) -> None:
        """Puts everything on disk; to be called before the commit of a checkpoint that covers it.

        Args:
          on_disk: False hands it to the kernel only, which a SIGKILL cannot take from it, but a power cut can.
        """
        self._file.flush()
        if on_disk:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flushes and closes the file."""
        self._file.close()


def read_ledger(path: str, up_to_step: int) -> Dict[int, List[int]]:
    """Returns the example ids of steps 1 … `up_to_step`, by step; the last line of a step wins."""
    steps = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                entry = json.loads(line)
                steps[entry["step"]] = entry["example_ids"]
            except (ValueError, TypeError, KeyError):  # cut short by a kill
                continue
    return {step: ids for step, ids in steps.items() if step <= up_to_step}
