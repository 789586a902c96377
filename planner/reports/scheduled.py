"""A schedule for people: what it costs against others, and what runs when."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from planner.reports import words as say
from planner.reports.simulated import drawn
from planner.reports.words import grid
from planner.schedule.policies import FIXED
from planner.schedule.units import SIZES

if TYPE_CHECKING:
    from planner.schedule.answer import Schedule
    from planner.schedule.policies import Judged

LONGEST = 30
"""Lines of the table; runs of slots alike are one."""


def scheduled(name: str, s: Schedule, width: int) -> RenderableType:
    """The whole answer in `width` columns."""
    slots = len(s.rate_rps)
    cost = f"{say.money(s.usd)}, {say.money(s.usd / s.hours)} an hour"
    head = f"{name} over {s.hours:.3g} h in {slots} slots: {cost}"
    parts: list[RenderableType] = [Text(head, style="bold"), Text(_proof(s), style="dim"), Text("")]
    parts += [_against(s), Text(""), *_before(s), _units(s)]
    if s.left_out:
        names = f"{', '.join(s.left_out)}: no {SIZES[-1]} nodes of one class keep the limits"
        parts.append(Text(names, style="dim"))
    if s.undecided:
        sizes = "; ".join(f"{', '.join(map(str, n))} of {name}" for name, n in s.undecided.items())
        parts.append(Text(f"not decided in time whether so many nodes keep the limits: {sizes}", style="dim"))
    kept = ", ".join(f"{count} x {name}" for name, count in s.reserved.items() if count)
    if kept:
        parts.append(Text(f"reserved for all slots: {kept}"))
    parts.append(Text(""))
    long = 2 + max(10, *(len(u.name) for u in s.units))
    room = max(min(width - long - 17, 90), 16)
    rates = f"{drawn(s.rate_rps, room)} at most {say.number(max(s.rate_rps))}"
    parts.append(Text(f"  {'requests/s':<{long - 2}} {rates}"))
    for unit, counts in zip(s.units, s.counts, strict=True):
        if any(counts):
            line = drawn([float(c) for c in counts], room)
            parts.append(Text(f"  {unit.name[: long - 2]:<{long - 2}} {line} at most {max(counts)}"))
    parts += [Text(""), *_table(s)]
    return Group(*parts)


def _proof(s: Schedule) -> str:
    sized = f"each slot sized by its {s.sized_by}"
    margin = f" and {say.percent(s.margin)} more" if s.margin else ""
    bound = "no bound" if s.gap is None else f"at most {100 * s.gap:.2f} % above the cheapest possible"
    return f"{sized}{margin}; {bound} of these units ({s.status}, {s.seconds:.1f} s)"


def _against(s: Schedule) -> Table:
    """What others pay for the same slots."""
    table = grid("", ">cost", "", "")
    table.add_row("this schedule", say.money(s.usd), "", "")
    short = s.autoscaler.short
    misses = "misses none" if short < 5e-7 else f"misses {100 * short:.2g} %"
    follows = f"+{say.percent(s.autoscaler.policy.head or 0.0)} head-room, {misses}"
    for name, usd, note in (
        ("a fleet that never changes", s.static_usd, ""),
        ("an autoscaler, tuned", s.autoscaler.usd, follows),
        ("whole units alone", s.whole_usd, "no servers of prompts or answers"),
        ("without the margin", s.bare_usd, ""),
    ):
        if usd:
            more = s.usd / usd - 1
            table.add_row(
                name, say.money(usd), f"{say.percent(abs(more))} {'saved' if more < 0 else 'more'}", note
            )
    return table


def _signed(share: float | None) -> str:
    return f"{100 * (share or 0.0):+.0f} %"


def _before(s: Schedule) -> list[RenderableType]:
    """What those pay and miss who know the day before alone."""
    f = s.forecast
    if f is None:
        return []
    table = grid("", ">cost", ">misses", "")
    rows: list[tuple[str, Judged]] = [("its table", f.bare), (f"its table {_signed(FIXED)}", f.fixed)]
    if f.table.policy.margin:
        rows.append((f"its table {_signed(f.table.policy.margin)}", f.table))
    rows.append(
        (f"its table {_signed(f.both.policy.margin)}, autoscaler {_signed(f.both.policy.head)}", f.both)
    )
    rows.append((f"an autoscaler {_signed(f.alone.policy.head)}", f.alone))
    table.add_row("the day itself, known", say.money(f.known_usd), "0 %", "")
    best = min((j for _, j in rows if j.short <= f.short), key=lambda j: j.usd, default=None)
    for name, judged in rows:
        more = _signed(judged.usd / f.known_usd - 1) if f.known_usd > 0 else ""
        mark = f"cheapest that misses {100 * f.short:g} % at most" if judged is best else ""
        table.add_row(name, f"{say.money(judged.usd)} {more}", f"{100 * judged.short:.2g} %", mark)
    title = f"Knowing the day before alone ({f.days:.3g} day{'s' if f.days > 1 else ''} tried)"
    return [Text(title, style="bold"), table, Text("")]


def _units(s: Schedule) -> Table:
    table = grid(
        "unit", ">nodes", ">of", ">requests/s", ">$/h", ">starts in", "each runs"
    )  # of: units there are
    for unit in s.units:
        name = f"{unit.name} (spot)" if unit.spot else unit.name
        low, high = min(unit.by_slot), max(unit.by_slot)
        rate = say.number(low) if high < 1.01 * low else f"{say.number(low)} – {say.number(high)}"
        figures = (
            str(unit.nodes),
            str(unit.count),
            rate,
            f"{unit.usd_per_hour:,.2f}",
            f"{unit.cold_s:,.0f} s",
        )
        table.add_row(name, *figures, unit.layout)
    return table


def _table(s: Schedule) -> list[RenderableType]:
    """Runs of slots in which the same units run."""
    sized = s.sized_rps != s.rate_rps
    table = grid("from", ">to", ">requests/s", *([">sized for"] if sized else []), "")
    at, lines = 0, 0
    for counts, run in groupby(zip(*s.counts, strict=True)):
        length = len(list(run))
        if lines < LONGEST:
            rates = (s.rate_rps, s.sized_rps) if sized else (s.rate_rps,)
            most = [say.number(max(each[at : at + length])) for each in rates]
            runs = [f"{n} {unit.name}" for n, unit in zip(counts, s.units, strict=True) if n]
            ends = _clock(at + length, s, ends=True)
            table.add_row(_clock(at, s), ends, *most, ", ".join(runs) or "nothing")
        at, lines = at + length, lines + 1
    more = (
        [Text(f"  … {lines - LONGEST} more: -o schedule.csv has all", style="dim")] if lines > LONGEST else []
    )
    return [table, *more]


def _clock(slot: int, s: Schedule, ends: bool = False) -> str:
    """Hours and minutes since the start, the day before them where there are several; a day ends at 24:00."""
    minutes = round(slot * s.slot_s / 60)
    days = (minutes - ends) // 1440
    day = f"{days + 1}: " if s.hours > 24 else ""
    return f"{day}{minutes // 60 - 24 * days:02}:{minutes % 60:02}"
