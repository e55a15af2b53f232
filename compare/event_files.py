"""What the TensorBoard event files of a model_dir hold."""

import glob
import os
from typing import Dict, List, NamedTuple

import tensorflow as tf


class Start(NamedTuple):
    """A start that announced itself.

    Attributes:
      step: its first step; what an earlier one has drawn from there on is void.
      at: when, in seconds since 1970.
    """

    step: int
    at: float


class Scalars(NamedTuple):
    """The scalars of a model_dir.

    Attributes:
      shown: tag → {step: value}: what TensorBoard shows, each step once.
      written: tag → all values in the order they were written, those of steps that were done again included.
      starts: the starts, in order.
      cut: names of files that end in a record that cannot be read, or cannot be read at all; what stands before it is in the above.
    """

    shown: Dict[str, Dict[int, float]]
    written: Dict[str, List[float]]
    starts: List[Start]
    cut: List[str]


def read_scalars(directory: str) -> Scalars:
    """Reads all event files of a directory, in the order in which TensorBoard reads them."""
    found = Scalars({}, {}, [], [])
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "events.out.tfevents.*"))):
        try:
            # The messages and their reader have public names in compat.v1 only.
            for event in tf.compat.v1.train.summary_iterator(path):
                _take(found, event)
        except tf.errors.OpError:  # a kill has cut it; or it may not be read
            found.cut.append(os.path.basename(path))
    return found


def _take(found: Scalars, event) -> None:
    if event.session_log.status == tf.compat.v1.SessionLog.START:
        found.starts.append(Start(event.step, event.wall_time))
        for points in found.shown.values():
            for step in [step for step in points if step >= event.step]:
                del points[step]
    for value in event.summary.value:
        found.shown.setdefault(value.tag, {})[event.step] = value.simple_value
        found.written.setdefault(value.tag, []).append(value.simple_value)
