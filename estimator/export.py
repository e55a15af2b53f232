"""Export: the best weights as a SavedModel; an Estimator builds the graph of it from a serving_input_receiver_fn."""

from typing import Any, Callable

import tensorflow as tf

from midepoch import exports, saving, serving
from midepoch.run import Run


def export_best(run: Run, step: int, estimator: tf.estimator.Estimator) -> None:
    """Writes the best weights of a finished run as `export/<timestamp>` in its model_dir.

    Args:
      run: the run.
      step: the global step at which it has ended.
      estimator: its Estimator.
    """
    prefix = run.weights_to_export()
    with saving.failure_explained(step):
        temporary = exports.begin(run.config.model_dir)
        written = estimator.export_saved_model(temporary, serving_input_receiver_fn(run), checkpoint_path=prefix)
        exports.commit(tf.compat.as_text(written), run.export_note(prefix, step))


def serving_input_receiver_fn(run: Run) -> Callable[[], Any]:
    """Returns the function that makes the SavedModel's inputs in its graph; `serving.py` says what they are."""
    signatures = run.signatures()

    def receiver_fn() -> Any:
        inputs, alternatives = {}, None
        if signatures.takes_records:
            examples = tf.compat.v1.placeholder(tf.string, [None], name=serving.EXAMPLES)
            alternatives = {serving.EXAMPLES: {serving.EXAMPLES: examples}}
            features, _ = run.task.parse(examples)
            for name, feature in signatures.as_inputs(features).items():  # fed, it takes the place of what is parsed
                inputs[name] = tf.compat.v1.placeholder_with_default(feature, signatures.inputs[name].shape, name=name)
        else:
            for name, spec in signatures.inputs.items():
                inputs[name] = tf.compat.v1.placeholder(spec.dtype, spec.shape, name=name)
        features = signatures.features(inputs)
        if isinstance(features, dict):
            return tf.estimator.export.ServingInputReceiver(features, inputs, alternatives)
        return tf.estimator.export.TensorServingInputReceiver(features, inputs, alternatives)

    return receiver_fn
