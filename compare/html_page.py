"""A report as one HTML file that needs nothing else: no network, no scripts; light or dark as the reader has it."""

import html
import re
from typing import Dict, Sequence

from compare import document
from compare.document import Document, Piece

_CSS = """
:root { color-scheme: light dark; --text: #1d2125; --soft: #5a646d; --page: #ffffff; --line: #d5dbe0; --band: #f3f5f7;
  --good: #00664a; --bad: #a33f00; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e8eb; --soft: #a5afb8; --page: #16191c; --line: #3a4148; --band: #20252a;
    --good: #4cc9a0; --bad: #ff9b5e; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 72rem; color: var(--text); background: var(--page);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.4rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 0.6rem; padding-bottom: 0.2rem; border-bottom: 1px solid var(--line); }
p { max-width: 50rem; margin: 0.6rem 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 0.8rem 0; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { background: var(--band); vertical-align: bottom; }
td { white-space: nowrap; }
.number { text-align: right; }
td.long { white-space: normal; min-width: 14rem; }
.note, figcaption { color: var(--soft); font-size: 0.875rem; max-width: 50rem; }
ul.verdicts { list-style: none; padding: 0; margin: 0.8rem 0; }
ul.verdicts li { padding: 0.15rem 0 0.15rem 4rem; text-indent: -4rem; overflow-wrap: anywhere; }
ul.verdicts b { display: inline-block; width: 4rem; text-indent: 0; }
.good b { color: var(--good); }
.bad b { color: var(--bad); }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; min-width: 44rem; height: auto; }
pre { background: var(--band); padding: 0.7rem; overflow-x: auto; font-size: 0.8rem; }
"""


def render(report: Document, svgs: Dict[str, str]) -> str:
    """Returns the page.

    Args:
      report: the report.
      svgs: the drawing for each `Picture`, by name.
    """
    body = "\n".join(_render(piece, svgs) for piece in report.pieces)
    title = html.escape(report.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _render(piece: Piece, svgs: Dict[str, str]) -> str:
    if isinstance(piece, document.Heading):
        return f"<h2>{html.escape(piece.text)}</h2>"
    if isinstance(piece, document.Paragraph):
        return f"<p>{html.escape(piece.text)}</p>"
    if isinstance(piece, document.Table):
        return _table(piece)
    if isinstance(piece, document.Picture):
        svg = svgs[piece.name].replace("<svg ", f'<svg role="img" aria-label="{html.escape(piece.alt)}" ', 1)
        return (
            '<figure>\n<div class="scroll"'
            f' tabindex="0">{svg}</div>\n<figcaption>{html.escape(piece.caption)}</figcaption>\n</figure>'
        )
    if isinstance(piece, document.Verdicts):
        lines = (
            f'<li class="{"good" if good else "bad"}"><b>{"✓ ok" if good else "✗ BAD"}</b>{html.escape(text)}</li>'
            for good, text in piece.lines
        )
        return '<ul class="verdicts">\n' + "\n".join(lines) + "\n</ul>"
    return "<pre>" + html.escape("\n".join(piece.lines)) + "</pre>"


def _table(table: document.Table) -> str:
    kinds = [_kind(column) for column in zip(*table.rows)] or [""] * len(table.header)
    header = "".join(f'<th scope="col"{kind}>{html.escape(title)}</th>' for title, kind in zip(table.header, kinds))
    rows = (
        "<tr>" + "".join(f"<td{kind}>{html.escape(text)}</td>" for text, kind in zip(row, kinds)) + "</tr>"
        for row in table.rows
    )
    note = f'\n<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" tabindex="0">\n<table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + f"\n</tbody>\n</table>\n</div>{note}"
    )


# A number, with a unit or a spread, or the dash for none.
_NUMERIC = re.compile(r"(–|[-\d.]+( \w?B)?( \[[-\d.]+–[-\d.]+\])?)$")
# Longer texts may be broken into lines.
_LONG = 32


def _kind(column: Sequence[str]) -> str:
    """Returns the attribute that says how the cells of a column are set."""
    if all(_NUMERIC.match(text) for text in column):
        return ' class="number"'
    return ' class="long"' if max(map(len, column)) > _LONG else ""
