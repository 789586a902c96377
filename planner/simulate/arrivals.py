"""What a simulated plan gets: the requests of a trace, or some drawn at the plan's own rate and lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.cost.shape import Ints
from planner.inputs.traces import Trace
from planner.simulate.groups import Servers
from planner.simulate.pools import Load
from planner.simulate.requests import Requests

LIFETIMES = 20
"""Of a mean request: how long a drawn load lasts at least, beside its warm-up."""

FEWEST, MOST = 2_000, 200_000
"""Requests that are drawn."""


@dataclass(frozen=True)
class Drawn:
    """A load, and the requests (as a slice) whose times count: not those of the warm-up."""

    load: Load
    counted: slice


def drawn(servers: Servers, count: int | None, rate: float | None, seed: int) -> Drawn:
    """Requests of the plan's buckets: at random times (Poisson) where it has a rate, or `rate` is given; else
    as many always in flight as the plan has by Little's law, the first of which come over the first lifetime
    of a request, one after the other. That lifetime is warm-up, in a closed loop the next one, too."""
    rng = np.random.default_rng(seed)
    predicted, workload = servers.plan.predicted, servers.workload
    per_s = rate or workload.rate_rps
    tokens = float(np.array(workload.shares) @ np.maximum(servers.osl - 1, 0.0))
    lifetime_s = (predicted.ttft_ms.value + tokens * predicted.tpot_ms.value) / 1e3
    speed = per_s or predicted.rps.value
    n = count or int(np.clip((LIFETIMES + 1) * lifetime_s * speed, FEWEST, MOST))
    kind = rng.choice(len(servers.isl), n, p=workload.shares)
    isl, osl = servers.isl[kind].copy(), servers.osl[kind].copy()
    warm = min(math.ceil(lifetime_s * speed), n // 3)
    if per_s:
        at = np.cumsum(rng.exponential(1 / per_s, n))
        return Drawn(_load(servers, Requests(at, isl, osl), kind), slice(warm, None))
    inside = min(max(round(lifetime_s * speed), sum(r.count for r in servers.plan.replicas)), n)
    at = np.concatenate([np.linspace(0, lifetime_s, inside, endpoint=False), np.full(n - inside, lifetime_s)])
    load = _load(servers, Requests(at, isl, osl), kind, inside)
    return Drawn(load, slice(min(2 * inside, n // 3), n - inside if n > 3 * inside else None))


def traced(servers: Servers, trace: Trace, rate: float | None) -> Drawn:
    """The requests of a trace at their own times, or with all times stretched to a mean `rate`; each goes the
    ways of the bucket whose lengths are nearest in proportion."""
    at = trace.arrival_s - trace.arrival_s[0]
    if rate:
        at = at * (trace.rate_rps / rate)
    isl, osl = trace.isl.astype(float), trace.osl.astype(float)
    far = np.log(isl[:, None] / servers.isl) ** 2 + np.log(osl[:, None] / servers.osl) ** 2
    far[:, [not ways for ways in servers.ways]] = np.inf
    return Drawn(_load(servers, Requests(at, isl, osl), far.argmin(axis=1)), slice(None))


def _load(servers: Servers, requests: Requests, bucket: Ints, in_flight: int | None = None) -> Load:
    new = {r.id: servers.new(requests.isl, bucket, r.id) for r in servers.plan.replicas}
    return Load(requests, bucket, new, in_flight)
