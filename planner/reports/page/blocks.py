"""What a section of the page is made of: values that the template knows how to draw, and nothing of plans.

Every block says in words what it draws, so that nobody needs eyes for it. Shares are of a bar's whole length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Union


@dataclass(frozen=True)
class Piece:
    """Text in one style: "", "strong", "dim", "good" or "warn"."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Words:
    """A paragraph; a `note` is set smaller."""

    block: ClassVar[str] = "words"
    pieces: tuple[Piece, ...]
    note: bool = False

    @classmethod
    def of(cls, text: str, note: bool = False) -> Words:
        """Plain text."""
        return cls((Piece(text),), note)

    @property
    def plain(self) -> str:
        """Without styles."""
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True)
class Listed:
    """Sentences, one a point."""

    block: ClassVar[str] = "listed"
    points: tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """A column of a table; figures stand to the `right`."""

    name: str
    right: bool = False


@dataclass(frozen=True)
class Table:
    """`rows` of cells, a cell being lines of text. The first cell of a row names it. `marked`: cells (row,
    column) that stand out, each with the word that says why."""

    block: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[tuple[Words, ...], ...], ...]
    marked: dict[tuple[int, int], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """A piece of a bar from `start`, `width` long, drawn as `kind`: a name of `colours.PARTS`."""

    kind: str
    start: float
    width: float


@dataclass(frozen=True)
class Bar:
    """A bar with its name, its figure, and what there is to say of it below; `mark`: where a limit is."""

    label: str
    figure: str
    parts: tuple[Part, ...]
    said: str = ""
    mark: float | None = None
    chosen: bool = False


@dataclass(frozen=True)
class Key:
    """What a colour stands for."""

    kind: str
    words: str


@dataclass(frozen=True)
class Bars:
    """Bars of one scale, under a key of their colours."""

    block: ClassVar[str] = "bars"
    bars: tuple[Bar, ...]
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Stop:
    """A place on a request's way: replica groups there with their rate, and the share of all that passes
    each."""

    title: str
    kind: str
    lines: tuple[Bar, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Flow:
    """The way of requests: stops in order."""

    block: ClassVar[str] = "flow"
    label: str
    stops: tuple[Stop, ...]


@dataclass(frozen=True)
class Command:
    """What is typed on `where`."""

    where: str
    text: str


@dataclass(frozen=True)
class Commands:
    """Commands to copy, each by itself."""

    block: ClassVar[str] = "commands"
    commands: tuple[Command, ...]


@dataclass(frozen=True)
class Gpu:
    """One GPU of a drawing: what of the model it holds, in lines, and its memory in parts."""

    lines: tuple[str, ...]
    parts: tuple[Part, ...]
    said: str


@dataclass(frozen=True)
class Frame:
    """A server, or the part of it that stands on one node; `times` of them alike."""

    name: str
    kind: str
    title: str
    gpus: tuple[Gpu, ...]
    times: int = 1


@dataclass(frozen=True)
class Box:
    """A node and those that are like it: `times` nodes, their names in words; GPUs that nothing runs on;
    what lies beside the GPUs."""

    times: int
    names: str
    frames: tuple[Frame, ...]
    idle: int
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rack:
    """The nodes of a class."""

    name: str
    about: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Site:
    """A zone; "" where the cluster has none."""

    name: str
    racks: tuple[Rack, ...]


@dataclass(frozen=True)
class Drawing:
    """The cluster with the plan on it."""

    block: ClassVar[str] = "drawing"
    sites: tuple[Site, ...]
    links: str
    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Tick:
    """A value on an axis, at a share of its length."""

    at: float
    words: str


@dataclass(frozen=True)
class Mark:
    """A point that is named, at shares of both axes."""

    x: float
    y: float
    name: str


@dataclass(frozen=True)
class Chart:
    """Points on a `line`, at shares of both axes from the corner below left, and some beside it. Its figures
    are to stand beside it, too."""

    block: ClassVar[str] = "chart"
    label: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    x: str
    y: str
    line: tuple[tuple[float, float], ...]
    marks: tuple[Mark, ...]


Block = Union[Words, Listed, Table, Bars, Flow, Commands, Drawing, Chart, "Folded"]


@dataclass(frozen=True)
class Folded:
    """What is there for those who ask: shown when its `summary` is opened."""

    block: ClassVar[str] = "folded"
    summary: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Section:
    """A heading, `name`d for links, and its blocks."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def in_row(kinds: Sequence[str], sizes: Sequence[float], whole: float) -> tuple[Part, ...]:
    """Sizes of one `whole` one behind the other, cut where it ends.

    >>> in_row(["a", "b", "c"], [2.0, 0.0, 3.0], 4.0)
    (Part(kind='a', start=0.0, width=0.5), Part(kind='c', start=0.5, width=0.5))
    """
    found, total = [], 0.0
    for kind, size in zip(kinds, sizes, strict=True):
        start, end = (min(x / whole, 1.0) if whole > 0 else 0.0 for x in (total, total + size))
        total += size
        if end > start:
            found.append(Part(kind, start, end - start))
    return tuple(found)
