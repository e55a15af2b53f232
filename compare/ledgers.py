"""What an examples.jsonl holds: of the programs, and of the peers, whose lines have the loss too."""

import json
from typing import Dict, List, NamedTuple, Optional, Tuple


class Ledger(NamedTuple):
    """The lines of a ledger.

    Attributes:
      ids: example ids by step; the last line of a step counts.
      losses: loss by step, where the lines have one; the last line of a step counts.
      pieces: (step, loss) of all lines that have one, in the order they were written, cut where the steps go back: what one
        process has done.
      done_again: how many lines are of a step that an earlier line is of too.
    """

    ids: Dict[int, List[int]]
    losses: Dict[int, float]
    pieces: List[List[Tuple[int, float]]]
    done_again: int

    def up_to(self, step: int) -> "Ledger":
        """Returns the same without what lies beyond a step; the pieces are kept."""
        ids = {number: ids for number, ids in self.ids.items() if number <= step}
        return self._replace(ids=ids, losses={number: loss for number, loss in self.losses.items() if number <= step})


def read(path: str) -> Optional[Ledger]:
    """Reads a ledger; lines that a kill has cut are passed over. Returns None if there is no such file."""
    ledger, done_again, last = Ledger({}, {}, [], 0), 0, None
    try:
        file = open(path, encoding="utf-8", errors="replace")
    except OSError:
        return None
    with file:
        for line in file:
            try:
                entry = json.loads(line)
                step, ids, loss = int(entry["step"]), [int(i) for i in entry["example_ids"]], entry.get("loss")
                loss = None if loss is None else float(loss)
            except (ValueError, OverflowError, TypeError, KeyError, AttributeError):
                continue
            done_again += step in ledger.ids
            ledger.ids[step] = ids
            if loss is not None:
                if not ledger.pieces or step <= last:
                    ledger.pieces.append([])
                ledger.pieces[-1].append((step, loss))
                ledger.losses[step] = loss
            last = step
    return ledger._replace(done_again=done_again)
