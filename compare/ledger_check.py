"""Examples lost and repeated, counted from `examples.jsonl`."""

import collections
import os
from typing import Counter, Dict, List, NamedTuple, Optional

from midepoch import model_dir
from midepoch.ledger import read_ledger


class Tally(NamedTuple):
    """Examples of an epoch, or of several: `lost` were never trained on, `repeated` counts every time but the first."""

    lost: int
    repeated: int


class Epoch(NamedTuple):
    """What the steps of an epoch were trained on.

    Attributes:
      number: of the epoch, from 1.
      expected: how many different examples it should have used: all, or fewer if the run began or ended in the middle of it.
      times: how often it has used each example id.
    """

    number: int
    expected: int
    times: Counter[int]

    def tally(self) -> Tally:
        """Returns what it has lost and repeated."""
        return Tally(max(0, self.expected - len(self.times)), sum(self.times.values()) - len(self.times))


def split_epochs(
    steps: Dict[int, List[int]],
    num_examples: int,
    batch_size: int,
    last_step: int,
    first_step: int = 0,
    examples_seen: Optional[int] = None,
) -> List[Epoch]:
    """Returns what each epoch was trained on.

    Steps are counted: an epoch is ceil(N / batch size) of them. Where the batches themselves say that they were of other
    sizes (the batch size of a run may change), and all are there, examples are counted instead.

    Args:
      steps: example ids by step, as from `read_ledger`; a step that is missing has lost its examples.
      num_examples: N; the ids are 0 … N-1, and every epoch is to have each of them once.
      batch_size: examples a step; the last step of an epoch may have fewer.
      last_step: the step the run ended at, maybe in mid-epoch.
      first_step: the step it began after; not 0 if it went on from another run's checkpoint.
      examples_seen: the position it ended at; None if nobody knows.

    Returns:
      Each epoch begun.

    Raises:
      ValueError: an id is none of the N.
    """
    for step, ids in steps.items():
        unknown = [i for i in ids if not 0 <= i < num_examples]
        if unknown:
            raise ValueError(f"example id {unknown[0]} in step {step}, but there are only {num_examples} examples")
    epoch_steps = -(-num_examples // batch_size)

    def size(step: int) -> int:
        return min(batch_size, num_examples - (step - 1) % epoch_steps * batch_size)

    done = range(first_step + 1, last_step + 1)
    as_counted = all(len(steps[step]) == size(step) for step in done if step in steps)
    if as_counted or examples_seen is None or any(step not in steps for step in done):
        epochs: Dict[int, Epoch] = {}
        for step in done:
            number = (step - 1) // epoch_steps + 1
            epoch = epochs.get(number, Epoch(number, 0, collections.Counter()))
            epoch.times.update(steps.get(step, ()))
            epochs[number] = epoch._replace(expected=epoch.expected + size(step))
        done_of_last = (last_step - 1) % epoch_steps + 1
        if done and done_of_last < epoch_steps:  # a peer's batches may be short elsewhere: what may still come is not lost
            present = [step for step in done[-done_of_last:] if step in steps]
            short = sum(size(step) - len(steps[step]) for step in present)
            epochs[number] = epochs[number]._replace(expected=epochs[number].expected - short)
        return list(epochs.values())
    return _split_at_positions([i for step in done for i in steps[step]], num_examples, examples_seen)


def _split_at_positions(ids: List[int], num_examples: int, examples_seen: int) -> List[Epoch]:
    """As `split_epochs`, for examples in the order they were used, of which the last one stands before a position."""
    epochs, begin, position = [], 0, examples_seen - len(ids)
    while begin < len(ids):
        number, within = divmod(position, num_examples)
        part = ids[begin : begin + num_examples - within]
        epochs.append(Epoch(number + 1, len(part), collections.Counter(part)))
        begin, position = begin + len(part), position + len(part)
    return epochs


def total(epochs: List[Epoch]) -> Tally:
    """Returns what all of them have lost and repeated."""
    tallies = [epoch.tally() for epoch in epochs]
    return Tally(sum(tally.lost for tally in tallies), sum(tally.repeated for tally in tallies))


def tally_run(directory: str) -> Tally:
    """Returns the examples lost and repeated in a model_dir, up to its newest checkpoint, over all its epochs."""
    run = model_dir.read_json(os.path.join(directory, model_dir.RUN_FILE))
    num_examples = sum(records for _, _, records in run["contract"]["order"]["data"])
    last_step = model_dir.step_of(model_dir.newest_valid(directory))
    steps = read_ledger(os.path.join(directory, model_dir.EXAMPLES_FILE), last_step)
    return total(split_epochs(steps, num_examples, run["config"]["batch_size"], last_step))
