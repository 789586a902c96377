"""Plans as a picture (SVG, and PNG where a library for it is installed): the answer, its figures, the cluster
with what runs on each GPU.

Items with a size are put beside, below and into each other, and end as shapes. Lengths are in pixels of the
picture. Text is as wide as its letters are on average, so a line is cut where it would be too long."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.errors import InputError
from planner.plans.schema import Plan
from planner.reports.page import colours
from planner.reports.page.answer import Fact, facts, sentences, title
from planner.reports.page.blocks import Box, Frame, Gpu, Key, Part, Rack, Site
from planner.reports.page.compared import names
from planner.reports.page.drawing import drawing
from planner.reports.page.templates import rendered

WIDE, EDGE = 1200.0, 40.0
"""Of the picture, and its margin."""

INNER = WIDE - 2 * EDGE
TILE_WIDE, GAP = 106.0, 6.0
SCALE = 2
"""Pixels of a PNG for one of the picture."""


def svg(plans: Sequence[Plan], given: Sequence[str]) -> str:
    """The picture of plans, one under the other; `given`: what several are called. Raises InputError."""
    called = [title(plan) for plan in plans] if len(plans) == 1 else names(plans, given)
    sheet = below([_plan(*both) for both in zip(plans, called, strict=True)], 48.0)
    return rendered(
        "picture.svg.j2",
        title=" · ".join(called),
        said=" ".join(line for plan in plans for line in sentences(plan)),
        width=WIDE,
        height=sheet.height + 2 * EDGE,
        shapes=sheet.at(EDGE, EDGE),
        themes={"light": colours.LIGHT, "dark": colours.DARK},
        parts=colours.PARTS,
        roles=colours.ROLES,
    )


def png(plans: Sequence[Plan], given: Sequence[str]) -> bytes:
    """The same as pixels, for light surroundings. Raises InputError where the library is not installed."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        hint = "pip install 'meshwright[png]', or let the name end in .svg"
        raise InputError("PNG takes a library that is not installed", "-o", hint) from error
    found = svg_to_bytes(svg_string=svg(plans, given), zoom=SCALE)
    return bytes(found)


def _plan(plan: Plan, name: str) -> Item:
    shown = drawing(plan)
    said = [lines(sentence, 15.0, "ink", INNER) for sentence in sentences(plan)]
    parts = [line(name, 28.0, "ink strong", INNER), below(said, 3.0), _facts(facts(plan))]
    parts.append(flowing([_key(key) for key in shown.keys], INNER, 18.0))
    links = [lines(shown.links, 12.0, "dim", INNER)] if shown.links else []
    return below([*parts, *(_site(site) for site in shown.sites), *links], 16.0)


def _facts(found: Sequence[Fact]) -> Item:
    each = (INNER - 3 * GAP) / 4
    cards = [
        below(
            [
                line(f.label, 12.0, "dim", each - 24),
                line(f.figure, 22.0, "ink strong", each - 24),
                line(f.note, 12.0, "dim", each - 24),
            ],
            2.0,
        )
        for f in found
    ]
    return flowing([boxed(card, "card", 12.0, each) for card in cards], INNER + 1.0, GAP)


def _key(key: Key) -> Item:
    words = line(key.words, 12.0, "dim", INNER)
    shapes = (Shape(0.0, 3.0, f"part-{key.kind}", 11.0, 11.0), *words.at(17.0, 0.0))
    return Item(words.width + 17.0, words.height, shapes)


def _site(site: Site) -> Item:
    heading = [line(f"Zone {site.name}", 15.0, "ink strong", INNER)] if site.name else []
    return below([*heading, flowing([_rack(rack) for rack in site.racks], INNER, 20.0)], 8.0)


def _rack(rack: Rack) -> Item:
    heading = line(f"{rack.name}: {rack.about}", 13.0, "ink", INNER)
    return below([heading, flowing([_box(box) for box in rack.boxes], INNER, 12.0)], 6.0)


def _box(box: Box) -> Item:
    """A node; wide enough for its names."""
    many = f"{box.times:,} × " if box.times > 1 else ""
    frames = [_frame(frame) for frame in box.frames]
    if box.idle:
        words = line(f"{box.idle:,} GPU{'s' if box.idle > 1 else ''} idle", 12.0, "dim", 160.0)
        frames.append(boxed(words, "idle", 8.0, TILE_WIDE))
    inside = flowing(frames, INNER - 2 * 12.0, 8.0)
    wide = max(inside.width, 230.0)
    beside = [boxed(lines(text, 11.0, "dim", wide - 12.0), "idle", 6.0) for text in box.beside]
    return boxed(below([line(f"{many}{box.names}", 12.0, "dim", wide), inside, *beside], 6.0), "card", 12.0)


def _frame(frame: Frame) -> Item:
    """A server with its GPUs, eight in a row at most."""
    tiles = flowing([_gpu(gpu) for gpu in frame.gpus], 8 * (TILE_WIDE + GAP), GAP)
    many = f"{frame.times} × " if frame.times > 1 else ""
    heading = line(f"{many}{frame.name} {frame.title}", 12.0, "ink strong", max(tiles.width, TILE_WIDE))
    return boxed(below([heading, tiles], 4.0), f"role-{frame.kind}", 8.0)


def _gpu(gpu: Gpu) -> Item:
    """What a GPU holds, over the bar of its memory."""
    said = below([line(text, 10.5, "ink", TILE_WIDE) for text in gpu.lines], 0.0)
    return Item(TILE_WIDE, said.height + 13.0, (*said.shapes, *_bar(gpu.parts, said.height + 3.0)))


def _bar(parts: Sequence[Part], y: float) -> tuple[Shape, ...]:
    if not parts:
        return ()
    pieces = (Shape(TILE_WIDE * p.start, y, f"part-{p.kind}", TILE_WIDE * p.width, 8.0) for p in parts)
    return (Shape(0.0, y, "track", TILE_WIDE, 8.0), *pieces)


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
