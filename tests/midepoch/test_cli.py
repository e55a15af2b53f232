"""The command line: flags in, exit code out, one line for every error."""

import subprocess
import sys

import pytest
from absl import flags

from midepoch import cli
from midepoch import config as config_lib
from midepoch.errors import UserError
from midepoch.run import Result
from tests.conftest import REPOSITORY


@pytest.fixture
def argv(parse_flags):
    parse_flags("--model_dir=run", "--num_epochs=2")


def result(finished):
    return Result(finished, 7, 35, None, None)


@pytest.mark.parametrize("finished, code", [(True, 0), (False, 75)])
def test_exit_code_of_an_end_in_order(argv, finished, code):
    assert cli._exit_code(lambda config: result(finished)) == code


def test_mode_that_gives_no_result_is_finished(argv):
    assert cli._exit_code(lambda config: None) == 0


def test_interrupted_reading_says_so_on_stderr(parse_flags, capsys):
    def main(config):
        raise KeyboardInterrupt

    parse_flags("--model_dir=run", "--mode=predict")
    assert cli._exit_code(main) == 75
    assert capsys.readouterr() == ("", "stopped, nothing was written; run the same command again (exit 75)\n")


def test_json_lines_until_the_reader_has_seen_enough():
    code = "from midepoch import cli; cli.print_json({'n': n} for n in range(10**6))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY)
    assert [process.stdout.readline() for _ in range(2)] == [b'{"n": 0}\n', b'{"n": 1}\n']
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait() == 0


def test_user_error_is_one_line_on_stderr_and_exit_code_1(argv, capsys):
    def main(config):
        raise UserError("--batch_size=0 is too small")

    assert cli._exit_code(main) == 1
    assert capsys.readouterr() == ("", "error: --batch_size=0 is too small\n")


def test_error_of_the_operating_system_is_one_line_too(argv, capsys):
    def main(config):
        raise OSError(28, "No space left on device", "run/run.json.tmp")

    assert cli._exit_code(main) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith("error: run/run.json.tmp: No space left on device; mend it")


def test_config_is_what_the_flags_say(parse_flags):
    parse_flags("--model_dir=run", "--train_steps=9", "--seed=4")
    seen = []

    def main(config):
        seen.append(config)
        return result(True)

    cli._exit_code(main)
    assert seen == [config_lib.TrainConfig(model_dir="run", train_steps=9, seed=4)]


@pytest.mark.parametrize(
    "argument, text",
    [
        ("--batch_size=many", "batch_size"),
        ("--no_such_flag=1", "Unknown command line flag 'no_such_flag'"),
        ("train", "unexpected argument 'train'; flags are written --name=value"),
    ],
)
def test_flags_that_cannot_be_parsed(parse_flags, capsys, argument, text):
    with pytest.raises(SystemExit) as caught:
        parse_flags("--model_dir=run", "--num_epochs=2", argument)
    assert caught.value.code == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("error: ") and text in err


def test_help_names_every_flag_with_its_default(parse_flags):
    parse_flags()
    text = flags.FLAGS.get_help()
    for name in ("model_dir", "num_epochs", "shuffle_window", "keep_checkpoint_max", "record_examples"):
        assert f"--{name}" in text or f"--[no]{name}" in text
    assert "16384" in text and "One of sgd, momentum, adam." in text
