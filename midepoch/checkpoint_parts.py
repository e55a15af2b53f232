"""What the entries of a checkpoint are: weights, optimizer, iterator, or something else; and how many bytes each part takes.

An object-based checkpoint (`tf.train.Checkpoint`) says in its object graph what hangs on what. A name-based one (a
`Saver`'s) has only names: an optimizer's slot is called after the variable it belongs to, `<variable>/Adam` or
`<optimizer>/<variable>/m`. No iterator's state is ever deserialised here: TensorFlow crashes on a damaged one.
"""

import contextlib
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import tensorflow as tf

# The message has no public name.
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from midepoch.errors import one_line

WEIGHTS, OPTIMIZER, ITERATOR, OTHER = "weights", "optimizer", "iterator", "other"

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_COUNTERS = ("examples_seen", "global_step", "step", "save_counter")
_CHECKSUM_BYTES = 4


class Entry(NamedTuple):
    """An entry of a checkpoint.

    Attributes:
      part: WEIGHTS, OPTIMIZER (slots, and scalars such as its step), ITERATOR, or OTHER (counters, the object graph).
      name: the variable's own name; its key where it has none, or shares it with another one.
    """

    part: str
    name: str


def entries(reader: Any) -> Dict[str, Entry]:
    """Returns what each entry of a checkpoint is, by key.

    Args:
      reader: of the checkpoint, from `tf.train.load_checkpoint`.

    Raises:
      tf.errors.OpError or others: the checkpoint is damaged.
    """
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    found = {key: Entry(ITERATOR if dtypes[key] == tf.variant else OTHER, key) for key in shapes}
    numbers = [key for key in shapes if dtypes[key] not in (tf.variant, tf.string)]
    if _OBJECT_GRAPH in shapes:
        graph = TrackableObjectGraph.FromString(reader.get_tensor(_OBJECT_GRAPH))
        found.update(_object_based(graph, {key for key in numbers if not shapes[key]}))
    else:
        found.update(_name_based(numbers, {key for key in numbers if not shapes[key]}))
    return {key: entry for key, entry in found.items() if key in shapes}


def sizes(prefix: str, files: List[str], problem: Optional[str]) -> Tuple[Dict[str, Optional[int]], Optional[str]]:
    """Returns how many bytes each part of a checkpoint takes.

    Args:
      prefix: the checkpoint.
      files: its files; one may have been deleted meanwhile.
      problem: what is wrong with it, or None. What has a problem is not opened.

    Returns:
      (`bytes_by_part`, with None for all but the total where there is a problem; the problem, which may be found only now).
    """
    if problem is None:
        try:
            return bytes_by_part(prefix, files), None
        except Exception as error:  # TensorFlow has many for damaged files
            problem = f"it cannot be read: {one_line(error)}"
    total = 0
    for path in files:
        with contextlib.suppress(OSError):
            total += os.path.getsize(path)
    return {**dict.fromkeys((WEIGHTS, OPTIMIZER, ITERATOR, OTHER)), "total": total}, problem


def read(prefix: str, everything: bool) -> Tuple[Dict[str, int], Optional[str]]:
    """Reads a checkpoint that has no manifest.

    Args:
      prefix: the checkpoint.
      everything: read every tensor, which compares TensorFlow's own checksums; but not the states of iterators.

    Returns:
      (its counters: `examples_seen`, `global_step`, `step`, `save_counter`, as far as it has them; the problem, or None).
    """
    counters: Dict[str, int] = {}
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        for key in shapes:
            name = key.partition("/.ATTRIBUTES/")[0]
            is_counter = name in _COUNTERS and not shapes[key] and dtypes[key].is_integer
            if is_counter or (everything and dtypes[key] != tf.variant):
                value = reader.get_tensor(key)
                if is_counter:
                    counters[name] = int(value)
    except Exception as error:  # TensorFlow has many for damaged files
        return counters, f"it cannot be read: {one_line(error)}"
    return counters, None


def bytes_by_part(prefix: str, files: List[str]) -> Dict[str, int]:
    """Returns how many bytes of a checkpoint each part takes; `other` is what is left: index, counters, object graph.

    Args:
      prefix: the checkpoint.
      files: all its files.

    Returns:
      `weights`, `optimizer`, `iterator`, `other`, and `total`, their sum.

    Raises:
      OSError, tf.errors.OpError or others: a file is damaged, or has just been deleted.
    """
    reader = tf.train.load_checkpoint(prefix)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    parts = {WEIGHTS: 0, OPTIMIZER: 0, ITERATOR: 0}
    known = 0  # bytes of all but the iterators, whose size stands nowhere
    for key, entry in entries(reader).items():
        if dtypes[key] == tf.variant:
            continue
        if dtypes[key] == tf.string:
            size = _string_bytes(reader.get_tensor(key))
        else:
            size = tf.TensorShape(shapes[key]).num_elements() * dtypes[key].size
        known += size
        if entry.part in parts:
            parts[entry.part] += size
    file_bytes = {path: os.path.getsize(path) for path in files}
    if tf.variant in dtypes.values():
        parts[ITERATOR] = sum(size for path, size in file_bytes.items() if ".data-" in os.path.basename(path)) - known
    total = sum(file_bytes.values())
    return {**parts, OTHER: total - sum(parts.values()), "total": total}


def _string_bytes(value: Any) -> int:
    """Returns the bytes of a string tensor on disk: lengths as varints, their checksum, the strings."""
    strings = [value] if isinstance(value, bytes) else [string for string in value.flat]
    return _CHECKSUM_BYTES + sum(len(string) + max(1, -(-len(string).bit_length() // 7)) for string in strings)


def _object_based(graph: Any, scalars: Set[str]) -> Dict[str, Entry]:
    """Weights are the variables that the root leads to without passing an optimizer; the rest is the optimizer's."""
    nodes = graph.nodes
    optimizers = {number for number, node in enumerate(nodes) if node.slot_variables}  # Keras 3 has its slots as children
    optimizers |= {child.node_id for node in nodes for child in node.children if child.local_name == "optimizer"}
    slots = {slot.slot_variable_node_id for node in nodes for slot in node.slot_variables}
    of_model = _reachable(graph, without=optimizers | slots)
    of_root = {child.node_id for child in nodes[0].children}
    found = {}
    for number, node in enumerate(nodes):
        for key, name in ((a.checkpoint_key, a.full_name) for a in node.attributes if a.name == "VARIABLE_VALUE"):
            is_counter = number in of_root and key in scalars
            part = OTHER if is_counter else WEIGHTS if number in of_model else OPTIMIZER
            found[key] = Entry(part, name or key)
    names = [entry.name for entry in found.values()]
    shared = {name for name in names if names.count(name) > 1}
    return {key: entry._replace(name=key) if entry.name in shared else entry for key, entry in found.items()}


def _reachable(graph: Any, without: Set[int]) -> Set[int]:
    """Returns all nodes that the root leads to past some others."""
    found, waiting = set(), [0]
    while waiting:
        node = waiting.pop()
        if node not in found and node not in without:
            found.add(node)
            waiting.extend(child.node_id for child in graph.nodes[node].children)
    return found


def _name_based(keys: List[str], scalars: Set[str]) -> Dict[str, Entry]:
    variables = set(keys)
    slots = {key for key in keys if any(owner in variables for owner in _possible_owners(key))}
    optimizers = {key.partition("/")[0] for key in slots if key.rpartition("/")[0] not in variables}
    optimizers.add("SGD")  # plain SGD has no slots
    found = {}
    for key in keys:
        is_hyperparameter = key in scalars and key.partition("/")[0] in optimizers
        part = OTHER if key in _COUNTERS else OPTIMIZER if key in slots or is_hyperparameter else WEIGHTS
        found[key] = Entry(part, key)
    return found


def _possible_owners(key: str) -> Iterator[str]:
    """Yields the variables whose slot may be called `key`: what stands before its last part, with less and less in front."""
    owner = key.rpartition("/")[0]
    while owner:
        yield owner
        owner = owner.partition("/")[2]
