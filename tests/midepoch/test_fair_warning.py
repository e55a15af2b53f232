"""What may be regretted is said at the start."""

import pytest

from midepoch import fair_warning
from midepoch.config import TrainConfig

NEVER = float("inf")


@pytest.mark.parametrize(
    "flags, secs_left, words",
    [
        (dict(), NEVER, []),
        (dict(keep_checkpoint_max=1), NEVER, ["--keep_checkpoint_max=1"]),
        (dict(regime="short"), NEVER, ["--keep_checkpoint_max=1"]),
        (dict(keep_checkpoint_max=0), NEVER, []),
        (dict(), 599.0, ["--save_checkpoints_secs=600 is more than the 599 s"]),
        (dict(), 601.0, []),
        (dict(save_checkpoints_steps=5), 1.0, []),
    ],
)
def test_flags(flags, secs_left, words):
    lines = fair_warning.of_flags(TrainConfig(model_dir="run", num_epochs=1, **flags).resolved(), secs_left)
    assert len(lines) == len(words) and all(word in line for word, line in zip(words, lines))


@pytest.mark.parametrize(
    "keep, kept, best_kept, checkpoints_needed",
    [(5, 1, False, 7), (5, 5, True, 2), (5, 9, True, 2), (1, 1, False, 3), (0, 4, True, 2)],
)
def test_disk(keep, kept, best_kept, checkpoints_needed):
    size = 300_000_000
    assert fair_warning.of_disk(checkpoints_needed * size, size, keep, kept, best_kept) is None
    line = fair_warning.of_disk(checkpoints_needed * size - 1, size, keep, kept, best_kept)
    assert line.startswith("warning: ") and "300.0 MB each" in line
