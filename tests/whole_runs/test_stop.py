"""A real SIGTERM or SIGINT: the step is finished, everything saved, exit code 75, and the same command goes on."""

import re
import signal

import pytest

from tests.whole_runs import runs
from tests.whole_runs.test_kill import start


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_signal_saves_where_it_stands(program, tmp_path):
    process = start(program, str(tmp_path))
    for line in process.stdout:
        if line.startswith("step "):
            process.send_signal(signal.SIGTERM)
            break
    output = process.stdout.read()
    assert process.wait() == 75, output
    step = int(re.search(r"stopped at (\d+)/960 by SIGTERM, nothing lost", output).group(1))
    assert f"model.ckpt-{step}.manifest.json" in {path.name for path in tmp_path.iterdir()}
    process = start(program, str(tmp_path))
    for line in process.stdout:
        if line.startswith("resume at"):
            assert line.startswith(f"resume at step {step} from model.ckpt-{step} (verified")
            process.send_signal(signal.SIGINT)
            break
    output = process.communicate()[0]
    assert process.returncode == 75, output
