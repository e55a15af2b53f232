"""Makes the TFRecord files of the task `mnist` from the IDX files that MNIST, Fashion-MNIST and KMNIST come in:
`python -m midepoch.convert_mnist --input_dir=… --output_dir=…`.

Each record is a `tf.train.Example`: `image`, 784 bytes, rows first; `label`, an int64. They keep their order, so the example
id of a training image is its number in the source. All input is read and checked before anything is written (55 MB of memory
for 60,000 + 10,000 images). The files are written into a hidden folder, and renamed when the last one is whole; a SIGKILL
leaves at most that folder, `.unfinished-*`, which may be removed.
"""

import argparse
import os
import shlex
import signal
import sys
import tempfile
from typing import Dict, List, NamedTuple, Optional

import numpy as np

from midepoch import cli
from midepoch.console import count, progress_bar, say
from midepoch.errors import UserError, one_line
from midepoch.idx import find_idx, read_idx

IMAGE_SIZE = 28
NUM_CLASSES = 10
# Where the task looks for its files if not told otherwise; in the current directory.
DATA_DIR = "data/mnist"
TRAIN_SHARDS = 10

_NAMES_IN_SOURCE = {"train": "train", "eval": "t10k"}


class Examples(NamedTuple):
    """What two IDX files hold.

    Attributes:
      images: uint8 [N, 28, 28].
      labels: uint8 [N], 0 … 9.
    """

    images: np.ndarray
    labels: np.ndarray


def read_source(input_dir: str, output_dir: str, train_shards: int) -> Dict[str, Examples]:
    """Reads the four files, and checks all that can be wrong.

    Args:
      input_dir: holds `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same of `t10k`, each plain or as `.gz`.
      output_dir: where `write_shards` is to write; holds no such files yet.
      train_shards: number of training files.

    Returns:
      The examples of "train" and of "eval".

    Raises:
      UserError: one of these is wrong, or a file is missing, damaged or of another kind.
    """
    _check_output(output_dir)
    if not os.path.isdir(input_dir):
        raise UserError(
            f"--input_dir={input_dir} is no folder; give the one that holds train-images-idx3-ubyte.gz and the others"
        )
    parts = {part: _read_examples(input_dir, name) for part, name in _NAMES_IN_SOURCE.items()}
    num_train = len(parts["train"].labels)
    if not 1 <= train_shards <= num_train:
        raise UserError(f"--train_shards={train_shards} is not between 1 and {num_train}, the number of training images")
    return parts


def write_shards(parts: Dict[str, Examples], output_dir: str, train_shards: int) -> None:
    """Writes `train-<shard>-of-<shards>.tfrecord` and `eval-00000-of-00001.tfrecord`, all of them or none.

    Only a SIGKILL in the milliseconds in which they get their names can leave some.

    Args:
      parts: as from `read_source`.
      output_dir: made if missing.
      train_shards: number of training files; their sizes differ by one example at most.

    Raises:
      UserError: the folder cannot be written to, or somebody else has written such files meanwhile.
    """
    import tensorflow as tf  # only now: it takes seconds, and bad input is answered at once

    try:
        os.makedirs(output_dir, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=output_dir) as unfinished:
            for part, examples in parts.items():
                _write(examples, os.path.join(unfinished, part), train_shards if part == "train" else 1)
            _check_output(output_dir)  # again: it took a while
            _move_all(unfinished, output_dir)
    except OSError as error:
        line = f"--output_dir={output_dir}: cannot write there: {error.strerror}; mend it or give another"
        raise UserError(line) from error
    except tf.errors.OpError as error:  # a full disk
        raise UserError(f"--output_dir={output_dir}: cannot write there: {one_line(error)}; nothing is kept") from error


def _move_all(source: str, target: str) -> None:
    """Moves all files of a folder into another, or, if something comes in between, none."""
    moved = []
    try:
        for name in sorted(os.listdir(source)):
            os.rename(os.path.join(source, name), os.path.join(target, name))
            moved.append(os.path.join(target, name))
    except BaseException:
        for path in moved:
            os.remove(path)
        raise


def _read_examples(input_dir: str, name: str) -> Examples:
    """Reads images and labels, `name` being "train" or "t10k".

    Raises:
      UserError: a file is missing, damaged or of another kind, or the two do not belong together.
    """
    images_path, labels_path = (find_idx(input_dir, f"{name}-{kind}") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if not len(images):
        raise UserError(f"{images_path} holds no image; get it again")
    if len(images) != len(labels):
        raise UserError(
            f"{images_path} holds {count(len(images), 'image')}, but {labels_path} {count(len(labels), 'label')}; "
            "get the two that belong together"
        )
    if images.shape[1:] != (IMAGE_SIZE, IMAGE_SIZE):
        rows, columns = images.shape[1:]
        raise UserError(
            f"{images_path} holds images of {rows}×{columns} pixels; the task mnist takes {IMAGE_SIZE}×{IMAGE_SIZE}"
        )
    wrong = np.flatnonzero(labels >= NUM_CLASSES)
    if len(wrong):
        raise UserError(
            f"{labels_path}: label {wrong[0]} is {labels[wrong[0]]}; the task mnist takes 0 to {NUM_CLASSES - 1}"
        )
    return Examples(images, labels)


def _check_output(output_dir: str) -> None:
    if os.path.exists(output_dir) and not os.path.isdir(output_dir):
        raise UserError(f"--output_dir={output_dir} is no folder; give another")
    names = sorted(os.listdir(output_dir)) if os.path.isdir(output_dir) else []
    for name in names:
        if name.startswith(("train-", "eval-")) and name.endswith(".tfrecord"):
            raise UserError(
                f"--output_dir={output_dir} holds {name} already, and nothing is overwritten; give another folder"
            )


def _write(examples: Examples, prefix: str, num_shards: int) -> None:
    """Writes one part into files `prefix`-<shard>-of-<shards>.tfrecord."""
    import tensorflow as tf

    total = len(examples.labels)
    ends = [total * shard // num_shards for shard in range(num_shards + 1)]
    with progress_bar(total, f"converting {os.path.basename(prefix)}", " images") as advance:
        for shard in range(num_shards):
            with tf.io.TFRecordWriter(f"{prefix}-{shard:05}-of-{num_shards:05}.tfrecord") as writer:
                for number in range(ends[shard], ends[shard + 1]):
                    example = tf.train.Example()
                    example.features.feature["image"].bytes_list.value.append(examples.images[number].tobytes())
                    example.features.feature["label"].int64_list.value.append(examples.labels[number])
                    writer.write(example.SerializeToString(deterministic=True))
                    advance(1)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        raise UserError(f"{message}; see --help")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line; what it refuses is a UserError."""
    parser = _Parser(
        description="Makes TFRecord files for --task=mnist from the IDX files of MNIST, Fashion-MNIST or KMNIST.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--input_dir",
        help="required; holds {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, plain or as .gz; "
        "Debian's package dataset-fashion-mnist puts them into /usr/share/datasets/fashion-mnist",
    )
    parser.add_argument("--output_dir", default=DATA_DIR, help="where the files go; the default is where --task=mnist looks")
    parser.add_argument("--train_shards", type=int, default=TRAIN_SHARDS, help="number of training files")
    return parser


def main(arguments: Optional[List[str]] = None) -> None:
    """The console script `midepoch-convert-mnist`; exits with 0, or with 1 and one line.

    Args:
      arguments: instead of the command line's.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is unfinished is removed
    cli.serve_any_terminal()
    try:
        flags = make_parser().parse_args(arguments)
        if not flags.input_dir:
            raise UserError("--input_dir is not set; give the folder that holds train-images-idx3-ubyte.gz and the others")
        parts = read_source(flags.input_dir, flags.output_dir, flags.train_shards)
        cli.quiet_tensorflow()
        write_shards(parts, flags.output_dir, flags.train_shards)
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped, nothing is kept; run the same command again")
    num_train, num_eval = (len(parts[part].labels) for part in ("train", "eval"))
    say(f"{flags.output_dir}: {num_train} train examples in {count(flags.train_shards, 'file')}, {num_eval} eval examples")
    globs = "" if flags.output_dir == DATA_DIR else "".join(
        f" --{part}_files={shlex.quote(os.path.join(flags.output_dir, f'{part}-*.tfrecord'))}" for part in parts
    )
    say(f"train with --task=mnist{globs}")


if __name__ == "__main__":
    main()
