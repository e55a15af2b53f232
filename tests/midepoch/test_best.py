"""The best so far: what counts as better, and what is remembered between processes."""

import json
import math

import numpy as np
import pytest

from midepoch import best as best_lib
from midepoch import model_dir
from midepoch.errors import UserError

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "value, best, mode, expected",
    [
        (0.5, None, "max", True),
        (0.5, 0.4, "max", True),
        (0.5, 0.5, "max", False),  # a tie
        (0.5, 0.6, "max", False),
        (0.5, 0.6, "min", True),
        (0.5, 0.5, "min", False),
        (0.5, 0.4, "min", False),
        (-1.0, None, "min", True),
        (0.0, -1.0, "max", True),
        (NAN, None, "max", False),
        (NAN, 0.1, "max", False),
        (None, None, "max", False),
        (None, 0.1, "min", False),
        (INF, 0.1, "max", False),
        (-INF, 0.1, "min", False),
        (0.1, NAN, "max", True),
        (0.1, INF, "max", True),
    ],
)
def test_is_better(value, best, mode, expected):
    assert best_lib.is_better(value, best, mode) is expected


@pytest.mark.parametrize(
    "metric, mode, expected",
    [
        ("accuracy", "auto", "max"),
        ("AUC", "auto", "max"),
        ("loss", "auto", "min"),
        ("mean_absolute_error", "auto", "min"),
        ("accuracy", "min", "min"),
        ("anything", "max", "max"),
    ],
)
def test_resolve_mode(metric, mode, expected):
    assert best_lib.resolve_mode(metric, mode) == expected


def test_mode_of_an_unknown_metric_has_to_be_given():
    with pytest.raises(UserError, match="--best_mode=auto cannot tell whether a larger gain is better"):
        best_lib.resolve_mode("gain", "auto")


def metrics(step, accuracy):
    return {"accuracy": accuracy, "loss": 0.5, "global_step": step, "epoch": 1.0}


def test_best_survives_a_restart_and_a_worse_first_evaluation_does_not_replace_it(tmp_path):
    first = best_lib.Best(str(tmp_path), "accuracy", "max")
    assert first.value is None and first.step is None
    assert first.beaten_by(metrics(5, 0.75))
    first.record_best(metrics(5, 0.75))
    first.record_last(metrics(5, 0.75))
    first.record_last(metrics(10, 0.5))

    second = best_lib.Best(str(tmp_path), "accuracy", "max")
    assert (second.value, second.step, second.last["global_step"]) == (0.75, 5, 10)
    assert not second.beaten_by(metrics(12, 0.7))
    assert not second.beaten_by(metrics(12, 0.75))
    assert not second.beaten_by(metrics(12, None))
    assert second.beaten_by(metrics(12, 0.76))


def test_kill_between_best_and_last_metrics_leaves_the_evaluation_due(tmp_path):
    best = best_lib.Best(str(tmp_path), "accuracy", "max")
    best.record_last(metrics(5, 0.5))
    best.record_best(metrics(10, 0.75))
    again = best_lib.Best(str(tmp_path), "accuracy", "max")
    assert again.last["global_step"] == 5
    assert not again.beaten_by(metrics(10, 0.75))  # evaluated again, it ties with itself: nothing is written twice


def test_first_evaluation_that_is_not_finite_is_no_best(tmp_path):
    best = best_lib.Best(str(tmp_path), "accuracy", "max")
    assert not best.beaten_by(metrics(5, None))
    best.record_last(metrics(5, None))
    again = best_lib.Best(str(tmp_path), "accuracy", "max")
    assert again.value is None
    assert again.beaten_by(metrics(10, 0.1))


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"accuracy": 1.0}'])
def test_unreadable_metrics_file_counts_as_none(tmp_path, text):
    (tmp_path / model_dir.BEST_METRICS_FILE).write_text(text)
    assert best_lib.Best(str(tmp_path), "accuracy", "max").value is None


def test_unknown_metric_is_named_with_the_known_ones(tmp_path):
    with pytest.raises(UserError, match="--best_metric=f1 is no metric of this task; give one of accuracy, loss"):
        best_lib.Best(str(tmp_path), "f1", "max").beaten_by(metrics(5, 0.5))


def test_record_is_flat_sorted_and_valid_json():
    record = best_lib.as_record({"loss": np.float32(0.1), "accuracy": np.float32(NAN)}, np.int64(7), 46, 23)
    assert list(record) == ["accuracy", "loss", "global_step", "epoch"]
    assert record == {"accuracy": None, "loss": float(np.float32(0.1)), "global_step": 7, "epoch": 2.0}
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert not math.isnan(record["loss"])


def test_record_without_epochs():
    assert best_lib.as_record({"loss": 1.0}, 7, 46, None)["epoch"] == 0.0
