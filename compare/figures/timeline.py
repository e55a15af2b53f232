"""The timeline: what each run did when."""

from typing import Any, Dict, Optional, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from compare import phases
from compare.figures.style import GREEN, ORANGE, PURPLE, RED, SKY, TEXT_COLOUR, WIDTH_INCHES

# Colour and hatch of each phase.
_PHASE_STYLES = {
    phases.STARTING: ("#B8B8B8", "///"),
    phases.TRAINING: (GREEN, ""),
    phases.SAVING: (ORANGE, ""),
    phases.EVALUATING: (SKY, "\\\\\\"),
    phases.EXPORTING: (PURPLE, "xxx"),
    phases.ENDING: ("#6F6F6F", "..."),
    phases.DEAD: (TEXT_COLOUR, ""),
}


def make(runs: Sequence[Dict[str, Any]]) -> Optional[Figure]:
    """Returns the figure, or None if no run was watched."""
    seen = [run for run in runs if run["observed"]]
    if not seen:
        return None
    figure = Figure((WIDTH_INCHES, 0.9 + 0.5 * len(seen)))
    axes = figure.subplots()
    used = set()
    for row, run in enumerate(seen):
        for phase, begin, end in run["observed"]["timeline"]:
            colour, hatch = _PHASE_STYLES[phase]
            axes.barh(row, end - begin, left=begin, height=0.56, color=colour, hatch=hatch, edgecolor="#ffffff", linewidth=0)
            used.add(phase)
        for kill in run["observed"]["kills"]:
            axes.plot(kill["at_secs"], row - 0.4, marker="X", color=RED, markeredgecolor=TEXT_COLOUR, markersize=8)
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
            Line2D(
                [], [], marker="X", color=RED, markeredgecolor=TEXT_COLOUR, markersize=8, linestyle="none", label="killed"
            )
        )
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)
    return figure
