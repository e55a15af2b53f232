"""Input: an iterator in a graph is a resource; as a SAVEABLE_OBJECT the Saver writes its place with the weights."""

from typing import Any, Callable, Tuple, Union

import tensorflow as tf

from midepoch.errors import UserError, one_line
from midepoch.run import Run
from midepoch.saved import SavedCheckpoint
from midepoch.stream import check_position

# Names in the checkpoint, of the iterator and of the counter; and names of the tensors that the hook fetches.
ITERATOR = "iterator"
EXAMPLES_SEEN = "examples_seen"
EXAMPLE_IDS = "example_ids"
POSITION_AFTER = "position_after"


def resumable(dataset: tf.data.Dataset) -> Any:
    """Makes the place in a dataset part of the Estimator's own checkpoint. Call it as the end of any `input_fn`:

        def input_fn():
            return resumable(make_dataset())        # instead of: return make_dataset()

    Every `Saver` of the graph then saves the iterator's state together with the variables, and restores it with them, so a
    run that dies goes on with the very next batch. It needs nothing else: it works with premade estimators too.

    Args:
      dataset: a dataset whose iterator can be saved (no generator, no `py_function`, no stateful random op) and that
        captures no resource such as a lookup table. It must be the same dataset at every start.

    Returns:
      The tensors of the next element, in the structure of the dataset's elements.

    Raises:
      ValueError: the dataset captures a resource.
    """
    iterator = tf.compat.v1.data.make_one_shot_iterator(dataset)
    saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
    saveable.name = saveable.specs[0].name = ITERATOR  # else it would be named after its op
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS, saveable)
    return _next_element(iterator, saveable.op)


def _next_element(iterator: Any, resource: tf.Tensor) -> Any:
    """Does what `iterator.get_next()` does, in the thread that runs the step.

    `get_next()` has another thread fetch the batch; to be woken by it costs a small step a sixth of its time. It spares a
    step from holding one of the threads in which functions of the dataset may have to run. These run in threads of the
    iterator's own.
    """
    specs = tf.nest.flatten(iterator.element_spec)
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):  # a SparseTensor, say, which get_next() puts together
        return iterator.get_next()
    types, shapes = [spec.dtype for spec in specs], [spec.shape for spec in specs]
    tensors = tf.raw_ops.IteratorGetNextSync(iterator=resource, output_types=types, output_shapes=shapes)
    return tf.nest.pack_sequence_as(iterator.element_spec, tensors)


def train_input(run: Run) -> Callable[[], Tuple[Any, Any]]:
    """Returns the input_fn over the training batches, from the place where this process starts.

    If the start says so, `CommittingSaver.restore` moves the iterator to its saved place; else it has been built there.
    """

    def input_fn() -> Tuple[Any, Any]:
        try:
            features, labels, info = resumable(run.train_dataset())
        except (ValueError, RuntimeError) as error:
            why = one_line(error)
            if "resource" in why or "table" in why:
                why += "; tasks with lookup tables train with lowlevel"
            raise UserError(f"the training input cannot be built in an Estimator's graph: {why}") from error
        examples_seen = tf.compat.v1.get_variable(
            EXAMPLES_SEEN, [], tf.int64, tf.constant_initializer(run.start.examples_seen), trainable=False, use_resource=True
        )
        return next_batch(features, labels, info, examples_seen)

    return input_fn


def next_batch(features: Any, labels: Any, info: dict, examples_seen: tf.Variable) -> Tuple[Any, Any]:
    """Returns the batch, after making sure that it is the one that is due, and counts its examples.

    Args:
      features: [B, ...].
      labels: [B, ...].
      info: `position` and `example_ids`, as from `Run.train_dataset`; may be empty.
      examples_seen: int64 [], the position of the batch that is due.

    Returns:
      (features, labels). Evaluating them fails with InvalidArgumentError if the batch lies at another position.
    """
    batch_size = tf.shape(tf.nest.flatten(labels)[0], out_type=tf.int64)[0]
    checks = []
    if "position" in info:
        checks.append(check_position(info["position"], examples_seen))
    with tf.control_dependencies(checks):
        position_after = tf.identity(examples_seen.assign_add(batch_size, read_value=True), name=POSITION_AFTER)
    tf.identity(info.get("example_ids", tf.zeros([0], tf.int64)), name=EXAMPLE_IDS)
    with tf.control_dependencies([position_after]):
        features, labels = tf.nest.map_structure(tf.identity, (features, labels))
    return features, labels


def eval_input(run: Union[Run, SavedCheckpoint]) -> Callable[[], tf.data.Dataset]:
    """Returns the input_fn for one pass over the evaluation batches, (features, labels)."""
    return run.eval_dataset
