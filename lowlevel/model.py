"""The model: train step and eval step as `tf.function`, many steps a call."""

from typing import Any, Dict, Iterator, Optional, Union

import tensorflow as tf

from lowlevel import inputs
from midepoch import freezing
from midepoch.optimizers import create_slots, make_optimizer
from midepoch.run import Run
from midepoch.saved import SavedCheckpoint
from midepoch.schedule import Limit
from midepoch.serving import named_outputs
from midepoch.task import step_seed


class Model:
    """Model, optimizer, counters and input of a run, and the functions that work on them.

    Args:
      run: the run, or a checkpoint opened to be read.
      training: False for evaluating, predicting and exporting only: without optimizer, position and training input.

    Attributes:
      model: the task's Keras model.
      global_step: int64 [], steps done.
      optimizer: the Keras optimizer.
      examples_seen: int64 [], the position of the next batch.
      iterator: the training input.
    """

    def __init__(self, run: Union[Run, SavedCheckpoint], training: bool = True):
        self._run = run
        self._task = run.task
        self.model = run.task.model(run.config.seed)
        self.global_step = tf.Variable(run.start.step, dtype=tf.int64, trainable=False, name="global_step")
        self._eval_step = tf.function(self.eval_step, reduce_retracing=True)
        self._predict_step = tf.function(self.predict_step, reduce_retracing=True)
        if not training:
            return
        self.optimizer = make_optimizer(run.config.optimizer, run.config.learning_rate)
        self.examples_seen = tf.Variable(run.start.examples_seen, dtype=tf.int64, trainable=False, name="examples_seen")
        self.iterator = inputs.train_input(run)
        create_slots(self.optimizer, self.model.trainable_variables)  # a restore needs every variable to exist
        self._train_steps = tf.function(self.train_steps).get_concrete_function(
            tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.int64)
        )

    def train_step(self) -> tuple:
        """Trains on one batch.

        Returns:
          (mean loss, float32 []; example ids, int64 [B], empty if the input has none; B, int64 []).
        """
        features, labels, info = inputs.next_batch(self.iterator, self.examples_seen)
        seed = step_seed(self._run.config.seed, self.global_step)
        variables = freezing.trained_variables(self.model, self._run.frozen | self._run.idle)
        held = freezing.held_variables(self.model, self._run.frozen)
        values = [tf.identity(variable) for variable in held]
        with tf.GradientTape() as tape:
            outputs = self._task.call(self.model, features, True, seed)
            loss = tf.reduce_mean(self._task.loss(labels, outputs))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        for variable, value in zip(held, values):  # what a layer has changed in passing
            variable.assign(value)
        self.global_step.assign_add(1)
        batch_size = tf.shape(tf.nest.flatten(labels)[0], out_type=tf.int64)[0]
        return loss, info.get("example_ids", tf.zeros([0], tf.int64)), batch_size

    def train_steps(self, last_step: tf.Tensor, last_example: tf.Tensor) -> tuple:
        """Trains until a limit, without coming back to Python in between.

        Args:
          last_step: int64 [], the global step to end at.
          last_example: int64 [], the position to end at, whichever is reached first.

        Returns:
          (losses, float32 [steps]; example ids of all steps, int64 [examples]; batch sizes, int64 [steps]).
        """
        losses = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[])
        example_ids = tf.TensorArray(tf.int64, 0, dynamic_size=True, infer_shape=False, element_shape=[None])
        batch_sizes = tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[])
        done = 0
        while self.global_step < last_step and self.examples_seen < last_example:
            loss, ids, batch_size = self.train_step()
            losses = losses.write(done, loss)
            batch_sizes = batch_sizes.write(done, batch_size)
            if self._run.config.record_examples:
                example_ids = example_ids.write(done, ids)
            done += 1
        ids = example_ids.concat() if self._run.config.record_examples else tf.zeros([0], tf.int64)
        return losses.stack(), ids, batch_sizes.stack()

    def train(self, limit: Limit) -> tuple:
        """Trains until a limit; returns numpy arrays, as `train_steps`."""
        limit = [tf.constant(value, tf.int64) for value in limit]
        return tuple(value.numpy() for value in self._train_steps(*limit))

    def eval_step(self, features: Any, labels: Any) -> Dict[str, tf.Tensor]:
        """Returns loss and metrics of each example, {name: float32 [B]}."""
        outputs = self._task.call(self.model, features, False, step_seed(self._run.config.seed, self.global_step))
        return {"loss": self._task.loss(labels, outputs), **self._task.metrics(labels, outputs)}

    def predict_step(self, features: Any) -> Dict[str, tf.Tensor]:
        """Returns the outputs of the task's `call` by name, [B, ...] each."""
        outputs = self._task.call(self.model, features, False, step_seed(self._run.config.seed, self.global_step))
        return named_outputs(outputs, self._run.config.task)

    def evaluate(self) -> Optional[Dict[str, Any]]:
        """Evaluates.

        Returns:
          Loss and metrics over the evaluation examples, {name: float32}, each a mean per example; None if the run is to stop
          before they are all seen.
        """
        means: Dict[str, tf.keras.metrics.Mean] = {}
        for features, labels in inputs.eval_input(self._run):
            if self._run.stopping.now():
                return None
            for name, values in self._eval_step(features, labels).items():
                means.setdefault(name, tf.keras.metrics.Mean()).update_state(values)
        return {name: mean.result().numpy() for name, mean in means.items()}

    def predict(self) -> Iterator[Dict[str, Any]]:
        """Yields the outputs over the evaluation examples, {name: array [B, ...]} for each batch."""
        for features, _ in inputs.eval_input(self._run):
            yield {name: values.numpy() for name, values in self._predict_step(features).items()}
