"""Pricing of pipelines: which one has the most rate for what its stages cost, and a bound on all of them.

Given      pays[k] what a stage of kind k costs, served what one request/s is worth (`pipeline.py`, duals)
Choose     a point of S stages, a slowest stage tau, a set of classes, and of its kinds S stages
maximise   ratio = served * rate / sum of pays
cover      the stages hold L layers within tau and their memory

For a tau the cheapest cover is dynamic programming over (stages, layers left), all values of tau at once.
Over (t, tau] no pipeline beats the rate at t for the cheapest cover at tau: that interval's bound. Intervals
whose bound passes what is known are cut until they are narrow, so `theta`, the largest bound left, is true
though tau is continuous. Choices are made one after the other (point, classes, which have the ends), those
with the largest bound first; hops inside a class and the engine's seconds count at their least.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from solvers.pipeline.layers import paths
from solvers.pipeline.types import ALONE, FIRST, LAST, MIDDLE, Floats, Ints, PipelineProblem, Point

NARROW = (2e-2, 5e-3, 5e-4)
"""Relative width at which an interval is no longer cut: of a point, with its classes, with its ends."""

PIECES = 8
"""Intervals that one is cut into."""

MOST_FOUND = 24
"""Pipelines returned a round."""

WORTH = 1.0 + 5e-4
"""Ratios up to this are not told apart: `theta` is never below."""


@dataclass(frozen=True)
class Priced:
    """Pipelines by stages of each kind (u, kinds), the best first; no pipeline's ratio is above `theta`."""

    use: Ints
    theta: float


@dataclass(frozen=True)
class Choice:
    """Stages of `kinds` at `point`, of `groups` (None: any as many as may mix) with the ends in `ends` (None:
    anywhere); `beside_s`: the least seconds of a round beside its stages."""

    point: Point
    kinds: Ints
    beside_s: float
    groups: tuple[int, ...] | None = None
    ends: tuple[int, int] | None = None


def guessed(p: PipelineProblem, pays: Floats, served: float) -> Ints:
    """Pipelines that may be worth more than their stages cost, (u, kinds), the best first: each point's
    cheapest cover, wherever its stages stand."""
    found: dict[tuple[int, ...], float] = {}
    for choice in _points(p) if served > 0 else ():
        _, reached, tau = _searched(p, choice, pays, served, WORTH)
        if reached > WORTH:
            use = _cheapest(p, choice, pays, tau)
            found[use] = max(found.get(use, 0.0), reached)
    kept = sorted(found, key=lambda use: (-found[use], use))
    uses = np.array(kept, dtype=np.int64).reshape(-1, len(p.kinds))
    groups = (uses @ np.eye(len(p.nodes), dtype=np.int64)[p.group_of] > 0).sum(axis=1)
    return np.asarray(uses[(groups <= p.most_groups) & (uses <= p.stock).all(axis=1)])


def price(p: PipelineProblem, pays: Floats, served: float, until: float = np.inf) -> Priced:
    """Pipelines whose rate is worth more than their stages cost: choices by their bounds, the best first,
    `until` that time of the clock."""
    found: dict[tuple[int, ...], float] = {}
    theta, count = WORTH, 0
    heap: list[tuple[float, int, Choice]] = []

    def push(choices: Iterable[Choice]) -> None:
        nonlocal count
        for choice in choices:
            bound = _searched(p, choice, pays, served, theta)[0]
            if bound > theta:
                heapq.heappush(heap, (-bound, count, choice))
                count += 1

    push(_points(p) if served > 0 else ())
    while heap and len(found) < MOST_FOUND and -heap[0][0] > theta and time.perf_counter() < until:
        choice = heapq.heappop(heap)[2]
        if choice.ends is None:
            push(_within(p, choice))
            continue
        bound, reached, tau = _searched(p, choice, pays, served, theta)
        theta = max(theta, bound)
        if reached > WORTH:
            use = _cheapest(p, choice, pays, tau)
            found[use] = max(found.get(use, 0.0), reached)
    if heap:
        theta = max(theta, -heap[0][0])
    kept = sorted(found, key=lambda use: (-found[use], use))
    return Priced(np.array(kept, dtype=np.int64).reshape(-1, len(p.kinds)), theta)


def _points(p: PipelineProblem) -> Iterator[Choice]:
    """Every point, with `alike` at every number of GPUs: all classes, hops at their least."""
    sizes = sorted({kind.gpus for kind in p.kinds}) if p.alike else [0]
    for point in p.points:
        if point.stages > p.layers:
            continue
        for size in sizes:
            kinds = np.flatnonzero((p.gpus_of == size) | (not p.alike))
            hops = (point.stages - 1) * float(min(point.hop_s.min(), point.far_s.min()))
            yield Choice(point, kinds, hops + float(point.round_s[kinds].min()))


def _within(p: PipelineProblem, c: Choice) -> Iterator[Choice]:
    """The next finer choices: which classes, then in which class the ends are."""
    point, group = c.point, p.group_of[c.kinds]
    if c.groups is None:
        there = sorted({int(g) for g in group})
        for many in range(1, min(p.most_groups, point.stages, len(there)) + 1):
            for groups in combinations(there, many):
                yield replace(c, kinds=c.kinds[np.isin(group, groups)], groups=groups)
        return
    path = paths(point.hop_s, p.most_groups)
    whole = sum(1 << g for g in c.groups)
    inside = min(min(float(point.hop_s[g, g]), float(point.far_s[g])) for g in c.groups)
    engine = max(float(point.round_s[c.kinds[group == g]].min()) for g in c.groups)
    fixed = (point.stages - len(c.groups)) * inside + engine
    for first, last in product(c.groups, repeat=2):
        if (whole, first, last) in path:
            yield replace(c, beside_s=path[whole, first, last][0] + fixed, ends=(first, last))


def _searched(
    p: PipelineProblem, c: Choice, pays: Floats, served: float, floor: float
) -> tuple[float, float, float]:
    """A bound on the ratio of all pipelines of `c` (or `floor`, which is as good); the best ratio reached,
    and the tau that reaches it."""
    low, high = _range(p, c)
    if not low < high:
        return 0.0, 0.0, 0.0
    narrow = NARROW[(c.groups is not None) + (c.ends is not None)]
    edges = np.geomspace(low, high, 2 * PIECES)
    left, right = np.concatenate([[low * (1 - 1e-9)], edges[:-1]]), edges
    done, reached, best = 0.0, 0.0, high
    while len(left):
        cost = _covers(p, c, right, pays)
        most, here = _ratio(p, c, left, cost, served), _ratio(p, c, right, cost, served)
        top = int(np.argmax(here))
        if here[top] > reached:
            reached, best = float(here[top]), float(right[top])
        cut = (most > max(reached * (1 + narrow / 10), floor)) & (right > left * (1 + narrow))
        done = max(done, float(most[~cut].max(initial=0.0)))
        left, right = _cut(left[cut], right[cut])
    return max(done, reached), reached, best


def _range(p: PipelineProblem, c: Choice) -> tuple[float, float]:
    """Where tau can lie: the fastest kind with its share of the layers, and the round's limit or what memory
    allows the slowest."""
    point = c.point
    layer, extra = point.layer_s[c.kinds], point.extra_s[c.kinds]
    share = -(-p.layers // point.stages)
    low = float((extra.min(axis=1) + share * layer).min())
    top = float((extra.max(axis=1) + layer * p.most_layers(point)[c.kinds].max(axis=1)).max())
    limit = (p.most_round_s - c.beside_s) / point.stages
    return low, min(max(top, low * (1 + 1e-6)), limit)


def _cut(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Each interval in PIECES."""
    edges = np.geomspace(left, right, PIECES + 1)
    return edges[:-1].ravel(), edges[1:].ravel()


def _ratio(p: PipelineProblem, c: Choice, tau: Floats, cost: Floats, served: float) -> Floats:
    """Worth of the rate at `tau` (m,) for each unit of `cost` (m,); 0 where there is no cover."""
    whole = c.point.stages * tau + c.beside_s
    worth = served * c.point.sequences / (p.steps * whole)
    with np.errstate(divide="ignore"):
        return np.where(np.isfinite(cost), worth / np.where(np.isfinite(cost), cost, 1.0), 0.0)


def _holds(p: PipelineProblem, c: Choice, tau: Floats) -> Ints:
    """Layers that a stage of each kind and role does within tau, (m, kinds, roles); -1 where too few."""
    least, most = p.limits(c.point.stages)
    room = np.minimum(p.most_layers(c.point)[c.kinds], most)
    fit = np.floor(
        (tau[:, None, None] - c.point.extra_s[c.kinds]) / c.point.layer_s[c.kinds][:, None] * (1 + 1e-12)
    )
    holds = np.minimum(fit, room).astype(np.int64)
    holds[holds < least] = -1
    if c.ends is not None:
        own = p.group_of[c.kinds]
        holds[:, own != c.ends[0], FIRST] = -1
        holds[:, own != c.ends[1], LAST] = -1
    return np.asarray(holds)


def _roles(stages: int) -> list[int]:
    return [ALONE] if stages == 1 else [FIRST, *[MIDDLE] * (stages - 2), LAST]


def _covers(p: PipelineProblem, c: Choice, tau: Floats, pays: Floats) -> Floats:
    """The least that stages cost which hold all layers within tau, (m,); infinite where none do."""
    holds = _holds(p, c, tau)
    left = np.arange(p.layers + 1)
    cost = np.where(left == 0, 0.0, np.inf) * np.ones((len(tau), 1))
    for role in _roles(c.point.stages):
        cost = np.stack([_with_stage(cost, holds[:, x, role], pays[k]) for x, k in enumerate(c.kinds)])
        cost = cost.min(axis=0)
    return np.asarray(cost[:, -1])


def _with_stage(cost: Floats, holds: Ints, pay: float) -> Floats:
    """Cost (m, layers + 1) of so many layers when a stage of `holds` (m,) layers is put before them."""
    rest = np.maximum(np.arange(cost.shape[1])[None, :] - np.maximum(holds, 0)[:, None], 0)
    whole = np.take_along_axis(cost, rest, axis=1) + pay
    return np.where(holds[:, None] < 0, np.inf, whole)


def _cheapest(p: PipelineProblem, c: Choice, pays: Floats, tau: float) -> tuple[int, ...]:
    """Stages by kind of the cheapest cover at `tau`."""
    holds = _holds(p, c, np.array([tau]))
    cost = np.where(np.arange(p.layers + 1) == 0, 0.0, np.inf)[None, :]
    picks: list[Ints] = []
    roles = _roles(c.point.stages)
    for role in roles:
        options = np.stack([_with_stage(cost, holds[:, x, role], pays[k])[0] for x, k in enumerate(c.kinds)])
        picks.append(options.argmin(axis=0))
        cost = options.min(axis=0)[None, :]
    use, left = [0] * len(p.kinds), p.layers
    for role, pick in zip(reversed(roles), reversed(picks), strict=True):
        x = int(pick[left])
        use[int(c.kinds[x])] += 1
        left = max(0, left - int(holds[0, x, role]))
    return tuple(use)
