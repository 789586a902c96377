"""Re-plan: what to load where after nodes have left, so that most of the flow is kept and little is moved.

Only the regions that lost nodes change. In each, a layer should carry the part of the flow that it did,
less what the lost nodes were of the region's work; nodes move one by one (`placement_moves`), each time the
one that relieves most for what it loads. Of a few such repairs, to higher and lower targets, the one with
the most flow is kept, and of those nearly as good the one that loads the fewest layers. Every layer is kept
on `least` nodes where the nodes left can hold that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from solvers.linear import Floats
from solvers.placement.moves import Cover
from solvers.placement.routing import flow
from solvers.placement.types import Interval, Network

TARGETS = (0.0, 0.5, 1.0, 1.25, 2.0, 3.0)
"""Parts of the work lost that targets are lowered by. Where few nodes hold many layers each, those left must
hold far more than is good for them."""
LOWEST = 0.05
"""The lowest target, as a part of what a layer carried."""
NEARLY = 0.995
"""Part of the best flow that a repair must keep which loads less."""
MOVES = 60
LOAD = 0.02
"""What must be gained for each layer loaded, as a part of a layer's target."""


@dataclass(frozen=True)
class Replanned:
    """Intervals without the nodes that left, layers that nodes must load, tokens/s before and after."""

    intervals: Mapping[int, Interval]
    loaded: Mapping[int, int]
    before: float
    after: float
    thin: tuple[int, ...]
    """Layers on fewer than `least` nodes."""

    @property
    def moved_layers(self) -> int:
        return sum(self.loaded.values())


def replan(
    network: Network, intervals: Mapping[int, Interval], gone: Collection[int], least: int = 1
) -> Replanned:
    """The placement repaired; `network` still has the nodes `gone`."""
    before = flow(network, intervals)
    kept = {i: interval for i, interval in intervals.items() if i not in gone}
    found = [_stated(network, kept, kept, before, least)]
    for lowered in TARGETS:
        repaired = dict(kept)
        for region in sorted({network.regions[i] for i in gone} or set(network.regions)):
            repaired |= _repaired(network, intervals, gone, region, lowered, before, least)
        found.append(_stated(network, kept, repaired, before, least))
    fewest = min(len(f.thin) for f in found)
    able = [f for f in found if len(f.thin) == fewest]
    best = max(f.after for f in able)
    return min((f for f in able if f.after >= NEARLY * best), key=lambda f: (f.moved_layers, -f.after))


def _stated(
    network: Network, kept: Mapping[int, Interval], found: Mapping[int, Interval], before: float, least: int
) -> Replanned:
    loaded = {i: n for i, interval in found.items() if (n := _new(kept.get(i, (0, 0)), interval))}
    count = np.zeros(network.layers, int)
    for start, end in found.values():
        count[start:end] += 1
    thin = tuple(int(layer) for layer in np.flatnonzero(count < least))
    return Replanned(dict(found), loaded, before, flow(network, found), thin)


def _new(old: Interval, new: Interval) -> int:
    return (new[1] - new[0]) - max(0, min(old[1], new[1]) - max(old[0], new[0]))


def _repaired(
    network: Network,
    intervals: Mapping[int, Interval],
    gone: Collection[int],
    region: int,
    lowered: float,
    before: float,
    least: int,
) -> dict[int, Interval]:
    """The region's nodes, moved until no layer is short or no move relieves enough."""
    mine = {i: interval for i, interval in intervals.items() if network.regions[i] == region}
    was, all_of_it = Cover(network, mine), Cover(network, intervals)
    cover = Cover(network, {i: interval for i, interval in mine.items() if i not in gone})
    lost = 1 - cover.carried.sum() / max(was.carried.sum(), 1e-300)
    part: Floats = was.carried / np.maximum(all_of_it.carried, 1e-300)
    target = before * part * max(LOWEST, 1 - lowered * lost)
    here = np.where(was.count > 0, least, 0)
    nodes = [i for i, r in enumerate(network.regions) if r == region and i not in gone]
    for _ in range(MOVES):
        short = cover.short(target, here)
        price = LOAD * float(target.max(initial=0.0))
        moves = [m for m in cover.moves(target, here, nodes, price) if m.left + price * m.loaded < short]
        if short <= 1e-9 * target.sum() or not moves:
            break
        best = max(moves, key=lambda m: ((short - m.left) / max(m.loaded, 0.5), -m.node))
        cover.put(best.node, best.interval)
    return cover.intervals
