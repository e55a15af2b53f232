"""Examples lost and repeated, counted from `examples.jsonl`."""

import collections
import os
from typing import Dict, List, NamedTuple

from midepoch import model_dir
from midepoch.ledger import read_ledger


class Tally(NamedTuple):
    """Examples of an epoch, or of several: `lost` were never trained on, `repeated` counts every time but the first."""

    lost: int
    repeated: int


def tally_epochs(steps: Dict[int, List[int]], num_examples: int, batch_size: int, last_step: int) -> List[Tally]:
    """Counts for each epoch which examples the steps left out and which they used again.

    Args:
      steps: example ids by step, as from `read_ledger`; a step that is missing has lost its examples.
      num_examples: N; the ids are 0 … N-1, and every epoch is to have each of them once.
      batch_size: examples a step; the last step of an epoch may have fewer.
      last_step: the step the run ended at, maybe in mid-epoch.

    Returns:
      A tally for each epoch begun.

    Raises:
      ValueError: an id is none of the N.
    """
    steps_per_epoch = -(-num_examples // batch_size)
    tallies = []
    for first in range(1, last_step + 1, steps_per_epoch):
        last = min(first + steps_per_epoch - 1, last_step)
        times = collections.Counter(i for step in range(first, last + 1) for i in steps.get(step, ()))
        unknown = [i for i in times if not 0 <= i < num_examples]
        if unknown:
            raise ValueError(f"example id {unknown[0]} in steps {first}–{last}, but there are only {num_examples} examples")
        expected = min(num_examples, (last - first + 1) * batch_size)
        tallies.append(Tally(max(0, expected - len(times)), sum(times.values()) - len(times)))
    return tallies


def tally_run(directory: str) -> Tally:
    """Returns the examples lost and repeated in a model_dir, up to its newest checkpoint, over all its epochs."""
    run = model_dir.read_json(os.path.join(directory, model_dir.RUN_FILE))
    num_examples = sum(records for _, _, records in run["contract"]["order"]["data"])
    last_step = model_dir.step_of(model_dir.newest_valid(directory))
    steps = read_ledger(os.path.join(directory, model_dir.EXAMPLES_FILE), last_step)
    tallies = tally_epochs(steps, num_examples, run["config"]["batch_size"], last_step)
    return Tally(sum(tally.lost for tally in tallies), sum(tally.repeated for tally in tallies))
