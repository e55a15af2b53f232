"""What the tables of damage and of contracts share: one trained run of each program, and a start without its training.

A start is all that happens before the framework is asked: contract, choice of the checkpoint, healing. The checks of the
task itself, which cost a second and have nothing to do with either table, are done once and remembered.
"""

import contextlib

from midepoch.config import TrainConfig
from midepoch.opening import open_run
from midepoch.run import Run
from tests.whole_runs import runs

STOPPED_AT = 13
FLAGS = dict(
    task="small", batch_size=runs.BATCH_SIZE, shuffle_window=10, shuffle_block=3, seed=11, learning_rate=0.05,
    num_epochs=3, save_checkpoints_steps=2, keep_checkpoint_max=3, best_metric="loss", export=False,
)  # fmt: skip


def train(program, directory, data, stop_after=STOPPED_AT, **changes):
    """Trains a run that evaluates at 6 and 12, and has 10, 12 and 13 on disk when it stops; its best is 12, the latest."""
    flags = {name: value for name, value in {**FLAGS, **changes}.items() if name != "task"}
    with checks_remembered():
        return runs.train(program, directory, stop_after=stop_after, log_every_steps=1, **flags, **data)


@contextlib.contextmanager
def start(program, directory, data, **changes):
    """Starts a program on a model_dir as far as its training, which is left out; yields the `Run`."""
    config = TrainConfig(model_dir=str(directory), **{**FLAGS, **data, **changes})
    with checks_remembered(), open_run(program, config, runs.Small()) as run:
        yield run
        if not run.already_done:
            run.reports.close(run.start.step)


_REMEMBERED = ("_model_weights", "frozen", "idle", "_about_model")
_checked = {}


@contextlib.contextmanager
def checks_remembered():
    """The checks of the task `Small` are done once in a process, and remembered."""
    check = Run.check

    def check_once(run):
        key = (run.program, run.config.freeze)
        if key not in _checked:
            check(run)
            _checked[key] = [getattr(run, name) for name in _REMEMBERED]
        for name, value in zip(_REMEMBERED, _checked[key]):
            setattr(run, name, value)

    Run.check = check_once
    try:
        yield
    finally:
        Run.check = check
