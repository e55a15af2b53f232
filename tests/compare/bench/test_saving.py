import sys

import pytest

from compare.bench import saving


def test_start_is_timed_to_its_first_step():
    script = "import time; time.sleep(0.3); print('step 1/9 ', flush=True); time.sleep(60)"
    assert 0.3 <= saving.secs_to_first_step([sys.executable, "-c", script]) < 30


def test_process_that_never_trains_is_heard():
    with pytest.raises(RuntimeError, match="error: no data"):
        saving.secs_to_first_step([sys.executable, "-c", "print('error: no data')"])
