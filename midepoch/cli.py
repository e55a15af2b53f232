"""The command line of both programs: flags in, one call, an exit code out, and one line for every error."""

import contextlib
import json
import os
import signal
import sys
from typing import Any, Callable, Dict, Iterable, Iterator, List

from absl import app, flags, logging

from midepoch import config as config_lib
from midepoch import console
from midepoch.errors import UserError, one_line
from midepoch.stopping import Stopping

EXIT_FINISHED = 0
EXIT_FAILED = 1
ERROR = "error: "  # how the one line of a failure begins
EXIT_STOPPED = 75  # EX_TEMPFAIL: run the same command again


def quiet_tensorflow() -> None:
    """Imports TensorFlow with its start-up chatter and deprecation walls off.

    Set TF_CPP_MIN_LOG_LEVEL=0 to hear them.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
        return
    with _stderr_discarded():  # some lines of current releases heed no variable; errors come as exceptions
        import tensorflow as tf

        tf.config.list_physical_devices()
    tf.get_logger().setLevel("ERROR")
    logging.set_verbosity(logging.ERROR)


@contextlib.contextmanager
def _stderr_discarded() -> Iterator[None]:
    """Sends what C++ writes to standard error nowhere."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def print_json(values: Iterable[Any]) -> None:
    """Prints each value as a line of JSON on standard output, until whoever reads there has seen enough."""
    try:
        for value in values:
            print(json.dumps(value, ensure_ascii=False), flush=True)
    except BrokenPipeError:  # `| head`: no failure
        console.discard(sys.stdout)


def serve_any_terminal() -> None:
    """Lets a terminal that has no → show a ? instead."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")


def run(
    train: Callable[[config_lib.TrainConfig, Stopping], Any], readers: Dict[str, Callable[[config_lib.TrainConfig], Any]]
) -> None:
    """Parses the flags, calls what belongs to `--mode`, and exits.

    Args:
      train: takes the config and what hears signals, and returns a `Result`.
      readers: from each other mode to a function that takes the config, and only reads.
    """
    stopping = Stopping().__enter__()  # never left: signals are heard, and the time is counted, from here on
    serve_any_terminal()
    config_lib.define_flags()

    def call(config: config_lib.TrainConfig) -> Any:
        if config.mode == "train":
            return train(config, stopping)
        for number in Stopping.SIGNALS:
            signal.signal(number, signal.default_int_handler)  # what only reads may be interrupted anywhere
        return readers[config.mode](config)

    try:
        app.run(lambda unused_argv: sys.exit(_exit_code(call)), flags_parser=_parse_flags)
    finally:
        for number in Stopping.SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # all is saved and said: one more signal must not change the exit code


def fail(line: str) -> int:
    """Prints the one line of an error on standard error; returns the exit code."""
    console.say(ERROR + line, sys.stderr)
    return EXIT_FAILED


def _parse_flags(argv: List[str]) -> List[str]:
    try:
        rest = flags.FLAGS(argv)
    except flags.Error as error:
        sys.exit(fail(" ".join(str(error).split())))
    if rest[1:]:
        sys.exit(fail(f"unexpected argument {rest[1]!r}; flags are written --name=value"))
    return rest


def _exit_code(main: Callable[[config_lib.TrainConfig], Any]) -> int:
    try:
        result = main(config_lib.from_flags())
    except UserError as error:
        return fail(str(error))
    except KeyboardInterrupt as error:
        if flags.FLAGS.mode != "train":
            console.say("stopped, nothing was written; run the same command again (exit 75)", sys.stderr)
            return EXIT_STOPPED
        by = f" by {error}" if str(error) else ""
        console.say(f"stopped before training began{by}, nothing lost; run the same command to continue (exit 75)")
        return EXIT_STOPPED
    except OSError as error:  # a full disk, permissions taken away, a drive that is gone
        where = f"{error.filename}: " if error.filename else ""
        what = f"{where}{error.strerror or error}"
        return fail(f"{what}; mend it and run the same command again, the last checkpoint is good")
    except Exception as error:
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow is None or not isinstance(error, tensorflow.errors.OpError):
            raise  # a bug, or user code that fails in mid-training: the traceback says where
        return fail(f"TensorFlow failed: {one_line(error)}; no checkpoint was saved after that; those before it are good")
    return EXIT_FINISHED if result is None or result.finished else EXIT_STOPPED
