"""Laying out a picture: items with a size that are put beside, below and into each other, and end as shapes.

Lengths are in pixels of the picture. Text is as wide as its letters are on average, so a line is cut where it
would be too long.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

WIDTH_OF_LETTER = 0.58
"""Of the size of the letters: what common sans-serif fonts need on average, and a little more."""


@dataclass(frozen=True)
class Shape:
    """A rectangle, or with `text` a line of it whose baseline is at `y`; `style`: a class of the template."""

    x: float
    y: float
    style: str
    width: float = 0.0
    height: float = 0.0
    text: str = ""
    size: float = 0.0


@dataclass(frozen=True)
class Item:
    """Shapes within a size."""

    width: float
    height: float
    shapes: tuple[Shape, ...] = ()

    def at(self, x: float, y: float) -> tuple[Shape, ...]:
        """Its shapes, moved."""
        return tuple(replace(s, x=s.x + x, y=s.y + y) for s in self.shapes)


def line(text: str, size: float, style: str, width: float) -> Item:
    """One line, cut to `width`."""
    most = max(int(width / (WIDTH_OF_LETTER * size)), 1)
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    wide = min(len(shown) * WIDTH_OF_LETTER * size, width)
    return Item(wide, 1.4 * size, (Shape(0.0, 1.05 * size, style, text=shown, size=size),))


def lines(text: str, size: float, style: str, width: float) -> Item:
    """As many lines as the text takes."""
    most = max(int(width / (WIDTH_OF_LETTER * size)), 1)
    return below([line(each, size, style, width) for each in textwrap.wrap(text, most)], 0.0)


def below(items: Sequence[Item], gap: float) -> Item:
    """One under the other.

    >>> below([Item(10.0, 5.0), Item(20.0, 5.0)], 2.0)
    Item(width=20.0, height=12.0, shapes=())
    """
    y, shapes = 0.0, list[Shape]()
    for item in items:
        shapes += item.at(0.0, y)
        y += item.height + gap
    return Item(max((i.width for i in items), default=0.0), max(y - gap, 0.0), tuple(shapes))


def flowing(items: Sequence[Item], width: float, gap: float) -> Item:
    """One beside the other, in as many rows as `width` asks for.

    >>> flowing([Item(40.0, 5.0), Item(40.0, 9.0), Item(40.0, 5.0)], 100.0, 10.0)
    Item(width=90.0, height=24.0, shapes=())
    """
    x, y, tall, wide, shapes = 0.0, 0.0, 0.0, 0.0, list[Shape]()
    for item in items:
        if x and x + item.width > width:
            x, y, tall = 0.0, y + tall + gap, 0.0
        shapes += item.at(x, y)
        x, tall = x + item.width + gap, max(tall, item.height)
        wide = max(wide, x - gap)
    return Item(wide, y + tall, tuple(shapes))


def boxed(item: Item, style: str, pad: float, width: float = 0.0) -> Item:
    """With a rectangle around it, `width` wide at least."""
    wide, tall = max(item.width + 2 * pad, width), item.height + 2 * pad
    return Item(wide, tall, (Shape(0.0, 0.0, style, wide, tall), *item.at(pad, pad)))
