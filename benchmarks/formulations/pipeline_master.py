"""Pipelines chosen with their counts: the integer program of `solvers.pipeline`, solved with a bound.

Small: the relaxation's duals drop the columns that no optimum can hold, and the MILP of the rest is exact.
Large: columns are generated (`pipeline_pricing.py`), and the bound is Farley's: no column has more than theta
times the rate that its duals pay for, so theta times the relaxation holds for all.

Source     column generation with a true bound: Farley 1990.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.formulations.pipeline_pricing import guessed, price
from solvers import pipeline
from solvers.linear import Limits, Outcome, Status, judge
from solvers.pipeline import MOST_COLUMNS, Columns
from solvers.pipeline.layers import Ways, stated
from solvers.pipeline.types import Floats, Ints, Pipeline, PipelineProblem

FEW = 200
"""Columns that the MILP takes as they are."""


MOST_ROUNDS = 60
"""Rounds of pricing."""


LEAST = 1e-3
"""Of what a mean GPU is worth, the least that pricing charges for one."""


CLOSE = 1e-3
"""Pricing ends where the relaxation is proven this well: what remains is the integers' gap."""


def solve(p: PipelineProblem, limits: Limits, most_columns: int = MOST_COLUMNS) -> PipelineSolution:
    """The best pipelines found and their bound; exact where at most `most_columns` could stand."""
    began = time.perf_counter()
    use = pipeline.every(p, most_columns)
    if use is None:
        return _generated(p, limits, began)
    return _exact(p, Columns.of(p, use), limits, began)


def _exact(p: PipelineProblem, columns: Columns, limits: Limits, began: float) -> PipelineSolution:
    """All columns are there: drop those whose reduced cost no optimum can afford, then solve the rest."""
    if not len(columns.use):
        return _nothing(p, len(columns.use))
    if len(columns.use) <= FEW:
        return _extract(p, columns, _integers(p, columns, limits, began), limits, None)
    relaxed = pipeline.build(p, columns).relax(limits)
    if relaxed.value is None:
        return replace(_nothing(p, len(columns.use)), status=relaxed.status)
    lost = pipeline.reduced(p, columns, relaxed)
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
        relaxed = pipeline.build(p, columns).relax(limits)
        if relaxed.value is None:
            break
        pays, served = pipeline.duals(p, columns, relaxed)
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
        columns = _both(columns, new)
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
    return pipeline.build(p, columns).solve(replace(limits, seconds=left))


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
    pipelines = tuple(stated(p, columns.use, columns.ways, u) for u, n in counts.items() for _ in range(n))
    nodes = {g: round(float(outcome.values[len(columns.use) + i])) for i, g in enumerate(p.nodes)}
    value = sum(n * p.nodes[g].price for g, n in nodes.items()) if cost else sum(x.rate for x in pipelines)
    stopped: Status = "time_limit" if outcome.status in ("optimal", "within_gap") else outcome.status
    return PipelineSolution(judge(value, shown, limits, stopped), value, shown, pipelines, len(columns.use))


def _nothing(p: PipelineProblem, columns: int) -> PipelineSolution:
    """No pipeline stands: nothing is served."""
    if not p.demand:
        return PipelineSolution("optimal", 0.0, 0.0, (), columns)
    return PipelineSolution("infeasible", None, None, (), columns)


def _both(a: Columns, b: Columns) -> Columns:
    pairs = zip(vars(a.ways).values(), vars(b.ways).values(), strict=True)
    ways = Ways(*(np.concatenate(pair) for pair in pairs))
    return Columns(np.concatenate([a.use, b.use]), ways, max(a.unit, b.unit))


@dataclass(frozen=True)
class PipelineSolution:
    """`objective` and `bound` in the problem's sense (requests/s, or the nodes' price); `complete`: every
    pipeline of the space was a column."""

    status: Status
    objective: float | None
    bound: float | None
    pipelines: tuple[Pipeline, ...] = ()
    columns: int = 0
    complete: bool = True
