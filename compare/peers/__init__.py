"""The peers: what people use today instead of midepoch, each a small program written as its own documentation teaches it.

All train the same network on the same digits, take the same flags, and keep the same ledger of examples, so that a kill can
be judged alike: `python -m compare.peers.replay --model_dir=run1 --num_epochs=20`. What is their own, how they save and how
they go on, stands in the file of that name; all else is in `harness.py` and the modules `*_digits.py`.
"""

import importlib.util
from typing import NamedTuple, Optional, Tuple


class Peer(NamedTuple):
    """A peer, which may or may not be able to run here.

    Attributes:
      key: name of its module in this package.
      title: what to call it in a table.
      what: what it does about kills, in a sentence or two.
      taught_at: address of the public documentation that teaches it.
      packages: the importable packages it needs.
    """

    key: str
    title: str
    what: str
    taught_at: str
    packages: Tuple[str, ...]


PEERS = (
    Peer(
        "fit_model_checkpoint",
        "Keras fit + ModelCheckpoint",
        "ModelCheckpoint saves the weights every S batches; a start loads the newest file and goes on with its epoch by "
        "initial_epoch. That epoch begins anew with weights that have seen a part of it, so the run ends some steps later.",
        "https://www.tensorflow.org/tutorials/keras/save_and_load",
        ("tensorflow",),
    ),
    Peer(
        "fit_backup_and_restore",
        "Keras fit + BackupAndRestore",
        "BackupAndRestore(save_freq=S) brings back weights, epoch and, with Keras 2, the batch, but not the place in the "
        "dataset, which starts again with its first batch.",
        "https://www.tensorflow.org/guide/migrate/fault_tolerance",
        ("tensorflow",),
    ),
    Peer(
        "replay",
        "loop, reads the epoch again",
        "A loop with CheckpointManager, each epoch shuffled by a seed of its own; a start reads the epoch again up to the "
        "saved step. Exact, at the price of reading.",
        "https://www.tensorflow.org/guide/checkpoint",
        ("tensorflow",),
    ),
    Peer(
        "skip",
        "loop, skip(steps + buffer)",
        "A loop with CheckpointManager; a start skips as many records as the steps used, and those that the shuffle buffer "
        "held. No record of that buffer is used in that epoch.",
        "https://www.tensorflow.org/api_docs/python/tf/data/Dataset#skip",
        ("tensorflow",),
    ),
    Peer(
        "plain_estimator",
        "Estimator, plain input_fn",
        "RunConfig(save_checkpoints_steps=S) saves the model; every start begins with the first batch of the dataset.",
        "https://www.tensorflow.org/guide/migrate/fault_tolerance",
        ("tensorflow", "tensorflow_estimator"),
    ),
    Peer(
        "stock_hook_estimator",
        "Estimator + CheckpointInputPipelineHook",
        "The hook saves the iterator in files of its own. After a resume it saves at other steps than the model, so the "
        "second kill finds two files that do not belong together.",
        "https://www.tensorflow.org/versions/r2.13/api_docs/python/tf/data/experimental/CheckpointInputPipelineHook",
        ("tensorflow", "tensorflow_estimator"),
    ),
    Peer(
        "torch_state_dict",
        "PyTorch, state_dict",
        "torch.save of model, optimizer, epoch and step every S steps, and of the best model; a start begins the saved "
        "epoch anew, in the order of the first one, so the run ends some steps later.",
        "https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",
        ("torch",),
    ),
    Peer(
        "torch_stateful_dataloader",
        "PyTorch, StatefulDataLoader",
        "torchdata's StatefulDataLoader, whose state_dict is saved in one file with model and optimizer.",
        "https://docs.pytorch.org/data/0.11/stateful_dataloader_tutorial.html",
        ("torch", "torchdata"),
    ),
)


def by_key(key: str) -> Peer:
    """Returns the peer of that key."""
    return next(peer for peer in PEERS if peer.key == key)


def why_not(peer: Peer) -> Optional[str]:
    """Returns why a peer cannot run with this Python, in one line, or None if it can; imports nothing."""
    missing = next((package for package in peer.packages if not importlib.util.find_spec(package)), None)
    if missing == "tensorflow_estimator":
        return "this TensorFlow has no tf.estimator; 2.15 was the last that has it (Python 3.11)"
    return f"missing: {missing} is not installed; pip install -e .[peers]" if missing else None
