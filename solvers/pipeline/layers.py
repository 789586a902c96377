"""Layers over given stages: the order, the operating point and the layer counts that serve the most, exactly.

Given      use[k]   stages of each kind in one pipeline, S of them      (rest: `solvers/pipeline`)
Choose     a point of S stages; the order of the classes; who is first and last; layers n[j] of each stage
minimise   S * tau + hops + max(k in use) round_s[k]        at each point; the best point has the most
                                                             sequences / (steps * that)
tau        = max(j) extra_s[j] + n[j] * layer_s[j],  sum(j) n[j] = L,  low <= n[j] <= min(high, memory)

The smallest tau is found by bisection on the layers that stages can do within tau; the layers are whole, so
the last tau is exact. A point is skipped where layers cut into fractions would not beat what is known.
Hops: stages of one class stand together and fill its nodes in order, so a pipeline passes its classes once
each, in the cheapest of all orders from the first to the last, and inside a class no more boundaries of nodes
than its stages need.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from solvers.pipeline.types import ALONE, FIRST, LAST, MIDDLE, Floats, Ints, Pipeline, PipelineProblem, Point

ROUNDS = 54
"""Halvings: a float has no more digits."""


@dataclass(frozen=True)
class Ways:
    """The best way to run each of `u` pipelines: requests/s (0: none), index of the point, kinds of the first
    and the last stage; all (u,)."""

    rate: Floats
    point: Ints
    first: Ints
    last: Ints

    def take(self, chosen: Ints) -> Ways:
        return Ways(self.rate[chosen], self.point[chosen], self.first[chosen], self.last[chosen])


@dataclass(frozen=True)
class Rows:
    """`r` ways to name the ends of pipelines: index of the pipeline (r,), first and last kind (r,), stages
    between them by kind (r, kinds)."""

    of: Ints
    first: Ints
    last: Ints
    middle: Ints

    def take(self, chosen: Ints) -> Rows:
        return Rows(self.of[chosen], self.first[chosen], self.last[chosen], self.middle[chosen])


def best_ways(p: PipelineProblem, use: Ints) -> Ways:
    """The best way of each pipeline of `use` (u, kinds)."""
    none = np.zeros(len(use), dtype=np.int64)
    ways = Ways(np.zeros(len(use)), none - 1, none.copy(), none.copy())
    sizes = use.sum(axis=1)
    for stages in p.depths:
        at = np.flatnonzero(sizes == stages)
        if len(at):
            _fill(p, use, _ends(p, use, at, stages), stages, ways)
    return ways


def _ends(p: PipelineProblem, use: Ints, at: Ints, stages: int) -> Rows:
    """All choices of first and last stage of the pipelines `at`, of `stages` stages each."""
    kinds = len(p.kinds)
    parts = []
    group = p.group_of
    one = np.eye(kinds, dtype=np.int64)
    some, two = use[at] > 0, use[at] > 1
    groups = (some @ np.eye(len(p.nodes), dtype=np.int64)[group] > 0).sum(axis=1)
    for i in range(kinds):
        for j in range(kinds):
            if stages == 1 and i != j:
                continue
            taken = one[i] + (one[j] if stages > 1 else 0)
            fits = two[:, i] if i == j and stages > 1 else some[:, i] & some[:, j]
            fits = fits if group[i] != group[j] else fits & (groups == 1)
            rows = at[fits]
            parts.append((rows, np.full(len(rows), i), np.full(len(rows), j), use[rows] - taken))
    return Rows(*(np.concatenate([part[x] for part in parts]) for x in range(4)))


def _fill(p: PipelineProblem, use: Ints, rows: Rows, stages: int, ways: Ways) -> None:
    """Put the best of `rows` at any point of `stages` into `ways`."""
    points = [(x, point) for x, point in enumerate(p.points) if point.stages == stages]
    every = rows
    for x, point in sorted(points, key=lambda pair: -pair[1].sequences):
        rows = every.take(np.flatnonzero(_promising(p, point, use, ways)[every.of]))
        if not len(rows.of):
            continue
        fixed = beside_s(p, point, use[rows.of], rows.first, rows.last)
        slots = Slots.of(p, point, rows)
        least = stages * slots.fractional() + fixed
        with np.errstate(divide="ignore"):
            most = point.sequences / (p.steps * least)
        alive = np.flatnonzero(
            slots.possible
            & (least <= p.most_round_s * (1 + 1e-9))
            & (most > ways.rate[rows.of] * (1 + 1e-12))
        )
        if not len(alive):
            continue
        tau = Slots.of(p, point, rows.take(alive)).smallest()
        whole = stages * tau + fixed[alive]
        rate = np.where(whole <= p.most_round_s * (1 + 1e-9), point.sequences / (p.steps * whole), 0.0)
        order = np.argsort(rate, kind="stable")  # of several rows of one pipeline the best is written last
        order = order[rate[order] > ways.rate[rows.of[alive[order]]]]
        chosen = alive[order]
        ways.rate[rows.of[chosen]] = rate[order]
        ways.point[rows.of[chosen]] = x
        ways.first[rows.of[chosen]] = rows.first[chosen]
        ways.last[rows.of[chosen]] = rows.last[chosen]


def _promising(p: PipelineProblem, point: Point, use: Ints, ways: Ways) -> NDArray[np.bool_]:
    """Which pipelines of `use` could beat what `ways` has of them at `point`, (u,): fractions of layers,
    nothing beside stages, every stage in its fastest role."""
    speed = 1 / point.layer_s
    tau = (p.layers + use @ (point.extra_s.min(axis=1) * speed)) / (use @ speed)
    least = point.stages * tau * (1 - 1e-9)
    return np.asarray((least <= p.most_round_s) & (point.sequences > ways.rate * p.steps * least))


@dataclass(frozen=True)
class Slots:
    """The stages of `r` pipelines by slot, (r, kinds + 2): those between by kind, the first, the last.

    `number` of stages in a slot, `layer_s` and `extra_s` of each, layers from `low` to `high`.
    """

    layers: int
    number: Ints
    layer_s: Floats
    extra_s: Floats
    low: Ints
    high: Ints

    @staticmethod
    def of(p: PipelineProblem, point: Point, rows: Rows) -> Slots:
        kinds, n = len(p.kinds), len(rows.of)
        slot = np.concatenate(
            [np.broadcast_to(np.arange(kinds), (n, kinds)), rows.first[:, None], rows.last[:, None]], axis=1
        )
        alone = point.stages == 1
        role = np.concatenate([np.full(kinds, MIDDLE), [ALONE if alone else FIRST, LAST]])
        ends = np.ones((n, 2), dtype=np.int64) * [1, 0 if alone else 1]
        number = np.concatenate([rows.middle, ends], axis=1)
        least, most = p.limits(point.stages)
        room = p.most_layers(point)[slot, role[None, :]]
        return Slots(
            p.layers,
            number,
            point.layer_s[slot],
            point.extra_s[slot, role[None, :]],
            np.where(number > 0, least, 0),
            np.where(number > 0, np.minimum(room, most), 0),
        )

    @property
    def possible(self) -> NDArray[np.bool_]:
        """Whether the layers fit at all, (r,)."""
        enough = (self.number * self.high).sum(axis=1) >= self.layers
        few = (self.number * self.low).sum(axis=1) <= self.layers
        return np.asarray(enough & few & (self.high >= self.low).all(axis=1))

    def fractional(self) -> Floats:
        """A tau that no whole layers beat, (r,): fractions of layers, memory aside."""
        speed = self.number / self.layer_s
        return np.asarray((self.layers + (speed * self.extra_s).sum(axis=1)) / speed.sum(axis=1))

    def smallest(self) -> Floats:
        """The smallest tau of rows that are possible, (r,)."""
        used = self.number > 0
        low = np.where(used, self.extra_s, 0.0).max(axis=1)
        most = np.where(used, self.extra_s + self.layer_s * self.high, 0.0).max(axis=1)
        high = most * (1 + 1e-9)  # in which the division below surely fits them all
        for _ in range(ROUNDS):
            middle = (low + high) / 2
            enough = (self.number * self._within(middle)).sum(axis=1) >= self.layers
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        at = np.where(used, self.extra_s + self.layer_s * self._within(high), 0.0)
        return np.asarray(at.max(axis=1))

    def _within(self, tau: Floats) -> Ints:
        """Layers that each stage does in `tau` seconds, at least `low`: then tau is short for it."""
        fit = np.floor((tau[:, None] - self.extra_s) / self.layer_s)
        return np.asarray(np.clip(fit, self.low, self.high), dtype=np.int64)


def beside_s(p: PipelineProblem, point: Point, use: Ints, first: Ints, last: Ints) -> Floats:
    """Seconds of a round beside its stages, (r,): hops, and the engine's own; `use` (r, kinds)."""
    groups = len(p.nodes)
    member = np.eye(groups, dtype=np.int64)[p.group_of]
    stages = use @ member
    crossed = fewest_nodes(p, use) - (stages > 0)
    near = stages - (stages > 0) - crossed
    within = (near * np.diag(point.hop_s) + crossed * point.far_s).sum(axis=1)
    sets = ((stages > 0) * (1 << np.arange(groups))).sum(axis=1)
    path = paths(point.hop_s, p.most_groups)
    kinds, which = np.unique(sets, return_inverse=True)
    cheapest = np.full((len(kinds), groups, groups), np.inf)
    for x, whole in enumerate(kinds.tolist()):
        for g in range(groups):
            for h in range(groups):
                cheapest[x, g, h] = path.get((whole, g, h), (np.inf, ()))[0]
    across = cheapest[which, p.group_of[first], p.group_of[last]]
    engine = np.where(use > 0, point.round_s, 0.0).max(axis=1)
    return np.asarray(within + across + engine)


def fewest_nodes(p: PipelineProblem, use: Ints) -> Ints:
    """Nodes of each class that the stages of `use` (r, kinds) stand in at least, (r, groups): as their GPUs
    ask, and as those of each kind do, none of which straddles two. Exact where a class has one kind."""
    member = np.eye(len(p.nodes), dtype=np.int64)[p.group_of]
    inside = np.array([node.gpus for node in p.nodes.values()])
    by_gpus = -(-((use * p.gpus_of) @ member) // inside)
    by_kind = -(-use // (inside[p.group_of] // p.gpus_of))
    return np.asarray(np.maximum(by_gpus, (by_kind[:, :, None] * member).max(axis=1)))


def paths(hop_s: Floats, most: int) -> dict[tuple[int, int, int], tuple[float, tuple[int, ...]]]:
    """The cheapest way through every set (a bit a group) of up to `most` groups, from one of them to another:
    its seconds, and the groups in order."""
    found: dict[tuple[int, int, int], tuple[float, tuple[int, ...]]] = {}
    for size in range(1, min(most, len(hop_s)) + 1):
        for way in permutations(range(len(hop_s)), size):
            seconds = float(sum(hop_s[a, b] for a, b in pairwise(way)))
            key = (sum(1 << g for g in way), way[0], way[-1])
            if key not in found or seconds < found[key][0]:
                found[key] = (seconds, way)
    return found


def stated(p: PipelineProblem, use: Ints, ways: Ways, u: int) -> Pipeline:
    """Pipeline `u` with its stages in order and their layers: as `best_ways` found it, then each layer where
    it is done soonest."""
    point = p.points[int(ways.point[u])]
    first, last = int(ways.first[u]), int(ways.last[u])
    members = {int(g) for g in p.group_of[use[u] > 0]}
    ends = (sum(1 << g for g in members), int(p.group_of[first]), int(p.group_of[last]))
    left = use[u].copy()
    left[first] -= 1
    left[last] -= 1 if point.stages > 1 else 0
    kinds = [first]
    for group in paths(point.hop_s, len(members))[ends][1]:
        kinds += [k for k in range(len(p.kinds)) if p.group_of[k] == group for _ in range(left[k])]
    kinds += [last] if point.stages > 1 else []
    roles = [FIRST, *[MIDDLE] * (len(kinds) - 2), LAST] if len(kinds) > 1 else [ALONE]
    layers = spread_layers(p, point, kinds, roles)
    return Pipeline(tuple(zip(kinds, layers, strict=True)), int(ways.point[u]), float(ways.rate[u]))


def spread_layers(p: PipelineProblem, point: Point, kinds: list[int], roles: list[int]) -> list[int]:
    """Layers of each stage: every next layer goes to the stage that is done with it first. Optimal for the
    slowest stage, as time grows with every layer."""
    low, high = p.limits(point.stages)
    most = [min(high, int(x)) for x in p.most_layers(point)[kinds, roles]]
    layers = [low] * len(kinds)
    while sum(layers) < p.layers:
        open_ = [j for j in range(len(kinds)) if layers[j] < most[j]]
        after = {
            j: point.extra_s[kinds[j], roles[j]] + (layers[j] + 1) * point.layer_s[kinds[j]] for j in open_
        }
        layers[min(after, key=lambda j: (after[j], j))] += 1
    return layers
