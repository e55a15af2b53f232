"""A task's own `tf.data.Dataset`: as training input its iterator state is saved and restored as it is."""

import dataclasses
import hashlib
import os
import tempfile
from typing import Any, Optional

import tensorflow as tf

from midepoch import stream
from midepoch.config import TrainConfig
from midepoch.errors import UserError, one_line
from midepoch.records import RecordIndex
from midepoch.task import has_own_dataset


def check_flags(config: TrainConfig) -> None:
    """Raises UserError if a flag says what to read, and how, where the task brings its own dataset."""
    usual = {field.name: field.default for field in dataclasses.fields(TrainConfig)}
    for name in ("train_files", "eval_files", "shuffle"):
        if getattr(config, name) != usual[name]:
            raise UserError(
                f"--{name}={getattr(config, name)} has no effect: task {config.task} brings its own dataset; leave it out"
            )


class OwnDataset:
    """The counterpart of `ExampleStream` for tasks with a `train_dataset`.

    There is no example id and no seeking: whoever changes the dataset between two runs cannot resume.

    Args:
      task: the task.
      config: a resolved config.

    Raises:
      UserError: the dataset cannot be made, ends, has no (features, labels) elements, or cannot be saved.

    Attributes:
      seekable: False: `dataset` starts at 0 only.
      version: a digest of the dataset's operations; an iterator's state fits only the same ones.
    """

    seekable = False

    def __init__(self, task: Any, config: TrainConfig):
        self._task = task
        self._config = config
        try:
            dataset = task.train_dataset(config.batch_size, config.seed)
            self._check(dataset)
        except UserError:
            raise
        except Exception as error:  # whatever the user's code raises
            raise UserError(f"--task={config.task}: train_dataset() fails: {one_line(error)}") from error
        graph = tf.compat.v1.GraphDef()  # the message has no other public name
        graph.ParseFromString(
            tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.experimental.to_variant(dataset)).numpy()
        )
        ops = [node.op for node in graph.node] + [node.op for f in graph.library.function for node in f.node_def]
        self.version = hashlib.sha256("\n".join(sorted(ops)).encode()).hexdigest()[:16]

    def _check(self, dataset: tf.data.Dataset) -> None:
        name = self._config.task
        if not isinstance(dataset.element_spec, tuple) or len(dataset.element_spec) != 2:
            raise UserError(f"--task={name}: train_dataset() must give (features, labels), not {dataset.element_spec}")
        if int(dataset.cardinality()) >= 0:
            raise UserError(
                f"--task={name}: train_dataset() ends after {int(dataset.cardinality())} batches; "
                "put .repeat() at its end, so that the target may be raised"
            )
        try:
            with tempfile.TemporaryDirectory() as scratch:
                tf.train.Checkpoint(iterator=iter(dataset)).write(os.path.join(scratch, "iterator"))
        except tf.errors.OpError as error:
            raise UserError(
                f"--task={name}: the iterator of train_dataset() cannot be saved: {one_line(error)}; leave out generators, "
                "py_function and tf.random.* (use tf.random.stateless_*)"
            ) from error

    def fingerprint(self) -> dict:
        """Returns what the contract can tell about the order of a dataset it cannot look into."""
        return {"shuffle": "own dataset", "seed": self._config.seed, "batch_size": self._config.batch_size}

    def dataset(self, start: int = 0) -> tf.data.Dataset:
        """Returns the task's batches as (features, labels, {}): no position, no example ids.

        Raises:
          ValueError: `start` is not 0.
        """
        if start:
            raise ValueError(f"a task's own dataset cannot seek to {start}; only its saved state can be restored")
        own = self._task.train_dataset(self._config.batch_size, self._config.seed)
        return stream.untuned(own.map(lambda features, labels: (features, labels, {})))


def eval_dataset(task: Any, config: TrainConfig, index: Optional[RecordIndex]) -> tf.data.Dataset:
    """Returns one pass over the evaluation batches, (features, labels): the task's own, or those of its files.

    Args:
      task: the task.
      config: a resolved config; its batch size is used.
      index: of the evaluation files; None if the task has a dataset of its own.
    """
    if has_own_dataset(task):
        return stream.untuned(task.eval_dataset(config.batch_size))
    return stream.eval_dataset(index.paths, config.batch_size, task.parse)
