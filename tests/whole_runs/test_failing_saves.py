"""Saves that cannot be: one line, the checkpoints before stay, and once there is room the run ends as if nothing had been."""

import contextlib
import os
import resource
import subprocess

import pytest

from midepoch import model_dir
from midepoch.errors import UserError
from midepoch.stopping import Stopping
from tests.whole_runs import runs

EPOCHS = 2
STEPS = EPOCHS * runs.STEPS_PER_EPOCH
FLAGS = dict(num_epochs=EPOCHS, save_checkpoints_steps=1, keep_checkpoint_max=3, record_examples=True)


class From(Stopping):
    """Does something once, after a step."""

    def __init__(self, step, action):
        super().__init__()
        self._step = step
        self._action = action

    def requested(self, step):
        if step == self._step:
            self._action()
        return super().requested(step)


@pytest.fixture(scope="module", params=runs.PROGRAMS)
def undisturbed(request, tmp_path_factory, data):
    directory = tmp_path_factory.mktemp(f"undisturbed-{request.param}")
    runs.train(request.param, directory, **FLAGS, **data)
    return request.param, directory


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    while os.path.ismount(disk):
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fails_at_a_save_and_goes_on(undisturbed, data, directory, action, mend, why):
    program, reference = undisturbed
    with pytest.raises(UserError, match=why) as caught:
        runs.train(program, directory, stopping=From(8, action), **FLAGS, **data)
    assert "\n" not in str(caught.value)
    assert model_dir.newest_valid(str(directory)).endswith("model.ckpt-8")
    mend()
    assert runs.train(program, directory, **FLAGS, **data).finished
    runs.assert_same_bits(runs.last_variables(directory), runs.last_variables(reference))
    runs.assert_exactly_once(directory, STEPS)
    assert runs.metrics_files(directory) == runs.metrics_files(reference)
    listings = [
        sorted(p.name for p in place.rglob("*") if p.is_file() and "tfevents" not in p.name) for place in (directory, reference)
    ]
    assert listings[0] == listings[1]


@pytest.mark.parametrize("pages_left", [0, 3])  # nothing can be written; the data can, what comes after cannot
def test_disk_full(undisturbed, data, small_disk, pages_left):
    def fill():
        with open(small_disk / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        os.truncate(small_disk / "filler", os.path.getsize(small_disk / "filler") - 4096 * pages_left)

    mend = (small_disk / "filler").unlink
    why = "saving at step 9 failed: .*No space left on device; make room"
    fails_at_a_save_and_goes_on(undisturbed, data, small_disk / "run", fill, mend, why)


def test_read_only(undisturbed, data, small_disk):
    def remount(how):
        subprocess.run(["mount", "--bind", str(small_disk), str(small_disk)], check=True)
        subprocess.run(["mount", "-o", f"remount,bind,{how}", str(small_disk)], check=True)

    def mend():
        subprocess.run(["umount", "-l", str(small_disk)], check=True)

    why = "saving at step 9 failed: .*Read-only file system; make room"
    fails_at_a_save_and_goes_on(undisturbed, data, small_disk / "run", lambda: remount("ro"), mend, why)


def test_file_too_large(undisturbed, data, tmp_path):
    _, most = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    mend = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    try:
        fails_at_a_save_and_goes_on(
            undisturbed, data, tmp_path, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, most)), mend,
            "saving at step 9 failed: .*File too large; make room",
        )
    finally:
        mend()


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_weights_that_are_not_finite_are_never_saved(program, data, tmp_path):
    """The loss of step 1 is finite, and after it the weights are not: the learning rate is more than a float32 can hold."""
    with pytest.raises(UserError, match=r"the weights \S*hidden/kernel and \d more are not finite after step 1; nothing of this step"):
        runs.train(program, tmp_path, learning_rate=1e39, optimizer="sgd", **FLAGS, **data)
    assert model_dir.steps_on_disk(str(tmp_path)) == [0]
    assert not (tmp_path / "best_weights").exists()
    assert runs.train(program, tmp_path, learning_rate=0.1, optimizer="sgd", **FLAGS, **data).finished


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_loss_that_is_not_finite_ends_the_run_at_its_step(program, data, tmp_path):
    flags = dict(FLAGS, save_checkpoints_steps=5)
    with pytest.raises(UserError, match="the loss of step 2 is (nan|inf)"):
        runs.train(program, tmp_path, learning_rate=1e39, optimizer="sgd", **flags, **data)
    assert model_dir.steps_on_disk(str(tmp_path)) == [0]
