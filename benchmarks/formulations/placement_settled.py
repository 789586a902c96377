"""Which of the like nodes stands where: blocks put on layers, and like nodes swapped while more flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.formulations.placement_blocks import Block
from solvers.placement.routing import Slot, flow
from solvers.placement.types import Interval, Network

SWAPS = 4000
"""Placements tried when like nodes change places."""


def slots(network: Network, blocks: Sequence[Block]) -> list[Slot]:
    """Layers of each node that the blocks ask for; what stands over the last layer is moved back."""
    found: list[Slot] = []
    first = 0
    for block in blocks:
        start = min(first, network.layers - block.length)
        for lane in block.lanes:
            for step in range(lane.steps):
                at = start + step * lane.step
                found += [
                    ((lane.region, kind), (at, at + lane.step)) for kind, n in lane.nodes for _ in range(n)
                ]
        first += block.length
    return found


def settled(
    network: Network, intervals: dict[int, Interval], target: float
) -> tuple[dict[int, Interval], float]:
    """Swap like nodes while that carries more, until `target` is reached; the placement and its flow."""
    best = flow(network, intervals)
    if best >= target or len(set(network.regions)) == 1:
        return intervals, best
    score = _score(network)
    reached, tried = score(intervals), 0
    improved = True
    while improved and best < target and tried < SWAPS:
        improved = False
        for members in network.groups.values():
            for at, i in enumerate(members):
                for j in members[at + 1 :]:
                    if intervals.get(i) == intervals.get(j) or tried >= SWAPS:
                        continue
                    tried += 1
                    swapped = _swapped(intervals, i, j)
                    now = score(swapped)
                    if now > reached * (1 + 1e-9):
                        intervals, reached, improved = swapped, now, True
        best = flow(network, intervals)
    return intervals, best


def _score(network: Network) -> Callable[[Mapping[int, Interval]], float]:
    """The flow, plus what each pair of regions alone would leave of it: no bottleneck hides another."""
    region = np.array(network.regions)
    alone = []
    for a in sorted(set(network.regions)):
        for b in sorted(set(network.regions)):
            if a != b:
                kept = (region[:, None] == a) & (region[None, :] == b) | (region[:, None] == region[None, :])
                alone.append(np.where(kept, network.link, np.inf))
    return lambda intervals: flow(network, intervals) + sum(flow(network, intervals, link) for link in alone)


def _swapped(intervals: Mapping[int, Interval], i: int, j: int) -> dict[int, Interval]:
    swapped = dict(intervals)
    for here, there in ((i, j), (j, i)):
        if there in intervals:
            swapped[here] = intervals[there]
        else:
            swapped.pop(here, None)
    return swapped
