"""A report as Markdown, with its figures as files beside it."""

import re
from typing import Dict

from compare import document
from compare.document import Document, Piece


def render(report: Document, images: Dict[str, str]) -> str:
    """Returns the text.

    Args:
      report: the report.
      images: the path of the image for each `Picture`, by name, seen from the file.
    """
    return "\n\n".join([f"# {report.title}", *(_render(piece, images) for piece in report.pieces)]) + "\n"


def _render(piece: Piece, images: Dict[str, str]) -> str:
    if isinstance(piece, document.Heading):
        return f"## {piece.text}"
    if isinstance(piece, document.Paragraph):
        return _escaped(piece.text)
    if isinstance(piece, document.Table):
        rows = [piece.header, ["---"] * len(piece.header), *piece.rows]
        lines = ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows]
        return "\n".join(lines) + (f"\n\n{_escaped(piece.note)}" if piece.note else "")
    if isinstance(piece, document.Picture):
        return f"![{_escaped(piece.alt)}]({images[piece.name]})\n\n{_escaped(piece.caption)}"
    if isinstance(piece, document.Verdicts):
        return "\n".join(f"- {'ok' if good else '**BAD**'}: {_escaped(text)}" for good, text in piece.lines)
    # A fence ends at one that is as long: longer than any in the text.
    fence = "`" * max([3, *(len(ticks) + 1 for line in piece.lines for ticks in re.findall("`+", line))])
    return "\n".join([fence, *piece.lines, fence])


def _escaped(text: str) -> str:
    """Returns a text that Markdown shows as it is."""
    text = " ".join(text.split("\n"))
    for character in "|<*_":
        text = text.replace(character, "\\" + character)
    return text
