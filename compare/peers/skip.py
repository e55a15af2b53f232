"""Peer: a loop of one's own, that skips what was used before it shuffles.

Shuffling by a buffer does not say which records are still in it. So people skip, by `tf.data.Dataset.skip`, as many records
as the steps of the epoch have used and as many more as the buffer held: nothing is used twice then in that epoch, and what
the buffer held is given up. Model, optimizer and step are kept as in https://www.tensorflow.org/guide/checkpoint
"""

from compare.peers import harness


def train(run: harness.Run) -> None:
    """Trains to the end."""
    import tensorflow as tf

    from compare.peers import tf_digits

    flags = run.flags
    tf.keras.utils.set_random_seed(flags.seed)
    model = tf_digits.make_model(flags.seed)
    optimizer = tf.keras.optimizers.Adam(harness.LEARNING_RATE)
    train_step = tf_digits.make_train_step(model, optimizer)

    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(step=step, optimizer=optimizer, model=model)
    manager = tf.train.CheckpointManager(checkpoint, flags.model_dir, max_to_keep=5, step_counter=step)
    checkpoint.restore(manager.latest_checkpoint)
    run.started(int(step), manager.latest_checkpoint or "")

    def shuffled(records):
        batches = records.shuffle(tf_digits.SHUFFLE_BUFFER, seed=flags.seed).batch(flags.batch_size)
        return batches.map(tf_digits.parse).prefetch(1)

    steps_done_in_epoch = int(step) % run.steps_per_epoch
    read_before = steps_done_in_epoch and steps_done_in_epoch * flags.batch_size + tf_digits.SHUFFLE_BUFFER
    rest_of_epoch = shuffled(tf_digits.records().skip(read_before))
    later_epochs = shuffled(tf_digits.records()).repeat()
    for example_ids, images, labels in rest_of_epoch.concatenate(later_epochs).take(run.target_steps - int(step)):
        loss = train_step(images, labels)
        step.assign_add(1)
        run.step_done(int(step), example_ids.numpy(), loss)
        if int(step) % flags.save_checkpoints_steps == 0:
            manager.save(checkpoint_number=step)
    manager.save(checkpoint_number=step)
    run.finished(tf_digits.accuracy(model, flags.batch_size), int(step))


if __name__ == "__main__":
    harness.main("skip", train)
