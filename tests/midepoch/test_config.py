"""TrainConfig: bounds, exclusions, regimes, and the flags made from it."""

import dataclasses

import pytest
from absl import flags

from midepoch import config as config_lib
from midepoch.config import TrainConfig
from midepoch.errors import UserError

GOOD = dict(model_dir="run", num_epochs=2)


@pytest.mark.parametrize(
    "change, line",
    [
        (dict(model_dir=None), "--model_dir is not set"),
        (dict(model_dir=""), "--model_dir is not set"),
        (dict(num_epochs=None), "neither --num_epochs nor --train_steps is set"),
        (dict(train_steps=5), "--num_epochs=2 and --train_steps=5 are both set"),
        (dict(save_checkpoints_steps=5, save_checkpoints_secs=9), "steps=5 and --save_checkpoints_secs=9 are both set"),
        (dict(save_checkpoints_secs=9, save_checkpoints_epochs=1), "are both set"),
        (dict(eval_every_steps=5, eval_every_epochs=9), "--eval_every_epochs=9 and --eval_every_steps=5 are both set"),
        (dict(num_epochs=0), "--num_epochs=0 is too small; the smallest value is 1"),
        (dict(num_epochs=-3), "--num_epochs=-3 is too small"),
        (dict(batch_size=0), "--batch_size=0 is too small"),
        (dict(shuffle_window=0), "--shuffle_window=0 is too small"),
        (dict(shuffle_block=-1), "--shuffle_block=-1 is too small"),
        (dict(shuffle_buffer_size=0), "--shuffle_buffer_size=0 is too small"),
        (dict(save_checkpoints_steps=0), "--save_checkpoints_steps=0 is too small"),
        (dict(save_checkpoints_secs=0), "--save_checkpoints_secs=0 is too small"),
        (dict(eval_every_steps=0), "--eval_every_steps=0 is too small"),
        (dict(log_every_steps=0), "--log_every_steps=0 is too small"),
        (dict(keep_checkpoint_max=-1), "--keep_checkpoint_max=-1 is too small; the smallest value is 0"),
        (dict(keep_checkpoint_every_n_hours=0.0), "_hours=0.0 must be a finite number greater than 0"),
        (dict(keep_checkpoint_max=2**31), "--keep_checkpoint_max=2147483648 is too large; the largest value is 2147483647"),
        (dict(batch_size=2**31), "--batch_size=2147483648 is too large"),
        (dict(shuffle_buffer_size=10**30), f"--shuffle_buffer_size={10**30} is too large; the largest value is {2**62}"),
        (dict(train_files=""), "--train_files= is empty; give a value, or leave it out"),
        (dict(restore_from=""), "--restore_from= is empty"),
        (dict(best_metric=""), "--best_metric= is empty"),
        (dict(seed=-1), "--seed=-1 is too small"),
        (dict(learning_rate=0.0), "--learning_rate=0.0 must be a finite number greater than 0"),
        (dict(learning_rate=-0.1), "--learning_rate=-0.1 must be"),
        (dict(learning_rate=float("nan")), "--learning_rate=nan must be"),
        (dict(learning_rate=float("inf")), "--learning_rate=inf must be"),
        (dict(optimizer="adamw"), "--optimizer=adamw is not one of sgd, momentum, adam"),
        (dict(shuffle="all"), "--shuffle=all is not one of window, buffer, none"),
        (dict(best_mode="most"), "--best_mode=most is not one of"),
        (dict(freeze="conv("), "--freeze=conv( is no regular expression"),
        (dict(regime="endless"), "--regime=endless is not one of short, normal, long"),
        (dict(batch_size="8"), "--batch_size='8' is not an integer"),
        (dict(batch_size=True), "--batch_size=True is not an integer"),
        (dict(batch_size=8.0), "--batch_size=8.0 is not an integer"),
        (dict(learning_rate="fast"), "--learning_rate='fast' is not a number"),
        (dict(record_examples="yes"), "--record_examples='yes' is not true or false"),
        (dict(task=3), "--task=3 is not text"),
        (dict(batch_size=None), "--batch_size is None; leave it out"),
        (dict(mode="test"), "--mode=test is not one of train, evaluate, predict"),
        (dict(checkpoint="best"), "--checkpoint=best is for --mode=evaluate and predict"),
    ],
)
def test_bad_value_is_refused_in_one_line(change, line):
    with pytest.raises(UserError) as caught:
        TrainConfig(**{**GOOD, **change})
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change", [dict(keep_checkpoint_max=0), dict(learning_rate=1), dict(seed=0), dict(num_epochs=None, train_steps=1)]
)
def test_values_on_the_edge_are_taken(change):
    TrainConfig(**{**GOOD, **change})


@pytest.mark.parametrize("mode", ["evaluate", "predict"])
def test_only_training_needs_a_target(mode):
    assert TrainConfig(model_dir="run", mode=mode, checkpoint="best").num_epochs is None
    with pytest.raises(UserError, match="--model_dir is not set"):
        TrainConfig(mode=mode)


def test_config_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig(**GOOD).seed = 3


@pytest.mark.parametrize(
    "given, expected",
    [
        ({}, (None, 600, None, 1, None, 5, None)),
        (dict(save_checkpoints_steps=7), (7, None, None, 1, None, 5, None)),
        (dict(eval_every_steps=7), (None, 600, None, None, 7, 5, None)),
        (dict(keep_checkpoint_max=0), (None, 600, None, 1, None, 0, None)),
        (dict(regime="short"), (None, None, 1, 1, None, 1, None)),
        (dict(regime="normal"), (None, None, 3, 3, None, 10, None)),
        (dict(regime="long"), (None, None, 10, 10, None, 20, 6.0)),
        (dict(regime="short", save_checkpoints_secs=9), (None, 9, None, 1, None, 1, None)),
        (dict(regime="normal", eval_every_steps=4, keep_checkpoint_max=2), (None, None, 3, None, 4, 2, None)),
        (dict(regime="long", keep_checkpoint_every_n_hours=1.0), (None, None, 10, 10, None, 20, 1.0)),
    ],
)
def test_regime_and_defaults_fill_what_is_not_given(given, expected):
    config = TrainConfig(**GOOD, **given).resolved()
    got = (
        config.save_checkpoints_steps,
        config.save_checkpoints_secs,
        config.save_checkpoints_epochs,
        config.eval_every_epochs,
        config.eval_every_steps,
        config.keep_checkpoint_max,
        config.keep_checkpoint_every_n_hours,
    )
    assert got == expected
    assert config.resolved() == config


def parsed(*argv):
    values = flags.FlagValues()
    config_lib.define_flags(values)
    values(["program", *argv])
    return config_lib.from_flags(values)


def test_every_field_is_a_flag_with_the_same_default():
    assert parsed("--model_dir=run", "--num_epochs=2") == TrainConfig(**GOOD)


def test_flags_of_every_kind():
    config = parsed("--model_dir=run", "--train_steps=9", "--learning_rate=0.5", "--shuffle=none", "--record_examples")
    assert (config.train_steps, config.learning_rate, config.shuffle, config.record_examples) == (9, 0.5, "none", True)


def test_flag_of_the_wrong_kind_is_refused():
    with pytest.raises(flags.IllegalFlagValueError, match="batch_size"):
        parsed("--model_dir=run", "--num_epochs=2", "--batch_size=many")


def test_flagfile_gives_the_config_back(tmp_path):
    config = TrainConfig(model_dir="a run", train_steps=9, learning_rate=3e-4, best_metric="loss", record_examples=True)
    path = tmp_path / "flags.txt"
    path.write_text(config_lib.to_flagfile(config))
    assert parsed(f"--flagfile={path}") == config


def test_merged_what_is_given_wins_and_takes_the_place_of_what_it_excludes():
    saved = dict(model_dir="old", num_epochs=4, batch_size=32, save_checkpoints_secs=9, eval_every_epochs=2, gone_since=1)
    merged = config_lib.merged(saved, dict(model_dir="new", train_steps=7, save_checkpoints_steps=3))
    assert merged == TrainConfig(
        model_dir="new", train_steps=7, batch_size=32, save_checkpoints_steps=3, eval_every_epochs=2
    )
    with pytest.raises(UserError, match="both set"):
        config_lib.merged(saved, dict(num_epochs=5, train_steps=7))


def test_read_flagfile_gives_what_to_flagfile_has_written(tmp_path):
    config = TrainConfig(model_dir="my run", num_epochs=4, record_examples=True, regime="long", learning_rate=0.25)
    (tmp_path / "flags.txt").write_text(config_lib.to_flagfile(config))
    fields = config_lib.read_flagfile(str(tmp_path / "flags.txt"))
    assert TrainConfig(**fields) == config and "train_steps" not in fields
    (tmp_path / "flags.txt").write_text("--no_such_flag=1\n")
    with pytest.raises(flags.Error):
        config_lib.read_flagfile(str(tmp_path / "flags.txt"))


def test_given_flags_are_those_on_the_command_line(parse_flags):
    parse_flags("--model_dir=run", "--num_epochs", "3", "--seed=1")
    assert config_lib.given_flags(flags.FLAGS) == dict(model_dir="run", num_epochs=3, seed=1)
