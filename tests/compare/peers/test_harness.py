"""What all peers share: flags, refusals, the second start of a finished run, and the digits without TensorFlow."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from compare import peers
from compare.peers import digits_files, harness
from midepoch import ledger


def start(tmp_path, *flags, train=None, key="replay"):
    with pytest.raises(SystemExit) as end:
        harness.main(key, train, [f"--model_dir={tmp_path}", *flags])
    return end.value.code


@pytest.mark.parametrize(
    "flag, said",
    [
        ("--num_epoch=3", "unrecognized arguments: --num_epoch=3"),
        ("--batch_size=many", "argument --batch_size: invalid int value: 'many'"),
        ("--save_checkpoints_steps=0", "--save_checkpoints_steps=0 is less than 1; give 1 or more"),
    ],
)
def test_bad_flag_is_one_line_and_exit_1(tmp_path, capsys, flag, said):
    assert start(tmp_path, flag) == 1
    assert capsys.readouterr().err == f"error: {said}; see --help\n"


def test_bad_flag_of_a_real_process(tmp_path):
    command = [sys.executable, "-m", "compare.peers.torch_state_dict", f"--model_dir={tmp_path}/run", "--seeds=1"]
    ended = subprocess.run(command, text=True, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert not (tmp_path / "run").exists()


def without(monkeypatch, package):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))


def test_peer_whose_package_is_missing_says_so_and_stays_in_the_list(tmp_path, capsys, monkeypatch):
    without(monkeypatch, "torch")
    assert [peer.key for peer in peers.PEERS if peers.why_not(peer) and "torch" in peers.why_not(peer)] == [
        "torch_state_dict",
        "torch_stateful_dataloader",
    ]
    assert start(tmp_path, key="torch_state_dict") == 1
    assert capsys.readouterr().err == (
        "error: torch_state_dict cannot run here: missing: torch is not installed; pip install -e .[peers]\n"
    )


def test_peer_without_estimator_says_which_tensorflow_has_it(monkeypatch):
    without(monkeypatch, "tensorflow_estimator")
    assert peers.why_not(peers.by_key("plain_estimator")).startswith("this TensorFlow has no tf.estimator")


def test_each_peer_is_a_module_and_is_described():
    assert len({peer.key for peer in peers.PEERS}) == 8
    for peer in peers.PEERS:
        assert importlib.util.find_spec(f"compare.peers.{peer.key}")
        assert peer.what.endswith(".") and peer.taught_at.startswith("https://")


def test_a_run_writes_its_ledger_at_once_and_a_finished_one_is_not_trained_again(tmp_path, capsys):
    def train(run):
        run.started(0, "")
        run.step_done(1, np.array([7, 9]), np.float32(0.5))
        assert (tmp_path / "examples.jsonl").read_text() == '{"step": 1, "example_ids": [7, 9], "loss": 0.5}\n'
        run.started(1, "a/model.ckpt-1")
        run.step_done(8, [3], 0.25)
        run.finished(0.75, 16)

    flags = ["--num_epochs=2", "--batch_size=200"]
    assert start(tmp_path, *flags, train=train) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"fresh start: no checkpoint in {tmp_path}",
        "resume at step 1 from model.ckpt-1: epoch 1, 1 of 8 batches done",
        "step 8/16   epoch 1 8/8   loss 0.2500",
        "done 16/16   accuracy 0.7500",
    ]
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"accuracy": 0.75, "global_step": 16}
    assert ledger.read_ledger(str(tmp_path / "examples.jsonl"), 8) == {1: [7, 9], 8: [3]}
    assert start(tmp_path, *flags, train=None) == 0
    assert capsys.readouterr().out == "already done: 16/16 steps\n"


def test_raised_target_is_trained_for(tmp_path):
    started = []
    (tmp_path / "metrics.json").write_text('{"accuracy": 0.5, "global_step": 16}')
    assert start(tmp_path, "--num_epochs=3", "--batch_size=200", train=started.append) == 0
    assert len(started) == 1


@pytest.mark.parametrize("pattern", [digits_files.TRAIN, digits_files.EVAL])
def test_digits_without_tensorflow_are_the_digits(pattern):
    from compare.peers import tf_digits

    if pattern == digits_files.TRAIN:
        batches = tf_digits.records().batch(2000).map(tf_digits.parse)
        ((ids, images, labels),) = batches.as_numpy_iterator()
        assert ids.tolist() == list(range(1500))
    else:
        ((images, labels),) = tf_digits.eval_dataset(2000).as_numpy_iterator()
    ours = digits_files.read(pattern)
    np.testing.assert_array_equal(ours[0], images[..., 0])
    np.testing.assert_array_equal(ours[1], labels)
    assert digits_files.num_records(pattern) == len(labels)


def test_torch_network_is_of_the_same_size():
    pytest.importorskip("torch")
    from compare.peers import tf_digits, torch_digits

    numbers = sorted(weight.numel() for weight in torch_digits.make_model().parameters())
    assert numbers == sorted(int(np.prod(weight.shape)) for weight in tf_digits.make_model(1).trainable_weights)


def test_modules_that_pytorch_peers_use_do_not_import_tensorflow():
    code = (
        "import sys; from compare.peers import harness, digits_files, torch_state_dict; print('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], text=True, capture_output=True).stdout == "False\n"
