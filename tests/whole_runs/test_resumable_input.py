"""`resumable` fetches a batch in the thread that runs the step: what that must not break."""

import os
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

from tests.whole_runs import runs

pytestmark = pytest.mark.skipif(not runs.HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")

STUCK = 3


def fetch(make_dataset, times):
    """Returns the first elements, fetched by a session that has one thread for everything."""
    from estimator.inputs import resumable

    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(1)  # op determinism, where another test has switched it on, wants one
        element = resumable(make_dataset())
        with tf.compat.v1.Session(config=config) as session:
            return [session.run(element) for _ in range(times)]


def fetch_doubled(threads):
    """Fetches what a function of a dataset makes; `threads` is the dataset's `private_threadpool_size`, if not None."""

    def numbers():
        options = tf.data.Options()
        if threads is not None:
            options.threading.private_threadpool_size = threads
        doubled = tf.data.Dataset.range(100).map(lambda number: number * 2, num_parallel_calls=2)
        return doubled.prefetch(2).with_options(options)

    assert fetch(numbers, 20) == list(range(0, 40, 2))


def fetch_in_a_process(threads, secs):
    """Returns the exit code: 0, or `STUCK` if that takes longer than so many seconds."""
    program = f"from tests.whole_runs import test_resumable_input as test; test.end_after({secs}); test.fetch_doubled({threads})"
    return subprocess.run([sys.executable, "-c", program], check=False).returncode


def end_after(secs):
    watch = threading.Timer(secs, os._exit, [STUCK])
    watch.daemon = True
    watch.start()


def test_a_session_with_one_thread_gets_its_batches():
    assert fetch_in_a_process(threads=None, secs=60) == 0


def test_a_dataset_without_threads_of_its_own_would_wait_for_the_step_that_waits_for_it():
    """Control: the session's one thread fetches, and the function that makes what is to be fetched needs that thread."""
    assert fetch_in_a_process(threads=-1, secs=3) == STUCK


def test_sparse_features():
    def numbered_rows():
        rows = tf.sparse.from_dense([[0, 1], [2, 0], [0, 3]])
        return tf.data.Dataset.from_tensor_slices({"row": rows, "number": [7, 8, 9]}).repeat()

    elements = fetch(numbered_rows, 4)

    assert [int(element["number"]) for element in elements] == [7, 8, 9, 7]
    assert [element["row"].values.tolist() for element in elements] == [[1], [2], [3], [1]]
