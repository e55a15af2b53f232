"""Peer: `Model.fit` with the callback BackupAndRestore, as https://www.tensorflow.org/guide/migrate/fault_tolerance teaches.

The callback restores by itself when `fit` begins, and removes its backup when `fit` has come to its end.
"""

from compare.peers import harness


def train(run: harness.Run) -> None:
    """Trains to the end."""
    import tensorflow as tf

    from compare.peers import keras_digits, tf_digits

    flags = run.flags
    tf.keras.utils.set_random_seed(flags.seed)
    model, last_batch = keras_digits.make_model(flags.seed)
    record = keras_digits.Record(run, last_batch, "backup")
    backup = tf.keras.callbacks.BackupAndRestore(run.path("backup"), save_freq=flags.save_checkpoints_steps)
    model.fit(keras_digits.epoch_dataset(run), epochs=flags.num_epochs, callbacks=[record, backup], verbose=0)
    run.finished(tf_digits.accuracy(model, flags.batch_size), record.step())


if __name__ == "__main__":
    harness.main("fit_backup_and_restore", train)
