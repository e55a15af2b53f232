"""The weights in a checkpoint, by name, whichever of the two programs wrote it.

An object-based checkpoint (`tf.train.Checkpoint`) names a variable by its path through the objects, and keeps the variable's
own name beside it, in the object graph; a name-based one (`Saver`) has only that name. In a graph the models around a layer
come in front of it (`body/conv1/kernel`), in eager Keras 2 they do not (`conv1/kernel`). So a variable goes by the end of
its name: the last two parts, or as many as tell it from the others.
"""

import re
from typing import Dict, Iterable, Iterator, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from midepoch import checkpoint_parts
from midepoch.checkpoint_parts import OPTIMIZER, WEIGHTS

# Keras 3 numbers the optimizers of a process: after a first run in a notebook, the slots of a second one are `adam_1`'s.
_COUNTED_OPTIMIZER = re.compile(r"^(adam|sgd)_\d+/")


def read_variables(prefix: str, with_slots: bool = False) -> Dict[str, np.ndarray]:
    """Reads the variables of the model in a checkpoint; not the iterator, counters and hyperparameters.

    Args:
      prefix: the checkpoint prefix.
      with_slots: also the optimizer's slots (momentum and the like).

    Returns:
      name → value. With Keras 2 the same weight has the same name in both kinds of checkpoint.
    """
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    names = {}
    for key, entry in checkpoint_parts.entries(reader).items():
        is_slot = entry.part == OPTIMIZER and shapes[key]  # its scalars are hyperparameters and its own step
        if entry.part == WEIGHTS or (with_slots and is_slot):
            names[key] = _COUNTED_OPTIMIZER.sub(r"\1/", entry.name)
    shown = _tails(names.values())
    return {shown[name]: reader.get_tensor(key) for key, name in sorted(names.items())}


class Difference(NamedTuple):
    """A variable that is not the same in two sets.

    Attributes:
      name: the variable.
      text: the difference in words.
      largest: the largest absolute difference of two values; None where values cannot be subtracted, as of two shapes.
    """

    name: str
    text: str
    largest: Optional[float]


def differences(a: Dict[str, np.ndarray], b: Dict[str, np.ndarray]) -> Iterator[Difference]:
    """Compares two sets of variables bit for bit and yields what differs, by name."""
    for name in sorted(set(a) | set(b)):
        if name not in a or name not in b:
            yield Difference(name, f"{name} is only in the {'second' if name not in a else 'first'}", None)
            continue
        first, second = np.asarray(a[name]), np.asarray(b[name])
        if (first.shape, first.dtype) != (second.shape, second.dtype):
            shapes = (f"{value.dtype}{list(value.shape)}" for value in (first, second))
            yield Difference(name, f"{name} is {' and '.join(shapes)}", None)
        elif first.tobytes() != second.tobytes():  # not ==: NaN is equal to the same NaN, and 0.0 is not -0.0
            differ = (_bytes_of(first) != _bytes_of(second)).any(axis=1)
            x, y = first.reshape(-1)[differ], second.reshape(-1)[differ]
            text = f"{name}: {len(x)} of {first.size} values differ, first {x[0]!r} and {y[0]!r}"
            amounts = np.abs(x.astype(np.float64) - y.astype(np.float64))
            finite = amounts[np.isfinite(amounts)]
            yield Difference(name, text, float(finite.max()) if finite.size else None)


def _bytes_of(values: np.ndarray) -> np.ndarray:
    """Returns the bytes of each value: uint8 [values, bytes per value]."""
    return np.frombuffer(values.tobytes(), np.uint8).reshape(values.size, values.dtype.itemsize)


def first_difference(a: Dict[str, np.ndarray], b: Dict[str, np.ndarray]) -> Optional[str]:
    """Compares two sets of variables bit for bit; returns None if they are equal, or the first difference in words."""
    return next((difference.text for difference in differences(a, b)), None)


def _tails(names: Iterable[str]) -> Dict[str, str]:
    """Returns for each name its end: the fewest parts, but two at least, that no other name ends with."""
    parts = {name: name.split("/") for name in names}
    tails = {}
    for name, own in parts.items():
        length = 2
        while length < len(own) and sum(other[-length:] == own[-length:] for other in parts.values()) > 1:
            length += 1
        tails[name] = "/".join(own[-length:])
    return tails
