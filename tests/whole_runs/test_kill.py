"""Real processes, real SIGKILLs at random moments: the finished run is the undisturbed one, bit for bit."""

import concurrent.futures
import itertools
import os
import random
import subprocess
import sys
import threading
import time

import pytest
import tensorflow as tf

from compare.weights import first_difference, read_variables
from midepoch import model_dir
from tests.whole_runs import runs

KILLS = 10
EPOCHS = 30
EXAMPLES, BATCH_SIZE, STEPS_PER_EPOCH = 1500, 48, 32
STEPS = EPOCHS * STEPS_PER_EPOCH


def command(program, directory):
    flags = dict(
        model_dir=directory, num_epochs=EPOCHS, batch_size=BATCH_SIZE, shuffle_window=600, shuffle_block=50,
        save_checkpoints_steps=25, eval_every_epochs=3, keep_checkpoint_max=2, log_every_steps=10, record_examples=True, seed=5,
        export=False,
    )
    return [sys.executable, "-m", f"{program}.train", *(f"--{name}={value}" for name, value in flags.items())]


def start(program, directory):
    return subprocess.Popen(
        command(program, directory), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def kill_at_random(program, directory, generator):
    """Starts the program, kills it with SIGKILL at a random moment of its training; returns what it had printed."""
    process = start(program, directory)
    steps_to_see = generator.randint(1, 6)
    lines = []
    for line in process.stdout:
        lines.append(line)
        steps_to_see -= line.startswith("step ")
        if steps_to_see == 0:
            break
    threading.Event().wait(generator.random() * 0.1)
    process.kill()
    lines += process.stdout.read().splitlines()
    assert process.wait() == -9, "".join(lines)
    return lines


def finish(program, directory):
    process = start(program, directory)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    return output


def killed_and_undisturbed(program, root):
    """Runs a program to its end twice: killed again and again, and not at all; returns what the first said at its end."""
    generator = random.Random(f"{program} {time.time_ns()}")
    for _ in range(KILLS):
        kill_at_random(program, str(root / f"{program}-killed"), generator)
    output = finish(program, str(root / f"{program}-killed"))
    finish(program, str(root / f"{program}-undisturbed"))
    return output


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The runs of all programs, side by side; (their folder, program → output of its last start)."""
    root = tmp_path_factory.mktemp("kills")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        futures = {program: pool.submit(killed_and_undisturbed, program, root) for program in runs.PROGRAMS}
        return root, {program: future.result() for program, future in futures.items()}


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_killed_run_ends_as_the_undisturbed_one(program, outputs):
    root, texts = outputs
    killed, undisturbed = root / f"{program}-killed", root / f"{program}-undisturbed"
    assert f"{KILLS + 1} starts, {KILLS} kills" in texts[program]
    runs.assert_same_bits(runs.last_variables(killed), runs.last_variables(undisturbed))
    assert runs.metrics_files(killed) == runs.metrics_files(undisturbed)
    best = [model_dir.newest_valid(str(directory / "best_weights")) for directory in (killed, undisturbed)]
    assert model_dir.step_of(best[0]) == model_dir.step_of(best[1])
    runs.assert_same_bits(runs.variables(best[0]), runs.variables(best[1]))
    assert runs.scalars(killed / "eval", "accuracy") == runs.scalars(undisturbed / "eval", "accuracy")
    assert sorted(runs.scalars(killed, "loss")) == list(range(10, STEPS + 1, 10))
    assert runs.scalars(killed, "loss") == runs.scalars(undisturbed, "loss")


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_ledger_has_every_example_exactly_once_per_epoch(program, outputs):
    root, _ = outputs
    ids = list(itertools.chain(*runs.example_ids(root / f"{program}-killed", STEPS)))
    for epoch in range(EPOCHS):
        assert sorted(ids[epoch * EXAMPLES : (epoch + 1) * EXAMPLES]) == list(range(EXAMPLES))
    assert ids == list(itertools.chain(*runs.example_ids(root / f"{program}-undisturbed", STEPS)))


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_nothing_is_left_lying_around(program, outputs):
    root, _ = outputs
    names = {
        directory: sorted(p.name for p in (root / directory).rglob("*") if "tfevents" not in p.name and p.is_file())
        for directory in (f"{program}-killed", f"{program}-undisturbed")
    }
    assert names[f"{program}-killed"] == names[f"{program}-undisturbed"]
    assert tf.train.latest_checkpoint(str(root / f"{program}-killed")).endswith(f"model.ckpt-{STEPS}")


@pytest.mark.skipif(not runs.HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")
def test_both_programs_end_with_the_same_weights(outputs):
    root, _ = outputs
    weights = [read_variables(model_dir.newest_valid(str(root / f"{program}-killed"))) for program in runs.PROGRAMS]
    assert first_difference(*weights) is None
    assert runs.metrics_files(root / "lowlevel-killed") == runs.metrics_files(root / "estimator-killed")
