import subprocess
import sys

import pytest

from compare import demo
from compare.ledger_check import Tally


def outcomes(**changes):
    killed = demo.Outcome(kills=[demo.Kill(step=180, resumed_at=150)], tally=Tally(0, 0), accuracy=0.93)
    return {("lowlevel", True): killed._replace(**changes), ("lowlevel", False): killed._replace(kills=[])}


def test_report_of_a_run_that_resumed_as_it_should():
    lines, good = demo.report(outcomes(), {"lowlevel": None})
    assert good
    assert lines[0] == (
        "ok   lowlevel: killed after step 180 (epoch 8, 12 of 24 batches done), resumed at step 150, 30 steps done again"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"kills": []},
        {"kills": [demo.Kill(step=180, resumed_at=None)]},
        {"kills": [demo.Kill(step=180, resumed_at=180)]},
        {"kills": [demo.Kill(step=168, resumed_at=150)]},  # at the end of an epoch
        {"tally": Tally(1, 0)},
        {"tally": Tally(0, 1)},
        {"accuracy": 0.92},
    ],
)
def test_report_sees_what_is_wrong(changes):
    lines, good = demo.report(outcomes(**changes), {"lowlevel": None})
    assert not good
    assert [line for line in lines if line.startswith("BAD")]


def test_report_sees_differing_weights():
    assert not demo.report(outcomes(), {"lowlevel": "conv1/kernel: 1 of 9 values differ"})[1]
    assert not demo.report(outcomes(), {"lowlevel": None, "parity": "conv1/kernel: 1 of 9 values differ"})[1]


def test_report_sees_an_accuracy_that_nothing_but_chance_explains():
    poor = {kind: outcome._replace(accuracy=0.1) for kind, outcome in outcomes().items()}
    assert not demo.report(poor, {"lowlevel": None})[1]


def test_there_are_moments_to_kill_at_and_each_is_far_from_a_checkpoint():
    moments = [step for step in range(0, demo.NUM_EPOCHS * demo.STEPS_PER_EPOCH, demo.LOG_STEPS) if demo.is_mid_epoch(step)]
    assert len(moments) >= 2
    saves = [s for s in range(0, 300) if s % demo.SAVE_STEPS == 0 or s % (3 * demo.STEPS_PER_EPOCH) == 0]
    assert all(min(abs(step - save) for save in saves) >= 10 for step in moments)


def test_out_dir_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "precious").write_text("data")
    ended = subprocess.run(
        [sys.executable, "-m", "compare.demo", f"--out_dir={tmp_path}"], capture_output=True, encoding="utf-8", check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1 and str(tmp_path) in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
