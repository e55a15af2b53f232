import signal
import sys

from compare import processes

PROGRAM = """
import time
print("resume at step 150 from model.ckpt-150 (verified, 0 s old)", flush=True)
for step in (160, 170, 180, 190):
    print(f"step {step}/200   loss 1.0", flush=True)
    time.sleep(30 if step == 180 and KILLED else 0)
"""


def run(killed, **kwargs):
    lines = []
    ended = processes.run([sys.executable, "-c", PROGRAM.replace("KILLED", str(killed))], lines.append, **kwargs)
    return ended, lines


def test_run_to_the_end():
    ended, lines = run(killed=False)
    assert ended == (0, 150, 190)
    assert lines[1] == "step 160/200   loss 1.0"


def test_kill_at_a_step():
    ended, lines = run(killed=True, kill_at=lambda step: step == 180)
    assert ended == (-signal.SIGKILL, 150, 180)
    assert lines[-1] == "step 180/200   loss 1.0"
