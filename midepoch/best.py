"""The best so far: decided by strict comparison, remembered in a file, never by a process.

The order after an evaluation is: write the best checkpoint, then `metrics_eval_best_weights.json`, then
`metrics_eval_last_weights.json`. A kill between any two leaves a state from which the next start evaluates the same
checkpoint again and goes on correctly.
"""

import math
import os
from typing import Any, Dict, Optional

from midepoch import model_dir
from midepoch.errors import UserError

_MAX_WORDS = ("acc", "auc", "precision", "recall", "f1", "fmeasure", "iou", "bleu")
_MIN_WORDS = ("loss", "error", "mse", "mae", "perplexity")


def resolve_mode(metric: str, mode: str) -> str:
    """Returns "max" or "min" for a metric; `auto` goes by words in its name.

    Raises:
      UserError: the mode is `auto` and the name tells nothing.
    """
    if mode != "auto":
        return mode
    if any(word in metric.lower() for word in _MIN_WORDS):
        return "min"
    if any(word in metric.lower() for word in _MAX_WORDS):
        return "max"
    raise UserError(f"--best_mode=auto cannot tell whether a larger {metric} is better; give --best_mode=max or min")


def is_better(value: Optional[float], best: Optional[float], mode: str) -> bool:
    """Says whether a value beats the best one. A tie does not; NaN and infinity never do.

    Args:
      value: the new value; None stands for one that was not finite.
      best: the best so far, or None if there is none.
      mode: "max" or "min".
    """
    if value is None or not math.isfinite(value):
        return False
    if best is None or not math.isfinite(best):
        return True
    return value > best if mode == "max" else value < best


def read_metrics(directory: str, name: str) -> Optional[Dict[str, Any]]:
    """Returns what a metrics file of a model_dir holds, or None if it is missing or damaged."""
    metrics = model_dir.read_json(os.path.join(directory, name))
    return metrics if isinstance(metrics, dict) and isinstance(metrics.get("global_step"), int) else None


class Best:
    """The metrics of the last and of the best evaluation of a model_dir, as their files have them.

    Whether there still are weights to the best metrics is for `healing.py` to find out.

    Args:
      directory: the model_dir.
      metric: the metric that decides.
      mode: "max" or "min".
    """

    def __init__(self, directory: str, metric: str, mode: str):
        self._directory = directory
        self.metric = metric
        self.mode = mode
        self.best = read_metrics(directory, model_dir.BEST_METRICS_FILE)
        self.last = read_metrics(directory, model_dir.LAST_METRICS_FILE)

    @property
    def value(self) -> Optional[float]:
        """The best value so far, or None."""
        return self.best.get(self.metric) if self.best else None

    @property
    def step(self) -> Optional[int]:
        """The global step of the best weights, or None."""
        return self.best["global_step"] if self.best else None

    def beaten_by(self, metrics: Dict[str, Any]) -> bool:
        """Says whether these metrics are the best so far.

        Raises:
          UserError: the deciding metric is not among them.
        """
        if self.metric not in metrics:
            known = ", ".join(name for name in metrics if name not in ("global_step", "epoch"))
            raise UserError(f"--best_metric={self.metric} is no metric of this task; give one of {known}")
        return is_better(metrics[self.metric], self.value, self.mode)

    def record_best(self, metrics: Dict[str, Any]) -> None:
        """Writes the metrics of the best weights; to be called once their checkpoint is committed."""
        model_dir.write_json(os.path.join(self._directory, model_dir.BEST_METRICS_FILE), metrics)
        self.best = metrics

    def record_last(self, metrics: Dict[str, Any]) -> None:
        """Writes the metrics of the last evaluation; this marks the step as evaluated."""
        model_dir.write_json(os.path.join(self._directory, model_dir.LAST_METRICS_FILE), metrics)
        self.last = metrics


def as_record(metrics: Dict[str, Any], step: int, examples_seen: int, epoch_examples: Optional[int]) -> Dict[str, Any]:
    """Returns metrics as the metrics files hold them.

    Args:
      metrics: name → float32 mean per example; both programs compute the very same bits.
      step: the global step evaluated.
      examples_seen: examples trained on by then.
      epoch_examples: examples per epoch, or None.

    Returns:
      A flat dict, sorted by name: each metric as a float, or None where it is not finite (JSON has no NaN);
      `global_step`; `epoch`, a float (0.0 without epochs).
    """
    values = {name: float(value) for name, value in metrics.items()}
    record: Dict[str, Any] = {name: value if math.isfinite(value) else None for name, value in sorted(values.items())}
    record["global_step"] = int(step)
    record["epoch"] = examples_seen / epoch_examples if epoch_examples else 0.0
    return record
