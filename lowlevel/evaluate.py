"""Evaluating and predicting with a checkpoint of a run, without training: `--mode=evaluate` and `--mode=predict`.

Only reads: the model_dir may be read-only, or in use by a process that trains.
"""

from typing import Any, Dict, Iterator, Optional

from lowlevel.checkpoints import restore_weights
from lowlevel.model import Model
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
    with open_checkpoint("lowlevel", config, task) as saved:
        return saved.as_record(restored_model(saved).evaluate())


def predict(config: TrainConfig, task: Optional[Any] = None) -> Iterator[Dict[str, Any]]:
    """Yields `example_id` and `outputs` of each evaluation example; see `SavedCheckpoint.as_lines`. Else as `evaluate`."""
    with open_checkpoint("lowlevel", config, task) as saved:
        yield from saved.as_lines(restored_model(saved).predict())


def restored_model(saved: SavedCheckpoint) -> Model:
    """Returns the model with the checkpoint's weights."""
    model = Model(saved, training=False)
    restore_weights(model, saved.prefix)
    return model
