"""Pipeline: replicas whose stages differ in class, GPUs side by side (tp) and layers, ranked by their worth
in the relaxation over all.

Sets       k in K   kinds of stage: (node class g[k], GPUs t[k])         g in G   node classes
           a in A   points: S[a] stages with as many micro-batches, B[a] sequences in flight in all
           u in U   pipelines: use[u,k] stages of each kind
Data       L        layers of the model, alike
           layer_s[a,k]  extra_s[a,k,role]  seconds of a micro-batch: a layer, and beside layers (role: first,
                    middle, last, alone; the LM head on the last), its share of the prompts in it
           hop_s[a,g,h]  seconds from a stage on g to one on h; far_s[a,g] where nodes of g part
           round_s[a,k]  seconds a round beside stages (the engine's own)
           free_bytes[k,role]  layer_bytes[k]  cache_bytes[k] (a layer and sequence), all of one GPU
           nodes[g]  gpus[g] in each  price[g] of each       steps  rounds a request lives
           demand [request/s] (cost only)                    most_round_s  (the TPOT limit)
Rate       of u: the most over points a of |u| stages, orders of its classes, layers n[j] of its stages j of
                 B[a] / (steps * round),   round = S * tau + hops + max(k) round_s[a,k]  <= most_round_s
                 tau = max(j) extra_s + n[j] * layer_s,   sum(j) n[j] = L,   n[j] >= 1
                 n[j] * (layer_bytes + cache_bytes * (B + spread * sqrt(B)))  <= free_bytes
Choose     z[u]  integer >= 0   replicas          y[g]  integer >= 0   nodes in use
maximise   sum(u) rate[u] * z[u]                          (throughput)        [request/s]
minimise   sum(g) price[g] * y[g]                         (cost)
serve      sum(u) rate[u] * z[u]          >= demand       (cost)
nodes[g]   y[g]                           <= nodes[g]
fit, full, cover   stages pack into nodes (`packing.py`): none straddles two

Space      stages of one class stand together; at most `most_groups` classes a pipeline; the points given.
Assumes    layers are alike; B / S sequences in every micro-batch; stages are slowed by the slowest alone.

Every u is a column (`layers.py` has the rate); the duals of the relaxation rank them. Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from solvers import packing
from solvers.linear import Limits, Linear, Outcome, Undecided, Var, total
from solvers.packing import Bins
from solvers.pipeline.layers import Ways, best_ways, stated
from solvers.pipeline.types import Floats, Ints, Nodes, Pipeline, PipelineProblem

MOST_COLUMNS = 20_000
"""Pipelines up to which all are tried: a few seconds."""


@dataclass(frozen=True)
class Columns:
    """Pipelines of the master: stages by kind (u, kinds), how each is run, and the requests/s that the master
    counts in, so that its coefficients are near 1."""

    use: Ints
    ways: Ways
    unit: float

    @staticmethod
    def of(p: PipelineProblem, use: Ints) -> Columns:
        """The pipelines of `use` that serve anything."""
        ways = best_ways(p, use)
        some = np.flatnonzero(ways.rate > 0)
        return Columns(use[some], ways.take(some), float(ways.rate.max(initial=0.0)) or 1.0)

    def take(self, chosen: Ints) -> Columns:
        return Columns(self.use[chosen], self.ways.take(chosen), self.unit)


def shortlist(p: PipelineProblem, most: int) -> tuple[list[Pipeline], int]:
    """The `most` pipelines over several groups that lose least of their own worth against the duals of the
    relaxation over all pipelines, best first; and how many there are (none is looked at where all are
    more than MOST_COLUMNS). Where the time of the relaxation ended first, those that serve most by each GPU.
    Raises KeyboardInterrupt."""
    use = every(p, MOST_COLUMNS)
    columns = Columns.of(p, use if use is not None else np.zeros((0, len(p.kinds)), dtype=np.int64))
    member = np.eye(len(p.nodes), dtype=np.int64)[p.group_of]
    several = np.flatnonzero(((columns.use @ member) > 0).sum(axis=1) > 1)
    if not len(several):
        return [], 0
    relaxed = build(p, columns).relax(Limits())
    try:
        if relaxed.refuted and p.objective == "cost":  # all together do not serve the demand
            return shortlist(replace(p, objective="throughput"), most)
        _, served = duals(p, columns, relaxed)
        worth = np.maximum(served * columns.ways.rate, 1e-300)
        lost = (reduced(p, columns, relaxed) / worth)[several]
    except Undecided:
        lost = (columns.use @ np.array([kind.gpus for kind in p.kinds]) / columns.ways.rate)[several]
    best = several[np.argsort(lost, kind="stable")][:most]
    return [stated(p, columns.use, columns.ways, int(u)) for u in best], len(several)


def every(p: PipelineProblem, most: int) -> Ints | None:
    """Stages by kind of every pipeline of the space, (u, kinds); None where they are more than `most`."""
    found: list[tuple[int, ...]] = []
    for use in _uses(p):
        found.append(use)
        if len(found) > most:
            return None
    return np.array(found, dtype=np.int64).reshape(-1, len(p.kinds))


def _uses(p: PipelineProblem) -> Iterator[tuple[int, ...]]:
    """Every multiset of stages that the nodes hold and that some point has stages for."""
    depths = p.depths
    names = list(p.nodes) if depths else []
    deepest = depths[-1] if depths else 0

    def within(group: str, sizes: set[int]) -> list[dict[int, int]]:
        """What one class can give in stages of `sizes`, at least one."""
        parts: list[dict[int, int]] = [{}]
        for k, kind in enumerate(p.kinds):
            if kind.group == group and kind.gpus in sizes:
                stock = int(p.stock[k])
                left = [(part, min(stock, deepest - sum(part.values()))) for part in parts]
                parts = [{**part, k: n} for part, most in left for n in range(most + 1)]
        return [part for part in parts if any(part.values()) and _packs(p, part, p.nodes[group])]

    every = {kind.gpus for kind in p.kinds}
    for sizes in [{size} for size in sorted(every)] if p.alike else [every]:
        given = {g: within(g, sizes) for g in names}
        for count in range(1, min(p.most_groups, len(names)) + 1):
            for groups in combinations(names, count):
                yield from _joined([given[g] for g in groups], {}, depths, len(p.kinds))


def _joined(
    parts: list[list[dict[int, int]]], taken: dict[int, int], depths: list[int], kinds: int
) -> Iterator[tuple[int, ...]]:
    """One of each of `parts` beside `taken`, in at most the deepest of `depths`."""
    stages = sum(taken.values())
    if stages + len(parts) > depths[-1]:
        return
    if not parts:
        if stages in depths:
            yield tuple(taken.get(k, 0) for k in range(kinds))
        return
    for part in parts[0]:
        yield from _joined(parts[1:], {**taken, **part}, depths, kinds)


def _packs(p: PipelineProblem, part: dict[int, int], node: Nodes) -> bool:
    """Whether the stages of one pipeline fit into the nodes of their class, by best fit: exact where sizes
    divide, which is where it is needed; elsewhere the master packs them again."""
    sizes: dict[int, int] = {}
    for k, n in part.items():
        sizes[p.kinds[k].gpus] = sizes.get(p.kinds[k].gpus, 0) + n
    if not packing.divisible(sorted(sizes)):
        return sum(t * n for t, n in sizes.items()) <= node.count * node.gpus
    return packing.bins_filled(sizes, node.gpus) <= node.count


def build(p: PipelineProblem, columns: Columns) -> Linear:
    """Write the master: one statement for each line of the docstring, in its order. 1 of `serve` is `unit`
    requests/s."""
    m, rate, unit = Linear("pipeline"), columns.ways.rate, columns.unit
    z = m.integers("z", range(len(columns.use)))
    y = m.integers("y", p.nodes)
    cost = p.objective == "cost"

    m.minimise([y[g] * p.nodes[g].price for g in y] if cost else [z[u] * -(rate[u] / unit) for u in z])
    if cost:
        m.add("serve", "all", total(z[u] * (rate[u] / unit) for u in z) >= (p.demand or 0.0) / unit)
    for g, node in p.nodes.items():
        m.add("nodes", g, total([y[g]]) <= node.count)
        items: dict[int, list[Var]] = {}
        for k, kind in enumerate(p.kinds):
            if kind.group == g:
                users = np.flatnonzero(columns.use[:, k])
                items.setdefault(kind.gpus, []).extend(
                    z[int(u)] for u in users for _ in range(columns.use[u, k])
                )
        packing.add(m, g, items, [Bins(node.gpus, counted=(y[g] * 1.0,))])
    return m


def duals(p: PipelineProblem, columns: Columns, relaxed: Outcome) -> tuple[Floats, float]:
    """What the relaxation pays for a stage of each kind (kinds,) and for one request/s, both >= 0 and in the
    master's unit."""
    pays = np.zeros(len(p.kinds))
    for x, kind in enumerate(p.kinds):
        sizes = {k.gpus for k in p.kinds if k.group == kind.group and k.gpus <= kind.gpus}
        fit = sum(kind.gpus // s * abs(relaxed.duals.get(("fit", (kind.group, s)), 0.0)) for s in sizes)
        pays[x] = fit + abs(relaxed.duals.get(("cover", (kind.group, kind.gpus)), 0.0))
    served = abs(relaxed.duals["serve", "all"]) if p.objective == "cost" else 1.0
    return pays, served / columns.unit


def reduced(p: PipelineProblem, columns: Columns, relaxed: Outcome) -> Floats:
    """What the objective loses, in the master's unit, by one replica of each column, (u,): never below 0."""
    pays, served = duals(p, columns, relaxed)
    return np.asarray(np.maximum(columns.use @ pays - served * columns.ways.rate, 0.0))
