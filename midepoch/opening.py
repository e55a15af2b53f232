"""Opening a run: check everything, lock the model_dir, decide where to start, and hand the run to a program."""

import contextlib
from typing import Any, Iterator, Optional

import tensorflow as tf

from midepoch import checksums, model_dir, randomness
from midepoch.config import TrainConfig
from midepoch.errors import UserError
from midepoch.run import Run
from midepoch.stopping import Stopping
from midepoch.task import check_task, load_task


def _make_run(program: str, config: TrainConfig, task: Optional[Any], stopping: Stopping, only_look: bool = False) -> Run:
    if config.mode != "train":
        raise UserError(
            f"--mode={config.mode}, but this call trains; call {config.mode}() of {program}/evaluate.py, or leave it out"
        )
    stopping.set_limit(config.max_run_secs)
    stopping.check()  # importing TensorFlow has taken seconds
    randomness.make_deterministic(config.seed)
    if task is None:
        task = load_task(config.task)
    else:
        check_task(task, config.task)
    model_dir.check_place(config.model_dir)
    return Run(program, config, task, stopping, only_look or model_dir.refusal(config.model_dir) is not None)


def preview_run(program: str, config: TrainConfig) -> None:
    """Prints what a start would print before training begins; writes nothing and takes no lock.

    Args:
      program: "estimator" or "lowlevel".
      config: what the user would want.

    Raises:
      UserError: as `open_run`: the start would be refused.
    """
    run = _make_run(program, config, None, Stopping(), only_look=True)
    with checksums.damage_explained(run.indexes):
        run.check()
        holder = model_dir.read_lock(config.model_dir)
        if model_dir.still_runs(holder):
            raise model_dir.in_use(config.model_dir, holder)
        _check_writable(run)
        run.preview()


def _check_writable(run: Run) -> None:
    """Raises UserError if the model_dir cannot be written, but would have to be."""
    refusal = model_dir.refusal(run.config.model_dir)
    if refusal is not None:
        run.choose_start()
        if not run.already_done:
            raise refusal


@contextlib.contextmanager
def open_run(
    program: str, config: TrainConfig, task: Optional[Any] = None, stopping: Optional[Stopping] = None
) -> Iterator[Run]:
    """Checks everything, locks the model_dir, decides where to start, and gives the run to the program.

    Args:
      program: "estimator" or "lowlevel".
      config: what the user wants.
      task: a task object, or None to load the one that the config names.
      stopping: says when to stop; None for one that hears no signals.

    Yields:
      The run. If its `already_done` is set there is nothing to do.

    Raises:
      UserError: as `Run.check`, `model_dir.Lock` and `startup.choose_start`; nothing but the lock's file has been written
        then. Or a data file turned out to be damaged in mid-training; nothing is saved after that.
      StoppedBeforeTraining: a signal came in the meantime.
    """
    stopping = stopping or Stopping()
    run = _make_run(program, config, task, stopping)
    with checksums.damage_explained(run.indexes):
        stopping.check()
        run.check()
        stopping.check()
        _check_writable(run)
        if run.already_done:  # and cannot be written, so that there is nothing to lock
            run.announce()
            yield run
            return
        lock = model_dir.Lock(config.model_dir)
        try:
            run.open(lock)
            yield run
        except tf.errors.OutOfRangeError as error:
            run.give_up()
            raise input_ended() from error
        except Exception:
            run.give_up()
            raise
        finally:
            lock.release()


def input_ended() -> UserError:
    """Returns what there is to say where TensorFlow reports the end of the data before the target is reached."""
    return UserError(
        "TensorFlow says that the data has ended, which it never should: a dataset of your own needs .repeat() at its end; "
        "with any other, the disk is full. The checkpoints are good"
    )
