"""The two programs are one training run: same ids, same losses, same weights after every checkpoint, same metrics files."""

import pytest

from compare.weights import read_variables
from midepoch import model_dir
from tests.whole_runs import runs

pytestmark = pytest.mark.skipif(not runs.HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")


STATISTICS = {runs.Small: None, runs.SmallWithBatchNorm: "moving_mean", runs.SmallWithAssignments: "mean"}


@pytest.mark.parametrize("task", STATISTICS, ids=["dropout", "batchnorm", "assignments"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_same_bits_in_both_programs(task, optimizer, tmp_path):
    flags = dict(
        num_epochs=2, optimizer=optimizer, save_checkpoints_steps=1, keep_checkpoint_max=0, log_every_steps=1,
        record_examples=True, **runs.write_data(str(tmp_path)),
    )
    for program in runs.PROGRAMS:
        runs.train(program, tmp_path / program, task(), **flags)
    first, second = (tmp_path / program for program in runs.PROGRAMS)
    steps = 2 * runs.STEPS_PER_EPOCH
    assert runs.example_ids(first, steps) == runs.example_ids(second, steps)
    assert runs.scalars(first, "loss") == runs.scalars(second, "loss")
    assert runs.metrics_files(first) == runs.metrics_files(second)
    assert runs.scalars(first / "eval", "accuracy") == runs.scalars(second / "eval", "accuracy")
    before = None
    for step in range(steps + 1):
        weights = [read_variables(model_dir.prefix_of(str(directory), step)) for directory in (first, second)]
        runs.assert_same_bits(*weights)
        assert before is None or any((weights[0][key] != before[key]).any() for key in before), "nothing was trained"
        before = weights[0]
    moved = [key for key, value in before.items() if STATISTICS[task] and STATISTICS[task] in key and value.any()]
    assert bool(moved) == bool(STATISTICS[task])


def test_buffer_shuffle_gives_the_same_ids_in_both_programs(tmp_path):
    flags = dict(num_epochs=2, shuffle="buffer", shuffle_buffer_size=10, record_examples=True, **runs.write_data(str(tmp_path)))
    for program in runs.PROGRAMS:
        runs.train(program, tmp_path / program, **flags)
    first, second = (tmp_path / program for program in runs.PROGRAMS)
    assert runs.example_ids(first, 12) == runs.example_ids(second, 12)
    assert runs.metrics_files(first) == runs.metrics_files(second)
