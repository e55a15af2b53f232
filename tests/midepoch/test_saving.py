"""Weights that are no numbers, and what TensorFlow and the system say of a save that fails, as one line."""

import errno

import numpy as np
import pytest
import tensorflow as tf

from midepoch.errors import UserError
from midepoch.saving import are_finite, check_finite, failure_explained


def test_finite_weights_pass_and_others_are_named():
    def check(*values):
        weights = [tf.Variable(value, name="kernel" if value is not steps else "steps") for value in values]
        check_finite(3, weights, are_finite(weights))

    steps = np.int64(7)
    check(1.0, steps, [2.0, 3.0])
    # Keras 2 gives layers of two models the same name: one must not hide the other.
    for values in ([[1.0, float("nan")], 1.0], [1.0, float("inf")], [steps, float("-inf")]):
        with pytest.raises(UserError, match="the weights kernel are not finite after step 3"):
            check(*values)


@pytest.mark.parametrize(
    "error, line",
    [
        (OSError(errno.ENOSPC, "No space left on device", "run/x.tmp"), "failed: run/x.tmp: No space left on device; make room"),
        (
            tf.errors.OutOfRangeError(None, None, "{{function_node w}} /run/a.data; No space left on device [Op:SaveV2]"),
            "failed: /run/a.data: No space left on device; make room",
        ),
        (
            tf.errors.OutOfRangeError(None, None, "{{function_node w}} small/run/a_temp/b; No space left on device [Op:SaveV2]"),
            "failed: small/run/a_temp/b: No space left on device; make room",
        ),
        (tf.errors.UnknownError(None, None, "Node: 'save'\n/run/a; File too large\n\t [["), "failed: /run/a: File too large; make"),
        (
            tf.errors.FailedPreconditionError(None, None, "/run/a_temp; Read-only file system [Op:X]"),
            "failed: /run/a_temp: Read-only file system; make room",
        ),
        (tf.errors.InternalError(None, None, "something else"), "failed: something else; make room"),
    ],
)
def test_failure_is_one_line_and_never_the_end_of_the_data(error, line):
    with pytest.raises(UserError) as caught:
        with failure_explained(40):
            raise error
    assert f"saving at step 40 {line}" in str(caught.value) and "\n" not in str(caught.value)
