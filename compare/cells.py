"""How values are written in the cells of a report's tables."""

import statistics
from typing import Any, Iterable, Optional, Sequence

# Stands for what is not known, or does not apply.
NOTHING = "–"


def total(values: Iterable[Any]) -> Any:
    """Returns the sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def text(value: Any) -> str:
    """Returns a value as it is, or the dash for None."""
    return NOTHING if value is None else str(value)


def number(value: Optional[float], digits: int) -> str:
    """Returns a number with so many digits behind the point, or the dash for None."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Returns `median [least–most]` of some values."""
    if not values:
        return NOTHING
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} [{min(values):.{digits}f}–{max(values):.{digits}f}]"
