"""How many steps a call of `lowlevel` takes: about half a second's worth, whatever cuts the calls short."""

import pytest

from lowlevel.loop import _adapted


@pytest.mark.parametrize(
    "allowed, steps, secs, then",
    [
        (1, 1, 3.0, 1),  # the first one, which also compiles
        (8, 8, 0.01, 16),  # at most twice as many
        (400, 400, 0.8, 250),
        (1000, 100, 0.05, 1000),  # cut short by a line of the terminal: as many as before
        (1000, 100, 5.0, 10),  # steps have become slower, and every call is cut short
    ],
)
def test_next_call(allowed, steps, secs, then):
    assert _adapted(allowed, steps, secs) == then
