"""A short soak of each program, side by side: real SIGKILLs at random and aimed moments, signals, time limits."""

import re
import shutil
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from compare import soak
from compare.weights import first_difference, read_variables
from midepoch import model_dir
from tests.whole_runs import runs

# Time limits are met by the clock, which is no fair one while other tests use the machine: those are for `make soak`.
KILLS, SIGNALS, LIMITS = 10, 2, 0


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("soak")


@pytest.fixture(scope="module")
def outputs(root):
    """{program: what its soak printed}; all that `soak.differences` compares has been compared then."""
    numbers = [f"--kills={KILLS}", f"--signals={SIGNALS}", f"--limits={LIMITS}", f"--seed={time.time_ns()}"]
    started = {
        program: subprocess.Popen(
            [sys.executable, "-m", "compare.soak", f"--program={program}", f"--out_dir={root}", *numbers],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for program in runs.PROGRAMS
    }
    texts = {program: process.communicate()[0] for program, process in started.items()}
    for program, process in started.items():
        assert process.returncode == 0, texts[program]
    return texts


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_disturbed_runs_end_as_the_undisturbed_one(program, outputs):
    text = outputs[program]
    runs_compared = int(re.search(rf"{program}: ok: {KILLS} kills, (\d+) disturbed runs", text).group(1))
    assert runs_compared >= 2
    codes = {int(code): int(number) for number, code in re.findall(r"(\d+) × exit (\d+)", text)}
    assert set(codes) <= {0, 75} and sum(codes.values()) == SIGNALS


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_tensorboard_shows_every_step_of_a_killed_run_once(program, outputs, root):
    killed, undisturbed = root / f"{program}-2-killed", root / f"{program}-1-undisturbed"
    assert runs.history(killed)["kills"] > 0
    assert runs.scalars(killed / "eval", "accuracy") == runs.scalars(undisturbed / "eval", "accuracy")
    assert sorted(runs.scalars(killed, "loss")) == list(range(soak.LOG_STEPS, soak.STEPS + 1, soak.LOG_STEPS))
    assert runs.scalars(killed, "loss") == runs.scalars(undisturbed, "loss")
    assert tf.train.latest_checkpoint(str(killed)).endswith(f"model.ckpt-{soak.STEPS}")


@pytest.mark.skipif(not runs.HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")
def test_both_programs_end_with_the_same_weights(outputs, root):
    weights = [read_variables(model_dir.newest_valid(str(root / f"{program}-2-killed"))) for program in runs.PROGRAMS]
    assert first_difference(*weights) is None
    assert runs.metrics_files(root / "lowlevel-2-killed") == runs.metrics_files(root / "estimator-2-killed")


def test_what_differs_is_seen(outputs, root, tmp_path):
    """Control: a run that lacks its last step's examples and its last checkpoint is not the undisturbed one."""
    undisturbed, other = root / "lowlevel-1-undisturbed", tmp_path / "other"
    assert soak.differences(str(undisturbed), str(undisturbed)) == []
    shutil.copytree(undisturbed, other)
    ledger = (other / model_dir.EXAMPLES_FILE).read_text().splitlines(keepends=True)
    (other / model_dir.EXAMPLES_FILE).write_text("".join(ledger[:-1]))
    for path in other.glob(f"model.ckpt-{soak.STEPS}.*"):
        path.unlink()
    found = " ".join(soak.differences(str(other), str(undisturbed)))
    assert all(text in found for text in ("other files", "newest checkpoints", "other examples"))
