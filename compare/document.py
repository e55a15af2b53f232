"""The pieces of a report, whatever it is written as: `html_page` and `markdown` know how each of them looks."""

from typing import List, NamedTuple, Sequence, Tuple, Union


class Heading(NamedTuple):
    """A heading of a section."""

    text: str


class Paragraph(NamedTuple):
    """A paragraph of text."""

    text: str


class Table(NamedTuple):
    """A table.

    Attributes:
      header: a title for each column.
      rows: of each row, a text for each column.
      note: what the columns mean; "" for nothing.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class Picture(NamedTuple):
    """A figure.

    Attributes:
      name: of the drawing.
      alt: what it shows, for those who do not see it.
      caption: how to read it.
    """

    name: str
    alt: str
    caption: str


class Verdicts(NamedTuple):
    """Lines, each with whether it is as it should be."""

    lines: Sequence[Tuple[bool, str]]


class Output(NamedTuple):
    """What a program has printed."""

    lines: Sequence[str]


Piece = Union[Heading, Paragraph, Table, Picture, Verdicts, Output]


class Document(NamedTuple):
    """A report.

    Attributes:
      title: its title.
      pieces: its pieces, in order.
    """

    title: str
    pieces: List[Piece]
