"""What is measured: the two programs as they are, and the peers that people would write instead.

An arm is a function of (task, stopwatch) that trains until the stopwatch has had enough. The arms that train by
`tf.estimator` need a TensorFlow that has it.
"""

import contextlib
import os
import tempfile
from typing import Any, Callable, Iterator, Sequence

import tensorflow as tf

from compare.bench.stopwatch import Stopwatch
from compare.peers.tf_digits import with_dropout_layer
from midepoch import randomness
from midepoch.config import TrainConfig
from midepoch.opening import open_run
from midepoch.optimizers import make_optimizer
from midepoch.records import find_files

BATCH_SIZE = 64
SEED = 1
LEARNING_RATE = 0.001
OPTIMIZER = "adam"

_NEVER = 10**9
_FIT_STEPS_PER_EPOCH = 100


@contextlib.contextmanager
def _config() -> Iterator[TrainConfig]:
    """A run in a scratch directory in which nothing comes due."""
    with tempfile.TemporaryDirectory() as scratch:
        yield TrainConfig(
            model_dir=os.path.join(scratch, "run"),
            batch_size=BATCH_SIZE,
            train_steps=_NEVER,
            optimizer=OPTIMIZER,
            learning_rate=LEARNING_RATE,
            seed=SEED,
            save_checkpoints_steps=_NEVER,
            eval_every_steps=_NEVER,
            log_every_steps=_NEVER,
        )


def usual_dataset(
    paths: Sequence[str], parse: Callable[[tf.Tensor], Any], buffer_size: int = 10000, batch_size: int = BATCH_SIZE
) -> tf.data.Dataset:
    """Returns endless batches of (features, labels) by the usual `interleave + shuffle + batch + parse`."""
    files = tf.data.Dataset.from_tensor_slices(list(paths))
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    batches = records.shuffle(buffer_size, seed=SEED).batch(batch_size).repeat()
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _usual_training(task: Any) -> tf.data.Dataset:
    return usual_dataset(find_files(task.train_files, "train_files"), task.parse)


def lowlevel(task: Any, stopwatch: Stopwatch) -> None:
    """The program `lowlevel`."""
    from lowlevel.loop import train_and_evaluate

    with _config() as config:
        train_and_evaluate(config, task, stopwatch)


def estimator(task: Any, stopwatch: Stopwatch) -> None:
    """The program `estimator`."""
    from estimator.loop import train_and_evaluate

    with _config() as config:
        train_and_evaluate(config, task, stopwatch)


def plain_estimator(task: Any, stopwatch: Stopwatch) -> None:
    """The same model_fn, RunConfig and hook, fed by a plain dataset, whose place no checkpoint holds."""
    from estimator import inputs
    from estimator.checkpoints import SaveOnTheGrid
    from estimator.loop import run_config
    from estimator.model import make_model_fn

    def input_fn():
        features, labels = tf.compat.v1.data.make_one_shot_iterator(_usual_training(task)).get_next()
        # The hook fetches the count of examples, so this arm counts them too.
        examples_seen = tf.compat.v1.get_variable(
            inputs.EXAMPLES_SEEN, [], tf.int64, tf.zeros_initializer(), trainable=False, use_resource=True
        )
        return inputs.next_batch(features, labels, {}, examples_seen)

    with _config() as config, open_run("estimator", config, task, stopwatch) as run:
        trainer = tf.estimator.Estimator(make_model_fn(run), config=run_config(run.config))
        hook = SaveOnTheGrid(run)
        trainer.train(input_fn, hooks=[hook])
        run.result(hook.step, hook.examples_seen, None)


class _AskStopwatch(tf.keras.callbacks.Callback):
    """Asks between epochs; a method for batches would slow every step down."""

    def __init__(self, stopwatch: Stopwatch):
        super().__init__()
        self._stopwatch = stopwatch

    def on_epoch_begin(self, epoch, logs=None):
        if self._stopwatch.requested(epoch * _FIT_STEPS_PER_EPOCH):
            self.model.stop_training = True


def model_fit(task: Any, stopwatch: Stopwatch) -> None:
    """Keras' own loop over the same layers, with the same optimizer and the usual dataset."""
    randomness.make_deterministic(SEED)
    model = task.model(SEED)
    if model.name == "digits":  # its dropout stands in `Digits.call`
        model = with_dropout_layer(model)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(make_optimizer(OPTIMIZER, LEARNING_RATE), loss, jit_compile=False)
    model.fit(
        _usual_training(task),
        epochs=_NEVER,
        steps_per_epoch=_FIT_STEPS_PER_EPOCH,
        shuffle=False,  # the dataset does
        verbose=0,
        callbacks=[_AskStopwatch(stopwatch)],
    )
