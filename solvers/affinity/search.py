"""Affinity where layouts are too many: local search whose moves are themselves solved exactly.

sweep      a layer with its neighbours as they are: experts to GPUs, an assignment
exchange   a few GPUs over all layers: what they hold in each layer dealt anew among them, by dynamic
           programming over the layers. Its states are all ways to deal it where they are few, else for two
           GPUs the present one and those an exchange of two experts away, in every layer at once.
recombine  several placements: each layer as in any of them, GPUs renamed from layer to layer so that
           most is kept (exactly within nodes and between them): a shortest path along the chain.
disturb    some layers in a row are dealt anew at random; then sweeps and exchanges again.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations
from math import comb, factorial

import numpy as np
from scipy.optimize import linear_sum_assignment

from solvers.affinity.types import AffinityProblem, Floats, Ints, shortest

MOST_STATES, MOST_GROUPS = 130, 200
KEPT = 8
"""Placements that are recombined."""
BETTER = 1e-9


class Search:
    """`best` (layers, experts) -> GPU and its `cost`; `pool` holds the best few, each a local optimum."""

    def __init__(self, p: AffinityProblem, seed: int = 0) -> None:
        self.p, self.rng, self.distance = p, np.random.default_rng(seed), p.distance
        self.pool: list[tuple[float, Ints]] = []
        self.at_once = _at_once(p)

    @property
    def best(self) -> Ints:
        return self.pool[0][1]

    @property
    def cost(self) -> float:
        return self.pool[0][0]

    def begin(self) -> None:
        """A placement layer after layer, the first at random."""
        place = np.zeros((self.p.layers, self.p.experts), dtype=np.int64)
        place[0] = self.rng.permutation(np.repeat(np.arange(self.p.gpus), self.p.per_gpu))
        for at in range(1, self.p.layers):
            place[at] = self._assigned(self._before(place, at))
        self._improve(place)

    def disturb(self) -> None:
        """Search on from one of the pool, with some layers dealt anew."""
        place = self.pool[int(self.rng.integers(len(self.pool)))][1].copy()
        many = int(self.rng.integers(1, max(2, self.p.layers // 3) + 1))
        first = int(self.rng.integers(0, self.p.layers - many + 1))
        for at in range(first, first + many):
            a, b = self.rng.integers(0, self.p.experts, (2, self.p.experts // 2))
            for i, j in zip(a, b, strict=True):
                place[at, [i, j]] = place[at, [j, i]]
        self._improve(place)

    def recombine(self) -> None:
        self._improve(_recombined(self.p, [place for _, place in self.pool]))

    def _improve(self, place: Ints) -> None:
        """Sweeps and exchanges until neither helps; then into the pool."""
        cost = np.inf
        while (now := self.p.cost(place)) < cost - BETTER:
            cost = now
            self._sweeps(place)
            self._exchanges(place)
        if all(abs(cost - c) > BETTER for c, _ in self.pool):
            self.pool = sorted([*self.pool, (cost, place)], key=lambda entry: entry[0])[:KEPT]

    def _before(self, place: Ints, at: int) -> Floats:
        """Cost (experts, gpus) of what comes from the layer before."""
        on = np.eye(self.p.gpus)[place[at - 1]]
        return np.asarray(self.p.tokens[at - 1].T @ on @ self.distance)

    def _after(self, place: Ints, at: int) -> Floats:
        on = np.eye(self.p.gpus)[place[at + 1]]
        return np.asarray(self.p.tokens[at] @ on @ self.distance)

    def _assigned(self, cost: Floats) -> Ints:
        _, slot = linear_sum_assignment(np.repeat(cost, self.p.per_gpu, axis=1))
        return np.asarray(slot // self.p.per_gpu)

    def _sweeps(self, place: Ints) -> None:
        better, every = True, np.arange(self.p.experts)
        while better:
            better = False
            for at in range(self.p.layers):
                cost = np.zeros((self.p.experts, self.p.gpus))
                cost += self._before(place, at) if at else 0.0
                cost += self._after(place, at) if at + 1 < self.p.layers else 0.0
                dealt = self._assigned(cost)
                if cost[every, dealt].sum() < cost[every, place[at]].sum() - 1e-6:
                    place[at], better = dealt, True

    def _exchanges(self, place: Ints) -> None:
        groups = self._groups()
        idle = 0
        while idle < len(groups):
            for group in groups:
                idle = 0 if self._dealt_anew(place, group) else idle + 1
                if idle == len(groups):
                    break

    def _groups(self) -> list[Ints]:
        """Sets of GPUs in random order: all, or some where there are too many."""
        if comb(self.p.gpus, self.at_once) > MOST_GROUPS:
            return [self.rng.choice(self.p.gpus, self.at_once, replace=False) for _ in range(MOST_GROUPS)]
        groups = [np.array(group) for group in combinations(range(self.p.gpus), self.at_once)]
        return [groups[i] for i in self.rng.permutation(len(groups))]

    def _dealt_anew(self, place: Ints, group: Ints) -> bool:
        """Whether dealing anew what `group` holds lowered the cost; changes `place`."""
        p, k, q = self.p, len(group), self.p.per_gpu
        own = np.stack([np.concatenate([np.flatnonzero(row == g) for g in group]) for row in place])
        states = _states(k, q)  # (states, k, k q)
        flat = states.reshape(len(states), -1)
        d = self.distance[np.ix_(group, group)]
        inside = p.tokens[np.arange(p.layers - 1)[:, None, None], own[:-1, :, None], own[1:, None, :]]
        way = d[:, None, :, None] * inside[:, None, :, None, :]
        pair = flat @ way.reshape(p.layers - 1, k * k * q, k * k * q) @ flat.T
        alone = self._from_outside(place, group, own).reshape(p.layers, -1) @ flat.T
        cost, chain = shortest(alone[0], pair + alone[1:, None, :])
        if cost > alone[:, 0].sum() + pair[:, 0, 0].sum() - 1e-6:  # as it is now
            return False
        for at, s in enumerate(chain):
            place[at, own[at]] = group[states[s].argmax(0)]
        return True

    def _from_outside(self, place: Ints, group: Ints, own: Ints) -> Floats:
        """Cost (layers, k, k q) of each expert on each of the group, by experts outside the group."""
        p = self.p
        cost = np.zeros((p.layers, len(group), own.shape[1]))
        if len({int(g) // p.gpus_per_node for g in group}) == 1:  # all others are as far for each
            return cost
        away = np.where(np.isin(place, group)[:, :, None], 0.0, self.distance[place][:, :, group])
        layers = np.arange(p.layers - 1)[:, None]
        cost[:-1] += np.swapaxes(p.tokens[layers, own[:-1]] @ away[1:], 1, 2)
        cost[1:] += np.swapaxes(np.swapaxes(p.tokens, 1, 2)[layers, own[1:]] @ away[:-1], 1, 2)
        return cost


def _at_once(p: AffinityProblem) -> int:
    """GPUs whose experts can be dealt anew in at most MOST_STATES ways; two at the least."""
    k, q = 2, p.per_gpu
    while k < p.gpus and factorial((k + 1) * q) // factorial(q) ** (k + 1) <= MOST_STATES:
        k += 1
    return min(k, p.gpus)


@cache
def _states(k: int, q: int) -> Floats:
    """Ways to deal k q experts to k GPUs as (states, k, k q) of 0 and 1, the first in order."""
    now = np.repeat(np.arange(k), q)
    if factorial(k * q) // factorial(q) ** k <= MOST_STATES:
        ways = sorted(set(permutations(now.tolist())))
    else:
        ways = [tuple(now.tolist())]
        for i, j in combinations(range(k * q), 2):
            if now[i] != now[j]:
                other = now.copy()
                other[[i, j]] = other[[j, i]]
                ways.append(tuple(other.tolist()))
    return np.asarray(np.array(ways)[:, None, :] == np.arange(k)[:, None], dtype=float)


def _recombined(p: AffinityProblem, places: list[Ints]) -> Ints:
    """The best chain of layers of `places`, GPUs renamed from layer to layer."""
    on = np.stack([np.eye(p.gpus)[place] for place in places])  # (places, layers, experts, gpus)
    renamed: list[list[list[Ints]]] = []
    gains: list[Floats] = []
    for at, tokens in enumerate(p.tokens):
        kept = np.einsum("iag,ab,jbh->ijgh", on[:, at], tokens, on[:, at + 1], optimize=True)
        names = [[_matched(p, kept[i, j]) for j in range(len(places))] for i in range(len(places))]
        gains.append(np.array([[g for _, g in row] for row in names]))
        renamed.append([[n for n, _ in row] for row in names])
    _, chain = shortest(np.zeros(len(places)), (-gain for gain in gains))
    name, layers = np.arange(p.gpus), [places[chain[0]][0]]
    for at in range(p.layers - 1):
        to = renamed[at][chain[at]][chain[at + 1]]  # GPU g of this layer goes with GPU to[g] of the next
        following = np.zeros(p.gpus, dtype=np.int64)
        following[to] = name
        name = following
        layers.append(name[places[chain[at + 1]][at + 1]])
    return np.stack(layers)


def _matched(p: AffinityProblem, kept: Floats) -> tuple[Ints, float]:
    """GPUs of one layer to those of the next, nodes to nodes, for the most of what is kept (gpus, gpus)."""
    n, g = p.nodes, p.gpus_per_node
    blocks = kept.reshape(n, g, n, g).transpose(0, 2, 1, 3)
    inner = [[linear_sum_assignment(blocks[a, b], maximize=True)[1] for b in range(n)] for a in range(n)]
    rows = np.arange(g)
    kept_here = np.array([[blocks[a, b, rows, inner[a][b]].sum() for b in range(n)] for a in range(n)])
    gain = p.intra_cost * kept_here + (p.inter_cost - p.intra_cost) * blocks.sum((2, 3))
    a, b = linear_sum_assignment(gain, maximize=True)
    return np.concatenate([y * g + inner[x][y] for x, y in zip(a, b, strict=True)]), float(gain[a, b].sum())
