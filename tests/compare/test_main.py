"""`python -m compare` as people start it."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from compare import __main__ as main
from compare import programs
from midepoch.errors import UserError

PEERS = "tests.compare.fake_peers"
NO_ESTIMATOR = importlib.util.find_spec("tensorflow_estimator") is None


def compare(*arguments, with_fake_peers=False):
    """Starts a comparison as a process of its own; returns exit code, lines of standard output, and standard error."""
    code = "from compare import programs, __main__; "
    code += f"programs.PEERS_PACKAGE = {PEERS!r}; " if with_fake_peers else ""
    command = [sys.executable, "-c", code + "__main__.main()", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    return ended.returncode, ended.stdout.splitlines(), ended.stderr


def test_peers_under_the_same_kills(tmp_path):
    names = "exact,forgetful,crashing,absent"
    flags = [f"--programs={names}", "--batch_size=25", "--num_epochs=6", f"--out_dir={tmp_path / 'out'}"]
    code, lines, errors = compare(*flags, with_fake_peers=True)
    assert code == 1 and not errors  # one has crashed
    assert "absent is left out: it needs the package unobtainium: pip install unobtainium" in lines
    assert lines[-1] == f"report: {tmp_path / 'out' / 'report.html'}"
    with open(tmp_path / "out" / "report.json", encoding="utf-8") as file:
        report = json.load(file)
    runs = {run["name"]: run for run in report["runs"]}
    lost = {name: run["examples"]["lost"] for name, run in runs.items()}
    assert lost["exact, killed"] == 0 == lost["forgetful, undisturbed"] and lost["forgetful, killed"] > 0
    assert [kill["planned_step"] for kill in runs["exact, killed"]["observed"]["kills"]] == report["plan"]["kill_steps"]
    equal = {pair["a"]: (pair["examples"]["equal"], pair["losses"]["equal"]) for pair in report["pairs"]}
    assert equal["exact, killed"] == (True, True) and equal["forgetful, killed"] == (False, False)
    assert runs["crashing, killed"]["state"] == "crashed" and len(report["failures"]) == 2
    # What a process takes is its own, not that of the comparison.
    assert all(p["peak_memory_bytes"] < 100e6 for run in runs.values() for p in run["observed"]["processes"])
    with open(tmp_path / "out" / "report.html", encoding="utf-8") as file:
        page = file.read()
    assert "RuntimeError: no more fingers" in page and "cannot run here" in page


def test_both_programs_killed_in_mid_epoch(tmp_path):
    out_dir = tmp_path / "out"
    flags = ["--num_epochs=4", "--save_checkpoints_steps=40", "--eval_every_epochs=4", "--kills=1", "--noexport"]
    code, lines, errors = compare(*flags, f"--out_dir={out_dir}", "--least_accuracy=0.5")
    assert code == 0, "\n".join([*lines, errors])
    assert lines[-2:] == ["as if nothing had happened", f"report: {out_dir / 'report.html'}"]
    with open(out_dir / "report.json", encoding="utf-8") as file:
        report = json.load(file)
    assert report["left_out"] == ([{"name": "estimator", "why": programs.own_programs()[1].why_not}] if NO_ESTIMATOR else [])
    assert all(good for good, _ in report["verdict"]) and not report["failures"]
    assert len(report["runs"]) == (2 if NO_ESTIMATOR else 4)
    for run in report["runs"]:
        assert (run["state"], run["step"], run["examples"]["lost"], run["examples"]["repeated"]) == ("finished", 96, 0, 0)
        phases = {phase for phase, _, _ in run["observed"]["timeline"]}
        assert phases >= {"starting", "training", "saving", "evaluating", "ending"}
        if run["killed"]:
            [kill] = run["observed"]["kills"]
            assert kill["resumed_at"] in (40, 80) and kill["steps_done_again"] > 0
            assert kill["to_new_step_secs"] >= kill["to_first_step_secs"] > 0
            assert len(run["restore_secs"]) == 1 and 0 < run["restore_secs"][0] < 30
        else:
            assert run["restore_secs"] == []
    assert all(
        pair["weights"]["equal"] and pair["losses"]["equal"] and pair["examples"]["equal"] for pair in report["pairs"]
    )
    # Two of its directories, one of them with another ledger: the report says so.
    a, b = (os.path.join(out_dir, f"lowlevel_{kind}") for kind in ("killed", "undisturbed"))
    with open(os.path.join(b, "examples.jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps({"step": 30, "example_ids": list(range(64))}) + "\n")
    code, lines, errors = compare(a, b, f"--out_dir={tmp_path / 'two'}")
    assert code == 0, errors
    assert "weights: bit-identical at 4 steps: 0, 40, 80, 96" in lines
    assert "examples: differ first at step 30" in lines
    assert lines[-1] == f"report: {tmp_path / 'two' / 'report.html'}"


@pytest.fixture
def refused(tmp_path, capsys):
    """`refused(*arguments)`: the one line with which a command line is refused; nothing must be left behind."""

    def run(*arguments):
        out_dir = tmp_path / "out"
        assert main.run(["compare", *map(str, arguments), f"--out_dir={out_dir}"]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1
        assert not out_dir.exists()
        return error

    return run


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--model_dir=x"], "--model_dir=x is not for a comparison: each run gets its own in --out_dir"),
        (["--max_run_secs=9"], "--max_run_secs=9 is not for a comparison"),
        (["--kill=1"], "Unknown command line flag 'kill'"),
        (["--kills=-1"], "--kills=-1"),
        (["--batch_size=0"], "--batch_size=0 is too small"),
        (["--num_epochs=1", "--train_steps=5"], "--num_epochs=1 and --train_steps=5 are both set"),
        (["--programs=lowlevel,upperlevel"], "there is no upperlevel; there are lowlevel, estimator"),
        (["--peers", "--task=mnist"], "--task is set, but peers train the digits"),
        (["--peers", "--train_steps=7"], "--train_steps is set, but peers"),
        (["one"], "expected two directories, or none, received one"),
        (["one", "one"], "one and one are the same directory"),
        (["one", "two", "--batch_size=5"], "--batch_size is set, but two directories are compared as they are"),
        (["one", "two"], "one does not exist"),
    ],
)
def test_refused(refused, monkeypatch, arguments, said):
    monkeypatch.setattr(programs, "PEERS_PACKAGE", PEERS)
    assert said in refused(*arguments)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--task=iris"], "error: lowlevel: --record_examples: task iris brings its own dataset"),
        (["--num_epochs=4", "--kills=100"], "--kills=100 is too many for a run of 96 steps"),
    ],
)
def test_refused_once_a_program_has_seen_it(refused, arguments, said):
    assert said in refused(*arguments, "--programs=lowlevel")


def test_without_matplotlib(refused, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        main.importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else find(name, *rest)
    )
    assert "the report needs matplotlib, which is not installed; pip install -e .[report]" in refused()


def test_out_dir_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "precious").write_text("data")
    code, _, errors = compare(f"--out_dir={tmp_path}")
    assert code == 1 and errors.count("\n") == 1 and str(tmp_path) in errors
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_flags_of_a_comparison_are_the_defaults_and_what_is_given():
    config = main.make_config({}, has_peers=True)
    assert (config.num_epochs, config.save_checkpoints_steps, config.eval_every_epochs) == (12, 50, 3)
    assert config.record_examples and config.log_every_steps == 5
    config = main.make_config({"train_steps": 7, "save_checkpoints_epochs": 2, "record_examples": False}, has_peers=False)
    assert (config.num_epochs, config.train_steps, config.save_checkpoints_steps) == (None, 7, None)
    assert not config.record_examples
    assert main.make_config({"regime": "short"}, has_peers=False).save_checkpoints_epochs == 1


def test_command_lines():
    config = main.make_config({"seed": 5}, has_peers=True)
    lowlevel = programs.own_programs()[0]
    command = programs.command(lowlevel, config)
    assert (
        command[:3] == [sys.executable, "-m", "lowlevel.train"]
        and "--seed=5" in command
        and "--record_examples=True" in command
    )
    peer = lowlevel._replace(module="compare.peers.skip", is_peer=True)
    assert programs.command(peer, config)[2:] == [
        "compare.peers.skip", "--model_dir=of a run", "--num_epochs=12", "--batch_size=64", "--save_checkpoints_steps=50",
        "--seed=5",
    ]  # fmt: skip


def test_peers_are_known_by_name():
    assert [program.module for program in main.choose_programs(["skip", "lowlevel"], False)] == [
        "compare.peers.skip", "lowlevel.train",
    ]  # fmt: skip
    with pytest.raises(UserError, match="there is no skipp; there are lowlevel, estimator, fit_model_checkpoint, "):
        main.choose_programs(["skipp"], False)
