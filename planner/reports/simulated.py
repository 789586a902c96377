"""A replayed plan, for people: achieved beside predicted, limits, and how queues and caches went."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from planner.reports import words as say
from planner.reports.words import grid

if TYPE_CHECKING:
    from planner.simulate.answer import Simulated

BLOCKS = " ▁▂▃▄▅▆▇█"
"""Levels of a line of the picture: nothing, then eighths."""

NAMES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "e2e_ms": "whole"}

PICTURED = 4
"""Groups whose queues are drawn: those in which most wait, where there are more."""


def simulated(name: str, s: Simulated, width: int) -> RenderableType:
    """The whole answer in `width` columns."""
    head = f"{s.counted:,} requests on {name}: {_verdict(s)}"
    under = f"{s.arrivals}; routing {s.routing}; seed {s.seed}"
    parts: list[RenderableType] = [Text(head, style="bold"), Text(under, style="dim"), Text("")]
    parts += [_rates(s), Text(""), _times(s)]
    parts += [Text(""), *(Text(line) for line in _promises(s))] if s.promises else []
    notes = list(_notes(s))
    parts += [Text(""), *(Text(line) for line in notes)] if notes else []
    return Group(*parts, Text(""), _over_time(s, width))


def _verdict(s: Simulated) -> str:
    if s.overload is not None:
        return "more come than it serves"
    if not s.promises:
        return "no limits were asked for"
    return "every limit was kept" if s.kept else "a limit was broken"


def _rates(s: Simulated) -> Table:
    table = grid("", ">achieved", ">predicted", ">80 % band")
    for name, value, band in (
        ("requests", s.rps, s.predicted["rps"]),
        ("output tokens", s.out_tok_per_s, s.predicted["out_tok_per_s"]),
    ):
        range_ = f"{say.number(band.low)} – {say.number(band.high)}" if band.low < band.high else ""
        table.add_row(name, f"{_rate(value)} /s", f"{_rate(band.value)} /s", range_)
    return table


def _rate(x: float) -> str:
    """Without the last digits of a solver."""
    return say.number(round(x, 6))


def _times(s: Simulated) -> Table:
    """Achieved times, and below each what was predicted, where it was."""
    percentile = next((p.percentile for p in s.promises.values()), "mean")
    table = grid("", ">mean", ">p50", ">p90", ">p95", ">p99")
    for name, times in (("ttft_ms", s.ttft_ms), ("tpot_ms", s.tpot_ms), ("e2e_ms", s.e2e_ms)):
        table.add_row(NAMES[name], *(say.milliseconds(times[k]) for k in times))
        band = s.predicted.get(name)
        if band:
            told = {**s.expected.get(name, {}), percentile: band.value}
            cells = (say.milliseconds(told[k]) if k in told else "" for k in times)
            table.add_row("  predicted", *cells, style="dim")
    return table


def _promises(s: Simulated) -> list[str]:
    lines = []
    for name, p in s.promises.items():
        beyond = p.achieved_ms / p.limit_ms - 1
        by = f" by {say.percent(beyond)}" if 0 < beyond < 1 else ""
        word = f"kept{by and f' but for {say.percent(beyond)}'}" if p.kept else f"BROKEN{by}"
        which = "the mean" if p.percentile == "mean" else p.percentile
        lines.append(
            f"{NAMES[name]} {word}: {which} {say.milliseconds(p.achieved_ms)}, limit "
            f"{say.milliseconds(p.limit_ms)}; {say.percent(p.attained)} of requests within it"
        )
    if len(s.promises) > 1:
        lines.append(f"{say.percent(s.attained)} of requests were within all limits")
    return lines


def _notes(s: Simulated) -> Iterator[str]:
    """What else there is to say."""
    if s.overload is not None:
        came, ended = say.number(s.overload.came_rps), say.number(s.overload.ended_rps)
        yield f"OVERLOADED: {came} requests/s came, {ended} ended, and the queue only grew:"
        yield f"  {s.overload.unfinished:,} were unfinished when the last one came; times mean little."
    if s.requests > s.counted:
        yield f"{s.requests - s.counted:,} of {s.requests:,} requests are to warm up and to end: not counted."
    offered = s.overload.came_rps if s.overload else s.rps
    if s.planned_rps and abs(offered / s.planned_rps - 1) > OFF:
        yield f"The plan, and what is predicted, is for {_rate(s.planned_rps)} requests/s."
    if s.found is not None:
        yield f"{say.percent(s.found)} of prompt tokens were found in the servers' caches."
    if s.refused:
        yield f"{s.refused:,} requests are longer than the model takes, and were left out."
    if s.unordered[0]:
        count, first = s.unordered
        yield f"{count:,} requests of the trace stood after later ones (the first: {first:,}): put in order."
    if s.preempted:
        yield f"{s.preempted:,} times a sequence lost its room in the cache and began again."
    for wire, busy in s.wires.items():
        yield f"The link {wire} was {say.percent(busy)} full."


OFF = 0.1
"""Share by which a load differs from the plan's before it is said."""


def _over_time(s: Simulated, width: int) -> Group:
    """A line a group and figure: the higher the block the more, the fullest one the number behind."""
    series = s.outcome.series
    room = max(min(width - 34, 80), 16)
    lines = [Text(f"Over {say.milliseconds(1e3 * float(series.times_s[-1]))}", style="bold")]
    shown = sorted(series.waiting, key=lambda group: -float(series.waiting[group].max()))[:PICTURED]
    for group in (g for g in series.waiting if g in shown):
        for what, values in (("waiting", series.waiting[group]), ("in work", series.running[group])):
            most = float(values.max())
            lines.append(Text(f"  {group:<4} {what:<8} {drawn(values.tolist(), room)} at most {most:,.0f}"))
        held = series.held[group]
        told = f"at most {say.percent(float(held.max()))}"
        lines.append(Text(f"  {group:<4} KV cache {drawn(held.tolist(), room, 1.0)} {told}"))
    if len(series.waiting) > PICTURED:
        lines.append(Text(f"  and {len(series.waiting) - PICTURED} groups more (-o FILE has them all)"))
    return Group(*lines)


def drawn(values: list[float], width: int, most: float = 0.0) -> str:
    """Values as a line of blocks in `width` columns, the largest of each column's; `most`: what a full block
    stands for, the largest of all unless told.

    >>> drawn([0.0, 1.0, 2.0, 4.0], 4), drawn([0.0, 0.5], 2, 1.0), drawn([0.0, 0.0], 2)
    (' ▂▄█', ' ▄', '  ')
    """
    top = max(most, *values) or 1.0
    width = min(width, len(values))
    cells = [values[len(values) * i // width : len(values) * (i + 1) // width] for i in range(width)]
    return "".join(BLOCKS[min(int(8 * max(cell) / top + 0.999), 8)] for cell in cells)
