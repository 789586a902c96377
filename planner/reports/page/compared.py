"""Several plans side by side: their figures, what differs, and which is best at what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.plans.schema import Plan
from planner.reports import words as say
from planner.reports.figures import Figure, figures, owned, used
from planner.reports.page.answer import how_good, title
from planner.reports.page.blocks import Column, Piece, Section, Table, Words
from planner.reports.proven import SAME
from planner.reports.words import short

FACTS: tuple[tuple[str, Callable[[Plan], Sequence[str]]], ...] = (
    ("model", lambda plan: [str(plan.problem.model["name"])]),
    ("cluster", lambda plan: [str(plan.problem.cluster.get("name", "cluster"))]),
    (
        "a request",
        lambda plan: [f"{b['isl']:,} in, {b['osl']:,} out" for b in plan.problem.workload["buckets"]],
    ),
    ("asked for", lambda plan: [_goal(plan)]),
    ("replicas", lambda plan: [f"{r.id}: {short(r)}" for r in plan.replicas]),
    ("GPUs", lambda plan: [f"{used(plan):,} of {owned(plan):,}"]),
    ("proof", lambda plan: [how_good(plan)]),
)
"""What is told of each plan beside its figures."""


def comparison(plans: Sequence[Plan], names: Sequence[str]) -> Section:
    """A table with a column a plan; cells that differ from the first plan's are marked, and so is the best of
    each figure."""
    rows: list[tuple[tuple[Words, ...], ...]] = []
    marked: dict[tuple[int, int], str] = {}
    for label, tell in FACTS:
        told = [list(tell(plan)) for plan in plans]
        marked |= {(len(rows), at + 1): "differs" for at, x in enumerate(told) if x != told[0]}
        rows.append((_cell(label), *(tuple(map(Words.of, x)) for x in told)))
    found = [{f.label: f for f in figures(plan)} for plan in plans]
    for label in dict.fromkeys(name for own in found for name in own):
        mine = [own.get(label) for own in found]
        best = _best(mine)
        for at, f in enumerate(mine):
            if f is not None and at in best:
                marked[len(rows), at + 1] = "best"
            elif f is None or mine[0] is None or not _same(f, mine[0]):
                marked[len(rows), at + 1] = "differs"
        rows.append((_cell(label), *(_figure(f, mine[0]) for f in mine)))
    columns = (Column("what"), *(Column(name) for name in names))
    said = Words.of(
        f"{names[0]} is what the others are measured against. What is best of all is marked as best, what "
        "differs from the first as different."
    )
    return Section(
        "compared", "Side by side", (Table("Plans side by side", columns, tuple(rows), marked), said)
    )


def names(plans: Sequence[Plan], given: Sequence[str]) -> list[str]:
    """What each plan is called: as `given`, where those are apart, else with its number."""
    apart = len(set(given)) == len(plans)
    return [
        name if apart else f"{i + 1}. {title(plan)}"
        for i, (plan, name) in enumerate(zip(plans, given, strict=True))
    ]


def _cell(text: str) -> tuple[Words, ...]:
    return (Words.of(text),)


def _figure(f: Figure | None, first: Figure | None) -> tuple[Words, ...]:
    if f is None:
        return (Words.of("not known", note=True),)
    lines = [Words((Piece(f.shown, "strong"),))]
    if first is not None and first is not f and first.band.value and not _same(f, first):
        lines.append(Words.of(_changed(f.band.value / first.band.value - 1), note=True))
    return tuple(lines)


def _changed(share: float) -> str:
    """A change, with its sign.

    >>> _changed(-0.095), _changed(2.0)
    ('−9.5 %', '+200 %')
    """
    return f"{'−' if share < 0 else '+'}{say.percent(abs(share))}"


def _best(mine: Sequence[Figure | None]) -> set[int]:
    """Where the best figure stands; nowhere, where all are the same."""
    there = {at: f.band.value for at, f in enumerate(mine) if f is not None}
    if len(there) < 2:
        return set()
    f = next(f for f in mine if f is not None)
    top = max(there.values()) if f.more else min(there.values())
    best = {at for at, value in there.items() if abs(value - top) <= SAME * abs(top)}
    return best if len(best) < len(there) else set()


def _same(one: Figure, other: Figure) -> bool:
    return one.shown == other.shown


def _goal(plan: Plan) -> str:
    rate, goal = plan.problem.workload.get("rate_rps"), plan.problem.options.get("objective") or "throughput"
    return f"{goal}, {say.number(rate)} requests/s" if rate else str(goal)
