"""Input: an eager iterator is an object like a variable; whoever tracks it in a Checkpoint saves its place."""

from typing import Any, Iterator, Tuple, Union

import tensorflow as tf

from midepoch.run import Run
from midepoch.saved import SavedCheckpoint
from midepoch.stream import check_position


def train_input(run: Run) -> Iterator:
    """Returns the iterator over the training batches, at the place where this process starts.

    It is a `tf.data.Iterator`, which is trackable: `tf.train.Checkpoint(iterator=...)` saves and restores its state. If the
    start says so, `Checkpoints.restore` moves it to its saved place; else it has been built there.
    """
    return iter(run.train_dataset())


def next_batch(iterator: Iterator, examples_seen: tf.Variable) -> Tuple[Any, Any, dict]:
    """Returns the next batch, after making sure that it is the one that is due, and counts its examples.

    Args:
      iterator: from `train_input`.
      examples_seen: int64 [], the position of the batch that is due.

    Returns:
      (features, labels, info), as from `Run.train_dataset`.

    Raises:
      tf.errors.InvalidArgumentError: the batch lies at another position.
    """
    features, labels, info = next(iterator)
    if "position" in info:
        check_position(info["position"], examples_seen)
    examples_seen.assign_add(tf.shape(tf.nest.flatten(labels)[0], out_type=tf.int64)[0])
    return features, labels, info


def eval_input(run: Union[Run, SavedCheckpoint]) -> tf.data.Dataset:
    """Returns one pass over the evaluation batches, (features, labels)."""
    return run.eval_dataset()
