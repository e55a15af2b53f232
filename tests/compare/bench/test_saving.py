import sys

import pytest

from compare.bench import saving
from midepoch.summaries import EventWriter


def test_saves_of_a_run_by_its_summaries(tmp_path):
    for first in (1, 3):  # of two starts
        events = EventWriter(str(tmp_path), first)
        events.scalars(first, {"save_secs": 0.5 * first, "loss": 7.0})
        events.close()
    assert saving.save_secs(str(tmp_path)) == [0.5, 1.5]


def test_start_is_timed_to_its_first_step():
    script = "import time; time.sleep(0.3); print('step 1/9 ', flush=True); time.sleep(60)"
    assert 0.3 <= saving.secs_to_first_step([sys.executable, "-c", script]) < 30


def test_process_that_never_trains_is_heard():
    with pytest.raises(RuntimeError, match="error: no data"):
        saving.secs_to_first_step([sys.executable, "-c", "print('error: no data')"])
