"""The `Task`: what a user brings – data, model, loss, metrics – and the loader that finds it by name."""

import importlib
import os
import sys
from typing import Any, Dict, Optional, Tuple

import tensorflow as tf

from midepoch.errors import UserError, one_line

SHIPPED = {
    "digits": "midepoch.tasks.digits:Digits",
    "mnist": "midepoch.tasks.mnist:Mnist",
    "iris": "midepoch.tasks.iris:Iris",
}


class Task:
    """Base class of tasks; a class of your own with the same methods does as well.

    Everything random must be a function of the seeds handed in: then no restart can lose it. Compare tensors with
    `tf.equal`: in an Estimator's graph `==` compares Python objects.

    Attributes:
      train_files: default glob of the training TFRecord files, or None.
      eval_files: the same for evaluation.
      files_hint: for a task whose own files have to be made first: the words that tell how, or None.
      num_train_examples: only for tasks with a `train_dataset`: training examples per epoch, or None if there is no such
        thing as an epoch (then count in steps).
      best_metric: the metric that decides which weights are best; a key of `metrics`, or "loss".
    """

    train_files: Optional[str] = None
    eval_files: Optional[str] = None
    files_hint: Optional[str] = None
    num_train_examples: Optional[int] = None
    best_metric: str = "accuracy"

    def parse(self, serialized: tf.Tensor) -> Tuple[Any, Any]:
        """Turns serialized records, string [B], into (features, labels), [B, ...] each (or structures of such)."""
        raise NotImplementedError

    def model(self, seed: int) -> tf.keras.Model:
        """Returns a new model whose variables exist and whose initializers are seeded from `seed`."""
        raise NotImplementedError

    def call(self, model: tf.keras.Model, features: Any, training: bool, seed: tf.Tensor) -> Any:
        """Returns the model's outputs, [B, ...].

        Args:
          model: what `model` returned.
          features: as from `parse`.
          training: a Python bool.
          seed: int64 [2], a function of (run seed, step); for `tf.random.stateless_*` and
            `tf.nn.experimental.stateless_dropout`.
        """
        raise NotImplementedError

    def loss(self, labels: Any, outputs: Any) -> tf.Tensor:
        """Returns the loss of each example, float32 [B]. Their mean is what is trained on: no regularizer, no `add_loss`."""
        raise NotImplementedError

    def metrics(self, labels: Any, outputs: Any) -> Dict[str, tf.Tensor]:
        """Returns the metrics of each example, {name: float32 [B]}; their means are reported."""
        raise NotImplementedError


_METHODS = ("model", "call", "loss", "metrics")


def has_own_dataset(task: Any) -> bool:
    """Says whether a task brings ready datasets instead of files and `parse`.

    Such a task has two methods: `train_dataset(batch_size, seed)`, an endless `tf.data.Dataset` of (features, labels)
    batches whose iterator can be saved, and `eval_dataset(batch_size)`, one pass over the evaluation examples.
    """
    return hasattr(task, "train_dataset")


def load_task(name: str) -> Any:
    """Returns an instance of the task of that name.

    Args:
      name: a shipped task, or `my_pkg.my_module:MyTask`, looked up from the current directory on.

    Raises:
      UserError: no such task; it fails to import; or it lacks a method.
    """
    path = SHIPPED.get(name, name)
    module_name, _, class_name = path.partition(":")
    if not module_name or not class_name:
        raise UserError(
            f"--task={name} is unknown; give one of {', '.join(SHIPPED)}, or your own class as my_pkg.my_module:MyTask"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's module raises
        raise UserError(f"--task={name}: cannot import {module_name}: {one_line(error)}") from error
    if not hasattr(module, class_name):
        raise UserError(f"--task={name}: {module_name} has no class {class_name}; check the name behind the colon")
    try:
        task = getattr(module, class_name)()
    except Exception as error:
        raise UserError(f"--task={name}: cannot make a {class_name}(): {one_line(error)}") from error
    check_task(task, name)
    return task


def check_task(task: Any, name: str) -> None:
    """Raises UserError if a task lacks something that both programs need."""
    methods = _METHODS + (("train_dataset", "eval_dataset") if has_own_dataset(task) else ("parse",))
    for method in methods:
        own = getattr(type(task), method, None)
        if own is None or own is getattr(Task, method, None):
            raise UserError(
                f"--task={name}: {type(task).__name__} lacks the method {method}; see midepoch/task.py for what it does"
            )


def step_seed(seed: int, step: tf.Tensor) -> tf.Tensor:
    """Returns the seed of a step's randomness: int64 [2], (run seed, number of steps done before it)."""
    return tf.stack([tf.constant(seed, tf.int64), tf.cast(step, tf.int64)])
