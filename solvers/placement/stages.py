"""Served stages: the plan of least time that fits N requests, for one order of the regions.

All nodes of a stage hold the same layers; shares are in proportion to room. Times as in `placement_predict`.

Sets       r in R   regions, in groups one after another; those of a group stand side by side, share[r] of it
           b in B[r]   minimal stages that fit N * share[r] requests, of length[b] layers
Choose     z[b] integer >= 0   stages       m[g] integer >= 1   layers of group g of regions
minimise   sum(b) share * z[b] * (T[b] + D[b] * behind(x[b]) + (T[b] + D[b]) / output)
stock[r,t]  sum(b in r) nodes[b,t] * z[b]  <= nodes[r,t]
layers[r]   sum(b in r) length[b] * z[b]   == m[group of r]
all         sum(g) m[g]                    == L

x[b] as if the stages beside b were like it; the rate is the last plan's, a few times over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product, takewhile
from typing import TypeVar

from solvers.linear import Limits, Linear, total
from solvers.placement import blocks as placement_blocks
from solvers.placement import patterns as placement_patterns
from solvers.placement.blocks import Block
from solvers.placement.predict import TOGETHER, Served, behind, beside, pass_s, predict, queued
from solvers.placement.routing import Slot, seated
from solvers.placement.service import Service
from solvers.placement.shares import SINK, SOURCE, Route, balanced
from solvers.placement.types import Interval, Network

T = TypeVar("T")

REGIONS = 3
"""Regions that a replica may reach over: their orders are all tried."""
LEAST_S = 0.1
"""Seconds of an integer program where there is no time left."""
GAP, NODES = 1e-3, 200
"""What stops an integer program."""


@dataclass(frozen=True)
class Layout:
    """Regions by group, and the share of the requests of each region in its group."""

    groups: tuple[tuple[int, ...], ...]
    shares: tuple[tuple[int, float], ...]

    @cached_property
    def share(self) -> dict[int, float]:
        return dict(self.shares)


def layouts(service: Service) -> Iterator[Layout]:
    """Every order of groups of the regions that hold most; in a group, shares by what they hold."""
    net = service.network
    hold = dict.fromkeys(sorted(set(net.regions)), 0.0)
    for (region, kind), nodes in net.groups.items():
        hold[region] += len(nodes) * max(k * r for k, r in enumerate(service.room[kind], start=1))
    largest = sorted(sorted(hold, key=lambda r: -hold[r])[:REGIONS])
    for groups in _ordered(tuple(largest)):
        held = {r: alone.most for r, alone in service.alone.items()} if len(groups) == 1 else hold
        shares = tuple((r, held[r] / sum(held[q] for q in group)) for group in groups for r in group)
        yield Layout(groups, shares)


def _ordered(regions: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ordered partitions of some of the regions.

    >>> list(_ordered((0, 1)))
    [((1,),), ((1,), (0,)), ((0,),), ((0,), (1,)), ((0, 1),)]
    """
    for chosen in product((False, True), repeat=len(regions)):
        group = tuple(r for r, c in zip(regions, chosen, strict=True) if c)
        if group:
            rest = tuple(r for r in regions if r not in group)
            yield (group,)
            for more in _ordered(rest):
                yield (group, *more)


def planned(
    service: Service, layout: Layout, in_flight: float, rounds: int, until: float = math.inf
) -> Served | None:
    """Stages that fit `in_flight`, of the least time; none where none is found until then
    (`time.perf_counter`)."""
    blocks = {r: _stages(service, layout, r, in_flight * share, until) for r, share in layout.shares}
    if not all(blocks.values()):
        return None
    plan, served = None, in_flight
    for _ in range(rounds):
        chosen = _cheapest(service, layout, blocks, served, until)
        if chosen is None:
            return plan
        intervals, by_link = _laid(service, layout, chosen)
        if not _passed(service, intervals, by_link):
            return plan
        found = predict(service, intervals, by_link)
        if plan is None or found.tokens_per_s > plan.tokens_per_s:
            plan = found
        served = found.tokens_per_s
    return plan


def _passed(service: Service, intervals: Mapping[int, Interval], by_link: Mapping[Route, float]) -> bool:
    """Whether every node gets requests and hands them on: links may be missing."""
    if not all(service.network.link[route] > 0 for route in by_link if {SOURCE, SINK}.isdisjoint(route)):
        return False
    return {b for _, b in by_link} >= intervals.keys() and {a for a, _ in by_link} >= intervals.keys()


def _in_time(items: Iterable[T], until: float) -> Iterator[T]:
    """Those that come until then (`time.perf_counter`)."""
    return takewhile(lambda _: time.perf_counter() <= until, items)


def _stages(service: Service, layout: Layout, region: int, room: float, until: float) -> list[Block]:
    """All minimal stages of the region that fit `room` requests; none where they take longer than until
    then."""
    alone = service.alone[region]
    free = placement_patterns.verdict(alone, room)
    need = service.network.layers if len(layout.shares) == 1 else 0
    if not max(need, 1) <= free.layers < math.inf:
        return []
    slack = free.layers - need
    minimal = placement_blocks.minimal(alone, region, room, free.worth, slack)
    found = list(_in_time(minimal, until))
    wider = [w for b in _in_time(found, until) for w in _widened(alone, b)]
    if time.perf_counter() > until:
        return []
    return [b for b in dict.fromkeys(found + wider) if b.cost <= b.length + slack + 1e-7]


def _widened(network: Network, block: Block) -> Iterator[Block]:
    """The stage with up to two nodes more of a kind: requests part, and meet fewer prompts."""
    have = dict(block.nodes)
    for kind in have:
        for more in (1, 2):
            if have[kind] + more <= network.kinds.count(kind):
                nodes = tuple(sorted((have | {kind: have[kind] + more}).items()))
                capacity = network.capacity[kind][block.length - 1]
                capacities = tuple(sorted((*block.capacities, *[capacity] * more), reverse=True))
                cost = block.cost * (1 + more / sum(have.values()))
                yield replace(block, nodes=nodes, capacities=capacities, cost=cost)


def _stage_s(service: Service, layout: Layout, block: Block, served: float) -> float:
    """Seconds that a stage adds to the trips of all requests."""
    part_of = layout.share[block.region]
    rate = served / service.output
    seconds = 0.0
    apart = sum((c / block.reach) ** 2 for c in block.capacities)
    like = min(service.network.kinds.count(kind) / n for kind, n in block.nodes)
    run = 1 + 2 / (1 / apart - 1 + 2 / like)
    for kind, n in block.nodes:
        share = service.room[kind][block.length - 1] / block.reach
        mine = served * part_of * share
        alone = pass_s(service, kind, block.length, mine, 1 - TOGETHER * apart)
        prompt = block.length * service.prompt_s[kind]
        load = rate * part_of * share * prompt
        wait = prompt * behind(load * run) * queued(load + beside(service, kind, block.length, mine))
        seconds += n * share * (alone + wait + (alone + prompt) / service.output)
    return part_of * seconds


def _cheapest(
    service: Service, layout: Layout, blocks: Mapping[int, list[Block]], served: float, until: float
) -> dict[Block, int] | None:
    """The integer program of the docstring."""
    stages = [b for mine in blocks.values() for b in mine]
    seconds_of = {b: _stage_s(service, layout, b, served) for b in _in_time(stages, until)}
    if len(seconds_of) < len(stages):
        return None
    m = Linear("served stages")
    z = m.integers("z", stages)
    depth = m.integers("m", range(len(layout.groups)), service.network.layers)
    m.minimise([z[b] * seconds_of[b] for b in z])
    for (region, kind), nodes in service.network.groups.items():
        taken = [z[b] * n for b in blocks.get(region, []) for k, n in b.nodes if k == kind]
        m.add("stock", (region, kind), total(taken) <= len(nodes))
    for at, group in enumerate(layout.groups):
        for r in group:
            held = [z[b] * b.length for b in blocks[r]]
            m.add("layers", r, total([*held, depth[at] * -1.0]).equals(0.0))
    m.add("all", "", total(depth.values()).equals(service.network.layers))
    seconds = min(max(until - time.perf_counter(), LEAST_S), Limits().seconds)
    outcome = m.solve(Limits(gap=GAP, work=NODES, seconds=seconds))
    return outcome.counts(z) if outcome.has_values else None


def _laid(
    service: Service, layout: Layout, chosen: Mapping[Block, int]
) -> tuple[dict[int, Interval], dict[Route, float]]:
    """Layers of each node and shares of each link: the widest stages stand where regions meet."""
    slots: list[Slot] = []
    weight: list[float] = []
    first = 0
    for group in layout.groups:
        depth = 0
        for r in group:
            at = first
            for block in _arranged([b for b, n in chosen.items() if b.region == r for _ in range(n)]):
                for kind, n in block.nodes:
                    slots += [((r, kind), (at, at + block.length))] * n
                    weight += [layout.share[r] * service.room[kind][block.length - 1] / block.reach] * n
                at += block.length
            depth = at
        first = depth
    intervals = seated(service.network, slots)
    through = dict(zip(intervals, weight, strict=True))
    return intervals, balanced(service.network, intervals, through)


def _arranged(stages: list[Block]) -> list[Block]:
    """Most nodes at both ends."""
    ranked = sorted(stages, key=lambda b: (-len(b.capacities), b.length, b.nodes))
    return ranked[::2] + ranked[1::2][::-1]
