"""What is found in a model_dir comes from its files: each is changed in turn, and the finding with it."""

import json
import os
import shutil

import pytest
import tensorflow as tf

from compare import analysis, pairs
from lowlevel.loop import train_and_evaluate
from midepoch import model_dir
from midepoch.errors import UserError
from tests import tiny_task

LAST_STEP = 15  # 3 epochs of 5 steps


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two equal runs of the tiny task, and one with another seed."""
    from midepoch.config import TrainConfig

    folder = tmp_path_factory.mktemp("trained")
    files = tiny_task.write_data(folder)._asdict()
    flags = dict(
        task=tiny_task.TASK, batch_size=5, num_epochs=3, shuffle_window=8, shuffle_block=4, save_checkpoints_steps=3,
        log_every_steps=1, keep_checkpoint_max=0, record_examples=True, export=False, **files,
    )  # fmt: skip
    for name, seed in (("a", 1), ("b", 1), ("other", 2)):
        train_and_evaluate(TrainConfig(model_dir=str(folder / name), seed=seed, **flags))
    return folder


@pytest.fixture
def copy(trained, tmp_path):
    """`copy(name)`: a copy of a run that may be changed."""

    def make(name):
        return shutil.copytree(trained / name, tmp_path / name)

    return make


def look(directory):
    return analysis.look_at_directory(str(directory), os.path.basename(directory))


def test_what_a_finished_run_tells(trained):
    facts = look(trained / "a").facts
    json.dumps(facts)
    assert (facts["program"], facts["state"], facts["step"], facts["epoch"]) == ("lowlevel", "finished", LAST_STEP, 3.0)
    assert (facts["examples"]["lost"], facts["examples"]["repeated"], facts["problems"]) == (0, 0, [])
    assert [epoch["number"] for epoch in facts["examples"]["epochs"]] == [1, 2, 3]
    assert [step for step, _ in facts["losses"]] == list(range(1, LAST_STEP + 1))
    assert facts["best"]["global_step"] in (5, 10, 15) and facts["last"]["global_step"] == 15
    assert len(facts["save_secs"]) == 8 and facts["restore_secs"] == []  # 0, 3, 5, 6, 9, 10, 12, 15
    assert facts["steps_per_sec"] > 0
    parts = facts["checkpoint_bytes"]
    assert parts["weights"] > 0 and parts["iterator"] > 0 and sum(parts[n] for n in parts if n != "total") == parts["total"]
    assert (
        facts["features"]["iterator state in the checkpoint of the weights"] and not facts["features"]["SavedModel exported"]
    )


def rewrite_ledger(directory, change):
    path = directory / "examples.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in change(entries)))


def test_ledger_that_lost_a_batch_and_repeated_another(copy):
    directory = copy("a")
    rewrite_ledger(directory, lambda entries: [*entries, {**entries[6], "step": 8}])  # the second epoch's second batch twice
    examples = look(directory).facts["examples"]
    assert (examples["lost"], examples["repeated"], examples["lines_done_again"]) == (5, 5, 1)
    [epoch] = [epoch for epoch in examples["epochs"] if epoch["again"]]
    assert epoch["number"] == 2 and len(epoch["never"]) == 5 and set(epoch["again"].values()) == {2}


def test_ledger_that_makes_no_sense_or_is_not_there(copy):
    directory = copy("a")
    rewrite_ledger(directory, lambda entries: [{**entries[0], "example_ids": [999]}])
    facts = look(directory).facts
    assert facts["examples"] is None and "example id 999 in step 1" in facts["problems"][0]
    os.remove(directory / "examples.jsonl")
    assert look(directory).facts["examples"] is None


def test_metrics_and_losses_come_from_their_files(copy):
    directory = copy("a")
    metrics = model_dir.read_json(directory / model_dir.LAST_METRICS_FILE)
    model_dir.write_json(str(directory / model_dir.LAST_METRICS_FILE), {**metrics, "loss": 42.0})
    for path in directory.glob("events.out.tfevents.*"):
        path.unlink()
    facts = look(directory).facts
    assert facts["last"]["loss"] == 42.0 and facts["losses"] == [] and facts["save_secs"] == []


def test_half_finished_run_is_compared_as_far_as_it_goes(trained, copy):
    directory = copy("b")
    for step in (9, 10, 12, 15):
        model_dir.remove(model_dir.prefix_of(str(directory), step))
    shutil.rmtree(directory / "best_weights")
    half = look(directory)
    assert half.facts["state"] == "unfinished" and half.facts["step"] == 6
    assert half.facts["losses"][-1][0] == 6 and half.facts["examples"]["lost"] == 0
    assert half.facts["examples"]["epochs"][-1]["seen"]  # of an epoch that is not over
    pair = pairs.compare(look(trained / "a"), half, pairs.GIVEN)
    assert pair["weights"] == {"steps": [0, 3, 5, 6], "equal": True}
    assert pair["examples"] == {"steps": 6, "equal": True, "first_step": None}


def test_damage_is_named_and_what_is_whole_is_used(copy):
    directory = copy("a")
    with open(directory / f"model.ckpt-{LAST_STEP}.index", "ab") as file:
        file.write(b"x")
    shutil.rmtree(directory / "best_weights")
    facts = look(directory).facts
    assert facts["step"] == 12 and facts["state"] == "unfinished" and "model.ckpt-15" in facts["problems"][0]


def foreign(directory):
    for path in [*directory.glob("*.json"), *directory.glob("*/*.json")]:
        path.unlink()


def all_damaged(directory):
    for path in [*directory.glob("*.index"), *directory.glob("*/*.index")]:
        path.write_bytes(b"")


def emptied(directory):
    shutil.rmtree(directory)
    directory.mkdir()


@pytest.mark.parametrize(
    "change, said",
    [
        (foreign, "holds checkpoints of TensorFlow's own, and no run of midepoch"),
        (all_damaged, "holds no checkpoint that is whole .*has 0 bytes"),
        (emptied, "holds neither run.json nor a checkpoint"),
        (shutil.rmtree, "does not exist"),
    ],
)
def test_what_cannot_be_compared(copy, change, said):
    directory = copy("a")
    change(directory)
    with pytest.raises(UserError, match=said) as raised:
        look(directory)
    assert "\n" not in str(raised.value) and str(directory) in str(raised.value)


def test_equal_runs_are_equal_and_another_seed_differs_from_the_first_step_on(trained):
    a, b, other = (look(trained / name) for name in ("a", "b", "other"))
    pair = pairs.compare(a, b, pairs.KILLED)
    assert all(pair[what]["equal"] for what in ("weights", "examples", "losses", "metrics"))
    assert pair["weights"]["steps"] == [0, 3, 5, 6, 9, 10, 12, 15]
    pair = pairs.compare(a, other, pairs.GIVEN)
    assert (
        pair["weights"]["first_step"] == 0 and pair["weights"]["largest"] > 0 and pair["weights"]["tensors_differing"] >= 1
    )
    assert pair["examples"]["first_step"] == 1 and pair["losses"]["first_step"] == 1 and not pair["metrics"]["equal"]


def test_checkpoint_that_tensorflow_cannot_read_is_named_in_one_line(trained, monkeypatch):
    def fail(prefix, with_slots):
        raise tf.errors.DataLossError(None, None, "Checksum does not match\nand more")

    a, b = look(trained / "a"), look(trained / "b")
    monkeypatch.setattr(pairs.weights, "read_variables", fail)
    with pytest.raises(UserError, match="model.ckpt-0 cannot be read: Checksum does not match; remove it"):
        pairs.compare(a, b, pairs.GIVEN)


def test_checkpoints_that_differ_from_a_step_on(trained, tmp_path):
    """The first checkpoints of a run, the later ones of another."""
    a, other = look(trained / "a"), look(trained / "other")
    mixed = a._replace(checkpoints={**a.checkpoints, **{step: other.checkpoints[step] for step in (9, 12, 15)}})
    weights = pairs.compare(a, mixed, pairs.GIVEN)["weights"]
    assert weights["first_step"] == 9 and not weights["equal"] and weights["text"].startswith(weights["tensor"])
    assert weights["largest"] > 0


def test_peer(tmp_path):
    lines = [(1, [0, 1], 2.0), (2, [2, 3], 1.5), (3, [4], 1.0), (2, [2, 0], 1.25), (3, [4], 1.0)]
    text = "".join(json.dumps({"step": s, "example_ids": ids, "loss": loss}) + "\n" for s, ids, loss in lines)
    (tmp_path / "examples.jsonl").write_text(text)
    facts = analysis.look_at_peer(str(tmp_path), "skip, killed", "skip", 5, 2).facts
    assert facts["state"] == "unfinished" and facts["last"] is None and facts["resumes"] == [1]
    assert (facts["examples"]["lost"], facts["examples"]["repeated"]) == (1, 1)
    assert facts["losses"] == [[1, 2.0], [2, 1.25], [3, 1.0]]
    (tmp_path / "metrics.json").write_text('{"accuracy": 0.5, "global_step": 3}')
    facts = analysis.look_at_peer(str(tmp_path), "skip, killed", "skip", 5, 2).facts
    assert facts["state"] == "finished" and facts["last"]["accuracy"] == 0.5


def test_pairs_of_a_comparison(trained):
    def run(program, killed):
        found = look(trained / "a")
        return found._replace(facts={**found.facts, "program": program, "killed": killed, "name": f"{program} {killed}"})

    def names(*runs):
        return [(a.facts["name"], b.facts["name"], kind) for a, b, kind in pairs.choose(runs)]

    four = [run(program, killed) for killed in (True, False) for program in ("lowlevel", "estimator")]
    assert names(*four) == [
        ("lowlevel True", "lowlevel False", "killed"),
        ("estimator True", "estimator False", "killed"),
        ("lowlevel False", "estimator False", "programs"),
    ]
    assert names(four[0], four[1]) == [("lowlevel True", "estimator True", "programs")]
    assert names(four[0], four[3]) == []
