"""One run of one program in one model_dir: everything around training that has nothing to do with either framework.

`opening.open_run` makes it. It carries the task, the input, the schedule and the start, says what is due, and hands the reports
of what the program has done to `reports.py`.
"""

import contextlib
import dataclasses
import os
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import keras
import tensorflow as tf

from midepoch import best as best_lib
from midepoch import config as config_lib
from midepoch import checksums, console, contract, exports, fair_warning, freezing, healing, lines, model_dir, randomness
from midepoch import own_dataset, records, reports, serving, startup, stream
from midepoch.config import TrainConfig
from midepoch.errors import UserError, one_line
from midepoch.schedule import Schedule
from midepoch.stopping import EVALUATION, SAVE, Stopping
from midepoch.task import Task, has_own_dataset

_HISTORY = ("starts", "kills", "steps_done_again")


def _is_history(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), int) for name in _HISTORY)


class Result(NamedTuple):
    """How a run ended.

    Attributes:
      finished: whether the target is reached and evaluated; if not, it was stopped with everything saved.
      step: the global step.
      examples_seen: training examples used so far.
      metrics: of the last evaluation, or None if there was none.
      best_metrics: of the best one, or None.
      export: the folder of the SavedModel, or None if there is none of this end of the run.
    """

    finished: bool
    step: int
    examples_seen: int
    metrics: Optional[Dict[str, Any]]
    best_metrics: Optional[Dict[str, Any]]
    export: Optional[str] = None


class Run:
    """What both programs need to know, and whom they report to.

    Args:
      program: "estimator" or "lowlevel".
      config: what the user wants.
      task: the task.
      stopping: says when to stop.
      only_look: nothing may be written, the index of large files included.

    Attributes:
      program: its name.
      given_config: the config as it was given.
      config: the resolved config.
      task: the task.
      stopping: says when to stop, and takes how long things took.
      inputs: training input: `dataset(start)` gives the batches.
      indexes: of the training and the evaluation files; empty if the task brings its own dataset.
      schedule: when to save, evaluate, log and end.
      start: where this process starts; set by `open` and `preview`.
      reports: takes what the program has done; set by `open`.
      already_done: whether the run is at its target, so that there is nothing to do; set by them.
      best: metrics of the last and the best evaluation.
      frozen: places in `model.variables` of the variables that --freeze names; set by `check`.
      idle: the same of the trainable variables that have no part in the loss; set by `check`.
    """

    def __init__(self, program: str, config: TrainConfig, task: Any, stopping: Stopping, only_look: bool = False):
        self.program = program
        self.given_config = config
        self.config = config = config.resolved()
        self.task = task
        self.stopping = stopping
        own = has_own_dataset(task)
        self.already_done = False
        self.indexes = ()
        if own:
            own_dataset.check_flags(config)
            self.inputs = own_dataset.OwnDataset(task, config)
            epoch_examples = getattr(task, "num_train_examples", None)
        else:
            how = dict(check_stop=stopping.check, only_look=only_look)
            index = records.build_index(files_of(task, config, "train_files"), config.shuffle != "buffer", **how)
            eval_index = records.build_index(files_of(task, config, "eval_files"), False, **how)
            self.indexes = (index, eval_index)
            self.num_eval_examples = eval_index.num_records
            self.inputs = stream.ExampleStream(index, config, task.parse)
            epoch_examples = index.num_records
        self.schedule = Schedule(config, epoch_examples, epochs_end_with_batch=not own)
        self._look_at_model_dir()

    def _look_at_model_dir(self) -> None:
        """Reads what earlier starts have left."""
        config = self.config
        metric = config.best_metric or getattr(self.task, "best_metric", Task.best_metric)
        self.best = best_lib.Best(config.model_dir, metric, best_lib.resolve_mode(metric, config.best_mode))
        # Each manifest holds the contract of its run. What run.json says of it is for people.
        manifest = model_dir.newest_manifest(config.model_dir) or model_dir.newest_manifest(self.best_directory)
        self._has_checkpoints = manifest is not None
        if manifest:
            contract.check_resume(manifest["contract"], self._contract(), config.model_dir)
        run_file = model_dir.read_json(os.path.join(config.model_dir, model_dir.RUN_FILE))
        readable = isinstance(run_file, dict) and isinstance(run_file.get("contract"), dict)
        belongs = readable and (not manifest or contract.same_run(manifest["contract"], run_file["contract"]))
        self._saved_run: Dict[str, Any] = run_file if belongs else {}

    # Before training.

    def check(self) -> None:
        """Everything that can be wrong with task, data or flags, before anything is written.

        Raises:
          UserError: something is wrong; the text is the line for the user.
        """
        config = self.config
        startup.check_not_foreign(config.model_dir)
        if not self._has_checkpoints and config.restore_from:
            restored = startup.find_checkpoint(config.restore_from)
            contract.check_restore_from(model_dir.read_manifest(restored)["contract"], self._contract(), config.restore_from)
        if config.record_examples and has_own_dataset(self.task):
            raise UserError(
                f"--record_examples: task {config.task} brings its own dataset, whose examples have no ids; set "
                "--norecord_examples"
            )
        with _explained(config.task, "model() fails"):
            model = self.task.model(config.seed)
            self._model_weights = list(model.weights)
            self.frozen = freezing.frozen_places(model, config.freeze)
        if not self._model_weights:
            raise UserError(
                f"--task={config.task}: the model has no weights yet; call its build() with the input shape in model()"
            )
        if not self._has_checkpoints:
            randomness.check_initial_weights(self.task, config.task, model, config.seed)
            if config.restore_from:
                startup.check_model_fits(restored, model.weights, config.task)
        with _explained(config.task, "reading the first batch fails"):
            if has_own_dataset(self.task):
                raw, parse = next(iter(self.inputs.dataset()))[:2], lambda raw: raw
            else:
                raw, parse = next(iter(checksums.read(self.inputs.index.paths).batch(config.batch_size))), self.task.parse
            if self.program == "estimator":
                randomness.check_captures(parse, raw)
        idle = randomness.check_task(self.task, config.task, model, parse, raw)
        self.idle = freezing.places_of(idle, model)
        if not freezing.trained_variables(model, self.frozen | self.idle):
            raise UserError(f"--freeze={config.freeze} leaves no variable that has a part in the loss; give another pattern")
        self._about_model = fair_warning.of_model(
            bool(getattr(model, "losses", ())), [freezing.variable_name(variable) for variable in idle]
        )
        if self.frozen:
            names = freezing.variable_names(model)
            frozen = ", ".join(names[place] for place in sorted(self.frozen))
            self._about_model.append(f"frozen by --freeze={config.freeze}: {frozen}")
        with _explained(config.task, "evaluating the first batch fails"):
            metrics = {"loss", *self._metric_names(model)}
        if self.best.metric not in metrics:
            known = ", ".join(sorted(metrics))
            raise UserError(f"--best_metric={self.best.metric} is no metric of task {config.task}; give one of {known}")
        if config.export:
            serving.check(self.task, config.task, model, config.seed, self.eval_dataset())

    def _metric_names(self, model: tf.keras.Model) -> List[str]:
        batch = next(iter(self.eval_dataset()), None)
        if batch is None:
            raise UserError(f"task {self.config.task} has no evaluation example; give some")
        features, labels = batch
        outputs = self.task.call(model, features, False, tf.constant([0, 0], tf.int64))
        return list(self.task.metrics(labels, outputs))

    def _contract(self) -> Dict[str, Any]:
        config = self.config
        order = self.inputs.fingerprint()
        return {
            "program": self.program,
            "keras": int(keras.__version__.split(".")[0]),
            "task": config.task,
            "optimizer": config.optimizer,
            "freeze": config.freeze,
            "order": order,
            "epoch_examples": self.schedule.epoch_examples,  # for those who read: it follows from the files, or the task
        }

    def pipeline_facts(self, start: int) -> Dict[str, Any]:
        """Returns what a manifest says about the pipeline that was built to start at position `start`."""
        return contract.pipeline_facts(self.inputs.fingerprint(), self.config.batch_size, start, self.inputs.version)

    def open(self, lock: model_dir.Lock) -> None:
        """Chooses the start, mends the model_dir, and announces both.

        Args:
          lock: held on the model_dir.

        Raises:
          UserError: as `startup.choose_start`.
        """
        config, directory = self.config, self.config.model_dir
        self._lock = lock
        self.choose_start()  # looks again: before the lock was taken, another process may have trained here
        self.announce()
        for line in exports.sweep(directory):
            console.say(line)
        if self.already_done:
            return
        lock.note_holder()
        self.start, healed = healing.heal(
            directory, self.start, config.keep_checkpoint_max, config.keep_checkpoint_every_n_hours
        )
        for line in [*healed, *healing.heal_best(directory, self.best, self._best_found)]:
            console.say(line)
        done_again = self._announce_past(lock.left_behind)
        saved = self._saved_run
        history = saved["history"] if _is_history(saved.get("history")) else dict.fromkeys(_HISTORY, 0)
        # A start that was killed before it noted a step has counted what it had found; only its own death is new.
        killed_start = lock.left_behind.get("start")
        counted = isinstance(killed_start, int) and killed_start < history["starts"]
        self._history = {
            "starts": history["starts"] + 1,
            "kills": history["kills"] + bool(lock.left_behind.get("running", False)),
            "steps_done_again": history["steps_done_again"] + (0 if counted else done_again),
        }
        lock.start = self._history["starts"]
        resumed = self.start.case == startup.RESUME
        self._write_run_files(saved.get("first_step", self.start.step) if resumed else self.start.step)
        self._evaluation_was_due = self.evaluation_due()
        self.reports = reports.Reports(
            config,
            self.schedule,
            self.stopping,
            self.best,
            lock,
            start_step=self.start.step,
            first_eval_step=self.start.step + (0 if self._evaluation_was_due else 1),
            size_is_known=resumed,
            target_steps=self.target_steps(),
        )

    def preview(self) -> None:
        """Prints what `open`, and the end of a run that is already done, would print now; changes nothing, takes no lock.

        Raises:
          UserError: as `open`.
        """
        config, directory = self.config, self.config.model_dir
        self.choose_start()
        self.announce()
        for line in exports.unfinished(directory).values():
            console.say(line)
        if self.already_done:
            console.say(lines.already_done(self.start.step, self.target_steps()))
            return
        for line in healing.preview(directory, self.start, config.keep_checkpoint_max, self.best, self._best_found):
            console.say(line)
        left_behind = model_dir.read_lock(directory)
        self._announce_past(left_behind if isinstance(left_behind.get("step"), int) else {})

    def choose_start(self) -> None:
        """Decides where this process starts, and whether there is anything to do. Only reads."""
        self._look_at_model_dir()
        config, directory = self.config, self.config.model_dir
        self.start = startup.choose_start(
            directory,
            config.restore_from,
            self.pipeline_facts(0),
            self.inputs.seekable,
            self._saved_run.get("first_step"),
            evaluated=self.best.best is not None or self.best.last is not None,
        )
        if self.start.prefix:
            self._compare_with_chosen()
            self.stopping.expect(model_dir.read_manifest(self.start.prefix).get("longest_secs", {}))
        self._best_found = healing.look_at_best(directory, self.best)
        self.already_done = (
            self.start.case == startup.RESUME
            and self.schedule.at_target(self.start.step, self.start.examples_seen)
            and self._best_found.whole
            and not self.evaluation_due()
            and not self._export_due(self.start.step, self.start.examples_seen)
        )

    def _announce_past(self, left_behind: Dict[str, Any]) -> int:
        """Says what a kill has cost, what the best is, and what may be regretted; returns how many steps are done again.

        Args:
          left_behind: what the last process has noted: `Lock.left_behind`.
        """
        if self.start.case == startup.RESUME and not self._saved_run:
            console.say("run.json was missing or damaged, and is written anew: starts and kills are counted from here on")
        killed = left_behind.get("running", False)
        done_again = max(0, left_behind.get("step", 0) - self.start.step) if killed else 0
        if done_again:
            console.say(lines.done_again(self.start.step + done_again, done_again))
        if self.best.value is not None:
            console.say(f"best so far: {self.best.metric} {self.best.value:.4f} at step {self.best.step}")
        for line in fair_warning.of_flags(self.config, self.stopping.secs_left):
            console.say(line)
        if self.start.case == startup.RESUME:
            reports.warn_of_disk(self.config, self.start.prefix, self.best)
        return done_again

    def _compare_with_chosen(self) -> None:
        """Compares the checkpoint that is restored, which may not be the newest one, with the contract and the model."""
        start, config = self.start, self.config
        saved = model_dir.read_manifest(start.prefix)["contract"]
        if start.case == startup.RESUME:
            contract.check_resume(saved, self._contract(), config.model_dir)
        startup.check_model_fits(start.prefix, self._model_weights, config.task)
        self.start = dataclasses.replace(
            start,
            fresh_slots=saved["optimizer"] != config.optimizer,
            notes=(*contract.adaptations(saved, self._contract()), *start.notes),
        )

    def _write_run_files(self, first_step: int) -> None:
        directory = self.config.model_dir
        facts = {
            "contract": self._contract(),
            "config": vars(self.config),
            "first_step": first_step,
            "history": self._history,
            "versions": {"tensorflow": tf.__version__, "keras": keras.__version__},
        }
        model_dir.write_json(os.path.join(directory, model_dir.RUN_FILE), facts)
        flags_text = config_lib.to_flagfile(self.given_config)
        model_dir.write_atomically(os.path.join(directory, model_dir.FLAGS_FILE), flags_text)

    def give_up(self) -> None:
        """Notes that this process ended by an error: not done, but not killed either."""
        self._lock.note_end()

    def announce(self) -> None:
        config, start, schedule = self.config, self.start, self.schedule
        data = "its own dataset"
        if not has_own_dataset(self.task):
            data = f"{schedule.epoch_examples} train, {self.num_eval_examples} eval examples"
        console.say(f"{self.program} · TF {tf.__version__} · {self._device()} · {config.task}: {data}")
        if start.case == startup.RESUME and self.already_done:
            return
        for note in start.notes:
            console.say(note)
        place = lines.where(start.examples_seen, schedule.epoch_examples, config.batch_size)
        console.say(lines.start(config.model_dir, start, place))
        for line in self._about_model:
            console.say(line)
        console.say(lines.plan(config, schedule, self.target_steps(), self.best))

    @staticmethod
    def _device() -> str:
        gpus = len(tf.config.list_physical_devices("GPU"))
        return console.count(gpus, "GPU") if gpus else "CPU"

    def target_steps(self) -> int:
        """Returns the global step at which the run ends, from its start and this config's batch size."""
        if self.config.train_steps:
            return self.config.train_steps
        left = self.schedule.steps_left(self.start.examples_seen, self.config.batch_size)
        return self.start.step + left

    # Input.

    def train_dataset(self) -> tf.data.Dataset:
        """Returns the training batches, (features, labels, info), from where this process starts."""
        return self.inputs.dataset(self.start.pipeline_start)

    def eval_dataset(self) -> tf.data.Dataset:
        """Returns one pass over the evaluation batches, (features, labels)."""
        return own_dataset.eval_dataset(self.task, self.config, self.indexes[1] if self.indexes else None)

    def signatures(self) -> serving.Signatures:
        """Returns what the run's SavedModel takes."""
        return serving.Signatures(self.task, self.config.task, self.eval_dataset())

    @property
    def best_directory(self) -> str:
        """Where the best checkpoint lies."""
        return os.path.join(self.config.model_dir, model_dir.BEST_WEIGHTS)

    # What is due.

    def evaluation_due(self) -> bool:
        """Says whether the checkpoint this process starts from was to be evaluated and was not."""
        start = self.start
        evaluated = self.best.last["global_step"] if self.best.last else -1
        due = start.case == startup.RESUME and start.evaluate
        at_target = start.case != startup.FRESH and self.schedule.at_target(start.step, start.examples_seen)
        return (due or at_target) and (evaluated != start.step or self._best_found.lost)

    def first_save_due(self) -> bool:
        """Says whether the first state has to be saved: unless it comes from this very model_dir."""
        return self.start.case != startup.RESUME

    def save_due(self, step: int, examples_before: int, examples_seen: int) -> bool:
        """Says whether a checkpoint is due after `step`."""
        return self.schedule.save(step, examples_before, examples_seen, time.monotonic() - self.reports.last_save_at)

    def _evaluated_at_target(self, step: int, examples_seen: int) -> bool:
        # Not of a later step either, which the run had reached before it went on from an earlier checkpoint.
        evaluated = self.best.last is not None and self.best.last["global_step"] == step
        return self.schedule.at_target(step, examples_seen) and evaluated

    def _export_due(self, step: int, examples_seen: int) -> bool:
        """Says whether the run is at its target, evaluated, and has not been exported there."""
        if not self.config.export or not self._evaluated_at_target(step, examples_seen):
            return False
        return exports.exported_at(self.config.model_dir) != step

    def exports_now(self, step: int, examples_seen: int) -> bool:
        """Says whether the best weights are to be exported now; where the run is to stop, the next start does it.

        How long an export takes is not known before. It reads the weights, as an evaluation does, and writes them.
        """
        due = self._export_due(step, examples_seen)
        return due and not self.stopping.leaves("the export", EVALUATION, SAVE)

    # What is saved and what comes of it.

    def before_save(self) -> None:
        """To be called before a checkpoint or metrics are written: what they cover must not be missing elsewhere.

        Raises:
          UserError: a data file is gone, or was changed since the start; what was computed since then is not to be kept. Or the
            model_dir is gone.
        """
        self._lock.check_in_place()
        for index in self.indexes:
            index.check_unchanged()
        self.reports.before_save()

    def checkpoint_facts(
        self, step: int, examples_seen: int, evaluate: bool, metrics: Optional[Dict[str, Any]] = None
    ) -> Dict[str, Any]:
        """Returns what the manifest of a checkpoint says beside its files; of the best one, its metrics too."""
        return {
            "step": int(step),
            "examples_seen": int(examples_seen),
            "evaluate": bool(evaluate),
            "contract": self._contract(),
            "pipeline": self.pipeline_facts(self.start.pipeline_start),
            "metrics": metrics,
            "longest_secs": self.stopping.longest_secs(),
        }

    def evaluated(
        self, step: int, examples_seen: int, evaluate: Callable[[], Optional[Dict[str, Any]]]
    ) -> Optional[Dict[str, Any]]:
        """Has a state evaluated, unless the run is to stop.

        Args:
          step: the global step.
          examples_seen: the position there.
          evaluate: returns the metrics, or None if the run is to stop before they are known.

        Returns:
          The metrics as the metrics files hold them. None if they are left to the next start, which knows from the manifest
          that they are due.

        Raises:
          UserError: as `before_save`.
        """
        what = f"the evaluation of step {step}"
        if self.stopping.leaves(what, EVALUATION, SAVE):
            return None
        began = time.monotonic()
        metrics = evaluate()
        if metrics is None:
            self.stopping.leaves(what)
            return None
        self.stopping.took(EVALUATION, time.monotonic() - began)
        record = self.as_record(metrics, step, examples_seen)
        self.before_save()
        return record

    def as_record(self, metrics: Dict[str, Any], step: int, examples_seen: int) -> Dict[str, Any]:
        """Returns metrics as the metrics files hold them; see `best.as_record`."""
        return best_lib.as_record(metrics, step, examples_seen, self.schedule.epoch_examples)

    def weights_to_export(self) -> str:
        """Returns the prefix of the best checkpoint; where that is gone, of the last one, and says so."""
        prefix = model_dir.newest_valid(self.best_directory)
        if prefix and model_dir.step_of(prefix) == self.best.step:
            return prefix
        last = model_dir.newest_valid(self.config.model_dir)
        missing = f"the best weights, of step {self.best.step}, are gone"
        if self.best.step is None:
            missing = "no weights were ever the best"
        console.say(f"{missing}: exporting the last ones, of step {model_dir.step_of(last)}")
        return last

    def export_note(self, prefix: str, step: int) -> Dict[str, Any]:
        """Returns what an export says of itself.

        Args:
          prefix: the checkpoint whose weights it has.
          step: the global step at which the run has ended.
        """
        weights_step = model_dir.step_of(prefix)
        known = [metrics for metrics in (self.best.best, self.best.last) if metrics]
        evaluated = [metrics for metrics in known if metrics["global_step"] == weights_step]
        return {
            "weights": "best" if os.path.dirname(prefix) == self.best_directory else "last",
            "weights_step": weights_step,
            "run_step": int(step),
            "task": self.config.task,
            "metrics": evaluated[0] if evaluated else None,
        }

    def result(self, step: int, examples_seen: int, reason: Optional[str]) -> Result:
        """Closes the run's outputs, says how it ended, and returns the same as a value.

        Args:
          step: the global step it ended at.
          examples_seen: the position there.
          reason: what stopped it, or None.

        Raises:
          UserError: the time limit was so short that this process has done nothing.
        """
        finished = self._evaluated_at_target(step, examples_seen) and not self._export_due(step, examples_seen)
        if not self.already_done:
            self.reports.close(step)
        if self.stopping.out_of_time and not finished:
            if step == self.start.step and self.evaluation_due() == self._evaluation_was_due:
                raise self.stopping.too_short()
        total = self.target_steps()
        if self.already_done:
            console.say(lines.already_done(self.start.step, total))
        elif finished:
            folder = exports.newest(self.config.model_dir) if self.config.export else None
            console.say(lines.done(step, total, self.best, folder, self._history))
        else:
            console.say(lines.stopped(step, total, reason))
        export = None
        if finished and exports.exported_at(self.config.model_dir) == step:
            export = os.path.join(self.config.model_dir, exports.newest(self.config.model_dir))
        return Result(finished, step, examples_seen, self.best.last, self.best.best, export)


def files_of(task: Any, config: TrainConfig, flag: str) -> tuple:
    """Returns the files that "train_files" or "eval_files" names, by the flag or else by the task.

    Raises:
      UserError: neither does, or nothing matches.
    """
    pattern = getattr(config, flag) or getattr(task, flag, None)
    if not pattern:
        raise UserError(f"--{flag} is not set, and task {config.task} has no files of its own; give a glob")
    hint = None if getattr(config, flag) else getattr(task, "files_hint", None)
    return records.find_files(pattern, flag, hint)


@contextlib.contextmanager
def _explained(task: str, what: str) -> Iterator[None]:
    """Turns whatever a user's code raises into one line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"--task={task}: {what}: {one_line(error)}") from error
