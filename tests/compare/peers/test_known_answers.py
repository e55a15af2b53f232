"""Two kills of each peer, at steps of which the answer is known: what it loses and repeats, and where it ends.

There are 12 batches of 125 in an epoch, checkpoints at the multiples of 5, and kills just after steps 8 and 18. So a peer
goes on at step 5 and then at step 15, once in each of its two epochs.
"""

import json
import re
import subprocess
import sys

import keras
import pytest

from compare.ledger_check import Tally, split_epochs
from compare.peers import PEERS, by_key, harness, why_not
from midepoch.ledger import read_ledger
from tests.compare.peers import forks

N, B = 1500, forks.BATCH_SIZE
KERAS_2 = keras.__version__.startswith("2.")
KEYS = [peer.key for peer in PEERS]


def needs(key):
    """Skips a test where a peer cannot run."""
    reason = why_not(by_key(key))
    return pytest.mark.skipif(bool(reason), reason=reason or "")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The directory of all runs; each has been killed twice and has then come to its end."""
    root = tmp_path_factory.mktemp("peers")
    keys = [key for key in KEYS if not why_not(by_key(key))]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.compare.peers.forks", str(root), *keys],
        text=True,
        capture_output=True,
    )
    assert ended.returncode == 0, ended.stderr + "".join(path.read_text() for path in root.glob("*.txt"))
    return root


def steps_of(root, key):
    return read_ledger(str(root / key / "examples.jsonl"), sys.maxsize)


def tallies(steps):
    return [epoch.tally() for epoch in split_epochs(steps, N, B, max(steps))]


def resumed_at(root, key):
    return [int(step) for step in re.findall(r"^resume at step (\d+) ", (root / f"{key}.txt").read_text(), re.MULTILINE)]


def stream(seed=forks.SEED, epochs=1):
    """The batches of ids that `records().shuffle(500, seed).batch(125).repeat()` gives, from the first one on."""
    from compare.peers import tf_digits

    ids = tf_digits.records().map(lambda example_id, _: example_id)
    batches = ids.shuffle(tf_digits.SHUFFLE_BUFFER, seed=seed).batch(B).repeat(epochs)
    return [batch.tolist() for batch in batches.as_numpy_iterator()]


def lost_and_repeated(batches):
    ids = [i for batch in batches for i in batch]
    return Tally(N - len(set(ids)), len(ids) - len(set(ids)))


@pytest.mark.parametrize("key", [pytest.param(key, marks=needs(key)) for key in KEYS])
def test_every_start_prints_and_writes_what_the_comparison_reads(root, key):
    text = (root / f"{key}.txt").read_text()
    steps = steps_of(root, key)
    metrics = json.loads((root / key / harness.METRICS_FILE).read_text())
    assert text.startswith("fresh start")
    assert resumed_at(root, key) == [5, 15]
    assert re.search(r"^step 4/24   epoch 1 4/12   loss \d\.\d+$", text, re.MULTILINE)
    assert re.search(rf"^done {max(steps)}/24 ", text, re.MULTILINE)
    assert metrics["global_step"] == max(steps) and sorted(steps) == list(range(1, max(steps) + 1))
    assert 0.15 < metrics["accuracy"] <= 1  # far from done after 24 steps, but better than a guess
    lines = [json.loads(line) for line in (root / key / "examples.jsonl").read_text().splitlines()]
    assert all(set(line) == {"step", "example_ids", "loss"} and line["loss"] > 0 for line in lines)
    starts = [range(1, 8 + 1), range(5 + 1, 18 + 1), range(15 + 1, max(steps) + 1)]
    assert [line["step"] for line in lines] == [step for start in starts for step in start]


def test_replay_uses_every_example_once_in_the_order_of_its_seeds(root):
    steps = steps_of(root, "replay")
    assert tallies(steps) == [Tally(0, 0), Tally(0, 0)]
    assert [steps[step] for step in range(1, 25)] == stream(forks.SEED) + stream(forks.SEED + 1)


def test_skip_gives_up_the_buffer(root):
    """A start gives up records 0 … 1,124 of epoch 1 (5 · 125 used, 500 in the buffer), and 0 … 874 of epoch 2 (3 · 125 +
    500).

    Steps 1–5 use the first batches of the shuffled stream; 6–8 the last 375 records; from 9 on, a new epoch begins, and its
    order is the first one's, batches 0 … 6 up to step 15. Then the last 625 records, steps 16–20, and batches 0 … 3 again.
    """
    steps, order = steps_of(root, "skip"), stream()
    assert [steps[step] for step in (*range(1, 6), *range(9, 16), *range(21, 25))] == order[:5] + order[:7] + order[:4]
    assert sorted(i for step in range(6, 9) for i in steps[step]) == list(range(1125, 1500))
    assert sorted(i for step in range(16, 21) for i in steps[step]) == list(range(875, 1500))
    # In epoch 1, batches 0 … 3 twice, and no record of the buffer: 1,500 − 5 · 125 − 375 of them.
    assert tallies(steps) == [Tally(500, 500), lost_and_repeated([*order[4:7], range(875, 1500), *order[:4]])]
    assert tallies(steps)[1].lost > 0


@needs("plain_estimator")
def test_plain_estimator_begins_with_the_first_batch_each_time(root):
    """Batches of the stream by step: 1–5: 0 … 4; 6–15: 0 … 9; 16–24: 0 … 8.

    So epoch 1, steps 1–12, has batches 0 … 6, five of them twice: 5 · 125 lost and repeated. Epoch 2, steps 13–24, has
    batches 7 … 9 and 0 … 8, two of them twice: 2 · 125.
    """
    steps, order = steps_of(root, "plain_estimator"), stream()
    assert [steps[step] for step in range(1, 25)] == order[:5] + order[:10] + order[:9]
    assert tallies(steps) == [Tally(625, 625), Tally(250, 250)]


@needs("stock_hook_estimator")
def test_stock_hook_drifts_at_the_second_kill(root):
    """After the first kill model and input are both those of step 5. But the hook then saves the input after steps 6, 11,
    16, the Estimator the model after 10, 15: after the second kill the input is one batch ahead, and the sixteenth is never
    used. Epoch 2 has the first batch of epoch 3 in its place."""
    steps, order = steps_of(root, "stock_hook_estimator"), stream(epochs=3)
    assert [steps[step] for step in range(1, 16)] == order[:15]
    assert [steps[step] for step in range(16, 25)] == order[16:25]
    assert tallies(steps) == [Tally(0, 0), lost_and_repeated(order[12:15] + order[16:25])]
    assert tallies(steps)[1].lost > 0


BEGIN_THEIR_EPOCH_ANEW = ["fit_model_checkpoint", "torch_state_dict"] + ["fit_backup_and_restore"] * (not KERAS_2)


@pytest.mark.parametrize("key", [pytest.param(key, marks=needs(key)) for key in BEGIN_THEIR_EPOCH_ANEW])
def test_peer_that_knows_its_epoch_alone_does_it_again_and_ends_later(root, key):
    """What is saved at step 5 is of epoch 1, and so is that of step 15, batch 10 of the epoch begun anew at step 6. It
    begins once more at step 16 and ends at 27; epoch 2 ends at 39, 15 steps beyond its target. Each start has the order of
    the first."""
    steps = steps_of(root, key)
    epoch_1 = [steps[step] for step in range(16, 28)]
    assert max(steps) == 39
    assert [steps[step] for step in range(1, 16)] == epoch_1[:5] + epoch_1[:10]
    assert lost_and_repeated(epoch_1) == Tally(0, 0)
    assert lost_and_repeated([steps[step] for step in range(28, 40)]) == Tally(0, 0)


@pytest.mark.skipif(not KERAS_2, reason="with Keras 3 it does what ModelCheckpoint does")
def test_backup_and_restore_of_keras_2_begins_with_the_first_batch_each_time(root):
    """It knows the batch, so the run ends where it should. Batches of an epoch's order by step: 1–5: 0 … 4; 6–12: 0 … 6,
    those of the same order, 5 · 125 lost and repeated. Epoch 2 has three batches of a second order, then 0 … 8 of the first
    one.
    """
    steps = steps_of(root, "fit_backup_and_restore")
    order = [steps[step] for step in range(16, 25)]
    assert [steps[step] for step in range(1, 13)] == order[:5] + order[:7]
    assert tallies(steps) == [Tally(625, 625), lost_and_repeated([steps[step] for step in range(13, 16)] + order)]
    assert tallies(steps)[1].lost > 0


@needs("torch_stateful_dataloader")
def test_torch_stateful_dataloader_uses_every_example_once(root):
    assert tallies(steps_of(root, "torch_stateful_dataloader")) == [Tally(0, 0), Tally(0, 0)]
