import os

import numpy as np
import pytest
import tensorflow as tf

from compare.weights import Difference, differences, first_difference, read_variables
from midepoch.optimizers import make_optimizer

KERNEL = np.arange(6, dtype=np.float32).reshape(2, 3)
BIAS = np.array([1.0, -0.0, np.nan], np.float32)


def object_based(directory, optimizer="momentum"):
    model = tf.keras.Sequential([tf.keras.Sequential([tf.keras.layers.Dense(3, name="dense")], name="body")], name="model")
    model.build([None, 2])
    optimizer = make_optimizer(optimizer, 0.1)
    optimizer.apply_gradients([(tf.zeros_like(v), v) for v in model.trainable_variables])  # makes the slots
    model.set_weights([KERNEL, BIAS])
    checkpoint = tf.train.Checkpoint(
        model=model, optimizer=optimizer, step=tf.Variable(7), iterator=iter(tf.data.Dataset.range(3))
    )
    return checkpoint.write(os.path.join(directory, "object_based"))


def name_based(directory, kernel=KERNEL, slot="SGD/body/dense/kernel/momentum"):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = {
            "body/dense/kernel": kernel,
            "body/dense/bias": BIAS,
            slot: np.zeros([2, 3], np.float32),
            "SGD/body/dense/bias/momentum": np.zeros([3], np.float32),
            "SGD/momentum": np.float32(0.9),
            "global_step": np.int64(7),
            "examples_seen": np.int64(70),
        }
        for name, value in variables.items():
            tf.compat.v1.get_variable(name, initializer=value, use_resource=True)
        tf.compat.v1.set_random_seed(1)
        iterator = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(3))
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS, saveable)
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, os.path.join(directory, "name_based"))


@pytest.mark.parametrize("write", [object_based, name_based])
def test_only_the_models_variables_under_short_names(tmp_path, write):
    variables = read_variables(write(str(tmp_path)))
    assert sorted(variables) == ["dense/bias", "dense/kernel"]
    assert first_difference(variables, {"dense/kernel": KERNEL, "dense/bias": BIAS}) is None


def test_both_kinds_of_checkpoint_compare_bit_for_bit(tmp_path):
    first = read_variables(object_based(str(tmp_path)))
    assert first_difference(first, read_variables(name_based(str(tmp_path)))) is None
    changed = KERNEL.copy()
    changed[1, 2] = np.nextafter(changed[1, 2], np.float32(9))
    second = read_variables(name_based(str(tmp_path), kernel=changed))
    assert first_difference(first, second).startswith("dense/kernel: 1 of 6 values differ, first ")


def test_slots_on_request(tmp_path):
    for prefix in object_based(str(tmp_path)), name_based(str(tmp_path)):
        slots = set(read_variables(prefix, with_slots=True)) - {"dense/bias", "dense/kernel"}
        assert len(slots) == 2
    assert slots == {"bias/momentum", "kernel/momentum"}


def test_optimizer_without_slots(tmp_path):
    assert sorted(read_variables(object_based(str(tmp_path), "sgd"), with_slots=True)) == ["dense/bias", "dense/kernel"]


def test_second_optimizer_of_a_process_has_the_same_names(tmp_path):
    names = [set(read_variables(object_based(str(tmp_path)), with_slots=True)) for _ in range(2)]
    assert names[0] == names[1] and len(names[0]) == 4


def test_layers_of_one_name_are_kept_apart(tmp_path):
    models = [tf.keras.Sequential([tf.keras.layers.Dense(1, name="dense")], name=name) for name in ("left", "right")]
    for number, model in enumerate(models):
        model.build([None, 1])
        model.set_weights([np.full([1, 1], number, np.float32), np.zeros([1], np.float32)])
    checkpoint = tf.train.Checkpoint(model=tf.keras.Sequential(models), optimizer=make_optimizer("sgd", 0.1))
    variables = read_variables(checkpoint.write(str(tmp_path / "twins")))
    assert len(variables) == 4
    assert sorted(float(v[0, 0]) for v in variables.values() if v.ndim == 2) == [0.0, 1.0]


def test_first_difference():
    a = {"x": np.zeros([2], np.float32)}
    assert first_difference(a, {"x": np.zeros([2], np.float32)}) is None
    assert first_difference(a, {}) == "x is only in the first"
    assert first_difference({}, a) == "x is only in the second"
    assert first_difference(a, {"x": np.zeros([2])}) == "x is float32[2] and float64[2]"
    assert "1 of 2 values differ" in first_difference(a, {"x": np.array([0.0, -0.0], np.float32)})


def test_differences_say_by_how_much():
    a = {"x": np.array([1.0, 2.0, 3.0], np.float32), "y": np.zeros([1], np.float32), "z": np.zeros([1], np.float32)}
    b = {**a, "x": np.array([1.0, 2.5, 2.0], np.float32), "z": np.array([np.nan], np.float32)}
    assert list(differences(a, b)) == [
        Difference("x", f"x: 2 of 3 values differ, first {np.float32(2.0)!r} and {np.float32(2.5)!r}", 1.0),
        Difference("z", f"z: 1 of 1 values differ, first {np.float32(0.0)!r} and {np.float32(np.nan)!r}", None),
    ]
    assert list(differences(a, dict(a))) == []
