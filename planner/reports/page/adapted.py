"""What the terminal prints, as blocks of the page: both say the same because it is the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from planner.reports.page.blocks import Block, Column, Piece, Table, Words


def blocks(shown: RenderableType, caption: str) -> Iterator[Block]:
    """Paragraphs and tables of what the terminal shows; tables are named by `caption`."""
    if isinstance(shown, Group):
        for part in shown.renderables:
            yield from blocks(part, caption)
    elif isinstance(shown, Padding):
        yield from blocks(shown.renderable, caption)
    elif isinstance(shown, RichTable):
        yield table(shown, caption)
    else:
        yield from lines(shown)


def table(shown: RichTable, caption: str) -> Table:
    """A table of the terminal."""
    columns = [Column(_text(c.header).plain, c.justify == "right") for c in shown.columns]
    cells = [[tuple(lines(cell)) for cell in column.cells] for column in shown.columns]
    return Table(caption, tuple(columns), tuple(zip(*cells, strict=True)))


def lines(shown: RenderableType) -> Iterator[Words]:
    """The lines of a text, each with its styles; one that is dim all over is a note."""
    for line in _text(shown).split("\n", allow_blank=False):
        pieces = tuple(_pieces(line))
        if pieces:
            yield Words(pieces, note=all(piece.style == "dim" for piece in pieces))


def _pieces(line: Text) -> Iterator[Piece]:
    ends = sorted({0, len(line), *(x for span in line.spans for x in (span.start, span.end))})
    for start, end in pairwise(ends):
        styles = [line.style, *(s.style for s in line.spans if s.start <= start and end <= s.end)]
        if text := line.plain[start:end]:
            yield Piece(text, _style(styles))


def _style(styles: list[str | Style]) -> str:
    """The word of the page for styles of the terminal."""
    said = " ".join(map(str, styles))
    words = {"green": "good", "yellow": "warn", "dim": "dim", "bold": "strong"}
    return next((ours for theirs, ours in words.items() if theirs in said), "")


def _text(shown: RenderableType) -> Text:
    if isinstance(shown, Text):
        return shown
    assert isinstance(shown, str), f"no way to show {type(shown).__name__} on a page"
    return Text(shown)
