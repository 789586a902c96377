"""A curve in a terminal: a row a point, the longer its bar the more of y, and what runs there."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from planner.plans.schema import Plan
from planner.reading.units import counted
from planner.reports import words as say
from planner.studies.curves import Curve, Point

ROOM, WIDE = 12, 120
"""Columns of a bar; of a terminal from which on bars are twice as long."""

GROUPS = 3
"""Of replicas that are named for a point."""


def curve(name: str, of: Curve, points: Sequence[Point], width: int) -> RenderableType:
    """All of it in `width` columns."""
    x, y = of.x, of.y
    head = f"{name}: {x.unit} {x.what} against {y.unit} {y.what}"
    best = "most" if y.more else "least"
    under = (
        f"{counted(len(points), 'point')}, each the {best} within its limit, at most "
        f"{say.percent(max(p.gap for p in points))} from the best possible"
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for unit, what in ((x.unit, x.what), (y.unit, y.what)):
        table.add_column(f"{unit}\n{what}", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("TTFT", justify="right", no_wrap=True)
    table.add_column("runs")
    most = max(p.y for p in points)
    room = ROOM if width < WIDE else 2 * ROOM
    for p in points:
        ttft = say.milliseconds(p.plan.predicted.ttft_ms.value)
        table.add_row(say.number(p.x), say.number(p.y), bar(p.y / most, room), ttft, "\n".join(runs(p.plan)))
    return Group(Text(head, style="bold"), Text(under, style="dim"), Text(""), table)


def runs(plan: Plan) -> list[str]:
    """What runs, a line a group of replicas, the largest first."""
    groups = sorted(plan.replicas, key=lambda r: -r.count * sum(s.gpus for s in r.stages))
    lines = []
    for r in groups[:GROUPS]:
        role = "" if r.role == "mixed" else f" {r.role}"
        lines.append(f"{r.count} x {say.layout(r)} {say.hardware(r).split('×')[-1]}{role}")
    more = len(groups) - GROUPS
    return lines + ([f"and {more} group{'s' if more > 1 else ''} more"] if more > 0 else [])


EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(share: float, room: int) -> str:
    """A bar of a share of `room` columns, to an eighth of one.

    >>> bar(0.5, 4), bar(0.28, 4)
    ('██', '█▏')
    """
    eighths = round(8 * room * min(max(share, 0.0), 1.0))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()
