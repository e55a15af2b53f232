"""What may change between two runs of one model_dir."""

import copy

import pytest

from midepoch import contract
from midepoch.errors import UserError

CONTRACT = {
    "program": "lowlevel",
    "keras": 2,
    "task": "digits",
    "optimizer": "adam",
    "freeze": None,
    "order": {
        "shuffle": "window",
        "seed": 1,
        "data": [["a.tfrecord", 100, 9], ["b.tfrecord", 50, 3]],
        "shuffle_window": 8,
        "shuffle_block": 4,
    },
}


def changed(*path_and_value):
    *path, value = path_and_value
    result = copy.deepcopy(CONTRACT)
    at = result
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    return result


def test_same_contract_is_accepted():
    contract.check_resume(CONTRACT, copy.deepcopy(CONTRACT), "run1")
    assert contract.adaptations(CONTRACT, copy.deepcopy(CONTRACT)) == []


@pytest.mark.parametrize(
    "now, line",
    [
        (changed("program", "estimator"), "--model_dir=run1 belongs to lowlevel, this is estimator"),
        (changed("task", "iris"), "--task=iris, but this run was trained with digits"),
        (changed("keras", 3), "was written with Keras 2, this is Keras 3"),
        (changed("order", "seed", 2), "--seed=2, but this run was trained with 1"),
        (changed("order", "shuffle_window", 16), "--shuffle_window=16, but this run was trained with 8"),
        (changed("order", "shuffle_block", 2), "--shuffle_block=2, but this run was trained with 4"),
        (changed("order", "data", [["a.tfrecord", 100, 9]]), "2 files then, 1 now"),
        (
            changed("order", "data", [["a.tfrecord", 100, 9], ["b.tfrecord", 51, 3]]),
            "b.tfrecord with 50 bytes, 3 records then, b.tfrecord with 51 bytes, 3 records now",
        ),
        (changed("order", {"shuffle": "none", "seed": 1, "data": CONTRACT["order"]["data"]}), "--shuffle=none"),
    ],
)
def test_difference_is_named_with_old_and_new_value_and_the_way_out(now, line):
    with pytest.raises(UserError) as caught:
        contract.check_resume(CONTRACT, now, "run1")
    text = str(caught.value)
    assert line in text
    assert "\n" not in text
    assert "--model_dir" in text


@pytest.mark.parametrize(
    "now, line",
    [
        (changed("optimizer", "sgd"), "--optimizer was adam, is sgd: weights, step and position are kept"),
        (changed("freeze", "body"), "--freeze was not set, is body"),
    ],
)
def test_difference_that_is_adapted_to_is_one_line(now, line):
    contract.check_resume(CONTRACT, now, "run1")
    lines = contract.adaptations(CONTRACT, now)
    assert len(lines) == 1 and line in lines[0]


@pytest.mark.parametrize(
    "now, same",
    [
        (CONTRACT, True),
        (changed("optimizer", "sgd"), True),
        (changed("freeze", "body"), True),
        (changed("order", "seed", 2), False),
        (changed("program", "estimator"), False),
    ],
)
def test_contracts_of_one_run(now, same):
    assert contract.same_run(CONTRACT, now) is same


FACTS = contract.pipeline_facts(CONTRACT["order"], 64, 0, 1)


@pytest.mark.parametrize(
    "change, fits, carries_over",
    [
        ({}, True, True),
        (dict(start=640), True, True),
        (dict(batch_size=32), False, True),
        (dict(version=2), False, True),
        (dict(tensorflow="1.0"), False, True),
        (dict(order={**CONTRACT["order"], "seed": 2}), False, False),
        (dict(order={**CONTRACT["order"], "data": []}), False, False),
    ],
)
def test_what_a_saved_iterator_and_a_saved_position_survive(change, fits, carries_over):
    now = {**FACTS, **change}
    assert contract.iterator_fits(FACTS, now) is fits
    assert contract.position_carries_over(FACTS, now) is carries_over
