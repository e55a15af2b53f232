import pytest

from compare.verdict import judge, place


def kill(**changes):
    return {"step": 180, "resumed_at": 150, "steps_done_again": 30, **changes}


def run(program, killed, **changes):
    return {
        "name": f"{program}, {'killed' if killed else 'undisturbed'}",
        "program": program,
        "is_peer": False,
        "killed": killed,
        "state": "finished",
        "step": 288,
        "examples": {"lost": 0, "repeated": 0},
        "best": {"accuracy": 0.93},
        "observed": {"kills": [kill()] if killed else []},
        **changes,
    }


def pair(a, b, kind="killed", **changes):
    equal = {"equal": True, "steps": [250, 288]}
    return {"a": a, "b": b, "kind": kind, "weights": equal, "examples": equal, "losses": equal, "metrics": equal, **changes}


def report(killed=None, undisturbed=None, pair_changes=None, **changes):
    runs = [run("lowlevel", True, **(killed or {})), run("lowlevel", False, **(undisturbed or {}))]
    return {
        "plan": {"kills": 1, "kill_steps": [180], "epoch_steps": 24},
        "failures": [],
        "runs": runs,
        "pairs": [pair(runs[0]["name"], runs[1]["name"], **(pair_changes or {}))],
        **changes,
    }


def test_a_run_that_resumed_as_it_should():
    assert judge(report(), least_accuracy=0.9) == [
        (True, "lowlevel: killed after step 180 (epoch 8, 12 of 24 batches done), resumed at step 150, 30 steps done again"),
        (True, "lowlevel: examples lost / repeated: 0 / 0 (undisturbed 0 / 0)"),
        (True, "lowlevel, killed and undisturbed: final weights bit-identical"),
        (True, "lowlevel: best accuracy 0.9300 (undisturbed 0.9300)"),
    ]


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"killed": {"observed": {"kills": []}}}, "killed 0 times instead of 1"),
        (
            {"killed": {"observed": {"kills": []}}, "plan": {"kills": 1, "kill_steps": None, "epoch_steps": None}},
            "killed 0 times instead of 1; it told of no step in time: lower --log_every_steps",
        ),
        ({"killed": {"observed": {"kills": [kill(resumed_at=None, steps_done_again=None)]}}}, "did not resume"),
        ({"killed": {"observed": {"kills": [kill(resumed_at=180, steps_done_again=0)]}}}, "never killed beyond its last"),
        ({"killed": {"examples": {"lost": 1, "repeated": 0}}}, "1 / 0 (undisturbed 0 / 0)"),
        ({"undisturbed": {"examples": {"lost": 0, "repeated": 2}}}, "0 / 0 (undisturbed 0 / 2)"),
        ({"killed": {"best": {"accuracy": 0.8}}}, "best accuracy 0.8000 (undisturbed 0.9300), at least 0.9 is wanted"),
        ({"killed": {"best": None}}, "best accuracy none"),
        (
            {"pair_changes": {"weights": {"equal": False, "first_step": 200, "text": "conv1/kernel: 1 of 9 values differ"}}},
            "weights differ at step 200: conv1/kernel",
        ),
        ({"pair_changes": {"weights": None}}, "no checkpoint of the same step"),
        ({"pair_changes": {"losses": {"equal": False}}}, "bit-identical, but not the losses"),
        ({"killed": {"state": "crashed", "step": 250}}, "bit-identical up to step 288, beyond which there is nothing"),
        ({"pair_changes": {"weights": {"equal": True, "steps": [250]}}}, "bit-identical up to step 250, beyond which"),
        (
            {"failures": [{"name": "estimator, killed", "why": "ended with exit code 1"}]},
            "estimator, killed: ended with exit code 1",
        ),
    ],
)
def test_what_is_wrong_is_said(changes, said):
    bad = [line for good, line in judge(report(**changes), least_accuracy=0.9) if not good]
    assert any(said in line for line in bad)


def test_examples_of_a_run_that_did_not_come_to_its_end_are_not_judged():
    crashed = {"state": "crashed", "step": 50}
    found = judge(report(killed=crashed, undisturbed=crashed), least_accuracy=None)
    assert not any("examples lost" in line for _, line in found)


def test_accuracy_counts_only_where_one_is_wanted():
    assert all(good for good, _ in judge(report(killed={"best": None}), least_accuracy=None))


def test_two_programs_that_differ():
    names = ("lowlevel, undisturbed", "estimator, undisturbed")
    both = [run("lowlevel", False), run("estimator", False)]
    differing = {"equal": False, "first_step": 50, "text": "fc/bias: 1 of 3 values differ"}
    plan = {"kills": 0, "kill_steps": [], "epoch_steps": 24}
    for weights, expected in (({"equal": True, "steps": [288]}, True), (differing, False)):
        found = judge(report(runs=both, plan=plan, pairs=[pair(*names, kind="programs", weights=weights)]), None)
        assert found[-1][0] is expected and found[-1][1].startswith("lowlevel and estimator: ")


def test_peers_are_not_judged():
    peer = run("skip", True, is_peer=True, examples={"lost": 9, "repeated": 9})
    differing = pair("skip, killed", "skip, undisturbed", weights=None, losses={"equal": False})
    assert judge(report(runs=[peer], pairs=[differing]), None) == []


def test_place():
    assert place(180, 24) == " (epoch 8, 12 of 24 batches done)"
    assert place(180, None) == ""
