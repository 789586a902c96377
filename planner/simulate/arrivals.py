"""What a simulated plan gets: the requests of a trace, or some drawn at the plan's own rate and lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.designs.shape import Floats, Ints
from planner.errors import InputError
from planner.inputs.traces import Trace
from planner.simulate.caches import Blocks
from planner.simulate.expected import stay_s
from planner.simulate.groups import Servers
from planner.simulate.pools import Load
from planner.simulate.requests import Requests

LIFETIMES = 20
"""Of a mean request: how long a drawn load lasts at least, beside its warm-up."""

FEWEST, MOST = 2_000, 200_000
"""Requests that are drawn; more where so many are in flight at once."""

GOLDEN = (5**0.5 - 1) / 2
"""Whose multiples, less their whole parts, are spread most evenly."""

PATIENCE = 2_000_000
"""Requests beyond which nobody is made to wait unasked: about a minute."""


@dataclass(frozen=True)
class Drawn:
    """A load, and the requests (as a slice) whose times count: not those of the warm-up. `osl` of whole
    answers: of some that are met on the way the load has the rest alone. `refused`: longer than the model
    takes, and not in the load."""

    load: Load
    counted: slice
    osl: Floats
    refused: int = 0


def drawn(servers: Servers, count: int | None, rate: float | None, seed: int) -> Drawn:
    """Requests of the plan's buckets: at random times (Poisson) in an open loop, or where `rate` is given;
    else as many always in flight as the plan has by Little's law. A lifetime of a request is warm-up."""
    rng = np.random.default_rng(seed)
    predicted, workload = servers.plan.predicted, servers.workload
    per_s = rate or workload.rate_rps or (predicted.rps.value if workload.loop == "open" else None)
    lifetime_s, ttft_s = stay_s(servers), predicted.ttft_ms.value / 1e3
    speed = per_s or predicted.rps.value
    inside = max(round(lifetime_s * speed), 1 if per_s else sum(r.count for r in servers.plan.replicas))
    n = count or max(int(np.clip((LIFETIMES + 1) * inside, FEWEST, MOST)), 4 * inside)
    if n > PATIENCE and not count:
        text = f"the plan has {inside:,} requests in flight at once: a replay of it takes {n:,} and more"
        raise InputError(text, "--requests", f"say so with --requests {n}, or plan a part of the cluster")
    if n < 2 * inside:
        text = f"{n:,} requests are too few: the plan has {inside:,} in flight at once"
        raise InputError(text, "--requests", f"at least {4 * inside:,} show how it runs")
    kind = rng.choice(len(servers.isl), n, p=workload.shares)
    isl, osl, whole = servers.isl[kind].copy(), servers.osl[kind].copy(), servers.osl[kind]
    if per_s:
        at = np.cumsum(rng.exponential(1 / per_s, n))
        warm = min(inside, n // 3)
        return Drawn(_load(servers, Requests(at, isl, osl), kind), slice(warm, None), whole)
    met = int(inside * max(lifetime_s - ttft_s, 0.0) / lifetime_s)
    part = rng.permutation(np.arange(1, met + 1)) / max(met, 1)  # even places in their answers
    left = np.ceil(osl[:met] * part)
    isl[:met] += osl[:met] - left
    osl[:met] = left
    fresh = np.linspace(0, ttft_s, inside - met, endpoint=False)
    at = np.concatenate([np.zeros(met), fresh, np.full(n - inside, ttft_s)])
    load = replace(_load(servers, Requests(at, isl, osl), kind), in_flight=inside, met=met, span_s=n / speed)
    for new in load.new.values():
        new[:met] = 1.0
    return Drawn(load, slice(min(2 * inside, n // 3), n - inside if n > 3 * inside else None), whole)


def traced(servers: Servers, trace: Trace, rate: float | None) -> Drawn:
    """The requests of a trace at their own times, or with all times stretched to a mean `rate`; each goes the
    ways of the bucket whose lengths are nearest in proportion. Where prompts are known by their blocks, what
    servers' caches hold of them is followed. Requests longer than the model takes are left out."""
    most = servers.card.max_context
    fits = trace.isl + trace.osl <= most
    if fits.sum() < 2:
        text = f"no two requests of `{trace.path}` are within the {most:,} tokens that the model takes"
        raise InputError(text, trace.path, "give requests that fit, or plan for another model")
    times = (trace.at_rate(rate) if rate else trace).arrival_s
    at = (times - times[0])[fits]
    isl, osl = trace.isl[fits].astype(float), trace.osl[fits].astype(float)
    far = np.log(isl[:, None] / servers.isl) ** 2 + np.log(osl[:, None] / servers.osl) ** 2
    far[:, [not ways for ways in servers.ways]] = np.inf
    load = _load(servers, Requests(at, isl, osl), far.argmin(axis=1))
    if trace.block_tokens:
        edges = trace.start[:-1][fits], trace.start[1:][fits]
        load = replace(load, blocks=Blocks(trace.block, *edges, trace.block_tokens))
    return Drawn(load, slice(None), osl, int((~fits).sum()))


def _load(servers: Servers, requests: Requests, bucket: Ints) -> Load:
    new = {r.id: whole(servers.new(requests.isl, bucket, r.id)) for r in servers.plan.replicas}
    return Load(requests, bucket, new)


def whole(mean: Floats) -> Floats:
    """Whole numbers whose means are `mean` (n,): rounded up as often as the part above says, at the steps of
    the golden ratio, so that neighbours make up for each other.

    >>> whole(np.full(8, 1.25)).tolist()
    [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    """
    return np.asarray(np.floor(mean + np.arange(len(mean)) * GOLDEN % 1.0))
