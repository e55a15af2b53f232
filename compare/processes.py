"""Training programs as real processes: started by their command lines, watched, killed."""

import os
import subprocess
import sys
import time
from typing import Callable, List, NamedTuple, Optional

from compare.observe import RESUME_LINE, STEP_LINE


def new_directory(kind: str, given: Optional[str]) -> str:
    """Returns the directory for a comparison's runs: that of --out_dir, or a new one in runs/; exits if it is in use.

    Args:
      kind: of the comparison, such as "soak".
      given: the flag's value, or None.
    """
    out_dir = given or time.strftime(f"runs/{kind}-%Y%m%d-%H%M%S")
    if os.path.exists(out_dir) and (not os.path.isdir(out_dir) or os.listdir(out_dir)):
        sys.exit(f"error: --out_dir={out_dir} exists and is not an empty directory; give a new one, nothing is deleted here")
    return out_dir


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
      exit_code: its exit code; the negative number of the signal that ended it.
      resumed_at: the step it said to resume at, or None.
      step: the last step it told of, or None.
    """

    exit_code: int
    resumed_at: Optional[int]
    step: Optional[int]


def command(program: str, flags: List[str]) -> List[str]:
    """Returns the command line of `lowlevel` or `estimator`."""
    return [sys.executable, "-m", f"{program}.train", *flags]


def run(arguments: List[str], say: Callable[[str], None], kill_at: Callable[[int], bool] = lambda step: False) -> Ended:
    """Runs a process to its end, or to the point where it is to die.

    Args:
      arguments: the command line.
      say: takes each line the process prints.
      kill_at: asked with each step the process tells of; True sends SIGKILL at once.
    """
    resumed_at = step = None
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    try:
        for line in process.stdout:
            step_line, resume_line = STEP_LINE.match(line), RESUME_LINE.match(line)
            if step_line:
                step = int(step_line["step"])
                if kill_at(step):
                    process.kill()
            if resume_line:
                resumed_at = int(resume_line.group(1))
            say(line.rstrip("\n"))
    finally:
        process.kill()  # does nothing to a process that has ended
    return Ended(process.wait(), resumed_at, step)
