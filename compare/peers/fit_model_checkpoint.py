"""Peer: `Model.fit` with the callback ModelCheckpoint, and `initial_epoch`.

The callback saves the weights under names with the epoch in them, and the newest file is loaded at the next start, as
https://www.tensorflow.org/tutorials/keras/save_and_load teaches; `fit` is told by `initial_epoch` with which epoch to go on.
A file that was saved in mid-epoch has weights, and a count of steps, that are ahead of the beginning of its epoch.
"""

import glob
import os
import re

from compare.peers import harness


def train(run: harness.Run) -> None:
    """Trains to the end."""
    import tensorflow as tf

    from compare.peers import keras_digits, tf_digits

    flags = run.flags
    tf.keras.utils.set_random_seed(flags.seed)
    model, last_batch = keras_digits.make_model(flags.seed)
    save = tf.keras.callbacks.ModelCheckpoint(
        run.path("cp-{epoch:04d}-{batch:04d}.weights.h5"), save_weights_only=True, save_freq=flags.save_checkpoints_steps
    )

    latest = max(glob.glob(run.path("cp-*.weights.h5")), key=os.path.getmtime, default="")
    initial_epoch = 0
    if latest:
        model.optimizer.build(model.trainable_variables)  # into one that is not built nothing is loaded, with but a warning
        model.load_weights(latest)
        epoch, batch = map(int, re.search(r"cp-(\d+)-(\d+)", latest).groups())
        initial_epoch = epoch if batch == run.steps_per_epoch else epoch - 1
    record = keras_digits.Record(run, last_batch, latest)
    model.fit(
        keras_digits.epoch_dataset(run),
        epochs=flags.num_epochs,
        initial_epoch=initial_epoch,
        callbacks=[record, save],
        verbose=0,
    )
    run.finished(tf_digits.accuracy(model, flags.batch_size), record.step())


if __name__ == "__main__":
    harness.main("fit_model_checkpoint", train)
