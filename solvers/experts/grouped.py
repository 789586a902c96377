"""Balance with every group of experts on one node (node-limited routing): deal groups, then each node alone.

Choose     node[h]  of each group h      slots of the node's GPUs >= experts of its groups together
minimise   max(n) time of the hottest GPU of node n with the experts of its groups

A deal's bound is the largest of its nodes' bounds. Deals that differ only in names of alike nodes are one;
they are solved from the lowest bound up, until the next one's is not below the best time found. With more
deals than MOST_DEALS, those of the least loads found by exchanges are solved, and the bound is what holds
for any deal: that of balance without groups, and of each group alone on the node that suits it best.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from solvers.experts import balance as experts_balance
from solvers.experts import exact as experts_exact
from solvers.experts.bound import balance_bound
from solvers.experts.types import Floats, Ints
from solvers.linear import Limits

MOST_DEALS = 3000
Deal = tuple[int, ...]
"""Node of each group."""


@dataclass(frozen=True)
class Held:
    """A node's GPUs with the experts of some groups: `placed` (gpus, slots) of layer-wide expert numbers."""

    placed: Ints
    time: float
    bound: float


class Groups:
    """One layer with its groups."""

    def __init__(self, load: Floats, group: Ints, slots: Ints, speed: Floats, node: Ints) -> None:
        self.load, self.slots, self.speed = load, slots, speed
        self.own = [np.flatnonzero(group == h) for h in range(int(group.max()) + 1)]
        self.gpus = [np.flatnonzero(node == n) for n in range(int(node.max()) + 1)]
        self.kind = [(tuple(slots[g].tolist()), tuple(speed[g].tolist())) for g in self.gpus]
        self._bounds: dict[tuple[object, frozenset[int]], float] = {}
        self._held: dict[tuple[object, frozenset[int]], Held] = {}

    def solve(self, limits: Limits) -> tuple[Ints, float, float]:
        """Placement (gpus, most slots), its time, and the bound. Raises ValueError where no deal fits."""
        deals, complete = self._deals()
        if not deals:
            raise ValueError("no way to keep whole groups on nodes: their slots are too few")
        ranked = sorted((max(self._bound(n, hs) for n, hs in self._sets(d)), d) for d in deals)
        best, place, proven = np.inf, np.zeros((0, 0), np.int64), np.inf
        stop = time.perf_counter() + limits.seconds
        for bound, deal in ranked:
            if bound >= best * (1 - 1e-9) or (np.isfinite(best) and time.perf_counter() > stop):
                proven = min(proven, bound)
                break
            left = replace(limits, seconds=max(0.1, (stop - time.perf_counter()) / len(self.gpus)))
            held = [(n, self._solved(n, hs, left)) for n, hs in self._sets(deal)]
            proven = min(proven, max(h.bound for _, h in held))
            if (now := max(h.time for _, h in held)) < best:
                best, place = now, self._together(held)
        return place, best, min(best, proven if complete else min(proven, self._any_deal()))

    def _sets(self, deal: Deal) -> list[tuple[int, frozenset[int]]]:
        return [(n, frozenset(h for h, at in enumerate(deal) if at == n)) for n in sorted(set(deal))]

    def _experts(self, groups: frozenset[int]) -> Ints:
        return np.sort(np.concatenate([self.own[h] for h in groups]))

    def _bound(self, n: int, groups: frozenset[int]) -> float:
        key = (self.kind[n], groups)
        if key not in self._bounds:
            g = self.gpus[n]
            load = self.load[self._experts(groups)][None]
            self._bounds[key] = float(balance_bound(load, self.slots[g], self.speed[g])[0])
        return self._bounds[key]

    def _solved(self, n: int, groups: frozenset[int], limits: Limits) -> Held:
        key = (self.kind[n], groups)
        if key not in self._held:
            own, g = self._experts(groups), self.gpus[n]
            placed, reached, bound = one(self.load[own], self.slots[g], self.speed[g], limits)
            self._held[key] = Held(np.where(placed >= 0, own[placed], -1), reached, bound)
        return self._held[key]

    def _together(self, held: list[tuple[int, Held]]) -> Ints:
        place = np.full((len(self.slots), int(self.slots.max())), -1, dtype=np.int64)
        for n, h in held:
            place[self.gpus[n][:, None], np.arange(h.placed.shape[1])] = h.placed
        return place

    def _any_deal(self) -> float:
        free = float(balance_bound(self.load[None], self.slots, self.speed)[0])
        alone = []
        for h, own in enumerate(self.own):
            able = [n for n in range(len(self.gpus)) if len(own) <= self._room(n)]
            alone.append(min((self._bound(n, frozenset([h])) for n in able), default=np.inf))
        return max(free, *alone)

    def _room(self, n: int) -> int:
        return int(self.slots[self.gpus[n]].sum())

    def _deals(self) -> tuple[list[Deal], bool]:
        """Deals that fit and leave no node empty, and whether they are all."""
        found: list[Deal] = []
        for deal in self._fitting((), [self._room(n) for n in range(len(self.gpus))]):
            found.append(deal)
            if len(found) > MOST_DEALS:
                return self._by_exchange(found[0]), False
        return found, True

    def _fitting(self, deal: Deal, room: list[int]) -> Iterator[Deal]:
        h = len(deal)
        empty = [n for n in range(len(room)) if n not in deal]
        if len(empty) > len(self.own) - h:
            return
        if h == len(self.own):
            yield deal
            return
        opened: set[object] = set()
        for n in range(len(room)):
            if len(self.own[h]) > room[n]:
                continue
            if n in empty:
                if self.kind[n] in opened:
                    continue
                opened.add(self.kind[n])
            room[n] -= len(self.own[h])
            yield from self._fitting((*deal, n), room)
            room[n] += len(self.own[h])

    def _by_exchange(self, deal: Deal) -> list[Deal]:
        """Exchange and move groups while the largest bound of a node falls."""

        def value(d: Deal) -> float:
            room = [self._room(n) - sum(len(self.own[h]) for h in hs) for n, hs in self._sets(d)]
            if min(room) < 0 or len(self._sets(d)) < len(self.gpus):
                return float(np.inf)
            return float(sum(self._bound(n, hs) ** 8 for n, hs in self._sets(d)))

        best, better = value(deal), True
        while better:
            better = False
            for other in _neighbours(deal, len(self.gpus)):
                if (now := value(other)) < best * (1 - 1e-9):
                    deal, best, better = other, now, True
                    break
        return [deal]


def _neighbours(deal: Deal, nodes: int) -> Iterator[Deal]:
    for a in range(len(deal)):
        for b in range(a):
            if deal[a] != deal[b]:
                swapped = list(deal)
                swapped[a], swapped[b] = deal[b], deal[a]
                yield tuple(swapped)
        for n in range(nodes):
            if n != deal[a]:
                yield (*deal[:a], n, *deal[a + 1 :])


def one(load: Floats, slots: Ints, speed: Floats, limits: Limits) -> tuple[Ints, float, float]:
    """Placement (gpus, most slots) of one layer's `load` (experts,), its time, the bound; exact if small."""
    bound = float(balance_bound(load[None], slots, speed)[0])
    placed = experts_balance.balance(load[None], slots, speed, np.array([bound]))[0]
    reached = float(experts_balance.times(load[None], placed[None], speed).max())
    if reached > bound * (1 + 1e-9):
        better, bound = experts_exact.balance(load, slots, speed, reached, bound, limits)
        if better is not None:
            placed = better
            reached = float(experts_balance.times(load[None], placed[None], speed).max())
    return placed, reached, min(bound, reached)
