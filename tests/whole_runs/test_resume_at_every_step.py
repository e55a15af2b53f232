"""A run that is stopped at any of its steps, or at every one, goes on in a new object as a run that never stopped."""

import shutil

import pytest

from tests.whole_runs import runs, table_runs

EPOCHS = 3
STEPS = EPOCHS * runs.STEPS_PER_EPOCH
EVERY_STEP = dict(num_epochs=EPOCHS, save_checkpoints_steps=1, keep_checkpoint_max=0, log_every_steps=1, record_examples=True)


@pytest.fixture(scope="module", params=runs.PROGRAMS)
def undisturbed(request, tmp_path_factory, data):
    directory = tmp_path_factory.mktemp(f"undisturbed-{request.param}")
    result = runs.train(request.param, directory, **EVERY_STEP, **data)
    assert result.finished and result.step == STEPS
    return request.param, directory


def test_undisturbed_run_uses_every_example_once_per_epoch_in_an_order_of_its_own(undisturbed):
    _, directory = undisturbed
    runs.assert_exactly_once(directory, STEPS)
    ids = runs.example_ids(directory, STEPS)
    assert ids[: runs.STEPS_PER_EPOCH] != ids[runs.STEPS_PER_EPOCH : 2 * runs.STEPS_PER_EPOCH]
    assert [len(batch) for batch in ids[: runs.STEPS_PER_EPOCH]] == [4, 4, 4, 4, 4, 3]


def test_stop_and_go_on_at_every_step(undisturbed, data, tmp_path):
    """One run is stopped at every step there is; a copy of every stop goes on to the end without another."""
    program, reference = undisturbed
    chain = tmp_path / "chain"
    with table_runs.checks_remembered():
        for step in range(STEPS + 1):
            result = runs.train(program, chain, stop_after=step, **EVERY_STEP, **data)
            assert result.step == step
            if step < STEPS:
                shutil.copytree(chain, tmp_path / str(step))
        assert runs.history(chain) == {"starts": STEPS + 1, "kills": 0, "steps_done_again": 0}
        runs.assert_same_run(chain, reference)
        for step in range(STEPS):
            runs.train(program, tmp_path / str(step), **EVERY_STEP, **data)
            runs.assert_same_run(tmp_path / str(step), reference)
