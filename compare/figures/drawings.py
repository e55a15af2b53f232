"""Draws the figures of a report: as SVG to be put into a page, and as PNG."""

import io
import re
from typing import Any, Dict, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from compare.figures import epochs, losses, timeline
from compare.figures.style import STYLE, TEXT_COLOUR

_FIGURES = (("loss", losses.make), ("epochs", epochs.make), ("timeline", timeline.make))


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
    drawn = {}
    with matplotlib.rc_context(STYLE):
        for name, make in _FIGURES:
            figure = make(report["runs"])
            if figure is not None:
                drawn[name] = _draw(figure, name)
    return drawn


def _draw(figure: Figure, name: str) -> Drawing:
    svg, png = io.StringIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    figure.savefig(png, format="png", dpi=110, facecolor="white", bbox_inches="tight")
    return Drawing(_for_page(svg.getvalue(), name), png.getvalue())


def _for_page(svg: str, name: str) -> str:
    """Returns an SVG to be put into a page: with ids of its own, as wide as there is room, text in the page's colour."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]*)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda match: match.group() if match.group(1) in used else "", svg)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'<svg ([^>]*?)height="[^"]*"([^>]*?)width="[^"]*"', r"<svg \1\2", svg, count=1)
    return svg.replace(TEXT_COLOUR, "currentColor")
