"""What is measured: the two programs as they are, and the peers that people would write instead.

Every arm is a function of (task, seconds) that trains for that long, after a warm-up, and returns steps per second. Start-up,
saving and evaluation lie outside the timed part. The arms that train by `tf.estimator` need a TensorFlow that has it.
"""

import contextlib
import io
import os
import tempfile
import time
from typing import Any, Iterator, Optional

import tensorflow as tf

from midepoch import randomness
from midepoch.config import TrainConfig
from midepoch.optimizers import make_optimizer
from midepoch.records import find_files
from midepoch.run import open_run
from midepoch.stopping import Stopping

BATCH_SIZE = 64
SEED = 1
LEARNING_RATE = 0.001
OPTIMIZER = "adam"

_WARM_UP_SECS = 1.0
_NEVER = 10**9
_DROPOUT = 0.3  # of the digits task


class Stopwatch(Stopping):
    """Times a program from inside its own loop, which asks after steps whether to stop: it does when the time is up.

    Args:
      secs: seconds to measure after the warm-up.
    """

    def __init__(self, secs: float):
        super().__init__()
        self._secs = secs
        self._warm_at: Optional[float] = None
        self._began: Optional[tuple] = None
        self.steps_per_sec: Optional[float] = None

    def requested(self, step: int) -> bool:
        now = time.monotonic()
        if self._warm_at is None:
            self._warm_at = now + _WARM_UP_SECS
        elif self._began is None:
            if now >= self._warm_at:
                self._began = step, now
        elif now - self._began[1] >= self._secs:
            self.steps_per_sec = (step - self._began[0]) / (now - self._began[1])
            return True
        return False


@contextlib.contextmanager
def _config() -> Iterator[TrainConfig]:
    """A run in a scratch directory in which nothing comes due; what it prints is kept from the terminal."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
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


def usual_dataset(task: Any) -> tf.data.Dataset:
    """Returns endless batches of (features, labels) by the usual `interleave + shuffle + batch + parse`."""
    files = tf.data.Dataset.from_tensor_slices(list(find_files(task.train_files, "train_files")))
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    batches = records.shuffle(10000, seed=SEED).batch(BATCH_SIZE).repeat()
    return batches.map(task.parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def lowlevel(task: Any, secs: float) -> float:
    """The program `lowlevel`."""
    from lowlevel.loop import train_and_evaluate

    with _config() as config:
        stopwatch = Stopwatch(secs)
        train_and_evaluate(config, task, stopwatch)
    return stopwatch.steps_per_sec


def estimator(task: Any, secs: float) -> float:
    """The program `estimator`."""
    from estimator.loop import train_and_evaluate

    with _config() as config:
        stopwatch = Stopwatch(secs)
        train_and_evaluate(config, task, stopwatch)
    return stopwatch.steps_per_sec


def plain_estimator(task: Any, secs: float) -> float:
    """The same model_fn, RunConfig and hook, fed by a plain dataset, whose place no checkpoint holds."""
    from estimator import inputs
    from estimator.checkpoints import SaveOnTheGrid
    from estimator.loop import run_config
    from estimator.model import make_model_fn

    def input_fn():
        features, labels = tf.compat.v1.data.make_one_shot_iterator(usual_dataset(task)).get_next()
        # The hook fetches the count of examples, so this arm counts them too.
        examples_seen = tf.compat.v1.get_variable(
            inputs.EXAMPLES_SEEN, [], tf.int64, tf.zeros_initializer(), trainable=False, use_resource=True
        )
        return inputs.next_batch(features, labels, {}, examples_seen)

    with _config() as config, open_run("estimator", config, task) as run:
        stopwatch = Stopwatch(secs)
        trainer = tf.estimator.Estimator(make_model_fn(run), config=run_config(run.config))
        hook = SaveOnTheGrid(run, stopwatch)
        trainer.train(input_fn, hooks=[hook])
        run.result(hook.step, hook.examples_seen, None)
    return stopwatch.steps_per_sec


class _FitStopwatch(tf.keras.callbacks.Callback):
    """Times `Model.fit` over whole epochs: it has no method for steps, which would slow every step down."""

    def __init__(self, secs: float, steps_per_epoch: int):
        super().__init__()
        self._secs = secs
        self._steps_per_epoch = steps_per_epoch
        self._warm_at = time.monotonic() + _WARM_UP_SECS
        self._began: Optional[tuple] = None
        self.steps_per_sec: Optional[float] = None

    def on_epoch_end(self, epoch, logs=None):
        now = time.monotonic()
        if self._began is None:
            if now >= self._warm_at:
                self._began = epoch, now
        elif now - self._began[1] >= self._secs:
            self.steps_per_sec = (epoch - self._began[0]) * self._steps_per_epoch / (now - self._began[1])
            self.model.stop_training = True


def model_fit(task: Any, secs: float) -> float:
    """Keras' own loop over the same layers, with the same optimizer and the usual dataset."""
    randomness.make_deterministic(SEED)
    model = task.model(SEED)
    if model.name == "digits":  # its dropout stands in `Digits.call`; here it is the layer that everybody uses
        body, head = model.layers
        model = tf.keras.Sequential([body, tf.keras.layers.Dropout(_DROPOUT), head])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(make_optimizer(OPTIMIZER, LEARNING_RATE), loss, jit_compile=False)
    stopwatch = _FitStopwatch(secs, steps_per_epoch=100)
    model.fit(usual_dataset(task), epochs=_NEVER, steps_per_epoch=100, verbose=0, callbacks=[stopwatch])
    return stopwatch.steps_per_sec
