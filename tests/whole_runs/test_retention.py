"""Which checkpoints are left at the end of a run, where the rules were changed or the clock has moved on in between."""

import re
import shutil
import time

import tensorflow as tf

from midepoch import model_dir
from tests.whole_runs import table_runs


def steps_left(directory):
    return sorted(model_dir.steps_on_disk(str(directory)))


def test_all_are_kept_and_later_only_some(program, data, tmp_path):
    run = tmp_path / "run"
    table_runs.train(program, run, data, keep_checkpoint_max=0)
    assert steps_left(run) == [0, 2, 4, 6, 8, 10, 12, 13]
    table_runs.train(program, run, data, stop_after=None, keep_checkpoint_max=3)
    assert steps_left(run) == [14, 16, 18]


def test_a_run_that_keeps_all_lists_all_after_a_restart_too(program, data, tmp_path):
    run = tmp_path / "run"
    for stop_after in (5, 9):
        table_runs.train(program, run, data, stop_after=stop_after, keep_checkpoint_max=0)
    assert steps_left(run) == [0, 2, 4, 5, 6, 8, 9]
    listed = tf.train.get_checkpoint_state(str(run)).all_model_checkpoint_paths
    assert [model_dir.step_of(prefix) for prefix in listed] == steps_left(run)
    table_runs.train(program, run, data, keep_checkpoint_max=3)
    assert steps_left(run) == [10, 12, 13]


def test_one_for_every_n_hours_is_kept_after_a_pause_and_not_one_for_each_hour_of_it(trained, data, tmp_path):
    program, healthy = trained
    run = tmp_path / "run"
    shutil.copytree(healthy, run)
    state = re.sub("last_preserved_timestamp: .*", "", (run / "checkpoint").read_text())
    (run / "checkpoint").write_text(f"{state.rstrip()}\nlast_preserved_timestamp: {time.time() - 3 * 86400!r}\n")
    table_runs.train(program, run, data, stop_after=None, keep_checkpoint_every_n_hours=24.0)
    assert steps_left(run) == [10, 14, 16, 18]


def test_run_that_starts_elsewhere_before_its_first_save_says_so(program, data, tmp_path):
    """run.json is written before the first save; if that never came, what it says of the start is void."""
    model_dir.make_directory(str(tmp_path / "run"))
    run_file = str(tmp_path / "run" / model_dir.RUN_FILE)
    with table_runs.start(program, tmp_path / "run", data):
        written = model_dir.read_json(run_file)
    assert written["first_step"] == 0
    model_dir.write_json(run_file, {**written, "first_step": 12})  # by a start from elsewhere
    with table_runs.start(program, tmp_path / "run", data):
        assert model_dir.read_json(run_file)["first_step"] == 0
