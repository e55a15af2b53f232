"""No hidden random state: seeds set once, and tasks that would keep some anyway refused by name.

A checkpoint can only bring back randomness that it knows of. Ops such as `tf.random.uniform` and layers such as
`Dropout(seed=7)` keep a state of their own, so a resumed run draws other numbers than the run that stopped, silently.
"""

from typing import Any, Callable, Iterator, List

import numpy as np
import tensorflow as tf

from midepoch.errors import UserError, one_line

_RANDOM_OPS = frozenset(
    """
    RandomUniform RandomUniformInt RandomStandardNormal TruncatedNormal ParameterizedTruncatedNormal RandomGamma
    RandomPoisson RandomPoissonV2 RandomShuffle Multinomial RngReadAndSkip RngSkip StatefulUniform StatefulUniformInt
    StatefulUniformFullInt StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal StatefulRandomBinomial
    SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 FractionalAvgPool FractionalMaxPool RandomCrop
    UniformCandidateSampler LogUniformCandidateSampler LearnedUnigramCandidateSampler FixedUnigramCandidateSampler
    AllCandidateSampler
    """.split()
)
_INSTEAD = "draw from tf.random.stateless_* or tf.nn.experimental.stateless_dropout, with the seed that call() is given"


def make_deterministic(seed: int) -> None:
    """Sets TensorFlow's global seed and op determinism: same seed, same bits, on the same machine and build."""
    tf.random.set_seed(seed)
    tf.config.experimental.enable_op_determinism()


def hidden_random_ops(graph: Any) -> Iterator[str]:
    """Yields a name for each place in a traced function's graph that draws from hidden random state."""
    definition = graph.as_graph_def()
    nodes = list(definition.node) + [node for function in definition.library.function for node in function.node_def]
    for node in nodes:
        if node.op in _RANDOM_OPS:
            yield f"{node.name} ({node.op})"
    for variable in graph.variables:  # Keras 3 keeps a layer's random state in a variable
        if "seed_generator" in getattr(variable, "path", variable.name):
            yield getattr(variable, "path", variable.name)


def check_task(task: Any, name: str, model: tf.keras.Model, parse: Callable, raw: Any) -> List[Any]:
    """Runs a task once, without training, on real input: what is wrong with it shows before anything is written.

    Args:
      task: the task.
      name: its name, for the error line.
      model: a model of it.
      parse: from raw input to (features, labels).
      raw: a batch of raw input of B examples.

    Returns:
      The trainable variables that have no part in the loss.

    Raises:
      UserError: a method fails, returns the wrong shape, or draws from hidden random state; or no variable has a part in the
        loss.
    """
    seed = tf.constant([1, 0], tf.int64)
    idle: List[Any] = []

    def forward(raw):
        features, labels = parse(raw)
        with tf.GradientTape() as tape:
            outputs = task.call(model, features, True, seed)
            loss = task.loss(labels, outputs)
        if tf.is_tensor(loss) and loss.dtype.is_floating:
            gradients = tape.gradient(loss, model.trainable_variables)
            idle.extend(v for v, gradient in zip(model.trainable_variables, gradients) if gradient is None)
        task.call(model, features, False, seed)
        return tf.nest.flatten(labels)[0], loss, task.metrics(labels, outputs)

    try:
        traced = tf.function(forward, autograph=False)
        graph = traced.get_concrete_function(raw).graph
        hidden = list(hidden_random_ops(graph))
        foreign = _foreign_variables(graph, model)
        labels, loss, metrics = traced(raw)  # the same trace
        metrics = dict(metrics)
    except UserError:
        raise
    except Exception as error:  # whatever the user's code raises
        raise UserError(f"--task={name} fails on the first batch of the training data: {one_line(error)}") from error
    if hidden:
        raise UserError(
            f"--task={name}: {hidden[0]} draws from hidden random state, which no checkpoint can bring back; {_INSTEAD}"
        )
    if foreign:
        raise UserError(
            f"--task={name} uses the variable {foreign[0]}, which is not part of its model: no checkpoint would hold it; "
            "make it an attribute of the model or of one of its layers"
        )
    reserved = sorted({"loss", "loss_per_example", "global_step", "epoch"} & set(metrics))
    if reserved:
        raise UserError(f"--task={name}: metrics() gives {reserved[0]}, a name the metrics files use themselves; choose another")
    num_raw = tf.nest.flatten(raw)[0].shape[0]
    if labels.shape.rank == 0 or labels.shape[0] != num_raw:
        raise UserError(
            f"--task={name}: parse() gave labels of shape {tuple(labels.shape)} for {num_raw} records; "
            "it must return (features, labels), [B, ...] each"
        )
    if loss is not None and loss.dtype != tf.float32:
        raise UserError(f"--task={name}: loss() is {loss.dtype.name}; return float32, one number for each example")
    for what, value in [("loss", loss), *((f"metric {key}", value) for key, value in metrics.items())]:
        if not hasattr(value, "shape") or value.shape.rank != 1 or value.shape[0] != labels.shape[0]:
            raise UserError(
                f"--task={name}: {what} {_describe(value)} for a batch of {labels.shape[0]}; "
                "return one number for each example, [B]"
            )
    if len(idle) == len(model.trainable_variables):
        raise UserError(f"--task={name}: loss() does not depend on any variable that can be trained; see that call() uses the model")
    return idle


def check_captures(parse: Callable, raw: Any) -> None:
    """Raises UserError if parsing uses a resource, such as a lookup table, which no dataset in an Estimator's graph can."""
    captures = tf.function(parse, autograph=False).get_concrete_function(raw).captured_inputs
    if any(capture.dtype == tf.resource for capture in captures):
        raise UserError("parse() uses a lookup table or a variable, which an Estimator's input cannot; train it with lowlevel")


def _describe(value: Any) -> str:
    return f"has shape {tuple(value.shape)}" if hasattr(value, "shape") else f"is {value!r}"


def _foreign_variables(graph: Any, model: tf.keras.Model) -> List[str]:
    """Returns the names of variables that a graph uses and a model does not have."""
    own = {id(getattr(variable, "value", variable)) for variable in model.variables} | {id(v) for v in model.variables}
    return [variable.name for variable in graph.variables if id(variable) not in own]


def check_initial_weights(task: Any, name: str, model: tf.keras.Model, seed: int) -> None:
    """Makes sure that initial weights are a function of the seed alone.

    Args:
      task: the task.
      name: its name, for the error line.
      model: what task.model(seed) has returned before, not trained.
      seed: the seed.

    Raises:
      UserError: a second call gives other weights.
    """
    again = task.model(seed)
    for first, second in zip(model.weights, again.weights):
        if not np.array_equal(first.numpy(), second.numpy()):
            raise UserError(
                f"--task={name}: model(seed) gave {first.name} other initial values the second time; "
                "give its initializer a seed made from the argument"
            )
