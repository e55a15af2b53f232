"""What the two peers with `Model.fit` share: a compiled model that shows its last batch, and who writes it down."""

from typing import Tuple

import tensorflow as tf

from compare.peers import harness, tf_digits


class LastBatch:
    """The batch that a model was trained on last.

    Attributes:
      example_ids: variable, int64 [B].
      loss: variable, float32 [], of this batch alone; the logs of `fit` have the mean since the epoch began.
    """

    def __init__(self):
        self.example_ids = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)
        self.loss = tf.Variable(0.0, trainable=False)


def make_model(seed: int) -> Tuple[tf.keras.Model, LastBatch]:
    """Returns the peers' network, compiled, and where its last batch can be seen.

    `fit` hands the example ids to `train_step`, which is where they are noted; a callback is not shown its batch. The
    variables are no attributes of the model, which would save them.
    """
    last_batch = LastBatch()

    class Model(tf.keras.Sequential):
        def train_step(self, data):
            example_ids, images, labels = data
            last_batch.example_ids.assign(example_ids)
            return super().train_step((images, labels))

        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            last_batch.loss.assign(loss)
            return loss

    model = Model(tf_digits.make_model(seed).layers)
    model.build([None, *tf_digits.IMAGE_SHAPE])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(harness.LEARNING_RATE),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,  # XLA has no variables whose shape may change
    )
    return model, last_batch


def epoch_dataset(run: harness.Run) -> tf.data.Dataset:
    """Returns the batches of an epoch, in another order each time it is read; it knows its length, so that `fit` does."""
    batches = tf_digits.records().shuffle(tf_digits.SHUFFLE_BUFFER, seed=run.flags.seed).batch(run.flags.batch_size)
    known_length = batches.apply(tf.data.experimental.assert_cardinality(run.steps_per_epoch))
    return known_length.map(tf_digits.parse).prefetch(1)


class Record(tf.keras.callbacks.Callback):
    """Tells the Run of every step; to stand before what saves, so that no step is saved that is not written down.

    Args:
      run: the Run.
      last_batch: of the model.
      source: path of what a start restores, for people.
    """

    def __init__(self, run: harness.Run, last_batch: LastBatch, source: str):
        super().__init__()
        self._run, self._last_batch, self._source = run, last_batch, source
        self._epoch = self._announced = None

    def step(self) -> int:
        """Returns how many steps the weights have been trained for, as the optimizer counts."""
        return int(self.model.optimizer.iterations)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch + 1

    def on_train_batch_begin(self, batch, logs=None):
        if not self._announced:  # here all callbacks have restored what they restore
            self._run.started(self.step(), self._source, self._epoch, batch)
            self._announced = True

    def on_train_batch_end(self, batch, logs=None):
        ids, loss = self._last_batch.example_ids.numpy(), self._last_batch.loss.numpy()
        self._run.step_done(self.step(), ids, loss, self._epoch, batch + 1)
