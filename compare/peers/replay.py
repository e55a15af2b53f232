"""Peer: a loop of one's own, that reads the epoch again up to the place where the saved run was.

`tf.train.CheckpointManager` keeps model, optimizer and step, as https://www.tensorflow.org/guide/checkpoint has it. The
order of an epoch comes from a seed of its own, the usual advice, as in
https://github.com/tensorflow/tensorflow/issues/58925; so what was used of it can be left out by `skip`, which has to read
all of it.
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

    while int(step) < run.target_steps:
        epoch, batches_done = divmod(int(step), run.steps_per_epoch)
        shuffled = tf_digits.records().shuffle(tf_digits.SHUFFLE_BUFFER, seed=flags.seed + epoch)
        rest_of_epoch = shuffled.batch(flags.batch_size).skip(batches_done).map(tf_digits.parse).prefetch(1)
        for example_ids, images, labels in rest_of_epoch:
            loss = train_step(images, labels)
            step.assign_add(1)
            run.step_done(int(step), example_ids.numpy(), loss)
            if int(step) % flags.save_checkpoints_steps == 0:
                manager.save(checkpoint_number=step)
    manager.save(checkpoint_number=step)
    run.finished(tf_digits.accuracy(model, flags.batch_size), int(step))


if __name__ == "__main__":
    harness.main("replay", train)
