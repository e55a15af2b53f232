import subprocess
import sys

import pytest

from compare import fashion_mnist
from compare.fashion_mnist import Outcome
from compare.ledger_check import Tally

KILLED = Outcome(resumed_at=1200, tally=Tally(0, 0), accuracy=0.9012, secs=190.0)


def report(undisturbed=None, difference=None, **changes):
    outcomes = {
        ("lowlevel", False): KILLED._replace(resumed_at=None, **(undisturbed or {})),
        ("lowlevel", True): KILLED._replace(**changes),
    }
    return fashion_mnist.report(outcomes, {"lowlevel": difference})


def test_report_of_runs_that_are_as_they_should_be():
    lines, good = report()
    assert good
    assert lines == [
        "ok   lowlevel: best accuracy 0.9012, 3:10, examples lost / repeated 0 / 0",
        "ok   lowlevel: best accuracy 0.9012, 3:10, killed at step 1300, went on at 1200, "
        "weights: bit-identical to those of the undisturbed run, examples lost / repeated 0 / 0",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"resumed_at": None},  # started from scratch
        {"resumed_at": 800},  # the first epoch
        {"resumed_at": 1300},  # nothing was done again
        {"tally": Tally(1, 0)},
        {"tally": Tally(0, 1)},
        {"accuracy": 0.8899},
        {"difference": "conv1/kernel: 1 of 9 values differ"},
        {"undisturbed": {"accuracy": 0.8899}},
    ],
)
def test_report_sees_what_is_wrong(changes):
    lines, good = report(**changes)
    assert not good
    assert [line for line in lines if line.startswith("BAD")]


def test_bad_input_is_one_line_and_nothing_is_written(tmp_path):
    command = [sys.executable, "-m", "compare.fashion_mnist", "--input_dir=nowhere", f"--out_dir={tmp_path / 'out'}"]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert ended.returncode == 1
    assert "--input_dir=nowhere is no folder" in ended.stderr and ended.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
