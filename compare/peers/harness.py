"""What all peers have in common, and is not what they are compared for: flags, ledger, lines on the terminal, the end.

TensorFlow and PyTorch are not imported here.
"""

import argparse
import os
import sys
import warnings
from typing import Callable, NamedTuple, NoReturn, Optional, Sequence

from compare.peers import by_key, digits_files, why_not
from midepoch import cli, model_dir
from midepoch.console import say
from midepoch.errors import UserError
from midepoch.ledger import Ledger

METRICS_FILE = "metrics.json"
LOG_STEPS = 4
LEARNING_RATE = 0.001  # of Adam, as in the two programs
DROPOUT = 0.3  # as in the task


class Flags(NamedTuple):
    """The flags of every peer; they mean what they mean in the two programs.

    Attributes:
      model_dir: where checkpoints, ledger and metrics go.
      num_epochs: in all, over all starts.
      batch_size: examples a step; the last step of an epoch may have fewer.
      save_checkpoints_steps: steps from one checkpoint to the next.
      seed: of shuffling and, where a library can, of all else.
    """

    model_dir: str
    num_epochs: int
    batch_size: int
    save_checkpoints_steps: int
    seed: int


class Run:
    """One start of a peer.

    Args:
      flags: its flags.

    Attributes:
      flags: the flags.
      steps_per_epoch: steps of an undisturbed epoch.
      target_steps: steps of an undisturbed run.
    """

    def __init__(self, flags: Flags):
        self.flags = flags
        self.steps_per_epoch = -(-digits_files.num_records(digits_files.TRAIN) // flags.batch_size)
        self.target_steps = flags.num_epochs * self.steps_per_epoch
        os.makedirs(flags.model_dir, exist_ok=True)
        self._ledger = Ledger(self.path(model_dir.EXAMPLES_FILE))

    def path(self, name: str) -> str:
        """Returns the path of a file in the model_dir."""
        return os.path.join(self.flags.model_dir, name)

    def started(self, step: int, source: str, epoch: Optional[int] = None, batches_done: Optional[int] = None) -> None:
        """Says where this start begins; to be called once, after restoring.

        Args:
          step: steps that the weights have been trained for; 0: nothing was restored.
          source: path of what was restored, for people.
          epoch: the epoch in which the peer goes on, from 1; None: as `step` says.
          batches_done: how many of its batches the peer counts as done.
        """
        if not step:
            say(f"fresh start: no checkpoint in {self.flags.model_dir}")
            return
        if epoch is None:
            epoch, batches_done = step // self.steps_per_epoch + 1, step % self.steps_per_epoch
        place = f"epoch {epoch}, {batches_done} of {self.steps_per_epoch} batches done"
        say(f"resume at step {step} from {os.path.basename(source)}: {place}")

    def step_done(
        self, step: int, example_ids: Sequence[int], loss: float, epoch: Optional[int] = None, batch: Optional[int] = None
    ) -> None:
        """Writes the line of a step into the ledger, and every few steps one on the terminal.

        Args:
          step: steps that the weights have been trained for, this one included.
          example_ids: the ids of its batch, in order.
          loss: of its batch.
          epoch: in which epoch the peer is, from 1; None: as `step` says.
          batch: which batch of that epoch it was, from 1.
        """
        self._ledger.add(step, example_ids, loss=float(loss))
        self._ledger.flush(on_disk=False)
        if step % LOG_STEPS == 0:
            if epoch is None:
                epoch, batch = (step - 1) // self.steps_per_epoch + 1, (step - 1) % self.steps_per_epoch + 1
            say(f"step {step}/{self.target_steps}   epoch {epoch} {batch}/{self.steps_per_epoch}   loss {float(loss):.4f}")

    def result(self) -> Optional[dict]:
        """Returns what a finished run has written, or None if this one is not finished."""
        metrics = model_dir.read_json(self.path(METRICS_FILE))
        return metrics if metrics and metrics["global_step"] >= self.target_steps else None

    def finished(self, accuracy: float, step: int) -> None:
        """Writes the metrics of a run that has come to its end, at a step that may be another than the target."""
        model_dir.write_json(self.path(METRICS_FILE), {"accuracy": float(accuracy), "global_step": int(step)})
        say(f"done {step}/{self.target_steps}   accuracy {accuracy:.4f}")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and exit code 1, as those of the two programs."""

    def error(self, message: str) -> NoReturn:
        sys.exit(cli.fail(f"{message}; see --help"))


def _parse_flags(key: str, arguments: Optional[Sequence[str]]) -> Flags:
    parser = _Parser(prog=f"python -m compare.peers.{key}", description=by_key(key).what, allow_abbrev=False)
    parser.add_argument("--model_dir", required=True, help="where checkpoints, examples.jsonl and metrics.json go")
    parser.add_argument("--num_epochs", type=int, default=20, help="in all (default: 20)")
    parser.add_argument("--batch_size", type=int, default=64, help="examples a step (default: 64)")
    parser.add_argument("--save_checkpoints_steps", type=int, default=50, help="steps between checkpoints (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    flags = Flags(**vars(parser.parse_args(arguments)))
    for name in ("num_epochs", "batch_size", "save_checkpoints_steps"):
        if getattr(flags, name) < 1:
            parser.error(f"--{name}={getattr(flags, name)} is less than 1; give 1 or more")
    return flags


def main(key: str, train: Callable[[Run], None], arguments: Optional[Sequence[str]] = None) -> NoReturn:
    """The command line of a peer: trains to the end, if that was not reached before, and exits.

    Args:
      key: of the peer.
      train: takes the Run, restores what there is, trains, evaluates and calls `finished`.
      arguments: the flags; None: those of the process.
    """
    cli.serve_any_terminal()
    if not sys.warnoptions:  # -W shows them
        warnings.simplefilter("ignore")
    flags, peer = _parse_flags(key, arguments), by_key(key)
    try:
        if why_not(peer):
            raise UserError(f"{key} cannot run here: {why_not(peer)}")
        run = Run(flags)
        if run.result():
            say(f"already done: {run.result()['global_step']}/{run.target_steps} steps")
            sys.exit(cli.EXIT_FINISHED)
        if "tensorflow" in peer.packages:
            cli.quiet_tensorflow()
        train(run)
    except UserError as error:
        sys.exit(cli.fail(str(error)))
    except OSError as error:
        where = error.filename or flags.model_dir
        sys.exit(cli.fail(f"{where}: {error.strerror or error}; mend it and run the command again"))
    sys.exit(cli.EXIT_FINISHED)
