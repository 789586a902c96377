"""Placement: layers on unequal, networked nodes, for the largest flow through all of them, with its proof.

Each node used holds one interval of layers; `Network` has the data. Without links that bind, the flow of a
placement is the smallest summed capacity of the nodes on one layer: a covering problem. Steps, for a flow F
between what is found and what is refuted (bisection):

1. `placement_patterns`  what layer patterns can carry at F: refutes F, or prices the nodes
2. `placement_blocks`    with these prices, the blocks that a placement of all layers can afford
3. `placement_chain`     an integer program puts blocks one after another, region after region
4. `placement_routing`   seats the nodes, swaps like ones, and measures the flow over the real links

Blocks come in three levels, each tried where the one before found nothing: stages, unequal intervals side by
side, and these across two regions. Regions that each hold all layers are also tried apart. What is still open
in a small cluster is solved exactly (`placement_exact`). Where a layer is on so many nodes that patterns are
slow to price, capacities need not match, only add up: stages that are pooled and then evened
(`placement_pooled`, `placement_evened`) against the work of all nodes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.formulations import (
    placement_blocks,
    placement_bound,
    placement_exact,
    placement_lanes,
    placement_patterns,
    placement_pooled,
)
from benchmarks.formulations.placement_chain import chain
from benchmarks.formulations.placement_exact import Flowing
from benchmarks.formulations.placement_patterns import Pool
from benchmarks.formulations.placement_pooled import pooled, staged
from benchmarks.formulations.placement_settled import settled, slots
from solvers.linear import EXACT, Limits, gap, judge
from solvers.placement.routing import flow, seated
from solvers.placement.types import Interval, Network, part, without_links

Found = tuple[dict[int, Interval], float]
"""Intervals by node, and what flows."""
PRECISION = 1e-3
"""Relative step below which flows are not told apart by bisection."""
ROUGH = 0.995
"""Of the work of all nodes: the one flow that is tried to be refuted where many nodes are on a layer."""
FIRST, LAST = 1e-2, 1e-3
"""The same of the bound, before the search and after it."""
FEW = 30
"""Nodes from which stages that are pooled are a start: halving down from the bound is slower."""
NODES = 300
"""Branch-and-bound nodes a chain may take: finding one takes few, refuting is the patterns' part."""
WIDTHS = (1.0, 0.5, 0.0)
"""Quantiles of the links between two regions that a chain takes for the width of all, hopeful first."""


def solve(network: Network, limits: Limits) -> Flowing:
    """The placement that carries most, its flow, and a bound on what any placement carries."""
    deadline = time.perf_counter() + limits.seconds
    if network.most <= 0:
        return Flowing({}, 0.0, 0.0, "optimal")
    pool = Pool()
    crowded = placement_bound.crowded(network)
    intervals, value = _found(network, crowded, limits, pool)
    if not crowded:
        bound = placement_bound.bound(network, value, LAST, pool)
    elif gap(value, network.most) <= limits.gap:
        bound = network.most
    else:
        lower = ROUGH * network.most
        seen = placement_patterns.verdict(network, lower, pool, placement_bound.GRID).layers
        bound = lower if seen < network.layers - placement_patterns.REFUTED else network.most
    if _small(network) and gap(value, bound) > EXACT:
        left = max(1.0, deadline - time.perf_counter())
        exact = placement_exact.solve(network, replace(limits, seconds=left, gap=0.0))
        bound = min(bound, exact.bound)
        if exact.flow > value:
            intervals, value = dict(exact.intervals), exact.flow
    return Flowing(intervals, value, bound, judge(value, bound, limits, "time_limit"))


def _small(network: Network) -> bool:
    return len(network.kinds) * network.layers <= placement_exact.SIZE


def _found(network: Network, crowded: bool, limits: Limits, pool: Pool) -> Found:
    """A placement and its flow."""
    deadline = time.perf_counter() + limits.seconds
    if not crowded:
        best = apart(network, limits)
        if _small(network) and len(set(network.regions)) > 1:
            return best  # left to the exact program
        if len(network.kinds) > FEW:
            start = staged(network, time.perf_counter() + limits.seconds / 4)
            best = max(best, start, key=lambda found: found[1])
        return _searched(network, best, pool, deadline)
    best = pooled(network, time.perf_counter() + limits.seconds / 4)
    if len(set(network.regions)) > 1 and best[1] < placement_pooled.NEAR * network.most:
        alone = apart(network, replace(limits, seconds=limits.seconds * 0.6))
        shared = staged(network, time.perf_counter() + limits.seconds / 10)
        best = max(best, alone, shared, key=lambda found: found[1])
    return best


def apart(network: Network, limits: Limits) -> Found:
    """Each region that can hold all layers by itself, without links to the others."""
    if len(set(network.regions)) == 1:
        return {}, 0.0
    intervals: dict[int, Interval] = {}
    for region in sorted(set(network.regions)):
        nodes = [i for i, r in enumerate(network.regions) if r == region]
        if sum(len(network.capacity[network.kinds[i]]) for i in nodes) >= network.layers:
            share = replace(limits, seconds=limits.seconds / len(set(network.regions)))
            alone = part(network, nodes)
            best, _ = _found(alone, placement_bound.crowded(alone), share, Pool())
            intervals |= {nodes[i]: interval for i, interval in best.items()}
    return intervals, flow(network, intervals)


def _searched(network: Network, best: Found, pool: Pool, deadline: float) -> Found:
    """Bisection over the flow: what chains reach."""
    (intervals, value), free = best, Pool()
    high = placement_bound.bound(network, value, FIRST, pool)
    target = high / (1 + 2 * PRECISION)
    while (
        high > max(value * (1 + PRECISION), network.most * placement_bound.FAINT)
        and time.perf_counter() < deadline
    ):
        reached, before = high, value
        for found, carried in _tried(network, target, free, deadline):
            if carried > value:
                intervals, value = found, carried
            if carried >= target * (1 - PRECISION):
                break
        else:
            reached = target
        high = reached
        if value > before and placement_bound.refuted(network, value * (1 + EXACT / 2), pool):
            break
        target = (value + high) / 2
    return intervals, value


def _tried(network: Network, target: float, pool: Pool, deadline: float) -> Iterator[Found]:
    """Placements that may carry `target`, simplest blocks first."""
    free = placement_patterns.verdict(without_links(network), target, pool)
    if not network.layers - placement_patterns.REFUTED <= free.layers < np.inf:
        return
    prices = placement_blocks.Prices(target, free.worth, free.layers - network.layers)
    blocks = placement_blocks.stages(network, prices)
    across: list[placement_blocks.Block] = []
    found = placement_lanes.lanes(network, prices)
    levels = ("stages", "unequal", "across") if len(set(network.regions)) > 1 else ("stages", "unequal")
    for level in levels:
        if level == "unequal":
            more = placement_lanes.doubled(network, found, prices, mixed=False)
            blocks = blocks + more
        elif level == "across":
            across = more = placement_lanes.doubled(network, found, prices, mixed=True)
        if level != "stages" and not more:
            continue
        for width in _widths(network, target):
            left = deadline - time.perf_counter()
            if left <= 0:
                return
            limits = Limits(gap=1.0, work=NODES, seconds=left)
            chosen = chain(network, blocks, across, target, width, limits)
            if chosen is None:
                break  # narrower links leave less
            yield settled(network, seated(network, slots(network, chosen)), target)


def _widths(network: Network, target: float) -> Iterator[dict[tuple[int, int], float]]:
    """How wide the links between two regions may be taken."""
    region = np.array(network.regions)
    pairs = [(a, b) for a in sorted(set(region)) for b in sorted(set(region)) if a != b]
    if not pairs:
        yield {}
        return
    for share in WIDTHS:
        cut = {(a, b): network.link[np.ix_(region == a, region == b)] for a, b in pairs}
        yield {pair: float(np.quantile(np.minimum(links, target), share)) for pair, links in cut.items()}
