"""Which part of a run the entries of a checkpoint belong to, in checkpoints of many makes."""

import os

import numpy as np
import pytest
import tensorflow as tf

from midepoch import checkpoint_parts
from midepoch.checkpoint_parts import ITERATOR, OPTIMIZER, OTHER, WEIGHTS
from tests.conftest import HAS_ESTIMATOR


def parts_by_name(prefix):
    entries = checkpoint_parts.entries(tf.train.load_checkpoint(prefix))
    return {entry.name: entry.part for entry in entries.values()}


def name_based(directory, *names):
    """Writes a checkpoint of variables as a Saver does: float32 [2], but scalars of counters and of names without a slash."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name in names:
            value = np.int64(3) if name in ("global_step", "examples_seen") else np.zeros([2] if "/" in name else [], np.float32)
            tf.compat.v1.get_variable(name, initializer=value, use_resource=True)
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, os.path.join(str(directory), "model.ckpt"), global_step=3)


@pytest.mark.parametrize(
    "slots",
    [
        ["Adam/body/dense/kernel/m", "Adam/body/dense/kernel/v"],  # legacy Keras optimizers
        ["training/Adam/body/dense/kernel/m"],  # the same within a scope, as canned estimators have them
        ["body/dense/kernel/Adam", "body/dense/kernel/Adam_1"],  # tf.compat.v1.train optimizers
    ],
)
def test_slots_of_a_name_based_checkpoint(tmp_path, slots):
    others = {"body/dense/kernel": WEIGHTS, "body/dense/bias": WEIGHTS, "global_step": OTHER, "examples_seen": OTHER}
    prefix = name_based(tmp_path, *others, *slots)
    assert parts_by_name(prefix) == {**others, **dict.fromkeys(slots, OPTIMIZER)}


@pytest.mark.parametrize("child", ["optimizer", "solver"])
def test_object_based_checkpoint_of_any_names(tmp_path, child):
    """The optimizer is found by its slots, or by its name where it keeps its slots as children."""
    if child == "solver" and not HAS_ESTIMATOR:
        pytest.skip("no optimizer of Keras 3 says which of its variables are slots")
    make = tf.keras.optimizers.legacy.Adam if child == "solver" else tf.keras.optimizers.Adam
    model, optimizer = tf.keras.Sequential([tf.keras.layers.Dense(3, name="dense")], name="net"), make()
    model.build([None, 4])
    optimizer.apply_gradients([(tf.zeros_like(v), v) for v in model.trainable_variables])
    objects = {"net": model, child: optimizer, "step": tf.Variable(7), "data": iter(tf.data.Dataset.range(9))}
    prefix = tf.train.Checkpoint(**objects).write(str(tmp_path / "any"))

    sizes = checkpoint_parts.bytes_by_part(prefix, [str(path) for path in tmp_path.glob("any.*")])
    assert sizes[WEIGHTS] == 4 * 15
    assert 2 * 4 * 15 <= sizes[OPTIMIZER] <= 2 * 4 * 15 + 40  # two slots of Adam, and its scalars
    parts = parts_by_name(prefix)
    assert list(parts.values()).count(WEIGHTS) == 2 and list(parts.values()).count(ITERATOR) == 1
    assert [part for name, part in parts.items() if name.startswith("step/") or name == "Variable"] == [OTHER]


def test_an_iterators_bytes_are_what_it_adds(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, name="dense")])
    model.build([None, 4])
    for size in (10, 2000):
        iterator = iter(tf.data.Dataset.range(10**6).shuffle(size, seed=1))
        next(iterator)
        tf.train.Checkpoint(model=model, iterator=iterator).write(str(tmp_path / f"shuffle{size}"))
    small, large = (
        checkpoint_parts.bytes_by_part(str(tmp_path / name), [str(path) for path in tmp_path.glob(f"{name}.*")])
        for name in ("shuffle10", "shuffle2000")
    )
    grown = large["total"] - small["total"]
    assert grown > 10_000
    assert abs(large[ITERATOR] - small[ITERATOR] - grown) < 20  # the index holds sizes too, in as many bytes as they need


def test_what_has_a_problem_is_not_opened(tmp_path, monkeypatch):
    (tmp_path / "x.index").write_text("123")
    monkeypatch.setattr(tf.train, "load_checkpoint", None)
    sizes, problem = checkpoint_parts.sizes(str(tmp_path / "x"), [str(tmp_path / "x.index"), str(tmp_path / "gone")], "known")
    assert problem == "known" and sizes == {WEIGHTS: None, OPTIMIZER: None, ITERATOR: None, OTHER: None, "total": 3}


def test_what_cannot_be_opened_has_a_problem(tmp_path):
    (tmp_path / "x.index").write_text("")
    sizes, problem = checkpoint_parts.sizes(str(tmp_path / "x"), [str(tmp_path / "x.index")], None)
    assert problem.startswith("it cannot be read: ") and sizes[WEIGHTS] is None
