"""A checkpoint opened to be read, for evaluating and predicting: beside a training process, or long after it.

Nothing is written into the model_dir and no lock is taken. The checkpoint is copied into a scratch folder (of `TMPDIR`), and
the copy is verified: training may delete the original at any moment, and what is not verified is not deserialised.
"""

import contextlib
import dataclasses
import glob
import math
import os
import shutil
import sys
import tempfile
from typing import Any, Dict, Iterable, Iterator, Optional

import keras
import tensorflow as tf

from midepoch import best, checksums, console, contract, model_dir, own_dataset, randomness, records, startup
from midepoch.config import TrainConfig, merged
from midepoch.errors import UserError, one_line
from midepoch.run import files_of
from midepoch.stopping import Stopping
from midepoch.task import check_task, has_own_dataset, load_task

# What a reader may want otherwise than the training was; all else is the run's.
_FREE = ("task", "eval_files", "batch_size")


class SavedCheckpoint:
    """A checkpoint and what is needed to evaluate it, in the terms of a `Run`.

    Args:
      config: the run's config, in `model_dir` a scratch folder.
      task: the task.
      prefix: the checkpoint's copy in it.

    Attributes:
      config: the same.
      task: the same.
      prefix: the same.
      start: its step and position.
      stopping: says when to stop: never.
      indexes: of the evaluation files; empty if the task brings its own dataset.
    """

    def __init__(self, config: TrainConfig, task: Any, prefix: str):
        self.config = config
        self.task = task
        self.prefix = prefix
        self._manifest = model_dir.read_manifest(prefix)
        step, examples_seen = self._manifest["step"], self._manifest["examples_seen"]
        self.start = startup.Start(startup.RESUME, prefix, step, examples_seen)
        self.stopping = Stopping()
        self.indexes = ()
        if not has_own_dataset(task):
            self.indexes = (records.build_index(files_of(task, config, "eval_files"), by_offset=False),)

    def check(self) -> None:
        """Makes sure that the task fits the checkpoint and the data.

        Raises:
          UserError: it does not.
        """
        name = self.config.task
        try:
            weights = self.task.model(self.config.seed).weights
            empty = next(iter(self.eval_dataset()), None) is None
        except Exception as error:  # whatever the user's code raises
            raise UserError(f"--task={name}: its model or the first evaluation batch fails: {one_line(error)}") from error
        if empty:
            raise UserError(f"task {name} has no evaluation example; give some")
        startup.check_model_fits(self.prefix, weights, name)

    def eval_dataset(self) -> tf.data.Dataset:
        """Returns one pass over the evaluation batches, (features, labels)."""
        return own_dataset.eval_dataset(self.task, self.config, self.indexes[0] if self.indexes else None)

    def as_record(self, metrics: Dict[str, Any]) -> Dict[str, Any]:
        """Returns metrics as the run's own metrics files hold them; see `best.as_record`."""
        epoch_examples = self._manifest["contract"]["epoch_examples"]
        return best.as_record(metrics, self.start.step, self.start.examples_seen, epoch_examples)

    def as_lines(self, batches: Iterable[Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
        """Yields the outputs of each example, to be written as JSON.

        Args:
          batches: outputs by name, arrays [B, ...], in the order of the evaluation data.

        Yields:
          `example_id`: its number in the evaluation data, from 0, over all files in sorted order. `outputs`: numbers in
          nested lists; by name if the task's outputs are a dict. What is not finite is None, as JSON has no NaN.
        """
        example_id = 0
        for batch in batches:
            values = {name: array.tolist() for name, array in batch.items()}
            for row in zip(*values.values()):
                outputs = {name: _for_json(value) for name, value in zip(values, row)}
                unnamed = list(outputs) == ["outputs"]
                yield {"example_id": example_id, "outputs": outputs["outputs"] if unnamed else outputs}
                example_id += 1


def _for_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_for_json(part) for part in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return value if not isinstance(value, float) or math.isfinite(value) else None


@contextlib.contextmanager
def open_checkpoint(program: str, config: TrainConfig, task: Optional[Any] = None) -> Iterator[SavedCheckpoint]:
    """Finds and verifies the checkpoint that a config names, and gives it to the program.

    Args:
      program: "estimator" or "lowlevel".
      config: `model_dir` and `checkpoint`; and, where they are not at their defaults, `task`, `eval_files` and `batch_size`.
        All else comes from the model_dir's run.json.
      task: a task object, or None to load the one that is named.

    Yields:
      The checkpoint; its copy is gone afterwards.

    Raises:
      UserError: there is none, or it is not this program's, or task or data do not fit it.
    """
    run_config = _run_config(config)
    randomness.make_deterministic(run_config.seed)
    if task is None:
        task = load_task(run_config.task)
    else:
        check_task(task, run_config.task)
    if has_own_dataset(task):
        own_dataset.check_flags(run_config)
    with tempfile.TemporaryDirectory() as scratch:
        prefix = _copy_of(config, scratch)
        saved_contract = model_dir.read_manifest(prefix)["contract"]
        path_given = config.checkpoint not in (None, "latest", "best")
        where = f"--checkpoint={config.checkpoint}" if path_given else f"--model_dir={config.model_dir}"
        contract.check_program(saved_contract, program, int(keras.__version__.split(".")[0]), where)
        saved = SavedCheckpoint(dataclasses.replace(run_config, model_dir=scratch), task, prefix)
        with checksums.damage_explained(saved.indexes):
            saved.check()
            # On standard error: standard output is for the results alone.
            name = os.path.basename(prefix)
            console.say(f"{config.mode} {name} of {config.model_dir} (verified) · {run_config.task}", sys.stderr)
            yield saved


def _run_config(config: TrainConfig) -> TrainConfig:
    """Returns the config of the run in a model_dir, with what a reader wants otherwise."""
    directory = config.model_dir
    if not os.path.isdir(directory):
        raise UserError(f"--model_dir={directory} is no directory; give that of a run")
    run = model_dir.read_json(os.path.join(directory, model_dir.RUN_FILE))
    saved = run.get("config") if isinstance(run, dict) else None
    if not isinstance(saved, dict):
        raise UserError(
            f"--model_dir={directory} holds no readable run.json, so it is not that of a run; give one that training made"
        )
    defaults = {field.name: field.default for field in dataclasses.fields(TrainConfig)}
    wanted = {name: getattr(config, name) for name in _FREE if getattr(config, name) != defaults[name]}
    return merged(saved, {**wanted, "model_dir": directory, "mode": config.mode, "checkpoint": config.checkpoint})


def _copy_of(config: TrainConfig, scratch: str) -> str:
    """Copies the checkpoint that a config names; returns the prefix of the verified copy."""
    name, directory = config.checkpoint or "latest", config.model_dir
    if name not in ("latest", "best"):
        copy = _copied(startup.find_checkpoint(name, "checkpoint"), scratch)
        if copy is None:
            raise UserError(f"--checkpoint={name} was deleted while it was read; give another one")
        return copy
    searched = directory if name == "latest" else os.path.join(directory, model_dir.BEST_WEIGHTS)
    steps = model_dir.steps_on_disk(searched)
    while True:
        for step in steps:
            prefix = _copied(model_dir.prefix_of(searched, step), scratch)
            if prefix:
                return prefix
        before, steps = steps, model_dir.steps_on_disk(searched)
        if steps == before:  # else training has replaced them meanwhile
            raise UserError(
                f"--model_dir={directory} holds no whole checkpoint ({name}); "
                + ("train first, or give --checkpoint=best" if name == "latest" else "give --checkpoint=latest")
            )


def _copied(prefix: str, scratch: str) -> Optional[str]:
    """Copies a checkpoint; returns the prefix of the copy, or None if that is not whole."""
    copy = os.path.join(scratch, os.path.basename(prefix))
    for path in glob.glob(glob.escape(prefix) + ".*"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(path, scratch)
    problem = model_dir.problem_with(copy)
    if problem is None:
        return copy
    if os.path.exists(model_dir.manifest_path(copy)):
        console.say(f"skipped {os.path.basename(prefix)}: {problem}", sys.stderr)
    return None
