"""The processes of a comparison: each in a process group of its own, and none of them outlives the comparison."""

import os
import signal
import subprocess
import threading
from typing import List, NamedTuple, Set


class Stopped(Exception):
    """The comparison has been stopped; nothing is started any more."""


class Ending(NamedTuple):
    """How a process ended.

    Attributes:
      exit_code: its exit code; the negative number of the signal that ended it.
      peak_memory_bytes: the most memory it had in use at once.
      cpu_secs: processor time, of all its threads.
    """

    exit_code: int
    peak_memory_bytes: int
    cpu_secs: float


class Children:
    """Starts processes, and ends all of them when told to; may be used by several threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running: Set[int] = set()
        self._stopped = False

    def start(self, command: List[str]) -> subprocess.Popen:
        """Starts a process whose standard output and error come through one pipe.

        Raises:
          Stopped: `stop` has been called.
        """
        with self._lock:
            if self._stopped:
                raise Stopped
            # A group of its own: Ctrl-C reaches the comparison alone, which then ends the group, whatever that has started.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
            self._running.add(process.pid)
            return process

    def kill(self, process: subprocess.Popen) -> None:
        """Sends SIGKILL to a process that has not been waited for, and to all that it has started."""
        os.killpg(process.pid, signal.SIGKILL)

    def wait(self, process: subprocess.Popen) -> Ending:
        """Waits for the end of a process."""
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:  # from here on another process may get its number
            _, status, usage = os.wait4(process.pid, 0)
            self._running.discard(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        return Ending(process.returncode, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)

    @property
    def stopped(self) -> bool:
        """Whether `stop` has been called."""
        return self._stopped

    def stop(self) -> None:
        """Kills all that run, and lets nothing start any more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                os.killpg(process, signal.SIGKILL)
