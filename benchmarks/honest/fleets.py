"""Fleets as tuples of units, whether they stand on the cluster, those of plans, and random ones.

A unit is so many replicas that do both phases, or so many that prefill with so many that decode, and the mix
of requests that it takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from benchmarks.honest.one_model import Design, OneModel, Role
from benchmarks.honest.problems import Problem, Rng
from planner.plans.schema import Plan

T = TypeVar("T")

STOP = 0.2
"""Chance at each replica that a fleet which need not fill the cluster is large enough."""

TWO, OWN_BUCKETS, BOTH_PHASES, NEAR = 0.4, 0.4, 0.5, 0.8
"""Chances of a second unit; of units that take buckets of their own; of a unit that does both phases; of a
pair on one class of nodes, the decoding side at most twice as large."""

GROW, SHRINK, SWAP = 0.35, 0.2, 0.3
"""Chances of changes: a replica more, one fewer, another design in one role; else both phases in one."""


@dataclass(frozen=True)
class Unit:
    """`count` replicas of `first`, or with `second` as many that prefill for `others` that decode; `share`:
    of each bucket in what it takes, adding up to one."""

    first: Design
    count: int
    share: tuple[float, ...]
    second: Design | None = None
    others: int = 0

    @property
    def parts(self) -> list[tuple[Design, int]]:
        """Designs and how many there are."""
        own = [(self.first, self.count)]
        return own if self.second is None else [*own, (self.second, self.others)]

    def __str__(self) -> str:
        return " -> ".join(f"{count} x {design}" for design, count in self.parts)


Fleet = tuple[Unit, ...]


def nodes(model: OneModel, fleet: Sequence[Unit]) -> dict[str, int] | None:
    """Nodes of each class that the replicas take, largest first into the first node with room; None where
    they find none. Replicas of a node and more take whole nodes."""
    taken = {}
    for name, node in model.classes.items():
        parts = [(d.gpus, count) for unit in fleet for d, count in unit.parts if d.node_class == name]
        sizes = sorted((size for size, count in parts for _ in range(count)), reverse=True)
        whole = sum(-(-size // node.gpus_per_node) for size in sizes if size >= node.gpus_per_node)
        left: list[int] = []  # GPUs of each node that replicas share
        for size in (size for size in sizes if size < node.gpus_per_node):
            at = next((i for i, room in enumerate(left) if room >= size), None)
            if at is None:
                left.append(node.gpus_per_node - size)
            else:
                left[at] -= size
        taken[name] = whole + len(left)
        if taken[name] > node.node_count:
            return None
    return taken


def of_plan(model: OneModel, plan: Plan) -> Fleet | None:
    """The plan's fleet with the mixes that its routing gives it; None where some replica has stages on
    several classes, or pairs are not one to one."""
    groups = {r.id: r for r in plan.replicas}
    buckets = [bucket["share"] for bucket in plan.problem.workload["buckets"]]
    rates: dict[tuple[str, str | None], list[float]] = {}
    for route in plan.routing:
        first = route.replica or route.prefill
        if first is None:
            return None
        own = rates.setdefault((first, route.decode), [0.0] * len(buckets))
        own[route.bucket] += route.share * buckets[route.bucket]
    ends = Counter(end for key in rates for end in key if end)
    units = []
    for (first, second), own in rates.items():
        one, two = model.design_of(groups[first]), model.design_of(groups[second]) if second else None
        if one is None or (second and two is None) or max(ends[first], ends[second or first]) > 1:
            return None
        mix = tuple(x / sum(own) for x in own)
        units.append(Unit(one, groups[first].count, mix, two, groups[second].count if second else 0))
    return tuple(units)


def sampled(model: OneModel, problem: Problem, rng: Rng) -> Fleet:
    """One random unit or two that fill the cluster, or a part of it where not all need be used; none where
    the first replicas find no room."""
    own = np.array(problem.workload.shares)
    mixes = [own, own] if rng.random() < TWO else [own]
    if len(own) > 1 and rng.random() < OWN_BUCKETS:
        first = rng.random(len(own)) < 0.5
        mixes = (
            [np.where(first, own, 0.0), np.where(first, 0.0, own)] if 0 < first.sum() < len(own) else mixes
        )
    drawn = [_unit(model, tuple((mix / mix.sum()).tolist()), rng) for mix in mixes]
    fleet = tuple(unit for unit in drawn if unit is not None)
    if len(fleet) < len(mixes) or nodes(model, fleet) is None:
        return ()
    stop = 0.0 if problem.objective == "throughput" else STOP
    while rng.random() >= stop:
        i = int(rng.integers(len(fleet)))
        more = (*fleet[:i], _grown(fleet[i], rng), *fleet[i + 1 :])
        if nodes(model, more) is None:
            break
        fleet = more
    return fleet


def changed(model: OneModel, fleet: Fleet, rng: Rng) -> Fleet:
    """The fleet with one replica more or fewer, another design of the same class and engine, or a unit in two
    phases doing both in one; none where that finds no room."""
    i = int(rng.integers(len(fleet)))
    unit, way = fleet[i], rng.random()
    if way < GROW:
        new = _grown(unit, rng)
    elif way < GROW + SHRINK:
        new = _shrunk(unit, rng)
    elif way < GROW + SHRINK + SWAP or unit.second is None:
        new = _swapped(model, unit, rng)
    else:
        gpus = sum(design.gpus * count for design, count in unit.parts)
        count = gpus // unit.second.gpus
        new = Unit(unit.second, count, unit.share) if unit.second in model.designs("mixed") else unit
    other = (*fleet[:i], new, *fleet[i + 1 :])
    return () if nodes(model, other) is None else other


def _unit(model: OneModel, share: tuple[float, ...], rng: Rng) -> Unit | None:
    """One replica of a random design, or one that prefills and one that decodes."""
    mixed, firsts = model.designs("mixed"), model.designs("prefill")
    if rng.random() < BOTH_PHASES:
        return Unit(one(rng, mixed), 1, share) if mixed else None
    if not firsts:
        return None
    first = one(rng, firsts)
    alike = [d for d in model.designs("decode") if d.engine == first.engine]
    near = [d for d in alike if d.node_class == first.node_class and d.gpus <= 2 * first.gpus]
    pool = near if near and rng.random() < NEAR else alike
    return Unit(first, 1, share, one(rng, pool), 1) if pool else None


def _grown(unit: Unit, rng: Rng) -> Unit:
    if unit.second is not None and rng.random() < 0.5:
        return replace(unit, others=unit.others + 1)
    return replace(unit, count=unit.count + 1)


def _shrunk(unit: Unit, rng: Rng) -> Unit:
    if unit.others > 1 and rng.random() < 0.5:
        return replace(unit, others=unit.others - 1)
    return replace(unit, count=max(1, unit.count - 1))


def _swapped(model: OneModel, unit: Unit, rng: Rng) -> Unit:
    """Another design in one role, on as many GPUs as far as they go."""
    roles: tuple[Role, ...] = ("mixed",) if unit.second is None else ("prefill", "decode")
    side = int(rng.integers(len(roles)))
    old, count = unit.parts[side]
    where = old.node_class, old.engine
    new = one(rng, [d for d in model.designs(roles[side]) if (d.node_class, d.engine) == where] or [old])
    count = max(1, count * old.gpus // new.gpus)
    return replace(unit, first=new, count=count) if side == 0 else replace(unit, second=new, others=count)


def one(rng: Rng, values: Sequence[T]) -> T:
    """One of the values at random."""
    return values[int(rng.integers(len(values)))]
