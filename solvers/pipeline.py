"""Pipeline: replicas whose stages differ in class, GPUs side by side (tp) and layers, and how many of each.

Sets       k in K   kinds of stage: (node class g[k], GPUs t[k])         g in G   node classes
           a in A   points: S[a] stages with as many micro-batches, B[a] sequences in flight in all
           u in U   pipelines: use[u,k] stages of each kind
Data       L        layers of the model, alike
           layer_s[a,k]  extra_s[a,k,role]  seconds of a micro-batch: a layer, and beside layers (role: first,
                    middle, last, alone; the LM head on the last), its share of the prompts in it
           hop_s[a,g,h]  seconds from a stage on g to one on h; far_s[a,g] between nodes of g
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

Small: every u is a column (`pipeline_layers.py` has the rate), the relaxation's duals drop those that no
optimum can hold, and the MILP of the rest is exact. Large: columns are generated (`pipeline_pricing.py`), and
the bound is Farley's: no column has more than theta times the rate that its duals pay for, so theta times the
relaxation holds for all.

Source     column generation with a true bound: Farley 1990; the formulation is ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from solvers import packing
from solvers.linear import Limits, Linear, Outcome, Status, Var, judge, total
from solvers.packing import Bins
from solvers.pipeline_layers import Ways, best_ways, stated
from solvers.pipeline_pricing import guessed, price
from solvers.pipeline_types import (
    ALONE,
    FIRST,
    LAST,
    MIDDLE,
    Floats,
    Ints,
    Kind,
    Nodes,
    Pipeline,
    PipelineProblem,
    PipelineSolution,
    Point,
)

__all__ = [
    "ALONE",
    "FIRST",
    "LAST",
    "MIDDLE",
    "Kind",
    "Limits",
    "Nodes",
    "Pipeline",
    "PipelineProblem",
    "PipelineSolution",
    "Point",
    "shortlist",
    "solve",
]

MOST_COLUMNS = 20_000
"""Pipelines up to which all are tried: a few seconds."""

FEW = 200
"""Columns that the MILP takes as they are."""

MOST_ROUNDS = 60
"""Rounds of pricing."""

LEAST = 1e-3
"""Of what a mean GPU is worth, the least that pricing charges for one."""

CLOSE = 1e-3
"""Pricing ends where the relaxation is proven this well: what remains is the integers' gap."""


@dataclass(frozen=True)
class Columns:
    """Pipelines of the master: stages by kind (u, kinds), how each is run, and the requests/s that the master
    counts in, so that its coefficients are near 1."""

    use: Ints
    ways: Ways
    unit: float

    @staticmethod
    def of(p: PipelineProblem, use: Ints) -> Columns:
        """Those of `use` that serve anything."""
        ways = best_ways(p, use)
        some = np.flatnonzero(ways.rate > 0)
        return Columns(use[some], ways.take(some), float(ways.rate.max(initial=0.0)) or 1.0)

    def take(self, chosen: Ints) -> Columns:
        return Columns(self.use[chosen], self.ways.take(chosen), self.unit)

    def with_(self, other: Columns) -> Columns:
        both = np.concatenate([self.use, other.use])
        return Columns(both, self.ways.with_(other.ways), max(self.unit, other.unit))


@dataclass(frozen=True)
class Built:
    """The master; 1 of the serve row is `unit` requests/s."""

    model: Linear
    z: dict[int, Var]
    y: dict[str, Var]
    unit: float


def solve(p: PipelineProblem, limits: Limits, most_columns: int = MOST_COLUMNS) -> PipelineSolution:
    """The best pipelines found and their bound; exact where at most `most_columns` could stand."""
    began = time.perf_counter()
    use = every(p, most_columns)
    if use is None:
        return _generated(p, limits, began)
    return _exact(p, Columns.of(p, use), limits, began)


def shortlist(p: PipelineProblem, most: int, limits: Limits) -> tuple[list[Pipeline], int]:
    """Of all pipelines over several groups the `most` that lose least of their own worth against the duals of
    the relaxation over all pipelines, best first; and how many there are (none is looked at where all are
    more than MOST_COLUMNS)."""
    use = every(p, MOST_COLUMNS)
    columns = Columns.of(p, use if use is not None else np.zeros((0, len(p.kinds)), dtype=np.int64))
    member = np.eye(len(p.nodes), dtype=np.int64)[p.group_of]
    several = np.flatnonzero(((columns.use @ member) > 0).sum(axis=1) > 1)
    if not len(several):
        return [], 0
    relaxed = build(p, columns).model.relax(limits)
    if relaxed.value is None and p.objective == "cost":  # all together do not serve the demand
        return shortlist(replace(p, objective="throughput"), most, limits)
    _, served = duals(p, columns, relaxed)
    worth = np.maximum(served * columns.ways.rate, 1e-300)
    lost = (reduced(p, columns, relaxed) / worth)[several]
    best = several[np.argsort(lost, kind="stable")][:most]
    return [stated(p, columns.use, columns.ways, int(u), 1) for u in best], len(several)


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


def _exact(p: PipelineProblem, columns: Columns, limits: Limits, began: float) -> PipelineSolution:
    """All columns are there: drop those whose reduced cost no optimum can afford, then solve the rest."""
    if not len(columns.use):
        return _nothing(p, len(columns.use))
    if len(columns.use) <= FEW:
        return _extract(p, columns, _integers(p, columns, limits, began), limits, None)
    relaxed = build(p, columns).model.relax(limits)
    if relaxed.value is None:
        return replace(_nothing(p, len(columns.use)), status=relaxed.status)
    lost = reduced(p, columns, relaxed)
    some = np.sort(np.argsort(lost, kind="stable")[:FEW])
    first = _integers(p, columns.take(some), limits, began)
    if first.value is not None:
        afford = first.value - relaxed.value + 1e-9 * abs(first.value)
        kept = columns.take(np.flatnonzero(lost <= afford))
    else:
        kept = columns
    return replace(
        _extract(p, kept, _integers(p, kept, limits, began), limits, None), columns=len(columns.use)
    )


def _generated(p: PipelineProblem, limits: Limits, began: float) -> PipelineSolution:
    """Columns by pricing until the relaxation is proven, then the MILP of those found.

    For a demand, columns that serve the most come first: without them the relaxation may not reach it.
    """
    seeds = _seeds(p)
    columns = Columns.of(p, seeds)
    bound: float | None = None
    stages = [replace(p, objective="throughput"), p] if p.objective == "cost" else [p]
    for at, q in enumerate(stages):
        until = began + limits.seconds / 2 * (at + 1) / len(stages)
        columns, bound = _priced(q, columns, limits, until)
        if q is not p and bound is not None and -bound < (p.demand or 0.0):
            return PipelineSolution("infeasible", None, None, (), len(columns.use), complete=False)
    bound = 0.0 if bound is None else bound  # no plan has a price below
    found = _extract(p, columns, _integers(p, columns, limits, began), limits, bound)
    unknown = found.status == "infeasible"  # of these columns, that is
    return replace(found, complete=False, status="time_limit" if unknown else found.status)


def _priced(
    p: PipelineProblem, columns: Columns, limits: Limits, until: float
) -> tuple[Columns, float | None]:
    """More columns, until the relaxation of all is within CLOSE of theirs; and its bound (minimised). Guesses
    come first: pricing that proves is for when they are at an end."""
    bound: float | None = None
    tried = {tuple(use) for use in columns.use}
    for _ in range(MOST_ROUNDS):
        relaxed = build(p, columns).model.relax(limits)
        if relaxed.value is None:
            break
        pays, served = duals(p, columns, relaxed)
        pays, added = floored(p, pays, relaxed.value)
        new = _better(p, pays, served, guessed(p, pays, served), tried)
        if not len(new.use) or time.perf_counter() > until:
            found = price(p, pays, served, max(until, time.perf_counter() + limits.seconds / 8))
            here = farley(p, relaxed.value, added, served * (p.demand or 0.0), found.theta)
            here *= columns.unit if p.objective == "throughput" else 1.0
            bound = here if bound is None else max(bound, here)
            new = _better(p, pays, served, found.use, tried)
            if found.theta <= 1 + CLOSE or not len(new.use) or time.perf_counter() > until:
                break
        columns = columns.with_(new)
    return columns, bound


def _better(
    p: PipelineProblem, pays: Floats, served: float, use: Ints, tried: set[tuple[int, ...]]
) -> Columns:
    """Of `use` (u, kinds) those not `tried` whose own rate is worth more than their stages cost."""
    new = np.array([u for u in use if tuple(u) not in tried], dtype=np.int64).reshape(-1, len(p.kinds))
    tried |= {tuple(u) for u in new}
    columns = Columns.of(p, new)
    return columns.take(np.flatnonzero(served * columns.ways.rate > columns.use @ pays * (1 + 1e-6)))


def _seeds(p: PipelineProblem) -> Ints:
    """Pipelines of one kind of stage: what a relaxation begins with."""
    kinds = np.eye(len(p.kinds), dtype=np.int64)
    found = [kinds[k] * n for k in range(len(p.kinds)) for n in p.depths if n <= p.stock[k]]
    return np.array(found, dtype=np.int64).reshape(-1, len(p.kinds))


def build(p: PipelineProblem, columns: Columns) -> Built:
    """Write the master: one statement for each line of the docstring, in its order."""
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
    return Built(m, z, y, unit)


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


def floored(p: PipelineProblem, pays: Floats, value: float) -> tuple[Floats, float]:
    """`pays` (kinds,) with at least LEAST of the mean GPU's share of `value` for a GPU of every class, and
    what that adds to the dual objective: the dual of a redundant row, stages' GPUs <= GPUs there are. Without
    it a stage that no column uses is free, and pricing has no bound."""
    gpus = np.array([node.count * node.gpus for node in p.nodes.values()], dtype=np.float64)
    least = LEAST * (abs(value) or 1.0) / gpus.sum()
    each = pays / p.gpus_of
    lacks = np.array(
        [max(0.0, least - each[p.group_of == g].min(initial=np.inf)) for g in range(len(p.nodes))]
    )
    return pays + lacks[p.group_of] * p.gpus_of, float(lacks @ gpus)


def farley(p: PipelineProblem, value: float, added: float, paid: float, theta: float) -> float:
    """The relaxation of all columns is no better than this, all in the master's unit and minimised: `value`
    of the columns there are, `added` to the duals' objective, `paid` by the demand.

    Throughput: theta times the duals. Cost: the demand's dual less theta times, the others as they are.
    """
    if p.objective == "throughput":
        return theta * (value - added)
    return value - added - paid + paid / theta


def _integers(p: PipelineProblem, columns: Columns, limits: Limits, began: float) -> Outcome:
    left = max(1.0, limits.seconds - (time.perf_counter() - began))
    return build(p, columns).model.solve(replace(limits, seconds=left))


def _extract(
    p: PipelineProblem, columns: Columns, outcome: Outcome, limits: Limits, bound: float | None
) -> PipelineSolution:
    """Recompute the objective from the counts; `bound`: of all columns, in the minimised sense, where the
    MILP's holds only for those it had."""
    unit = columns.unit
    cost = p.objective == "cost"
    proven = outcome.bound
    if proven is not None and not cost:
        proven *= unit
    proven = bound if bound is not None else proven
    shown = None if proven is None else proven if cost else -proven
    if outcome.values is None:
        return PipelineSolution(outcome.status, None, shown, (), len(columns.use))
    counts = {u: round(float(v)) for u, v in enumerate(outcome.values[: len(columns.use)]) if round(float(v))}
    pipelines = tuple(stated(p, columns.use, columns.ways, u, n) for u, n in counts.items())
    nodes = {g: round(float(outcome.values[len(columns.use) + i])) for i, g in enumerate(p.nodes)}
    value = (
        sum(n * p.nodes[g].price for g, n in nodes.items())
        if cost
        else sum(x.count * x.rate for x in pipelines)
    )
    stopped: Status = "time_limit" if outcome.status in ("optimal", "within_gap") else outcome.status
    return PipelineSolution(judge(value, shown, limits, stopped), value, shown, pipelines, len(columns.use))


def _nothing(p: PipelineProblem, columns: int) -> PipelineSolution:
    """No pipeline stands: nothing is served."""
    if not p.demand:
        return PipelineSolution("optimal", 0.0, 0.0, (), columns)
    return PipelineSolution("infeasible", None, None, (), columns)
