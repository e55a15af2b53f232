"""Runs that several test files copy; nobody changes them."""

import shutil

import pytest

from midepoch import model_dir
from tests.whole_runs import runs, table_runs


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The data of `Small`, as config values; also that of `trained` and `finished`."""
    return runs.write_data(str(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="session", params=runs.PROGRAMS)
def trained(request, tmp_path_factory, data):
    """(program, a run stopped in mid-epoch, with two checkpoints before its last one; the best is of the step of one)."""
    directory = tmp_path_factory.mktemp(f"trained-{request.param}") / "run"
    table_runs.train(request.param, directory, data)
    best = model_dir.newest_valid(str(directory / "best_weights"))
    assert model_dir.step_of(best) == 12 and model_dir.steps_on_disk(str(directory)) == [table_runs.STOPPED_AT, 12, 10]
    return request.param, directory


@pytest.fixture(scope="session")
def finished(trained, tmp_path_factory, data):
    """The same run, trained to its end undisturbed."""
    program, stopped = trained
    directory = tmp_path_factory.mktemp(f"finished-{program}") / "run"
    shutil.copytree(stopped, directory)
    assert table_runs.train(program, directory, data, stop_after=None).finished
    return directory
