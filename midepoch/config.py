"""One frozen `TrainConfig`: every flag both programs share, defined once.

A field of the dataclass is a flag of the same name. Its default, bounds, choices and help stand in the field, and the
same checks run whether the values come from a command line (`define_flags`, `from_flags`) or from a notebook
(`TrainConfig(model_dir=..., num_epochs=3)`).
"""

import dataclasses
import re
from typing import Any, Dict, Optional, Sequence

from absl import flags

from midepoch.errors import UserError
from midepoch.stopping import check_max_run_secs

_KINDS = {int: "an integer", float: "a number", str: "text", bool: "true or false"}


def _flag(default: Any, kind: type, help: str, *, minimum: Any = None, maximum: Any = None, above: Any = None, choices: Sequence[str] = ()):
    """A dataclass field that is also a flag.

    Args:
      default: the value when the flag is not given; None means "unset", and `help` says what that does.
      kind: int, float, str or bool.
      help: what it means, why the default is what it is.
      minimum: the smallest value allowed, or None.
      maximum: the largest value allowed, or None; for an int, None stands for what TensorFlow can count to.
      above: values must be greater than this, or None.
      choices: the values allowed, or empty for any.
    """
    if kind is int and maximum is None:
        maximum = 2**62
    metadata = dict(kind=kind, help=help, minimum=minimum, maximum=maximum, above=above, choices=tuple(choices))
    return dataclasses.field(default=default, metadata=metadata)


# What --regime gives to the save, keep and evaluate flags that are not set. The README has the reasons.
REGIMES = {
    "short": dict(save_checkpoints_epochs=1, eval_every_epochs=1, keep_checkpoint_max=1),
    "normal": dict(save_checkpoints_epochs=3, eval_every_epochs=3, keep_checkpoint_max=10),
    "long": dict(
        save_checkpoints_epochs=10, eval_every_epochs=10, keep_checkpoint_max=20, keep_checkpoint_every_n_hours=6.0
    ),
}

# Flags that exclude each other.
_TARGETS = ("num_epochs", "train_steps")
_SAVE_INTERVALS = ("save_checkpoints_steps", "save_checkpoints_secs", "save_checkpoints_epochs")
_EVAL_INTERVALS = ("eval_every_epochs", "eval_every_steps")

_DEFAULTS = dict(save_checkpoints_secs=600, eval_every_epochs=1, keep_checkpoint_max=5)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """What to train, on what, for how long, and what to keep.

    Raises:
      UserError: a value is out of bounds, or two flags that exclude each other are set.
    """

    model_dir: Optional[str] = _flag(
        None, str, "Directory of this run (required). If it holds a checkpoint, training goes on from it."
    )
    mode: str = _flag(
        "train", str, "`evaluate` prints the metrics of a checkpoint as a line of JSON, `predict` a line for each "
        "evaluation example. Both only read model_dir, and take the flags left at their defaults from its run.json.",
        choices=("train", "evaluate", "predict"),
    )
    checkpoint: Optional[str] = _flag(
        None, str, "With --mode=evaluate and predict: `latest`, `best`, or a checkpoint path. Unset: latest."
    )
    task: str = _flag("digits", str, "`digits`, `mnist`, `iris`, or your own class as `my_pkg.my_module:MyTask`.")
    train_files: Optional[str] = _flag(None, str, "Glob of training TFRecord files. Unset: the task's own files.")
    eval_files: Optional[str] = _flag(None, str, "Glob of evaluation TFRecord files. Unset: the task's own files.")
    batch_size: int = _flag(64, int, "Examples per step; the last batch of an epoch may be smaller.", minimum=1, maximum=2**31 - 1)
    num_epochs: Optional[int] = _flag(
        None, int, "Train until this many epochs are done in all, earlier starts included.", minimum=1
    )
    train_steps: Optional[int] = _flag(
        None, int, "Train until this global step, earlier starts included.", minimum=1
    )
    optimizer: str = _flag("adam", str, "The optimizer.", choices=("sgd", "momentum", "adam"))
    learning_rate: float = _flag(0.001, float, "Learning rate; always the flag's, never a checkpoint's.", above=0.0)
    freeze: Optional[str] = _flag(
        None, str, "Regular expression, searched in the names of the model's variables: those found keep their values. "
        "Unset: all are trained.",
    )
    seed: int = _flag(1, int, "Seed of everything random: example order, initial weights, dropout.", minimum=0, maximum=2**31 - 1)
    shuffle: str = _flag(
        "window",
        str,
        "`window`: blocks of records are permuted, then the records of a window of blocks; resumes by seeking. "
        "`buffer`: tf.data's own shuffle; the whole buffer goes into each checkpoint. `none`: file order.",
        choices=("window", "buffer", "none"),
    )
    shuffle_window: int = _flag(
        16384, int, "With --shuffle=window: records permuted together; up to four windows are in memory.", minimum=1
    )
    shuffle_block: int = _flag(
        256, int, "With --shuffle=window: consecutive records read together; smaller mixes better, reads slower.",
        minimum=1,
    )
    shuffle_buffer_size: int = _flag(
        10000, int, "With --shuffle=buffer: records in the buffer, and in every checkpoint.", minimum=1
    )
    save_checkpoints_steps: Optional[int] = _flag(
        None, int, "Save at multiples of this many steps, counted from step 0.", minimum=1
    )
    save_checkpoints_secs: Optional[int] = _flag(
        None, int, "Save when this many seconds have passed. 600 if no save interval is set, as in Estimator.",
        minimum=1,
    )
    save_checkpoints_epochs: Optional[int] = _flag(None, int, "Save at multiples of this many epochs.", minimum=1)
    keep_checkpoint_max: Optional[int] = _flag(
        None, int, "Last checkpoints to keep; 0 keeps all. Unset: 5, as in RunConfig.", minimum=0, maximum=2**31 - 1
    )
    keep_checkpoint_every_n_hours: Optional[float] = _flag(
        None, float, "Also keep one checkpoint for every n hours, for good. Unset: none.", above=0.0
    )
    eval_every_epochs: Optional[int] = _flag(
        None, int, "Evaluate at multiples of this many epochs. Unset: 1, unless --eval_every_steps is set.", minimum=1
    )
    eval_every_steps: Optional[int] = _flag(
        None, int, "Evaluate at multiples of this many steps, counted from step 0.", minimum=1
    )
    best_metric: Optional[str] = _flag(
        None, str, "The metric that decides which weights are best. Unset: the task's own."
    )
    best_mode: str = _flag(
        "auto", str, "Whether a larger or a smaller metric is better; `auto` tells by the metric's name.",
        choices=("auto", "max", "min"),
    )
    regime: Optional[str] = _flag(
        None, str, "Sets the save, keep and evaluate flags that are not given, for a run of that length.",
        choices=tuple(REGIMES),
    )
    max_run_secs: Optional[str] = _flag(
        None, str, "Stop in time to have everything saved this many seconds after the process started, and exit with 75. `auto`: "
        "when the Slurm job ends, by its SLURM_JOB_END_TIME. Unset: no limit.",
    )
    restore_from: Optional[str] = _flag(
        None, str, "Where a new run starts from: a model_dir, its best_weights, or a checkpoint path. Only read. "
        "Has no effect once model_dir holds a checkpoint.",
    )
    export: bool = _flag(
        True, bool, "At the end, write the best weights as a SavedModel, export/<timestamp>. A run is not finished before."
    )
    log_every_steps: int = _flag(100, int, "A line on the terminal and a point in TensorBoard that often.", minimum=1)
    record_examples: bool = _flag(
        False, bool, "Write examples.jsonl: the example ids of every step, a line each."
    )

    def __post_init__(self):
        if not self.model_dir:
            raise UserError("--model_dir is not set; give the directory of this run, such as --model_dir=run1")
        for field in dataclasses.fields(self):
            _check_value(field, getattr(self, field.name))
        if self.freeze is not None:
            _check_pattern("freeze", self.freeze)
        check_max_run_secs(self.max_run_secs)
        training = self.mode == "train"
        if training and self.checkpoint is not None:
            raise UserError(
                f"--checkpoint={self.checkpoint} is for --mode=evaluate and predict; training goes on from the newest "
                "checkpoint, and a new run starts from another one's with --restore_from"
            )
        _check_exclusive(self, _TARGETS, at_least_one=training)
        _check_exclusive(self, _SAVE_INTERVALS)
        _check_exclusive(self, _EVAL_INTERVALS)

    def resolved(self) -> "TrainConfig":
        """Returns the config with the regime and the defaults filled in: one save and one evaluate interval are set."""
        values = dataclasses.asdict(self)
        for source in (REGIMES.get(self.regime, {}), _DEFAULTS):
            for name, value in source.items():
                family = next((f for f in ("save_checkpoints_", "eval_every_") if name.startswith(f)), name)
                if not any(values[other] is not None for other in values if other.startswith(family)):
                    values[name] = value
        return TrainConfig(**values)


def _check_value(field: dataclasses.Field, value: Any) -> None:
    rule = field.metadata
    if value is None:
        if field.default is not None:
            raise UserError(f"--{field.name} is None; leave it out to get its default, {field.default}")
        return
    kind = rule["kind"]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UserError(f"--{field.name}={value!r} is not {_KINDS[kind]}")
    if value == "":
        raise UserError(f"--{field.name}= is empty; give a value, or leave it out")
    if rule["choices"] and value not in rule["choices"]:
        raise UserError(f"--{field.name}={value} is not one of {', '.join(rule['choices'])}")
    if rule["minimum"] is not None and value < rule["minimum"]:
        raise UserError(f"--{field.name}={value} is too small; the smallest value is {rule['minimum']}")
    if rule["maximum"] is not None and value > rule["maximum"]:
        raise UserError(f"--{field.name}={value} is too large; the largest value is {rule['maximum']}")
    if rule["above"] is not None and not rule["above"] < value < float("inf"):
        raise UserError(f"--{field.name}={value} must be a finite number greater than {rule['above']:g}")


def _check_pattern(name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UserError(f"--{name}={pattern} is no regular expression: {error}; put a \\ before special characters") from error


def _check_exclusive(config: TrainConfig, names: Sequence[str], at_least_one: bool = False) -> None:
    given = [f"--{name}={getattr(config, name)}" for name in names if getattr(config, name) is not None]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} are both set; keep one of them")
    if at_least_one and not given:
        raise UserError(f"neither {' nor '.join('--' + name for name in names)} is set; give one of them")


_DEFINERS = {
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
    bool: flags.DEFINE_bool,
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one absl flag for each field of `TrainConfig`."""
    for field in dataclasses.fields(TrainConfig):
        rule = field.metadata
        text = rule["help"] + (f" One of {', '.join(rule['choices'])}." if rule["choices"] else "")
        _DEFINERS[rule["kind"]](field.name, field.default, text, flag_values=flag_values)


def from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> TrainConfig:
    """Returns the config that parsed flags describe.

    Raises:
      UserError: as `TrainConfig`.
    """
    return TrainConfig(**{field.name: flag_values[field.name].value for field in dataclasses.fields(TrainConfig)})


def given_flags(flag_values: flags.FlagValues) -> Dict[str, Any]:
    """Returns the fields of `TrainConfig` that a parsed command line, or the flag files it names, has set."""
    names = (field.name for field in dataclasses.fields(TrainConfig))
    return {name: flag_values[name].value for name in names if flag_values[name].present}


def read_flagfile(path: str) -> Dict[str, Any]:
    """Returns what `to_flagfile` has written into a file.

    Raises:
      OSError: there is no such file.
      flags.Error: it holds something else.
    """
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    values = flags.FlagValues()
    define_flags(values)
    values(["", *lines])
    return given_flags(values)


def merged(saved: Dict[str, Any], given: Dict[str, Any]) -> TrainConfig:
    """Returns the config of a start that says only what is to be otherwise than in an earlier one.

    Args:
      saved: fields of the earlier start; names that are no field any more are left out.
      given: fields given now. They win, and of flags that exclude each other, one given now takes the place of all saved.

    Raises:
      UserError: as `TrainConfig`.
    """
    known = {field.name for field in dataclasses.fields(TrainConfig)}
    groups = (_TARGETS, _SAVE_INTERVALS, _EVAL_INTERVALS)
    replaced = {name for group in groups if given.keys() & set(group) for name in group}
    kept = {name: value for name, value in saved.items() if name in known - replaced}
    return TrainConfig(**{**kept, **given})


def to_flagfile(config: TrainConfig) -> str:
    """Returns the config as text for absl's `--flagfile`: a line for each field that is set."""
    values = ((field.name, getattr(config, field.name)) for field in dataclasses.fields(config))
    return "".join(f"--{name}={value}\n" for name, value in values if value is not None)
