"""The scripts of the README run as they stand there: the loop with a child that is killed, the Slurm job with a fake Slurm."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import REPOSITORY
from tests.test_readme import readme

FAKE_SRUN = """#!/bin/bash
"$@" &
until [ -e run1/model.ckpt-0.manifest.json ] || ! kill -0 $!; do sleep 0.1; done
kill -USR1 $!
wait $!
"""
FAKE_SCONTROL = """#!/bin/bash
echo "$@" > scontrol.txt
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory with the README's scripts, and a PATH on which `python`, `srun` and `scontrol` are what the test says."""
    scripts = re.findall(r"```bash\n(#!/bin/bash\n# ([\w.]+).*?)```", readme(), re.DOTALL)
    assert sorted(name for _, name in scripts) == ["keep_training.sh", "train.slurm"]
    for text, name in scripts:
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = tmp_path / "commands"
    commands.mkdir()
    python = f'#!/bin/bash\nexec {sys.executable} "$@"\n'
    for name, text in (("python", python), ("srun", FAKE_SRUN), ("scontrol", FAKE_SCONTROL)):
        (commands / name).write_text(text, encoding="utf-8")
        (commands / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", REPOSITORY)
    monkeypatch.setenv("PAUSE_SECS", "0")
    return tmp_path


@pytest.mark.parametrize("name", ["keep_training.sh", "train.slurm"])
def test_scripts_are_bash(place, name):
    assert subprocess.run(["bash", "-n", name], capture_output=True, text=True).stderr == ""


def test_loop_starts_a_killed_run_again_and_ends_when_it_is_done(place):
    command = ["bash", "keep_training.sh", "python", "-m", "lowlevel.train", "--model_dir=run1", "--num_epochs=8"]
    loop = subprocess.Popen([*command, "--log_every_steps=24"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = ""
    for line in loop.stdout:
        output += line
        if line.startswith("step ") and "ended with" not in output:
            os.kill(json.loads((place / "run1" / ".lock").read_text())["pid"], signal.SIGKILL)
    assert loop.wait() == 0, output
    assert "ended with 137, starting again" in output
    assert "done 192/192" in output and "2 starts, 1 kill" in output


def test_loop_hands_on_a_failure(place):
    done = subprocess.run(["bash", "keep_training.sh", "bash", "-c", "echo tried; exit 1"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "tried\n")


def test_slurm_job_is_requeued_when_slurm_warns_it(place, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 3600))
    done = subprocess.run(["bash", "train.slurm"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 75, done.stdout + done.stderr
    assert "by SIGUSR1, nothing lost" in done.stdout
    assert (place / "scontrol.txt").read_text() == "requeue 42\n"


def test_slurm_job_that_fails_is_not_requeued(place, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    monkeypatch.delenv("SLURM_JOB_END_TIME", raising=False)
    done = subprocess.run(["bash", "train.slurm"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "SLURM_JOB_END_TIME, which is not set" in done.stderr
    assert not (place / "scontrol.txt").exists()
