"""Heat maps in a terminal: a character or more a cell, five shades, read without colour too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.text import Text

Floats = NDArray[np.float64]
SHADES = (
    (0.75, " ", ""),
    (0.95, "░", "blue"),
    (1.05, "▒", "green"),
    (1.25, "▓", "yellow"),
    (np.inf, "█", "red"),
)
"""Up to what, as what, in what colour."""
MOST_ROWS, WIDEST, GAP = 30, 4, 3


def panels(maps: Sequence[tuple[str, Floats]], names: Sequence[str], width: int) -> Group:
    """Maps (rows, columns) of values around 1 side by side, under their titles, rows named.

    Where there is no room for all, a cell is the highest of several.
    """
    rows, columns = maps[0][1].shape
    tall = -(-rows // MOST_ROWS)
    labels = [_range(names[at : at + tall]) for at in range(0, rows, tall)]
    margin = max(map(len, labels))
    room = max(8, (width - margin - 2 - GAP * (len(maps) - 1)) // len(maps))
    wide = -(-columns // room)
    cell = max(1, min(WIDEST, room // -(-columns // wide)))
    cells = [_highest(values, tall, wide) for _, values in maps]
    filled = cells[0].shape[1] * cell
    span = max(filled, min(room, max(len(title) for title, _ in maps)))
    lines = [_titles([title for title, _ in maps], margin, span)]
    for at, label in enumerate(labels):
        line = Text(f"{label:>{margin}}  ", style="dim", no_wrap=True)
        for i, values in enumerate(cells):
            line.append(" " * (GAP + span - filled) if i else "")
            for value in values[at].tolist():
                _, shade, colour = next(s for s in SHADES if value <= s[0])
                line.append(shade * cell, style=f"not dim {colour}".strip())
        lines.append(line)
    return Group(*lines, Text(_legend(tall, wide), style="dim"))


def _titles(titles: Sequence[str], margin: int, span: int) -> Text:
    cut = [title[:span].ljust(span) for title in titles]
    return Text((" " * (margin + 2) + (" " * GAP).join(cut)).rstrip(), style="dim", no_wrap=True)


def _range(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}-{names[-1]}"


def _highest(values: Floats, tall: int, wide: int) -> Floats:
    """The highest of each `tall` x `wide` cells.

    >>> _highest(np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]]), 2, 2).tolist()
    [[4.0, 3.0]]
    """
    high = np.maximum.reduceat(values, np.arange(0, values.shape[0], tall), axis=0)
    return np.asarray(np.maximum.reduceat(high, np.arange(0, values.shape[1], wide), axis=1))


def _legend(tall: int, wide: int) -> str:
    steps = [f"{shade} to {edge:g}" for edge, shade, _ in SHADES[1:-1]]
    text = f"blank to {SHADES[0][0]:g} of the mean, {', '.join(steps)}, {SHADES[-1][1]} above"
    if tall * wide > 1:
        text += f"; a cell is the hottest of {tall} layers x {wide} GPUs"
    return text
