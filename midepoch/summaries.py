"""TensorBoard event files that show each step once, however often the run was killed.

TensorBoard drops the points a killed run wrote beyond its last checkpoint if every start announces itself by a
SessionLog.START event with the step it continues with. The files are written as what they are, TFRecords of Event
messages, since `tf.summary` works only eagerly and the v1 writer only in graphs, and this class serves both programs.
"""

import glob
import os
import socket
import time
from typing import Callable, Dict

import tensorflow as tf

# The public names of these messages are in compat.v1 only.
_Event = tf.compat.v1.Event
_Summary = tf.compat.v1.Summary
_SessionLog = tf.compat.v1.SessionLog


def wait_for_a_name(directory: str, clock: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep) -> None:
    """Waits, for a second at most, until a `tf.compat.v1.summary.FileWriter` would not write over a file that is there.

    It names its file by the whole second and the host alone. Two starts within a second happen only within one process.

    Args:
      directory: where the writer is to be made.
      clock: returns the seconds since 1970; another one for tests.
      sleep: waits for so many seconds; another one for tests.
    """
    while glob.glob(os.path.join(glob.escape(directory), f"events.out.tfevents.{int(clock()):010d}.*")):
        sleep(0.05)


class EventWriter:
    """Appends scalars to a new event file.

    Args:
      directory: where TensorBoard looks; made if missing.
      next_step: the first step that this process may write; what an earlier one wrote from there on is void.
    """

    def __init__(self, directory: str, next_step: int):
        os.makedirs(directory, exist_ok=True)
        secs, nanosecs = divmod(time.time_ns(), 10**9)  # TensorBoard reads the files in the order of their names
        name = f"events.out.tfevents.{secs:010d}.{socket.gethostname()}.{os.getpid()}.{nanosecs:09d}"
        self._writer = tf.io.TFRecordWriter(os.path.join(directory, name))
        self._write(_Event(file_version="brain.Event:2"))
        self._write(_Event(session_log=_SessionLog(status=_SessionLog.START), step=next_step))
        self.flush()

    def _write(self, event) -> None:
        event.wall_time = time.time()
        self._writer.write(event.SerializeToString())

    def scalars(self, step: int, values: Dict[str, float]) -> None:
        """Adds one point to each of the named curves."""
        summary = _Summary(value=[_Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._write(_Event(step=step, summary=summary))

    def flush(self) -> None:
        """Hands everything to the operating system; before a checkpoint is committed, so that none of its steps is lost."""
        self._writer.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._writer.close()
