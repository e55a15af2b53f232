import signal
import subprocess
import sys
import time

import pytest

from compare.children import Children, Stopped

SLEEPER = [
    sys.executable,
    "-c",
    (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read(); import time;"
        " time.sleep(60)"
    ),
]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


MEASURE = """
import sys
from compare.children import Children
children = Children()
code = "x = bytearray(80_000_000); x[::4096] = b'1' * len(x[::4096]); raise SystemExit(7)"
ending = children.wait(children.start([sys.executable, "-c", code]))
assert ending.exit_code == 7, ending
assert 80e6 < ending.peak_memory_bytes < 150e6, ending
assert 0 < ending.cpu_secs < 10, ending
"""


def test_ending_tells_code_memory_and_time():
    # In a small process: a child counts the memory of its parent as its own, and this one has TensorFlow in it.
    assert subprocess.run([sys.executable, "-c", MEASURE], check=False).returncode == 0


def test_stop_ends_all_processes_and_what_they_have_started():
    children = Children()
    processes = [children.start(SLEEPER) for _ in range(2)]
    grandchildren = [int(process.stdout.readline()) for process in processes]
    assert all(map(is_alive, grandchildren))
    children.stop()
    assert [children.wait(process).exit_code for process in processes] == [-signal.SIGKILL] * 2
    for _ in range(100):
        if not any(map(is_alive, grandchildren)):
            break
        time.sleep(0.02)
    assert not any(map(is_alive, grandchildren))
    with pytest.raises(Stopped):
        children.start(SLEEPER)
    assert children.stopped


def test_importing_the_comparison_imports_no_tensorflow():
    """Else every process would be measured as large as TensorFlow, at least; see above."""
    code = "import sys, compare.__main__; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
