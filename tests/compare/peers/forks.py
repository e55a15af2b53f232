"""Starts peers again and again and kills each just after a step: `python -m tests.compare.peers.forks DIRECTORY PEER...`.

Importing TensorFlow takes longer than what is tested. So it is imported once, and not used; each start is a fork of this
process. The peers know nothing of it: the fork that is to die has a step_done of the test's own, which does what the harness
does and then sends its process a SIGKILL.
"""

import functools
import importlib
import os
import signal
import sys

from compare.peers import harness
from compare.soak import exit_code
from midepoch import cli

NUM_EPOCHS = 2
BATCH_SIZE = 125  # 12 steps an epoch
SAVE_STEPS = 5
SEED = 1
KILLS = (8, 18, None)  # each inside an epoch, three steps after a checkpoint; the third start is left in peace


def flags(directory):
    return [
        f"--model_dir={directory}",
        f"--num_epochs={NUM_EPOCHS}",
        f"--batch_size={BATCH_SIZE}",
        f"--save_checkpoints_steps={SAVE_STEPS}",
        f"--seed={SEED}",
    ]


def start(key, directory, kill_after):
    """Starts a peer; what it prints is added to `<directory>.txt`; returns how it ended."""
    process = os.fork()
    if process:
        return exit_code(process)
    code = 1
    try:
        output = os.open(directory + ".txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if kill_after:
            harness.Run.step_done = functools.partialmethod(step_done_and_die, harness.Run.step_done, kill_after)
        harness.main(key, importlib.import_module(f"compare.peers.{key}").train, flags(directory))
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def step_done_and_die(run, step_done, kill_after, step, *args):
    step_done(run, step, *args)
    if step == kill_after:
        os.kill(os.getpid(), signal.SIGKILL)


def main(root, *keys):
    cli.quiet_tensorflow()
    for key in keys:
        for kill_after in KILLS:
            code = start(key, os.path.join(root, key), kill_after)
            if code != (-signal.SIGKILL if kill_after else 0):
                sys.exit(f"{key}, to be killed after step {kill_after}, ended with {code}")


if __name__ == "__main__":
    main(*sys.argv[1:])
