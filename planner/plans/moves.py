"""Which replicas stand on other nodes in one plan than in another, and what changed in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from planner.errors import InputError
from planner.launch.instances import instances
from planner.plans.diff import design
from planner.plans.schema import Plan

Places = dict[str, Counter[tuple[str, ...]]]
"""Replicas of each design by the names of the nodes that one of them stands on."""
LEAST = 5e-4
"""Changes of cost and throughput below this share are not worth a word."""


@dataclass(frozen=True)
class Move:
    """`count` replicas of one design, and their nodes in either plan; without nodes where a plan has them
    not."""

    count: int
    design: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def moves(before: Plan, after: Plan) -> list[Move]:
    """What moves first, then what is gone and what is new. Node names are taken as they are: a node that was
    renamed is another one. Nothing where one of the plans does not say which GPUs a replica has."""
    try:
        old, new = places(before), places(after)
    except InputError:
        return []
    found: list[Move] = []
    for name in dict.fromkeys([*old, *new]):
        here, there = (side.get(name, Counter()) for side in (old, new))
        left, come = list((here - there).elements()), list((there - here).elements())
        both = min(len(left), len(come))
        pairs = [*zip(left[:both], come[:both], strict=True), *((x, ()) for x in left[both:])]
        pairs += [((), x) for x in come[both:]]
        found += [Move(n, name, *pair) for pair, n in Counter(pairs).items()]
    return sorted(found, key=lambda m: (not (m.before and m.after), not m.before))


def places(plan: Plan) -> Places:
    """Where the replicas of `plan` stand. Raises InputError where that is not told."""
    named = {r.id: design(r) for r in plan.replicas}
    found: Places = {}
    for instance in instances(plan):
        nodes = tuple(dict.fromkeys(node for node, _ in instance.gpus))
        found.setdefault(named[instance.replica.id], Counter())[nodes] += 1
    return found


def summary(before: Plan, after: Plan, moved: Sequence[Move]) -> str:
    """What changed in a line, with what `moves` found: `cost 12.0 % lower, 2 replicas change, 1 moves`."""
    usd = [p.predicted.usd_per_hour for p in (before, after)]
    old, new = (None if band is None else band.value for band in usd)
    return summed([before], [after], (old, new), moved)


def summed(
    before: Sequence[Plan],
    after: Sequence[Plan],
    usd_per_hour: tuple[float | None, float | None],
    moved: Sequence[Move],
) -> str:
    """The same of plans that run side by side, and cost so much before and after."""
    rps = [sum(plan.predicted.rps.value for plan in plans) for plans in (before, after)]
    said = [_compared("cost", *usd_per_hour), _compared("throughput", *rps)]
    old, new = (Counter[tuple[str, str]](), Counter[tuple[str, str]]())
    for plans, counts in ((before, old), (after, new)):
        for plan in plans:
            for r in plan.replicas:
                counts[str(plan.problem.model.get("name")), design(r)] += r.count
    gone, come = (old - new).total(), (new - old).total()
    moving = sum(m.count for m in moved if m.before and m.after)
    both = min(gone, come)
    said += [
        f"{_replicas(both)} change{'s' * (both == 1)}" if both else "",
        f"{_replicas(abs(come - gone))} {'more' if come > gone else 'fewer'}" if come != gone else "",
        f"{_replicas(moving)} move{'s' * (moving == 1)}" if moving else "",
    ]
    return ", ".join(filter(None, said)) or "the same replicas at the same cost and throughput"


def _compared(what: str, before: float | None, after: float | None) -> str:
    """How `what` changed, as a share of what it was; nothing where either is unknown."""
    if before is None or after is None or not before:
        return ""
    share = after / before - 1
    if abs(share) < LEAST:
        return ""
    return f"{what} {100 * abs(share):.1f} % {'higher' if share > 0 else 'lower'}"


def _replicas(count: int) -> str:
    return f"{count:,} replica{'s' * (count != 1)}"
