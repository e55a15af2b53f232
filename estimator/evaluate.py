"""Evaluating and predicting with a checkpoint of a run, without training: `--mode=evaluate` and `--mode=predict`.

Only reads: the model_dir may be read-only, or in use by a process that trains.
"""

from typing import Any, Dict, Iterator, Optional

import tensorflow as tf

from estimator import model
from estimator.loop import run_config
from midepoch.config import TrainConfig
from midepoch.saved import SavedCheckpoint, open_checkpoint


def evaluate(config: TrainConfig, task: Optional[Any] = None) -> Dict[str, Any]:
    """Returns the metrics of a checkpoint, as the metrics files of its run hold them.

    Args:
      config: which checkpoint, on what; see `midepoch.saved.open_checkpoint`.
      task: a task object, instead of the one that is named.

    Raises:
      UserError: as `open_checkpoint`.
    """
    with open_checkpoint("estimator", config, task) as saved:
        return saved.as_record(model.evaluate(scratch_estimator(saved), saved, saved.prefix))


def predict(config: TrainConfig, task: Optional[Any] = None) -> Iterator[Dict[str, Any]]:
    """Yields `example_id` and `outputs` of each evaluation example; see `SavedCheckpoint.as_lines`. Else as `evaluate`."""
    with open_checkpoint("estimator", config, task) as saved:
        yield from saved.as_lines(model.predict(scratch_estimator(saved), saved, saved.prefix))


def scratch_estimator(saved: SavedCheckpoint) -> tf.estimator.Estimator:
    """Returns an Estimator whose model_dir is the copy's scratch folder: there it draws each evaluation for TensorBoard."""
    return tf.estimator.Estimator(model.make_model_fn(saved), config=run_config(saved.config))
