"""What differs between plans and what it takes to come from one to the other, in lines; of several plans in a
table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.table import Table

from planner.migration.compared import Compared, usd_per_hour
from planner.migration.schema import Migration, Row, Sources
from planner.plans.diff import Change
from planner.plans.moves import Move
from planner.plans.schema import Plan
from planner.plans.schema.several import Several
from planner.reports import words as say
from planner.reports.words import grid

MOST_ROWS = 8
"""Nodes that are listed."""

PLACES = {
    "near": "over scale-up links",
    "far": "over NICs",
    "link": "over declared links",
    "storage": "from storage",
}


def lines(found: Compared) -> list[str]:
    """All of a comparison of two."""
    if found.same:
        return ["no difference"]
    told = [found.summary, "", *map(line_of, found.changes), *map(line_of_move, found.moves)]
    if found.migration is None:
        return [*told, "", f"Migration: not known ({found.unknown})"]
    return [*told, "", *migrated(found.migration)]


def line_of(change: Change) -> str:
    """One change in one line.

    >>> line_of(Change("predicted.rps", 4.0, 5.0, "req/s"))
    'predicted.rps: 4 -> 5 req/s (+25.0 %)'
    >>> line_of(Change("predicted.utilisation", 0.5, 0.6, "%"))
    'predicted.utilisation: 50 -> 60 %'
    """
    ratio = "" if change.ratio is None or change.unit == "%" else f" ({100 * change.ratio:+.1f} %)"
    sides = (_shown(value, change.unit) for value in (change.before, change.after))
    return f"{change.where}: {' -> '.join(sides)}{' ' * bool(change.unit)}{change.unit}{ratio}"


def line_of_move(move: Move) -> str:
    """Replicas that move, come or go in one line.

    >>> line_of_move(Move(2, "mixed tp1 on l40s", ("l40s-0",), ("l40s-1",)))
    'moves: 2 x mixed tp1 on l40s, from l40s-0 to l40s-1'
    """
    before, after = " + ".join(move.before), " + ".join(move.after)
    what = f"{move.count} x {move.design}"
    if not before:
        return f"new: {what}, on {after}"
    return f"moves: {what}, from {before} to {after}" if after else f"gone: {what}, from {before}"


def _shown(value: object, unit: str) -> str:
    if value is None:
        return "none"
    if unit == "%" and isinstance(value, float):
        return f"{100 * value:.3g}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def migrated(m: Migration) -> Iterator[str]:
    """What becomes of servers, what is loaded from where, how long that takes at least, what is lost."""
    if m.nothing:
        yield "Migration: every server goes on as it is"
        return
    s = m.servers
    parts = {
        "untouched": s.kept,
        "restarted with other settings on the same GPUs": s.restarted,
        "stopped": s.stopped,
        "started": s.started,
    }
    yield f"Migration: servers {', '.join(f'{n:,} {what}' for what, n in parts.items() if n)}"
    busy = f", the busiest of them {say.percent(m.serving.utilisation)} busy" if m.serving.utilisation else ""
    meanwhile = f"{say.number(m.serving.rps)} requests/s, {say.percent(m.serving.share)} of before"
    yield f"served meanwhile: {meanwhile}{busy}" if s.kept else "served meanwhile: nothing"
    held = f"; {_gb(m.held_bytes)} lie where they are needed" if m.held_bytes else ""
    yield f"to load: {_gb(m.taken.total)}{_from(m.taken)}{held}"
    if m.taken.total:
        yield f"seconds to load at least: {say.number(m.slowest.seconds, 2)}, by {m.slowest.what}"
    anew = f"{say.number(m.reloaded.seconds, 2)}, by {m.reloaded.what}"
    yield f"seconds where every server that starts reads all its weights from its node's storage: {anew}"
    if m.dropped_requests:
        lost = f"about {say.number(m.dropped_requests)} requests with {_gb(m.dropped_kv_bytes)} of cache"
        yield f"in flight on servers that stop or start again: {lost}"
    if m.gone:
        yield f"gone with all that they held: {', '.join(m.gone)}"
    if m.whole:
        yield f"counted as a whole, not matrix by matrix: {', '.join(m.whole)}"
    yield from map(_row, m.rows[:MOST_ROWS])
    if len(m.rows) > MOST_ROWS:
        yield f"  and {len(m.rows) - MOST_ROWS:,} more nodes"


def _row(row: Row) -> str:
    nodes = row.nodes[0] if len(row.nodes) == 1 else f"{row.nodes[0]} to {row.nodes[-1]}"
    gpus = f"{row.gpus:,} GPU{'s' * (row.gpus != 1)} take{'s' * (row.gpus == 1)}"
    return f"  {nodes}: {gpus} {_gb(row.taken.total)}{_from(row.taken)}"


def _from(taken: Sources) -> str:
    """Where bytes come from, places that give nothing left out."""
    each: Mapping[str, float] = {where: getattr(taken, name) for name, where in PLACES.items()}
    some = [(where, size) for where, size in each.items() if size]
    if len(some) == 1:
        return f" {some[0][0]}"
    return f": {', '.join(f'{_gb(size)} {where}' for where, size in some)}" if some else ""


def _gb(size: float) -> str:
    return f"{say.number(size / 1e9)} GB" if size else "nothing"


def table(files: Mapping[str, Plan | Several], found: Mapping[str, Compared]) -> Table:
    """One row a file; all but the first beside what it takes to come there from the first."""
    heads = (">cost", ">req/s", ">same", ">start", ">stop", ">to load", ">at least", ">storage", ">served")
    made = grid("plan", *heads)
    made.columns[0].overflow = "fold"
    for name, one in files.items():
        usd = usd_per_hour(one)
        plans = one.plans if isinstance(one, Several) else [one]
        rps = sum(plan.predicted.rps.value for plan in plans)
        cells = [name, "" if usd is None else f"{say.money(usd)}/h", say.number(rps)]
        made.add_row(*cells, *(_cells(found[name].migration) if name in found else [""] * 7))
    return made


def _cells(m: Migration | None) -> list[str]:
    if m is None:
        return ["not known", *[""] * 6]
    s = m.servers
    counts = [f"{n:,}" for n in (s.kept, s.restarted + s.started, s.restarted + s.stopped)]
    seconds = [f"{say.number(port.seconds, 2)} s" for port in (m.slowest, m.reloaded)]
    return [*counts, _gb(m.taken.total), *seconds, say.percent(m.serving.share)]
