"""Loss against step, of all runs, with their deaths."""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from compare.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, TEXT_COLOUR, WIDTH_INCHES

_LINE_COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)
# A line of dashes lets the one beneath it be seen.
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))

# Points of a curve with more of them are means of several steps.
_MOST_POINTS = 100


def make(runs: Sequence[Dict[str, Any]]) -> Optional[Figure]:
    """Returns the figure, or None if no run has told of a loss; peers have an axis of their own."""
    panels = [[run for run in runs if run["losses"] and run["is_peer"] == is_peer] for is_peer in (False, True)]
    panels = [panel for panel in panels if panel]
    if not panels:
        return None
    figure = Figure((WIDTH_INCHES, 4.2 * len(panels)))
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(all_axes, panels):
        _draw_losses(axes, panel)
        axes.set_ylabel("loss of a batch, mean per example")
        if all(loss > 0 for run in panel for _, loss in run["losses"]):
            axes.set_yscale("log")
        axes.grid(alpha=0.2)
    all_axes[-1].set_xlabel("training step")
    if len(panels) > 1:
        all_axes[0].set_title("the programs", loc="left")
        all_axes[1].set_title("the peers", loc="left")
    return figure


def _draw_losses(axes: Any, runs: Sequence[Dict[str, Any]]) -> None:
    """Draws the losses of some runs; those drawn later lie, thinner, on those before, so that equal ones are all seen."""
    ordered = sorted(runs, key=lambda run: bool(run["killed"]))
    colours = list(dict.fromkeys(_colour_key(run) for run in runs))
    handles: Dict[str, Any] = {}  # one for each entry of the legend
    for number, run in enumerate(ordered):
        look = _look(run, colours.index(_colour_key(run)), number)
        points = _thinned(np.array(run["losses"], float))
        [line] = axes.plot(points[:, 0], points[:, 1], label=run["name"], markersize=2.5, **look)
        if run["is_peer"] and run["killed"] is False:  # they are many
            line = Line2D([], [], color=GREY, linewidth=1.1, alpha=0.5, label=_PALE_LABEL)
        for handle in (line, *_mark_deaths(axes, run, points, look["color"])):
            handles.setdefault(handle.get_label(), handle)
    marks_last = sorted(handles.values(), key=lambda handle: handle.get_label() in _MARK_LABELS)
    axes.legend(handles=marks_last, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)


def _colour_key(run: Dict[str, Any]) -> tuple:
    """Returns what has a colour of its own: a program, or a directory that was given."""
    return (run["program"], None if run["killed"] is not None else run["name"])


def _look(run: Dict[str, Any], colour: int, number: int) -> Dict[str, Any]:
    """Returns how a curve is drawn: the `colour`-th colour, in a panel of which it is the `number`-th curve."""
    beneath = run["killed"] is False or (run["killed"] is None and number == 0)
    look = dict(color=_LINE_COLOURS[colour % len(_LINE_COLOURS)])
    if run["is_peer"]:
        dashes = _DASHES[colour // len(_LINE_COLOURS) % len(_DASHES)]
        return dict(look, linewidth=1.1, alpha=0.3 if beneath else 0.9, linestyle=dashes)
    if beneath:
        return dict(look, linewidth=max(1.4, 7.5 - 2.5 * number), alpha=0.4)
    # Where it lies on another one, both are seen.
    return dict(look, linewidth=1.4, linestyle=_DASHES[colour % len(_DASHES)], marker="o")


def _thinned(points: np.ndarray) -> np.ndarray:
    """Returns points, float [points, 2], or, of many, the means of so many in a row that no more than about 100 are left."""
    together = -(-len(points) // _MOST_POINTS)
    parts = [points[first : first + together] for first in range(0, len(points), together)]
    return np.array([part.mean(axis=0) for part in parts])


_KILLED_LABEL, _RESUMED_LABEL, _LOST_LABEL = "killed", "resumed", "done, and lost by the kill"
_PALE_LABEL = "the same, undisturbed: pale"
_MARK_LABELS = (_PALE_LABEL, _KILLED_LABEL, _RESUMED_LABEL, _LOST_LABEL)


def _mark_deaths(axes: Any, run: Dict[str, Any], points: np.ndarray, colour: str) -> List[Line2D]:
    """Marks where a run died and went on; returns what stands for the marks in the legend."""

    def loss_at(step: float) -> float:
        return float(np.interp(step, points[:, 0], points[:, 1]))

    observed = run["observed"]
    deaths = observed["kills"] if observed else []
    resumes = [kill["resumed_at"] for kill in deaths if kill["resumed_at"] is not None] if observed else run["resumes"]
    handles = []
    mark = dict(linestyle="none", markeredgecolor=TEXT_COLOUR, color=colour, zorder=5)
    if deaths:
        at = [kill["step"] for kill in deaths]
        axes.plot(at, [loss_at(step) for step in at], marker="X", markersize=9, **mark)
        handles.append(Line2D([], [], marker="X", markersize=8, label=_KILLED_LABEL, **{**mark, "color": GREY}))
    if resumes:
        axes.plot(resumes, [loss_at(step) for step in resumes], marker=">", markersize=8, **mark)
        handles.append(Line2D([], [], marker=">", markersize=7, label=_RESUMED_LABEL, **{**mark, "color": GREY}))
    told = observed["losses_told"] if observed else []
    for kill, losses in zip(deaths, told):
        lost = np.array(
            [point for point in losses if kill["resumed_at"] is not None and point[0] >= kill["resumed_at"]], float
        )
        if len(lost) > 1:
            look = dict(linestyle=":", linewidth=2.2, zorder=4)
            lost = _thinned(lost)
            axes.plot(lost[:, 0], lost[:, 1], color=colour, **look)
            handles.append(Line2D([], [], color=GREY, label=_LOST_LABEL, **look))
    return handles
