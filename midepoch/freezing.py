"""`--freeze`: which variables of a model keep their bits.

The pattern is searched in the names that a model's variables have in eager TensorFlow: `variable.path` with Keras 3
(`digits/body/conv1/kernel`), the name without `:0` with Keras 2 (`conv1/kernel`). In an Estimator's graph they are called
otherwise, so what is frozen is remembered by place in `model.variables`, which both programs share.

The optimizer keeps its slots for frozen variables too, unchanged. So a checkpoint holds the same whatever is frozen, and
`--freeze` may be another one at every start.
"""

import re
from typing import Any, FrozenSet, List, Optional, Sequence

from midepoch.errors import UserError


def variable_name(variable: Any) -> str:
    """Returns the name of a variable; with Keras 2 several may have the same."""
    return getattr(variable, "path", variable.name).split(":")[0]


def variable_names(model: Any) -> List[str]:
    """Returns the names of a model's variables, in the order of `model.variables`."""
    return [variable_name(variable) for variable in model.variables]


def frozen_places(model: Any, pattern: Optional[str]) -> FrozenSet[int]:
    """Returns the places in `model.variables` that a pattern freezes.

    Args:
      model: the Keras model, eager.
      pattern: a regular expression, searched anywhere in a name; None freezes nothing.

    Raises:
      UserError: it matches no variable, or leaves nothing to train.
    """
    if pattern is None:
        return frozenset()
    names = variable_names(model)
    places = frozenset(place for place, name in enumerate(names) if re.search(pattern, name))
    if not places:
        raise UserError(f"--freeze={pattern} matches no variable of the model; it has {', '.join(names)}")
    if not trained_variables(model, places):
        raise UserError(f"--freeze={pattern} matches every variable that can be trained; give a pattern that leaves some")
    return places


def places_of(variables: Sequence[Any], model: Any) -> FrozenSet[int]:
    """Returns the places in `model.variables` of some of them."""
    wanted = {id(variable) for variable in variables}
    return frozenset(place for place, variable in enumerate(model.variables) if id(variable) in wanted)


def trained_variables(model: Any, places: FrozenSet[int]) -> List[Any]:
    """Returns the variables that the optimizer changes: all that can be trained, but for those at some places."""
    frozen = _frozen(model, places)
    return [variable for variable in model.trainable_variables if id(variable) not in frozen]


def held_variables(model: Any, places: FrozenSet[int]) -> List[Any]:
    """Returns the frozen variables that not the optimizer changes, but a layer: BatchNorm's moving statistics."""
    frozen = _frozen(model, places)
    trainable = {id(variable) for variable in model.trainable_variables}
    return [v for v in model.variables if id(v) in frozen and id(v) not in trainable]


def _frozen(model: Any, places: FrozenSet[int]) -> FrozenSet[int]:
    return frozenset(id(variable) for place, variable in enumerate(model.variables) if place in places)
