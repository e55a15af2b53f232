"""The model: a `model_fn` that builds the graph of a train step or of an eval step."""

from typing import Any, Callable, Dict, Iterator, Optional, Union

import tensorflow as tf
from tensorflow.python.framework.auto_control_deps import automatic_control_dependencies  # public in `tf.function` alone

from estimator import inputs
from estimator.checkpoints import committing_scaffold
from midepoch import freezing
from midepoch.errors import UserError
from midepoch.optimizers import create_slots, make_optimizer
from midepoch.run import Run
from midepoch.saved import SavedCheckpoint
from midepoch.serving import SIGNATURE, named_outputs
from midepoch.task import step_seed

# Estimator keeps the name `loss` for its own mean of batch means; ours is a mean per example, as every other metric.
MEAN_LOSS = "loss_per_example"


def make_model_fn(run: Union[Run, SavedCheckpoint]) -> Callable[..., Any]:
    """Returns the model_fn of a run's task."""
    task, seed = run.task, run.config.seed

    # `config`, by this very name, is where an Estimator hands over its RunConfig.
    def model_fn(features: Any, labels: Any, mode: str, config: Any = None) -> tf.estimator.EstimatorSpec:
        model = task.model(seed)
        if mode == tf.estimator.ModeKeys.TRAIN:
            return train_step(model, features, labels, config)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return predict_step(model, features)
        return eval_step(model, features, labels)

    def train_step(model: tf.keras.Model, features: Any, labels: Any, run_config: Any) -> tf.estimator.EstimatorSpec:
        global_step = tf.compat.v1.train.get_global_step()
        variables = freezing.trained_variables(model, run.frozen | run.idle)
        held = freezing.held_variables(model, run.frozen)
        values = [variable.read_value() for variable in held]
        with tf.control_dependencies(values):
            # A graph runs what it is told to: without this, a variable that a layer assigns would never move, or be read too
            # late. It is what makes a `tf.function` run everything, in order.
            call = automatic_control_dependencies(task.call)
            outputs = call(model, features, True, step_seed(seed, global_step))
        loss = tf.reduce_mean(per_example("loss", task.loss(labels, outputs)))
        optimizer = make_optimizer(run.config.optimizer, run.config.learning_rate)
        optimizer.iterations = global_step  # counted up by the optimizer's own update
        others = tf.compat.v1.global_variables()
        create_slots(optimizer, model.trainable_variables)
        slots = [variable for variable in tf.compat.v1.global_variables() if all(variable is not other for other in others)]
        updates = optimizer.get_updates(loss, variables)
        # BatchNorm's moving statistics. Only the updates of this call; those of the call that built the model hang on a
        # placeholder.
        updates += model.get_updates_for(tf.nest.flatten(features)) + model.get_updates_for(None)
        with tf.control_dependencies(updates):  # what a layer has changed in passing
            train_op = tf.group(*updates, *(variable.assign(value) for variable, value in zip(held, values)))
        for weight in model.weights:
            tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.MODEL_VARIABLES, weight)
        scaffold = committing_scaffold(run, run_config, slots)
        return tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.TRAIN, loss=loss, train_op=train_op, scaffold=scaffold)

    def eval_step(model: tf.keras.Model, features: Any, labels: Any) -> tf.estimator.EstimatorSpec:
        outputs = task.call(model, features, False, step_seed(seed, tf.compat.v1.train.get_global_step()))
        losses = task.loss(labels, outputs)
        means = {}
        for name, values in {MEAN_LOSS: losses, **task.metrics(labels, outputs)}.items():
            means[name] = tf.keras.metrics.Mean()
            means[name].update_state(per_example(name, values))
        return tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.EVAL, loss=tf.reduce_mean(losses), eval_metric_ops=means)

    def predict_step(model: tf.keras.Model, features: Any) -> tf.estimator.EstimatorSpec:
        outputs = task.call(model, features, False, step_seed(seed, tf.compat.v1.train.get_global_step()))
        named = named_outputs(outputs, run.config.task)
        served = {SIGNATURE: tf.estimator.export.PredictOutput(named)}
        return tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.PREDICT, predictions=named, export_outputs=served)

    return model_fn


def per_example(name: str, values: tf.Tensor) -> tf.Tensor:
    """Returns `values`, float32 [B], as they are.

    Raises:
      UserError: they are no vector. In this graph `==` between tensors compares Python objects, and gives one False.
    """
    if values.shape.rank != 1:
        raise UserError(
            f"{name} has shape {values.shape} in the Estimator's graph; if the task compares tensors by ==, use tf.equal"
        )
    return values


class _Left(Exception):
    """An evaluation was left because the run is to stop."""


class _LeaveOnStop(tf.compat.v1.train.SessionRunHook):
    """Leaves an evaluation by an exception: on a mere `request_stop` Estimator would draw metrics of half the examples."""

    def __init__(self, run: Union[Run, SavedCheckpoint]):
        self._run = run

    def before_run(self, run_context: Any) -> None:
        if self._run.stopping.now():
            raise _Left


def evaluate(estimator: tf.estimator.Estimator, run: Union[Run, SavedCheckpoint], prefix: str) -> Optional[Dict[str, Any]]:
    """Evaluates a checkpoint.

    Returns:
      Loss and metrics over the evaluation examples, {name: float32}, each a mean per example; None if the run is to stop
      before they are all seen.
    """
    try:
        metrics = estimator.evaluate(inputs.eval_input(run), hooks=[_LeaveOnStop(run)], checkpoint_path=prefix)
    except _Left:
        return None
    metrics["loss"] = metrics.pop(MEAN_LOSS)
    del metrics["global_step"]
    return metrics


def predict(estimator: tf.estimator.Estimator, run: SavedCheckpoint, prefix: str) -> Iterator[Dict[str, Any]]:
    """Yields the outputs of a checkpoint over the evaluation examples, {name: array [B, ...]} for each batch."""
    return estimator.predict(inputs.eval_input(run), checkpoint_path=prefix, yield_single_examples=False)
