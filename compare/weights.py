"""The weights in a checkpoint, by name, whichever of the two programs wrote it.

An object-based checkpoint (`tf.train.Checkpoint`) names a variable by its path through the objects, and keeps the variable's
own name beside it, in the object graph; a name-based one (`Saver`) has only that name. In a graph the models around a layer
come in front of it (`body/conv1/kernel`), in eager Keras 2 they do not (`conv1/kernel`). So a variable goes by the end of
its name: the last two parts, or as many as tell it from the others.
"""

from typing import Any, Callable, Dict, Iterable, List, Optional, Set

import numpy as np
import tensorflow as tf

# The message has no public name.
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_MODEL, _OPTIMIZER = "model", "optimizer"  # as `tf.train.Checkpoint(model=..., optimizer=...)` calls them
_COUNTERS = ("examples_seen", "global_step", "save_counter")


def read_variables(prefix: str, with_slots: bool = False) -> Dict[str, np.ndarray]:
    """Reads the variables of the model in a checkpoint; not the iterator, counters and hyperparameters.

    Args:
      prefix: the checkpoint prefix.
      with_slots: also the optimizer's slots (momentum and the like).

    Returns:
      name → value. With Keras 2 the same weight has the same name in both kinds of checkpoint.
    """
    reader = tf.train.load_checkpoint(prefix)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    if _OBJECT_GRAPH in shapes:
        graph = TrackableObjectGraph.FromString(reader.get_tensor(_OBJECT_GRAPH))
        names = _object_based(graph, with_slots, is_scalar=lambda key: not shapes[key])
    else:
        # An iterator's state is a variant, which no reader can turn into an array.
        keys = [key for key in shapes if dtypes[key] != tf.variant and key not in _COUNTERS]
        names = _name_based(keys, with_slots, is_scalar=lambda key: not shapes[key])
    shown = _tails(names.values())
    return {shown[name]: reader.get_tensor(key) for key, name in sorted(names.items())}


def first_difference(a: Dict[str, np.ndarray], b: Dict[str, np.ndarray]) -> Optional[str]:
    """Compares two sets of variables bit for bit; returns None if they are equal, or the first difference in words."""
    for name in sorted(set(a) | set(b)):
        if name not in a or name not in b:
            return f"{name} is only in the {'second' if name not in a else 'first'}"
        first, second = np.asarray(a[name]), np.asarray(b[name])
        if (first.shape, first.dtype) != (second.shape, second.dtype):
            return f"{name} is {first.dtype}{list(first.shape)} and {second.dtype}{list(second.shape)}"
        if first.tobytes() != second.tobytes():  # not ==: NaN is equal to the same NaN, and 0.0 is not -0.0
            differing = [(x, y) for x, y in zip(first.flat, second.flat) if x.tobytes() != y.tobytes()]
            x, y = differing[0]
            return f"{name}: {len(differing)} of {first.size} values differ, first {x!r} and {y!r}"
    return None


def _object_based(graph: Any, with_slots: bool, is_scalar: Callable[[str], bool]) -> Dict[str, str]:
    """Returns {checkpoint key: full name}; where an object graph has no name for a variable, or twice the same, its key."""
    children = {child.local_name: child.node_id for child in graph.nodes[0].children}
    of_model = _reachable(graph, children[_MODEL])
    wanted = of_model
    if with_slots and _OPTIMIZER in children:
        of_optimizer = _reachable(graph, children[_OPTIMIZER])
        # Keras 2 lists its slots apart from the optimizer's children.
        slots = {slot.slot_variable_node_id for node in of_optimizer for slot in graph.nodes[node].slot_variables}
        wanted = of_model | of_optimizer | slots
    names = {}
    for node in sorted(wanted):
        for attribute in graph.nodes[node].attributes:
            key = attribute.checkpoint_key
            if attribute.name == "VARIABLE_VALUE" and (node in of_model or not is_scalar(key)):
                names[key] = attribute.full_name or key
    several = {name for name in names.values() if list(names.values()).count(name) > 1}
    return {key: key if name in several else name for key, name in names.items()}


def _reachable(graph: Any, root: int) -> Set[int]:
    """Returns a node and all below it."""
    found, waiting = set(), [root]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(child.node_id for child in graph.nodes[node].children)
    return found


def _name_based(keys: List[str], with_slots: bool, is_scalar: Callable[[str], bool]) -> Dict[str, str]:
    """Returns {checkpoint key: name}; a slot is told by its name, `<optimizer>/<variable>/<slot>`."""
    variables = set(keys)
    slots = {key for key in keys if key.partition("/")[2].rpartition("/")[0] in variables}
    optimizers = {key.partition("/")[0] for key in slots} | {"SGD"}  # plain SGD has no slots
    hyperparameters = {key for key in keys if key.partition("/")[0] in optimizers and is_scalar(key)}
    left_out = hyperparameters | (set() if with_slots else slots)
    return {key: key for key in keys if key not in left_out}


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
