"""What a SavedModel takes and gives: names, shapes and types, the same whichever program writes it.

The signatures are named as TensorFlow's own exporters name them:

- `serving_default`: the features as the task's `call` gets them → its outputs. An input for each tensor, by its name in a
  dict of features, or `features`; so are the outputs, `outputs` where there is but one tensor.
- `examples:serving_default`, for tasks over records: `examples`, serialized records, string [B], as the task's `parse` gets
  them → the same outputs. A record must have all that `parse` wants, also a label.
"""

from typing import Any, Callable, Dict

import tensorflow as tf

from midepoch.errors import UserError, one_line
from midepoch.task import has_own_dataset, step_seed

SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
EXAMPLES = "examples"
# An Estimator joins the name of an alternative input and that of the signature in this way.
EXAMPLES_SIGNATURE = f"{EXAMPLES}:{SIGNATURE}"

_FEATURES, _OUTPUTS = "features", "outputs"


def _named(what: str, value: Any, task: str) -> Dict[str, Any]:
    """Returns a tensor as {what: tensor}, and a flat dict of tensors as it is.

    Args:
      what: "features" or "outputs".
      value: tensors or their specs.
      task: the task's name, for the error line.

    Raises:
      UserError: it is neither.
    """
    tensors = value if isinstance(value, dict) else {what: value}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, (tf.Tensor, tf.TensorSpec)):
            raise UserError(
                f"--task={task}: among the {what} is a {type(tensor).__name__}; a SavedModel takes and gives one tensor, or "
                "a flat dict of tensors by name: return such, or train with --noexport"
            )
    return dict(tensors)


def named_outputs(outputs: Any, task: str) -> Dict[str, Any]:
    """Returns the outputs of a task's `call` by name.

    Raises:
      UserError: they are neither a tensor nor a flat dict of tensors.
    """
    return _named(_OUTPUTS, outputs, task)


class Signatures:
    """The inputs and outputs of a task's SavedModel.

    Args:
      task: the task.
      name: its name, for error lines.
      dataset: batches of (features, labels), of which only the `element_spec` counts.

    Raises:
      UserError: the features have no form that a SavedModel can take.

    Attributes:
      inputs: of `serving_default`: name → spec, [None, ...].
      takes_records: whether there is `examples:serving_default` too.
    """

    def __init__(self, task: Any, name: str, dataset: tf.data.Dataset):
        self._name = name
        features = dataset.element_spec[0]
        self._dict = isinstance(features, dict)
        self.inputs = {
            key: tf.TensorSpec(None if spec.shape.rank is None else [None, *spec.shape[1:]], spec.dtype, name=key)
            for key, spec in _named(_FEATURES, features, name).items()
        }
        self.takes_records = not has_own_dataset(task)

    def features(self, inputs: Dict[str, Any]) -> Any:
        """Returns the features as the task knows them, from inputs by name."""
        return dict(inputs) if self._dict else inputs[_FEATURES]

    def as_inputs(self, features: Any) -> Dict[str, Any]:
        """Returns the task's features as inputs by name; undoes `features`."""
        return _named(_FEATURES, features, self._name)


def check(task: Any, name: str, model: tf.keras.Model, seed: int, dataset: tf.data.Dataset) -> None:
    """Makes sure that the task can be exported: at the start, not after days of training.

    Args:
      task: the task.
      name: its name, for error lines.
      model: a model of it.
      seed: of the run.
      dataset: batches of (features, labels).

    Raises:
      UserError: it cannot.
    """
    signatures = Signatures(task, name, dataset)
    graphs = [_traced(lambda **inputs: signatures.features(inputs), task, name, model, seed, signatures.inputs)]
    if signatures.takes_records:
        examples = {EXAMPLES: tf.TensorSpec([None], tf.string)}
        graphs.append(_traced(lambda examples: task.parse(examples)[0], task, name, model, seed, examples))
    for graph in graphs:
        variables = {id(variable.handle) for variable in graph.variables}
        if any(tensor.dtype == tf.resource and id(tensor) not in variables for tensor, _ in graph.captures):
            raise UserError(
                f"--task={name} uses a lookup table or another resource that is no variable, which this SavedModel cannot "
                "hold; train with --noexport"
            )


def _traced(to_features: Callable, task: Any, name: str, model: Any, seed: int, specs: dict) -> Any:
    def serve(**inputs):
        outputs = task.call(model, to_features(**inputs), False, step_seed(seed, tf.constant(0, tf.int64)))
        return named_outputs(outputs, name)

    try:
        return tf.function(serve, autograph=False).get_concrete_function(**specs).graph
    except UserError:
        raise
    except Exception as error:  # whatever the user's code raises
        raise UserError(
            f"--task={name} fails on a batch of any size, as a SavedModel takes it: {one_line(error)}; mend that, or "
            "train with --noexport"
        ) from error
