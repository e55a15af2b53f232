"""The optimizers behind `--optimizer`, from the Keras that is installed."""

import keras
import tensorflow as tf

_MOMENTUM = 0.9


def make_optimizer(name: str, learning_rate: float):
    """Returns a Keras optimizer.

    With Keras 2 it is the legacy one: it alone works in an Estimator's graph, and both programs must use the same. The
    learning rate is handed over as a function, which keeps it out of the checkpoint: the flag decides, also after a resume.

    Args:
      name: "sgd", "momentum" or "adam".
      learning_rate: greater than 0.
    """
    optimizers = tf.keras.optimizers
    if keras.__version__.startswith("2."):
        optimizers = optimizers.legacy

    def rate() -> float:
        return learning_rate

    if name == "adam":
        return optimizers.Adam(learning_rate=rate)
    return optimizers.SGD(learning_rate=rate, momentum=_MOMENTUM if name == "momentum" else 0.0)


def create_slots(optimizer, variables) -> None:
    """Makes an optimizer's slots now, for all variables that can be trained, be they frozen or not.

    Args:
      optimizer: from `make_optimizer`; in a graph, its `iterations` are set.
      variables: the model's trainable variables.
    """
    if keras.__version__.startswith("2."):
        with tf.name_scope(optimizer._name):  # as it does itself at its first update; Keras 2 will not change any more
            optimizer._create_all_weights(variables)
    else:
        optimizer.build(variables)
