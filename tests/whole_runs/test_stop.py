"""Real signals to real processes: the step is finished, everything saved, exit code 75, and the same command goes on."""

import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from midepoch import exports, model_dir
from midepoch.stopping import EVALUATION, SAVE, Stopping
from tests.whole_runs import runs


def start(program, directory):
    flags = dict(model_dir=directory, num_epochs=1000, save_checkpoints_steps=10**6, eval_every_epochs=1000, log_every_steps=10)
    return subprocess.Popen(
        [sys.executable, "-m", f"{program}.train", *(f"--{name}={value}" for name, value in flags.items())],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_signals_save_where_it_stands_and_more_of_them_change_nothing(program, tmp_path):
    process = start(program, str(tmp_path))
    output = ""
    for line in process.stdout:
        output += line
        if line.startswith("step ") and "SIGUSR1" not in output:
            process.send_signal(signal.SIGUSR1)
        if line.startswith(("SIGUSR1", "stopped")):
            process.send_signal(signal.SIGTERM)
    assert process.wait() == 75, output
    step = int(re.search(r"stopped at (\d+)/24000 by SIGUSR1, nothing lost", output).group(1))
    assert f"SIGUSR1: step {step} is finished, saving" in output
    assert f"model.ckpt-{step}.manifest.json" in {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_signal_before_anything_has_begun(program, tmp_path):
    process = start(program, str(tmp_path / "run"))
    while "tensorflow" not in open(f"/proc/{process.pid}/maps").read():  # it is being imported: the handler is there
        assert process.poll() is None
        threading.Event().wait(0.05)
    process.send_signal(signal.SIGINT)
    output = process.communicate()[0]
    assert process.returncode == 75 and "stopped before training began by SIGINT" in output
    assert not (tmp_path / "run").exists()


class StopInEvaluation(Stopping):
    """Gets a SIGTERM once an evaluation has begun."""

    def leaves(self, what, *ahead):
        left = super().leaves(what, *ahead)
        if ahead and what.startswith("the evaluation"):
            assert not left
            os.kill(os.getpid(), signal.SIGTERM)
        return left


class StopBeforeExport(Stopping):
    """Gets a SIGTERM when all that is left to do is the export."""

    def leaves(self, what, *ahead):
        if what == "the export":
            os.kill(os.getpid(), signal.SIGTERM)
        return super().leaves(what, *ahead)


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_evaluation_is_left_and_made_by_the_next_start(program, data, tmp_path, capsys):
    flags = dict(num_epochs=1, export=True, **data)
    result = runs.train(program, tmp_path, stopping=StopInEvaluation(), **flags)
    assert not result.finished and result.step == runs.STEPS_PER_EPOCH and result.metrics is None
    assert "SIGTERM: the evaluation of step 6 is left to the next start" in capsys.readouterr().out
    assert exports.newest(str(tmp_path)) is None  # nobody knows yet which weights are the best
    result = runs.train(program, tmp_path, **flags)
    assert result.finished and result.metrics["global_step"] == result.best_metrics["global_step"] == runs.STEPS_PER_EPOCH
    note = model_dir.read_json(os.path.join(result.export, exports.NOTE))
    assert (note["weights"], note["weights_step"]) == ("best", runs.STEPS_PER_EPOCH)


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_metrics_of_a_later_step_do_not_count_for_a_run_that_went_back(program, data, tmp_path):
    flags = dict(num_epochs=2, eval_every_epochs=1, save_checkpoints_steps=5, keep_checkpoint_max=0, **data)
    runs.train(program, tmp_path, **flags)
    for folder in (tmp_path, tmp_path / "best_weights"):  # all that is newer than step 10, which was not evaluated
        for path in folder.glob("model.ckpt-12.*"):
            path.write_bytes(b"damaged")
        for path in folder.glob("model.ckpt-6.*"):
            path.unlink()
    result = runs.train(program, tmp_path, stopping=StopInEvaluation(), **{**flags, "num_epochs": None, "train_steps": 11})
    assert (result.step, result.finished) == (11, False)
    assert runs.train(program, tmp_path, **flags).finished


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_export_is_left_and_made_by_the_next_start(program, data, tmp_path, capsys):
    flags = dict(num_epochs=1, export=True, **data)
    result = runs.train(program, tmp_path, stopping=StopBeforeExport(), **flags)
    assert not result.finished and result.export is None and exports.newest(str(tmp_path)) is None
    said = capsys.readouterr().out
    assert "SIGTERM: the export is left to the next start" in said and "stopped at 6/6 by SIGTERM, nothing lost" in said
    assert runs.train(program, tmp_path, **flags).export is not None


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_stop_is_obeyed_when_nobody_reads_any_more(program, tmp_path):
    """`| tee log` and Ctrl-C: tee ends first, and what the program says breaks the pipe."""
    process = start(program, str(tmp_path))
    for line in process.stdout:
        if line.startswith("step "):
            break
    process.stdout.close()
    process.send_signal(signal.SIGINT)
    assert process.wait() == 75
    assert model_dir.step_of(model_dir.newest_valid(str(tmp_path))) >= 10


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_no_evaluation_is_begun_that_would_not_end_before_the_limit(program, data, tmp_path, capsys):
    stopping = Stopping()
    stopping.expect({EVALUATION: 1000.0, SAVE: 1.0})
    result = runs.train(program, tmp_path, stopping=stopping, num_epochs=2, max_run_secs="600", **data)
    assert not result.finished and result.step == runs.STEPS_PER_EPOCH
    assert "--max_run_secs=600: the evaluation of step 6 is left to the next start" in capsys.readouterr().out
    prefix = model_dir.newest_valid(str(tmp_path))
    assert model_dir.read_manifest(prefix)["longest_secs"][EVALUATION] == 1000.0
