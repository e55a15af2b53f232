import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from compare import __main__ as main
from compare import ledgers, programs, runs
from compare.children import Children
from compare.ledger_check import Tally, split_epochs, total
from midepoch.errors import UserError
from tests.compare.fake_peers.exact import NUM_EXAMPLES

PEERS = "tests.compare.fake_peers"
EPOCH_STEPS = 12


@pytest.fixture(autouse=True)
def fake_peers(monkeypatch):
    monkeypatch.setattr(programs, "PEERS_PACKAGE", PEERS)


def specs_of(names, out_dir, **given):
    given = {"batch_size": 25, "num_epochs": 6, "save_checkpoints_steps": 20, **given}
    config = main.make_config(given, has_peers=True)
    return runs.specs(main.choose_programs(names, False), config, str(out_dir)), config


def carry_out(names, out_dir, kills=2, **given):
    out_dir.mkdir(exist_ok=True)
    specs, config = specs_of(names, out_dir, **given)
    kill_plan, events = runs.KillPlan(config, kills, 1), []
    tell = lambda spec, event: events.append((spec.name, event))  # noqa: E731
    return (
        runs.carry_out(specs, kill_plan, Children(), 2, tell, lambda spec, end: events.append((spec.name, end))),
        kill_plan,
        events,
    )


def tally(outcome):
    ledger = ledgers.read(f"{outcome.spec.config.model_dir}/examples.jsonl")
    return total(split_epochs(ledger.ids, NUM_EXAMPLES, 25, max(ledger.ids)))


def test_all_runs_are_killed_at_the_same_steps_and_go_on_to_the_end(tmp_path):
    outcomes, kill_plan, events = carry_out(["exact", "forgetful"], tmp_path)
    names = [outcome.spec.name for outcome in outcomes]
    assert names == ["exact, killed", "forgetful, killed", "exact, undisturbed", "forgetful, undisturbed"]
    assert kill_plan.plan == (6 * EPOCH_STEPS, EPOCH_STEPS) and len(kill_plan.steps) == 2
    for outcome in outcomes:
        assert outcome.state == runs.FINISHED
        assert [o.was_killed for o in outcome.observations] == [True] * len(outcome.planned_kills) + [False]
        assert outcome.planned_kills == (kill_plan.steps if outcome.spec.killed else [])
        for step, observation in zip(outcome.planned_kills, outcome.observations):
            assert max(event.step for event in observation.events) in range(step, step + 10)
    # The control: what does not remember its place loses examples by the same kills.
    assert [tally(outcome) == Tally(0, 0) for outcome in outcomes] == [True, False, True, True]
    assert {name for name, _ in events} == set(names)


def test_a_crash_ends_its_own_run_and_no_other(tmp_path):
    outcomes, _, _ = carry_out(["crashing", "exact"], tmp_path)
    states = {outcome.spec.name: outcome.state for outcome in outcomes}
    assert states == {
        "crashing, killed": "crashed",
        "exact, killed": "finished",
        "crashing, undisturbed": "crashed",
        "exact, undisturbed": "finished",
    }
    assert "RuntimeError: no more fingers" in outcomes[0].observations[-1].last_lines


def test_what_cannot_run_here_is_no_run(tmp_path):
    assert specs_of(["absent"], tmp_path)[0] == []


def test_too_many_kills_end_the_comparison(tmp_path):
    with pytest.raises(UserError, match="--kills=100 is too many for a run of 72 steps"):
        carry_out(["exact"], tmp_path, kills=100)


def test_stop_ends_what_runs_and_starts_nothing(tmp_path):
    (tmp_path / "out").mkdir()
    specs, config = specs_of(["exact", "forgetful"], tmp_path / "out", num_epochs=10_000, save_checkpoints_steps=10_000)
    children, started = Children(), threading.Event()
    threading.Thread(target=lambda: (started.wait(20), children.stop())).start()
    began = time.monotonic()
    with pytest.raises(Exception) as raised:
        runs.carry_out(
            specs, runs.KillPlan(config, 0, 1), children, 2, lambda spec, event: started.set(), lambda spec, end: None
        )
    assert type(raised.value).__name__ == "Stopped" and time.monotonic() - began < 15


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_processes_of_a_comparison(tmp_path, name):
    code = f"import sys; from compare import programs, __main__; programs.PEERS_PACKAGE = {PEERS!r}; __main__.main()"
    flags = [
        "--programs=exact",
        "--num_epochs=100000",
        "--save_checkpoints_steps=1000000",
        "--kills=0",
        f"--out_dir={tmp_path / 'out'}",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )
    lines = iter(process.stdout.readline, "")
    assert any("starts" in line for line in lines)
    process.send_signal(signal.Signals[name])
    rest = "".join(lines)
    assert process.wait(20) == 1
    assert f"error: stopped by {name}; the processes have been ended" in rest
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if str(tmp_path) in command_line(pid)]


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""
