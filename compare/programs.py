"""What can be compared: the two programs, and the peers of compare/peers, which do the same with the usual means.

This is the one place that knows how each of them is started.
"""

import glob
import importlib
import importlib.util
import os
import sys
from typing import List, NamedTuple, Optional, Tuple

from midepoch import config as config_lib
from midepoch.config import TrainConfig

# The package whose `PEERS` lists the peers; another one in tests.
PEERS_PACKAGE = "compare.peers"

# The flags that a peer has.
PEER_FLAGS = ("num_epochs", "batch_size", "save_checkpoints_steps", "seed")


class Program(NamedTuple):
    """Something that trains.

    Attributes:
      name: for people and directories.
      module: what `python -m` starts.
      title: what it is, in a few words.
      description: what is peculiar about how it saves and resumes.
      needs: what has to be installed for it.
      is_peer: whether it is one of compare/peers.
      sources: its source files.
      why_not: None, or why it cannot run here.
    """

    name: str
    module: str
    title: str
    description: str
    needs: str
    is_peer: bool
    sources: Tuple[str, ...]
    why_not: Optional[str]


def own_programs() -> List[Program]:
    """Returns `lowlevel` and `estimator`."""
    has_estimator = importlib.util.find_spec("tensorflow_estimator") is not None
    why_not = "this TensorFlow has no tf.estimator, 2.15 was the last that has it (Python 3.11)"
    return [
        Program(
            "lowlevel",
            "lowlevel.train",
            "tf.train.Checkpoint and two CheckpointManagers",
            "a loop of its own; the Checkpoint tracks the iterator like a variable",
            "TensorFlow 2.15 to the current one",
            False,
            _sources("lowlevel"),
            None,
        ),
        Program(
            "estimator",
            "estimator.train",
            "tf.estimator and RunConfig",
            "Estimator's loop; the iterator goes into the graph's Saver, and a hook saves",
            "TensorFlow 2.15, the last with tf.estimator",
            False,
            _sources("estimator"),
            None if has_estimator else why_not,
        ),
    ]


def peers() -> List[Program]:
    """Returns the peers."""
    package = importlib.import_module(PEERS_PACKAGE)
    return [
        Program(
            peer.key,
            f"{PEERS_PACKAGE}.{peer.key}",
            peer.title,
            peer.what,
            ", ".join(peer.packages),
            True,
            (os.path.join(os.path.dirname(package.__file__), f"{peer.key}.py"),),
            package.why_not(peer),
        )
        for peer in package.PEERS
    ]


def _sources(package: str) -> Tuple[str, ...]:
    [folder] = importlib.util.find_spec(package).submodule_search_locations
    return tuple(sorted(glob.glob(os.path.join(glob.escape(folder), "*.py"))))


def shared_by_peers() -> Tuple[str, ...]:
    """Returns the source files in the peers' package that are no peers themselves."""
    own = {path for peer in peers() for path in peer.sources}
    return tuple(path for path in _sources(PEERS_PACKAGE) if path not in own)


def library() -> Tuple[str, ...]:
    """Returns the source files of the library that both programs share."""
    return _sources("midepoch") + _sources("midepoch.tasks")


def command(program: Program, config: TrainConfig) -> List[str]:
    """Returns the command line that trains as a config says."""
    if program.is_peer:
        flags = [f"--{name}={getattr(config, name)}" for name in ("model_dir", *PEER_FLAGS)]
    else:
        flags = config_lib.to_flagfile(config).splitlines()
    return [sys.executable, "-m", program.module, *flags]
