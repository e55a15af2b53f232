"""The figures of a report: loss against step, the map of the epochs, the timeline; drawn from what report.json holds.

Colours are those of Okabe and Ito, which people who see colours differently can tell apart; and nothing is told by colour alone.
"""

import io
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from compare import phases

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8A8A8A"
_LINE_COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)
# A line of dashes lets the one beneath it be seen.
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))

# Stands for the colour of the page's own text, which is dark on a light page and light on a dark one.
_TEXT_COLOUR = "#0a0b0c"
_STYLE = {
    "text.color": _TEXT_COLOUR, "axes.labelcolor": _TEXT_COLOUR, "axes.edgecolor": _TEXT_COLOUR, "xtick.color": _TEXT_COLOUR,
    "ytick.color": _TEXT_COLOUR, "axes.facecolor": "none", "figure.facecolor": "none", "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "font.size": 10, "hatch.linewidth": 0.7, "hatch.color": "#ffffff",
    "svg.hashsalt": "midepoch",
}  # fmt: skip
_WIDTH_INCHES = 9.5

# Colour and hatch of each phase.
_PHASE_STYLES = {
    phases.STARTING: ("#B8B8B8", "///"),
    phases.TRAINING: (GREEN, ""),
    phases.SAVING: (ORANGE, ""),
    phases.EVALUATING: (SKY, "\\\\\\"),
    phases.EXPORTING: (PURPLE, "xxx"),
    phases.ENDING: ("#6F6F6F", "..."),
    phases.DEAD: (_TEXT_COLOUR, ""),
}

# The map: at most so many columns; more examples share one. What a share of a column is shown with at least.
_MAP_COLUMNS, _LEAST_ALPHA = 500, 0.4
_ONCE = (0.5, 0.5, 0.5, 0.22)
_ROWS_WITH_NUMBERS = 24
# With more runs, those that nobody has disturbed and that have nothing to show are left out.
_MOST_MAPS = 4

# Points of a curve with more of them are means of several steps.
_MOST_POINTS = 100


class Drawing(NamedTuple):
    """A figure.

    Attributes:
      svg: for a page of HTML: its text has the colour of the page's.
      png: on white.
    """

    svg: str
    png: bytes


def draw(report: Dict[str, Any]) -> Dict[str, Drawing]:
    """Returns the figures of a report by name; those that there is nothing to draw for are left out.

    Args:
      report: what report.json holds.
    """
    runs = report["runs"]
    drawn = {}
    for name, figure_of in (("loss", _loss), ("epochs", _epochs), ("timeline", _timeline)):
        figure = _with_style(figure_of, runs)
        if figure is not None:
            drawn[name] = figure
    return drawn


def _with_style(figure_of: Callable[[Sequence[Dict[str, Any]]], Optional[Figure]], runs: Sequence[Dict[str, Any]]):
    with matplotlib.rc_context(_STYLE):
        figure = figure_of(runs)
        if figure is None:
            return None
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
        figure.savefig(png, format="png", dpi=110, facecolor="white", bbox_inches="tight")
    return Drawing(_for_page(svg.getvalue(), figure_of.__name__.strip("_")), png.getvalue())


def _for_page(svg: str, name: str) -> str:
    """Returns an SVG to be put into a page: with ids of its own, as wide as there is room, text in the page's colour."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]*)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda match: match.group() if match.group(1) in used else "", svg)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'<svg ([^>]*?)height="[^"]*"([^>]*?)width="[^"]*"', r"<svg \1\2", svg, count=1)
    return svg.replace(_TEXT_COLOUR, "currentColor")


# Loss against step.


def _loss(runs: Sequence[Dict[str, Any]]) -> Optional[Figure]:
    panels = [[run for run in runs if run["losses"] and run["is_peer"] == is_peer] for is_peer in (False, True)]
    panels = [panel for panel in panels if panel]
    if not panels:
        return None
    figure = Figure((_WIDTH_INCHES, 4.2 * len(panels)))
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
    mark = dict(linestyle="none", markeredgecolor=_TEXT_COLOUR, color=colour, zorder=5)
    if deaths:
        at = [kill["step"] for kill in deaths]
        axes.plot(at, [loss_at(step) for step in at], marker="X", markersize=9, **mark)
        handles.append(Line2D([], [], marker="X", markersize=8, label=_KILLED_LABEL, **{**mark, "color": GREY}))
    if resumes:
        axes.plot(resumes, [loss_at(step) for step in resumes], marker=">", markersize=8, **mark)
        handles.append(Line2D([], [], marker=">", markersize=7, label=_RESUMED_LABEL, **{**mark, "color": GREY}))
    told = observed["losses_told"] if observed else []
    for kill, losses in zip(deaths, told):
        lost = np.array([point for point in losses if kill["resumed_at"] is not None and point[0] >= kill["resumed_at"]], float)
        if len(lost) > 1:
            look = dict(linestyle=":", linewidth=2.2, zorder=4)
            lost = _thinned(lost)
            axes.plot(lost[:, 0], lost[:, 1], color=colour, **look)
            handles.append(Line2D([], [], color=GREY, label=_LOST_LABEL, **look))
    return handles


# The map of the epochs.


def _epochs(runs: Sequence[Dict[str, Any]]) -> Optional[Figure]:
    shown = [run for run in runs if run["examples"] and run["examples"]["epochs"]]
    if len(shown) > _MOST_MAPS:
        shown = [run for run in shown if run["killed"] or run["examples"]["lost"] or run["examples"]["repeated"]]
    if not shown:
        return None
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    most = max(len(run["examples"]["epochs"]) for run in shown)
    panel_inches = min(4.0, 0.85 + 0.145 * most)
    figure = Figure((_WIDTH_INCHES + 2.0 * (columns - 1), rows * panel_inches + 0.7), layout="constrained")
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
            image[2 * row + half, there, :3] = matplotlib.colors.to_rgb(colour)
            image[2 * row + half, there, 3] = _LEAST_ALPHA + (1 - _LEAST_ALPHA) * share[there]
    first, last = epochs[0]["number"], epochs[-1]["number"]
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(0, num_examples, last + 0.5, first - 0.5))
    axes.set_title(f"{run['name']}: {run['examples']['lost']} lost, {run['examples']['repeated']} repeated", fontsize=10, loc="left")
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
            axes.axhline(line + 0.5, color=_TEXT_COLOUR, linewidth=0.4, alpha=0.25)
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


# The timeline.


def _timeline(runs: Sequence[Dict[str, Any]]) -> Optional[Figure]:
    seen = [run for run in runs if run["observed"]]
    if not seen:
        return None
    figure = Figure((_WIDTH_INCHES, 0.9 + 0.5 * len(seen)))
    axes = figure.subplots()
    used = set()
    for row, run in enumerate(seen):
        for phase, begin, end in run["observed"]["timeline"]:
            colour, hatch = _PHASE_STYLES[phase]
            axes.barh(row, end - begin, left=begin, height=0.56, color=colour, hatch=hatch, edgecolor="#ffffff", linewidth=0)
            used.add(phase)
        for number, kill in enumerate(run["observed"]["kills"]):
            axes.plot(kill["at_secs"], row - 0.4, marker="X", color=RED, markeredgecolor=_TEXT_COLOUR, markersize=8)
            used.add("killed")
    axes.set_yticks(range(len(seen)), [run["name"] for run in seen])
    axes.set_ylim(len(seen) - 0.5, -0.75)
    axes.set_xlim(0)
    axes.set_xlabel("seconds since the run was first started")
    axes.grid(axis="x", alpha=0.2)
    axes.set_axisbelow(True)
    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="#ffffff", linewidth=0, label=phase)
        for phase, (colour, hatch) in _PHASE_STYLES.items()
        if phase in used
    ]
    if "killed" in used:
        handles.append(
            Line2D([], [], marker="X", color=RED, markeredgecolor=_TEXT_COLOUR, markersize=8, linestyle="none", label="killed")
        )
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)
    return figure
