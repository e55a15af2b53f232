"""Export: the best weights as a SavedModel, whose signatures are traced functions."""

from typing import Any, Dict

import tensorflow as tf

from lowlevel.checkpoints import restore_weights
from lowlevel.model import Model
from midepoch import exports, saving, serving
from midepoch.run import Run


def export_best(run: Run, step: int) -> None:
    """Writes the best weights of a finished run as `export/<timestamp>` in its model_dir.

    Args:
      run: the run.
      step: the global step at which it has ended.
    """
    prefix = run.weights_to_export()
    model = Model(run, training=False)
    restore_weights(model, prefix)
    # A signature's function finds its variables only if the object that is saved holds them; those of Keras 3 are wrapped.
    servable = tf.Module()
    servable.weights = [weight if isinstance(weight, tf.Variable) else weight.value for weight in model.model.weights]
    servable.global_step = model.global_step
    with saving.failure_explained(step):
        written = exports.timestamped(exports.begin(run.config.model_dir))
        tf.saved_model.save(servable, written, signatures=serving_signatures(run, model))
        exports.commit(written, run.export_note(prefix, step))


def serving_signatures(run: Run, model: Model) -> Dict[str, Any]:
    """Returns the SavedModel's signatures, {name: concrete function}; `serving.py` says what they take and give."""
    signatures = run.signatures()

    def serve_features(**inputs: tf.Tensor) -> Dict[str, tf.Tensor]:
        return model.predict_step(signatures.features(inputs))

    def serve_examples(examples: tf.Tensor) -> Dict[str, tf.Tensor]:
        features, _ = run.task.parse(examples)
        return model.predict_step(features)

    served = {serving.SIGNATURE: tf.function(serve_features, autograph=False).get_concrete_function(**signatures.inputs)}
    if signatures.takes_records:
        examples = tf.TensorSpec([None], tf.string, name=serving.EXAMPLES)
        served[serving.EXAMPLES_SIGNATURE] = tf.function(serve_examples, autograph=False).get_concrete_function(examples)
    return served
