"""Arrivals like those that were seen: a trace with its lengths dealt anew, and one drawn from how counts
spread.

A trace happened once. `resampled` keeps the times, to which bursts belong, and deals the lengths of each ten
minutes anew among their requests; minutes change places inside their ten. `bursty` is for a workload without
a trace: requests at random at a rate that itself varies, as far as counts of its windows tell (`Dispersion`).
Of windows of w seconds the rate's relative variance is

    v(w) = (index(w) - 1) / (rate w)

and a rate that holds for d seconds adds its variance to windows up to d in full, to longer ones d / w of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.inputs.trace_columns import Floats
from planner.inputs.traces import Trace
from planner.inputs.traffic import Dispersion
from planner.inputs.workload import Workload

DEAL_S, MINUTE_S = 600.0, 60.0
"""Inside which lengths are dealt anew; inside which times stay together."""

MOST = 20_000
"""Requests that are drawn."""

FEWEST = 100
"""At least, however seldom they come: fewer tell no percentile."""

SPAN_S = 3600.0
"""That are drawn, where there are not too many in them, or too few."""


def resampled(trace: Trace, seed: int) -> Trace:
    """`trace` with its minutes in another order inside each ten, and lengths dealt anew there."""
    rng = np.random.default_rng(seed)
    at = trace.arrival_s
    minute, ten = (at // MINUTE_S).astype(int), (at // DEAL_S).astype(int)
    moved, each = at.copy(), np.arange(len(at))
    many = int(DEAL_S / MINUTE_S)
    for t in range(int(ten[-1]) + 1):
        own = np.flatnonzero(ten == t)
        whole = DEAL_S * (t + 1) <= at[-1]
        order = rng.permutation(many) if whole else np.arange(many)
        inside = minute[own] - many * t
        moved[own] += MINUTE_S * (order[inside] - inside)
        each[own] = rng.permutation(own)
    by_time = np.argsort(moved, kind="stable")
    isl, osl = trace.isl[each], trace.osl[each]
    return _bare(trace.path, moved[by_time], isl[by_time], osl[by_time])


def bursty(workload: Workload, seed: int, rate_rps: float | None = None) -> Trace:
    """Requests of the workload's buckets, as bursty as its `traffic` says, at its rate or another. Raises
    ValueError where it has no rate."""
    rate = rate_rps or workload.rate_rps
    if rate is None:
        raise ValueError("arrivals are drawn at a rate")
    rng = np.random.default_rng(seed)
    span_s = max(min(SPAN_S, MOST / rate), FEWEST / rate)
    given = workload.traffic.dispersion if workload.traffic else []
    own = float(np.mean(workload.traffic.rate_rps)) if workload.traffic else rate
    factor = np.ones(max(int(np.ceil(min(span_s, SPAN_S))), 1))
    cell_s = span_s / len(factor)  # a second, or less; more where requests come seldom
    for hold_s, variance in parts(given, own):
        cells = hold_s / max(cell_s, 1.0)
        many, variance = max(int(cells), 1), variance * min(cells, 1.0)  # what varies in a cell is averaged
        noise = rng.gamma(1 / variance, variance, int(np.ceil(len(factor) / many)))
        factor = factor * np.repeat(noise, many)[: len(factor)]
    factor = factor / max(factor.mean(), 1e-12)
    counts = rng.poisson(rate * cell_s * factor)
    at = np.repeat(np.arange(len(factor), dtype=float), counts)
    at = np.sort(at + rng.random(len(at))) * cell_s
    kind = rng.choice(len(workload.buckets), len(at), p=workload.shares)
    isl, osl = (np.array([getattr(b, name) for b in workload.buckets])[kind] for name in ("isl", "osl"))
    return _bare(workload.name, at, isl, osl)


def parts(given: Sequence[Dispersion], rate_rps: float) -> list[tuple[float, float]]:
    """Seconds for which each part of the rate holds and its relative variance, so that counts at `rate_rps`
    spread as `given`, as nearly as variances that are not negative can (least squares)."""
    from scipy.optimize import nnls  # here, not above: few workloads are drawn

    if not given:
        return []
    windows = np.array([max(d.window_s, 1.0) for d in given])
    seen = np.array([max(d.index - 1, 0.0) for d in given]) / (rate_rps * windows)
    held = np.minimum(1.0, windows[None, :] / windows[:, None])  # [window, part]
    weights = 1 / np.maximum(seen, 1e-12)  # each window as near as the others, in proportion
    variance, _ = nnls(held * weights[:, None], seen * weights)
    return [(float(hold), float(v)) for hold, v in zip(windows, variance, strict=True) if v > 0]


def busiest(trace: Trace, most: int = MOST) -> Trace:
    """At most so many requests of a long trace, one after the other: those that come fastest."""
    if len(trace) <= most:
        return trace
    taken = trace.arrival_s[most - 1 :] - trace.arrival_s[: len(trace) - most + 1]
    first = int(taken.argmin())
    own = slice(first, first + most)
    return _bare(trace.path, trace.arrival_s[own] - trace.arrival_s[first], trace.isl[own], trace.osl[own])


def _bare(path: str, at: Floats, isl: np.ndarray, osl: np.ndarray) -> Trace:
    """A trace of which nothing is found again."""
    none = np.zeros(0, dtype=np.int64)
    start = np.zeros(len(at) + 1, dtype=np.int64)
    return Trace(path, at, isl.astype(np.int64), osl.astype(np.int64), 0, none, start)
