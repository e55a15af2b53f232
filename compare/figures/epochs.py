"""The map of the epochs: which examples each of them has used once, never, or more than once."""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from compare.figures.style import BLUE, GREY, RED, TEXT_COLOUR, WIDTH_INCHES

# The map: at most so many columns; more examples share one. What a share of a column is shown with at least.
_MAP_COLUMNS, _LEAST_ALPHA = 500, 0.4
_ONCE = (0.5, 0.5, 0.5, 0.22)
_ROWS_WITH_NUMBERS = 24
# With more runs, those that nobody has disturbed and that have nothing to show are left out.
_MOST_MAPS = 4


def make(runs: Sequence[Dict[str, Any]]) -> Optional[Figure]:
    """Returns the figure, or None if no run has recorded its examples."""
    shown = [run for run in runs if run["examples"] and run["examples"]["epochs"]]
    if len(shown) > _MOST_MAPS:
        shown = [run for run in shown if run["killed"] or run["examples"]["lost"] or run["examples"]["repeated"]]
    if not shown:
        return None
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    most = max(len(run["examples"]["epochs"]) for run in shown)
    panel_inches = min(4.0, 0.85 + 0.145 * most)
    figure = Figure((WIDTH_INCHES + 2.0 * (columns - 1), rows * panel_inches + 0.7), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False).flat
    for axes, run in zip(all_axes, shown):
        _draw_map(axes, run)
    for axes in list(all_axes)[len(shown) :]:
        axes.set_visible(False)
    handles = [
        Patch(facecolor=_ONCE, label="each example once"),
        Patch(facecolor=RED, label="never (upper half of a row)"),
        Patch(facecolor=BLUE, label="more than once (lower half)"),
        Patch(facecolor="none", edgecolor=GREY, label="epoch not finished: not seen yet"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=9)
    return figure


def _draw_map(axes: Any, run: Dict[str, Any]) -> None:
    """Draws which examples each epoch of a run has used: a row for each epoch, the example ids along it."""
    epochs, num_examples = run["examples"]["epochs"], run["num_examples"]
    columns = min(num_examples, _MAP_COLUMNS)
    image = np.zeros([2 * len(epochs), columns, 4])
    for row, epoch in enumerate(epochs):
        image[2 * row : 2 * row + 2] = _ONCE
        if epoch["seen"] is not None:
            image[2 * row : 2 * row + 2, _share(epoch["seen"], num_examples, columns) == 0] = 0.0
        halves = ((epoch["never"], RED), ([int(i) for i in epoch["again"]], BLUE))
        for half, (ids, colour) in enumerate(halves):
            share = _share(ids, num_examples, columns)
            there = share > 0
            image[2 * row + half, there, :3] = to_rgb(colour)
            image[2 * row + half, there, 3] = _LEAST_ALPHA + (1 - _LEAST_ALPHA) * share[there]
    first, last = epochs[0]["number"], epochs[-1]["number"]
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(0, num_examples, last + 0.5, first - 0.5))
    axes.set_title(
        f"{run['name']}: {run['examples']['lost']} lost, {run['examples']['repeated']} repeated", fontsize=10, loc="left"
    )
    axes.set_xlabel("example id", fontsize=9)
    axes.set_ylabel("epoch", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    outside = dict(xycoords=("axes fraction", "data"), textcoords="offset points", va="center")
    killed_in = {epoch for epoch in _epochs_of_kills(run) if first <= epoch <= last}
    for epoch in killed_in:
        axes.annotate("✕", (1.0, epoch), xytext=(3, 0), fontsize=8, **outside)
    if len(epochs) <= _ROWS_WITH_NUMBERS:
        for line in range(first, last):
            axes.axhline(line + 0.5, color=TEXT_COLOUR, linewidth=0.4, alpha=0.25)
        for epoch in epochs:
            lost = epoch["expected"] - epoch["examples"]
            again = sum(times - 1 for times in epoch["again"].values())
            if lost > 0 or again:
                text, place = f"−{max(lost, 0)} +{again}", (1.0, epoch["number"])
                axes.annotate(text, place, xytext=(14 if killed_in else 4, 0), fontsize=7, **outside)


def _epochs_of_kills(run: Dict[str, Any]) -> List[int]:
    """Returns the numbers of the epochs in which a run was killed, or, if only that is known, in which it went on."""
    observed, epoch_steps = run["observed"], -(-run["num_examples"] // run["batch_size"])
    steps = [kill["step"] for kill in observed["kills"]] if observed else run["resumes"]
    return [step // epoch_steps + 1 for step in steps]


def _share(ids: Sequence[int], num_examples: int, columns: int) -> np.ndarray:
    """Returns for each column of the map which share of its examples is among some ids."""
    places = np.arange(num_examples) * columns // num_examples
    marked = np.zeros(num_examples)
    marked[list(ids)] = 1
    return np.bincount(places, marked, columns) / np.bincount(places, minlength=columns)
