"""Memory of each stage as a bar: what a GPU's memory is taken by."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from planner.plans.schema import Replica, StageMemory

PARTS = (
    ("weights", "█", "blue"),
    ("KV", "▓", "green"),
    ("activ.", "▒", "yellow"),
    ("reserve", "░", "magenta"),
)
"""Part, the character it is drawn with (told apart without colour), its colour."""
FREE = "·"

GIB = 2**30
"""Vendors and drivers count a GPU's memory so: an 80 GB card has 80 of them."""

FIGURES_WIDTH = 51
"""Columns of the figures beside the bar, with the space between them."""


def memory(replicas: list[Replica], width: int) -> Table:
    """A bar for each replica group and device, in `width` columns, with the GiB of each part."""
    rows = [(f"{r.id} {device}", m) for r in replicas for device, m in fullest(r).items()]
    bar_width = max(8, min(40, width - FIGURES_WIDTH - max(len(label) for label, _ in rows)))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for name, mark, colour in PARTS:
        table.add_column(Text(f"{mark} {name}", style=colour), justify="right", no_wrap=True)
    table.add_column(Text("of", style="dim"), justify="right", no_wrap=True)
    for label, m in rows:
        sizes = [f"{part / GIB:.1f}" for part in parts(m)]
        table.add_row(label, bar(m, bar_width), *sizes, f"{m.capacity_bytes / GIB:.0f} GiB")
    return table


def fullest(replica: Replica) -> dict[str, StageMemory]:
    """By device, the stage with the least room left: the one to look at."""
    found: dict[str, StageMemory] = {}
    for stage in replica.memory:
        device = replica.stages[stage.stage].device
        if device not in found or sum(parts(stage)) > sum(parts(found[device])):
            found[device] = stage
    return found


def parts(stage: StageMemory) -> tuple[float, float, float, float]:
    """Bytes of each of `PARTS`, in their order."""
    return stage.weights_bytes, stage.kv_bytes, stage.activation_bytes, stage.reserve_bytes


def bar(stage: StageMemory, width: int) -> Text:
    """The bar: each part's share of the capacity in characters, cut at the running total, so that it adds up.

    >>> m = StageMemory(stage=0, weights_bytes=40e9, kv_bytes=20e9, activation_bytes=5e9, reserve_bytes=5e9,
    ...                 capacity_bytes=80e9)
    >>> bar(m, 16).plain
    '████████▓▓▓▓▒░··'
    """
    text, total, drawn = Text(), 0.0, 0
    for size, (_, mark, colour) in zip(parts(stage), PARTS, strict=True):
        total += size
        end = min(width, round(width * total / stage.capacity_bytes)) if stage.capacity_bytes else 0
        text.append(mark * (end - drawn), style=colour)
        drawn = max(drawn, end)
    return text.append(FREE * (width - drawn), style="dim")
