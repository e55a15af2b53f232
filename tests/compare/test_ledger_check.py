import json

import pytest

from compare.ledger_check import Tally, split_epochs, tally_run, total
from midepoch import model_dir

# 5 examples in batches of 2: three steps an epoch, the last with one example.
TWO_EPOCHS = {1: [3, 1], 2: [0, 4], 3: [2], 4: [2, 0], 5: [1, 3], 6: [4]}


def tallies(changes, last_step=6):
    epochs = split_epochs({**TWO_EPOCHS, **changes}, num_examples=5, batch_size=2, last_step=last_step)
    return [epoch.tally() for epoch in epochs]


def test_every_example_once_an_epoch():
    assert tallies({}) == [Tally(0, 0), Tally(0, 0)]


def test_run_that_ends_in_mid_epoch():
    assert tallies({}, last_step=5) == [Tally(0, 0), Tally(0, 0)]
    assert tallies({5: [2, 3]}, last_step=5) == [Tally(0, 0), Tally(1, 1)]


def test_batch_done_twice_in_place_of_another():
    assert tallies({2: [3, 1]}) == [Tally(2, 2), Tally(0, 0)]


def test_example_of_one_epoch_used_in_the_next():
    assert tallies({3: [4], 6: [2]}) == [Tally(1, 1), Tally(1, 1)]


def test_step_without_a_line():
    steps = {step: ids for step, ids in TWO_EPOCHS.items() if step != 5}
    assert [epoch.tally() for epoch in split_epochs(steps, 5, 2, last_step=6)] == [Tally(0, 0), Tally(2, 0)]


def test_example_more_than_there_should_be():
    assert tallies({3: [2, 0]}) == [Tally(0, 1), Tally(0, 0)]


def test_unknown_example():
    with pytest.raises(ValueError, match="example id 5 in step 6"):
        tallies({6: [5]})


def test_run_that_began_in_mid_epoch():
    steps = {step: ids for step, ids in TWO_EPOCHS.items() if step > 2}
    epochs = split_epochs(steps, num_examples=5, batch_size=2, last_step=6, first_step=2)
    assert [(epoch.number, epoch.expected) for epoch in epochs] == [(1, 1), (2, 5)]
    assert total(epochs) == Tally(0, 0)
    assert total(split_epochs({**steps, 5: [2, 0]}, 5, 2, last_step=6, first_step=2)) == Tally(2, 2)


def test_batch_size_that_changed_on_the_way_is_counted_by_examples():
    steps = {1: [3], 2: [1], 3: [0, 4, 2], 4: [2, 0, 1, 3], 5: [4]}  # 1, then 4
    epochs = split_epochs(steps, num_examples=5, batch_size=4, last_step=5, examples_seen=10)
    assert [(epoch.number, epoch.expected) for epoch in epochs] == [(1, 5), (2, 5)]
    assert total(epochs) == Tally(0, 0)
    assert total(split_epochs({**steps, 5: [3]}, 5, 4, last_step=5, examples_seen=10)) == Tally(1, 1)
    # Control: counted by steps it would look like a loss.
    assert total(split_epochs(steps, num_examples=5, batch_size=4, last_step=5)) != Tally(0, 0)


def write_run(directory, lines):
    (directory / model_dir.RUN_FILE).write_text(
        json.dumps({"contract": {"order": {"data": [["a", 9, 3], ["b", 6, 2]]}}, "config": {"batch_size": 2}})
    )
    (directory / "model.ckpt-6.index").write_text("weights")
    model_dir.commit(str(directory / "model.ckpt-6"), {"step": 6})
    text = "".join(json.dumps({"step": step, "example_ids": ids}) + "\n" for step, ids in lines)
    (directory / model_dir.EXAMPLES_FILE).write_text(text)


def test_tally_of_a_model_dir_goes_by_the_last_line_of_a_step(tmp_path):
    done_before_the_kill = [(4, [9, 9]), (5, [9, 9])]
    beyond_the_checkpoint = [(7, [0, 0])]
    write_run(tmp_path, done_before_the_kill + list(TWO_EPOCHS.items()) + beyond_the_checkpoint)
    assert tally_run(str(tmp_path)) == Tally(0, 0)


def test_tally_of_a_model_dir_that_has_lost_a_batch(tmp_path):
    write_run(tmp_path, list({**TWO_EPOCHS, 4: [1, 3]}.items()))
    assert tally_run(str(tmp_path)) == Tally(2, 2)


def test_a_short_batch_in_an_epoch_that_is_not_whole_has_lost_nothing():
    begun_anew = {1: [3, 0], 2: [1, 4], 3: [2], 4: [0, 1], 5: [2]}
    assert [epoch.tally() for epoch in split_epochs(begun_anew, 5, 2, last_step=5)] == [Tally(0, 0), Tally(0, 0)]
    whole = {**begun_anew, 6: [3]}
    assert split_epochs(whole, 5, 2, last_step=6)[-1].tally() == Tally(1, 0)
