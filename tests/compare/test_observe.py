import resource
import signal
import sys
import textwrap

import pytest

from compare import observe
from compare.children import Children
from compare.observe import Event, Plan
from compare.watch import Change

PROGRAM = """
import json, os, sys, time
directory = sys.argv[1]
print("resume at step 100 from model.ckpt-100 (verified, 0 s old): epoch 5, 4 of 24 batches done", flush=True)
ledger = open(os.path.join(directory, "examples.jsonl"), "a")
for step in (101, 102):
    print(json.dumps({"step": step, "example_ids": [1]}), file=ledger, flush=True)
    time.sleep(0.05)
print("step 110/288   epoch 5 14/24   loss 0.2577   2341 examples/s   0:33 left", flush=True)
manifest = os.path.join(directory, "model.ckpt-110.manifest.json")
open(manifest + ".tmp", "w").close()
os.replace(manifest + ".tmp", manifest)
print("step 120/288   epoch 5 24/24   loss 1e-05", flush=True)
time.sleep(SLEEP)
sys.stderr.write("the last words")
sys.exit(3)
"""


def watch_program(tmp_path, is_to_die=lambda step, plan: False, sleep=0.0):
    directory = tmp_path / "run"
    directory.mkdir(exist_ok=True)
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM).replace("SLEEP", str(sleep)), str(directory)]
    told = []
    log = str(tmp_path / "run.log")
    return observe.observe(command, str(directory), ("best_weights",), log, Children(), is_to_die, told.append), told


def test_what_a_process_does_is_seen_from_outside(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "examples.jsonl").write_text('{"step": 300, "example_ids": [1]}\n')  # of an earlier process
    observation, told = watch_program(tmp_path)
    assert observation.events == told
    seen = {(event.kind, event.step, event.loss) for event in told}
    assert seen == {
        ("resumed", 100, None), ("step", 101, None), ("step", 102, None), ("step", 110, 0.2577), ("save began", 110, None),
        ("save ended", 110, None), ("step", 120, 1e-05),
    }  # fmt: skip
    assert all(observation.began <= event.at <= observation.ended for event in told)
    assert observation.exit_code == 3 and not observation.was_killed
    assert observation.last_lines[0].startswith("resume at step 100") and observation.last_lines[-1] == "the last words"
    assert (tmp_path / "run.log").read_text().endswith("the last words")
    ours = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux counts it as the child's, from before its exec
    assert 1e6 < observation.peak_memory_bytes < max(1e9, 1.1 * ours) and 0 < observation.cpu_secs < 10


def test_kill_at_a_step(tmp_path):
    asked = []

    def is_to_die(step, plan):
        asked.append((step, plan))
        return step >= 110

    observation, _ = watch_program(tmp_path, is_to_die, sleep=60)
    assert observation.was_killed and observation.exit_code == -signal.SIGKILL
    assert (110, Plan(288, 24)) in asked and (101, None) in asked
    assert observation.ended - observation.began < 30


@pytest.mark.parametrize(
    "line, event, plan",
    [
        ("step 30/288   epoch 2 6/24   loss 0.5   9 examples/s", Event(0.0, "step", 30, 0.5), Plan(288, 24)),
        ("step 30/288   loss 0.5", Event(0.0, "step", 30, 0.5), Plan(288, None)),
        ("step 30/288", Event(0.0, "step", 30, None), Plan(288, None)),
        ("fresh start: no checkpoint in run1", Event(0.0, "resumed", 0), None),
        ("resume at step 7 from somewhere", Event(0.0, "resumed", 7), None),
        ("eval  epoch 5    accuracy improved 0.9583 → 0.9611 (step 120), best saved", None, None),
    ],
)
def test_lines(line, event, plan):
    assert observe.event_of_line(line, 0.0) == (event, plan)


@pytest.mark.parametrize(
    "change, event",
    [
        (Change("created", "model.ckpt-5.manifest.json.tmp"), Event(0.0, "save began", 5)),
        (Change("renamed", "model.ckpt-5.manifest.json"), Event(0.0, "save ended", 5)),
        (Change("renamed", "best_weights/model.ckpt-5.manifest.json"), Event(0.0, "save ended", 5, in_best=True)),
        (Change("renamed", "metrics_eval_last_weights.json"), Event(0.0, "evaluated")),
        (Change("created", "export/temp-17"), Event(0.0, "export began")),
        (Change("renamed", "export/17"), Event(0.0, "export ended")),
        (Change("modified", "model.ckpt-5.manifest.json.tmp"), None),
        (Change("renamed", "run.json"), None),
        (Change("created", "model.ckpt-5.index"), None),
    ],
)
def test_files(change, event):
    assert observe._event_of_file(change, 0.0) == event
