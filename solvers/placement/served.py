"""Served placement: plans for the most tokens/s and the least latency of requests that stay on their nodes.

A plan is one replica or several that share no node. A replica is made of stages (`placement_stages`), for
each order of its regions and each number of requests in flight; what it serves is predicted by a closed form
(`placement_predict`). The nodes are split in two as long as that serves better: like nodes together answer
sooner, and what is answered sooner makes room for more; all together hold the weights once, and so more
requests.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, product

import numpy as np

from solvers.placement.predict import Served, renamed, together
from solvers.placement.service import Service
from solvers.placement.stages import Layout, layouts, planned
from solvers.placement.types import part

ROUNDS = 2
"""Programs solved for one plan, each at the rate of the one before."""
ROUGH, COARSE, FINE = 2, 4, 12
"""Numbers of requests in flight that are tried, by equal steps up to the most that could fit."""
NEARLY = 0.9
"""Part of the most tokens/s that a plan chosen for its latency must reach."""
LEAST = 0.3
"""The fewest requests of a sweep, as a part of the most that could fit."""
ASIDE = 2
"""Groups of like nodes that are set aside at once."""
KEPT = 12
"""Plans of a replica that are combined with those of the others."""


def chosen(plans: Sequence[Served]) -> Served:
    """The best trade of 2 % of latency for 1 % of tokens/s among plans with nearly the most tokens/s."""
    most = max(p.tokens_per_s for p in plans)
    return max((p for p in plans if p.tokens_per_s >= NEARLY * most), key=_trade)


def _trade(plan: Served) -> float:
    return plan.tokens_per_s / math.sqrt(plan.decode_s)


def front(service: Service, seconds: float = math.inf) -> list[Served]:
    """Plans that no other beats in both tokens/s and decode latency; none where nothing fits. After `seconds`
    what was found is refined no further."""
    until = time.perf_counter() + seconds
    found = _replica(service, until)
    split = _Split(service, until)
    parts = split.best()
    if len(parts) > 1:
        replicas = [(_replica(service.of(nodes), until), nodes) for nodes in parts]
        fronts = [[renamed(p, nodes) for p in _thinned(plans)] for plans, nodes in replicas]
        found += [together(plans) for plans in product(*fronts)]
    return undominated(found)


def undominated(plans: Sequence[Served]) -> list[Served]:
    """The front of `plans`."""
    best: list[Served] = []
    for plan in sorted(plans, key=lambda p: (p.decode_s, -p.tokens_per_s)):
        if not best or plan.tokens_per_s > best[-1].tokens_per_s:
            best.append(plan)
    return best


def _thinned(plans: list[Served]) -> list[Served]:
    at = np.unique(np.linspace(0, len(plans) - 1, min(KEPT, len(plans))).round().astype(int))
    return [plans[int(i)] for i in at]


def _replica(service: Service, until: float) -> list[Served]:
    """The front of one replica: a coarse sweep over all layouts, then a fine one over those on its front."""
    coarse: dict[int, tuple[Served, Layout]] = {}
    for layout in layouts(service):
        if time.perf_counter() > until:
            break
        coarse |= {id(p): (p, layout) for p in _swept(service, layout, COARSE, 1, until)}
    found = undominated([p for p, _ in coarse.values()])
    for layout in dict.fromkeys(coarse[id(p)][1] for p in found):
        if time.perf_counter() < until:
            found = [*found, *_swept(service, layout, FINE, ROUNDS, until)]
    return undominated(found)


def _swept(service: Service, layout: Layout, levels: int, rounds: int, until: float) -> Iterator[Served]:
    """The plan at each number of requests in flight, as far as there is one and time for it."""
    used = [i for i, r in enumerate(service.network.regions) if r in layout.share]
    most = part(service.memory, used).most
    for in_flight in np.linspace(LEAST, 1.0, levels) * most:
        if time.perf_counter() > until:
            return
        plan = planned(service, layout, float(in_flight), rounds, until)
        if plan is not None:
            yield plan


@dataclass
class _Split:
    """The nodes split in two, and these again, groups of like nodes staying together."""

    service: Service
    until: float
    seen: dict[frozenset[int], Served | None] = field(default_factory=dict)

    def best(self) -> list[list[int]]:
        """Nodes of each replica."""
        groups = list(self.service.network.groups.values())
        done: list[list[int]] = []
        open_ = [frozenset(range(len(groups)))]
        while open_:
            whole = open_.pop()
            pair = self._halved(groups, whole) if time.perf_counter() < self.until else None
            if pair:
                open_ += pair
            else:
                done.append(sorted(i for g in whole for i in groups[g]))
        return done

    def _halved(
        self, groups: list[list[int]], whole: frozenset[int]
    ) -> tuple[frozenset[int], frozenset[int]] | None:
        alone = self._rough(groups, whole)
        best, pair = _trade(alone) if alone else 0.0, None
        asides = chain.from_iterable(combinations(sorted(whole), n) for n in range(1, ASIDE + 1))
        for aside in map(frozenset, asides):
            if time.perf_counter() > self.until:
                break
            rest = whole - aside
            if self._holds(groups, aside) and self._holds(groups, rest):
                both = [self._rough(groups, aside), self._rough(groups, rest)]
                plans = [p for p in both if p]
                if len(plans) == 2 and _trade(together(plans)) > best:
                    best, pair = _trade(together(plans)), (aside, rest)
        return pair

    def _holds(self, groups: list[list[int]], chosen: frozenset[int]) -> bool:
        net = self.service.network
        return sum(len(self.service.room[net.kinds[i]]) for g in chosen for i in groups[g]) >= net.layers

    def _rough(self, groups: list[list[int]], chosen: frozenset[int]) -> Served | None:
        """The best trade found by a rough sweep."""
        if chosen not in self.seen:
            mine = self.service.of(sorted(i for g in chosen for i in groups[g]))
            plans = [p for layout in layouts(mine) for p in _swept(mine, layout, ROUGH, 1, self.until)]
            self.seen[chosen] = max(plans, key=_trade, default=None)
        return self.seen[chosen]
