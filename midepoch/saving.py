"""What must not happen in a save: that it keeps weights which are no numbers, or that it fails and nobody is told."""

import contextlib
import re
from typing import Any, Iterator, List, Sequence

import tensorflow as tf

from midepoch.errors import UserError, one_line
from midepoch.freezing import variable_name

# How TensorFlow puts what the operating system says, amid much else: `path/of/a/file; No space left on device`.
_FILE_AND_WHY = re.compile(r"(\S*/\S+); (\w[\w -]*\w)")


def are_finite(weights: Sequence[Any]) -> List[tf.Tensor]:
    """Returns for each weight, [...], whether it holds no NaN and no infinity; bool [], in a graph too."""
    return [
        tf.reduce_all(tf.math.is_finite(weight)) if tf.as_dtype(weight.dtype).is_floating else tf.constant(True)
        for weight in weights
    ]


def check_finite(step: int, weights: Sequence[Any], finite: Sequence[bool]) -> None:
    """To be called before anything of a checkpoint is written.

    Args:
      step: the global step.
      weights: of the model.
      finite: the values of `are_finite(weights)`.

    Raises:
      UserError: one is not finite.
    """
    bad = [variable_name(weight) for weight, is_finite in zip(weights, finite) if not is_finite]
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise UserError(
            f"the weights {bad[0]}{more} are not finite after step {step}; nothing of this step was saved: lower "
            "--learning_rate and start again, the checkpoints before it are good"
        )


@contextlib.contextmanager
def failure_explained(step: int) -> Iterator[None]:
    """Turns what comes of a full disk, a quota, a limit or missing permissions into one line, while something is saved.

    TensorFlow reports a full disk by the very error that stands for the end of the data, so it must not get out of here.

    Args:
      step: the global step.

    Raises:
      UserError: something could not be written.
    """
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise _failed(step, f"{where}{error.strerror or error}") from error
    except tf.errors.OpError as error:
        said = _FILE_AND_WHY.search(str(error))
        raise _failed(step, ": ".join(said.groups()) if said else one_line(error)) from error


def _failed(step: int, why: str) -> UserError:
    return UserError(
        f"saving at step {step} failed: {why}; make room or mend it and run the same command again, the checkpoints before it "
        "are good"
    )
