"""Times that the plan's own formulas have at its load, at every percentile: of open and of closed loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np

from planner.designs.shape import Floats
from planner.engines import named
from planner.operating.requests import Terms
from planner.operating.times import arriving
from planner.plans.schema import Replica
from planner.queueing import Estimate, Percentile, Role
from planner.queueing.mixture import Part, quantile_of
from planner.queueing.places import places_of
from planner.queueing.tail import QUANTILE
from planner.simulate.groups import OwnStep, Servers

Times = dict[str, float]


def expected(servers: Servers) -> dict[str, Times]:
    """Milliseconds by "ttft_ms" and "tpot_ms", then by percentile, of all requests, as plans have it. Empty
    where formulas know means only: of prefill/decode pairs."""
    if any(r.role != "mixed" for r in servers.plan.replicas):
        return {}
    parts: dict[str, list[tuple[float, Times]]] = {"ttft_ms": [], "tpot_ms": []}
    for r in servers.plan.replicas:
        own, rate = servers.own_step(r), servers.rates[r.id]
        every = {p: _at(servers, r, own, p) for p in get_args(Percentile)}
        for w in np.flatnonzero(rate > 0):
            parts["ttft_ms"].append((rate[w], {p: 1e3 * float(e.ttft_s[0, w]) for p, e in every.items()}))
            if servers.osl[w] > 1:
                parts["tpot_ms"].append((rate[w], {p: 1e3 * float(e.tpot_s[0, w]) for p, e in every.items()}))
    return {name: _of_all(own) for name, own in parts.items()}


def stay_s(servers: Servers) -> float:
    """Mean seconds from a request's arrival to its last token: by the plan's own means, or by the formulas
    where the plan has a percentile; those leave out how long caches travel."""
    predicted, tokens = servers.plan.predicted, np.maximum(servers.osl - 1, 0.0)
    if servers.workload.slo.percentile == "mean":
        mean = float(np.array(servers.workload.shares) @ tokens)
        return predicted.ttft_ms.value / 1e3 + mean * predicted.tpot_ms.value / 1e3
    seconds = 0.0
    for r in servers.plan.replicas:
        e, rate = _at(servers, r, servers.own_step(r), "mean"), servers.rates[r.id]
        first = 0.0 if r.role == "decode" else float(rate @ e.ttft_s[0])
        seconds += first + (0.0 if r.role == "prefill" else float((rate * tokens) @ e.tpot_s[0]))
    return seconds / predicted.rps.value


def _at(servers: Servers, r: Replica, own: OwnStep, percentile: Percentile) -> Estimate:
    """Times of one server of a group at the plan's load."""
    each = (servers.rates[r.id] / (r.count * r.attn_dp))[None]
    role: Role = r.role if r.role in ("prefill", "decode") else "mixed"
    terms = Terms(role, float(own.budget), percentile, servers.workload.loop)
    return arriving(own.model, own.leveled.step, own.asked, each, terms, _places(servers, r))


def _places(servers: Servers, r: Replica) -> Floats | float:
    """Requests that one of a group's servers takes at once, (1,)."""
    if r.role == "prefill" or servers.workload.loop == "closed":
        return np.inf
    whole, rate = named(r.engine).admits_whole, servers.rates[r.id]
    isl, osl = servers.isl[None], servers.osl[None]
    need = isl + servers.longest if whole else isl
    held = need if whole else isl + osl / 2
    share = rate / rate.sum() if rate.sum() > 0 else np.array(servers.workload.shares)
    room = np.array([r.kv_tokens / r.attn_dp])
    in_cache = places_of(room, held, need, share, servers.osl - 1, whole)
    return np.minimum(in_cache, r.max_batch / r.attn_dp)


def _of_all(parts: Sequence[tuple[float, Times]]) -> Times:
    """Mean and percentiles over the requests of all parts, of (requests/s, times) each; none where a time is
    without end."""
    if not parts or not all(np.isfinite(x) for _, times in parts for x in times.values()):
        return {}
    rate = sum(r for r, _ in parts)
    ways = [Part(r, np.array([times[p] for p in QUANTILE])) for r, times in parts]
    mean = sum(r * times["mean"] for r, times in parts) / rate
    return {"mean": mean} | {p: quantile_of(ways, p) for p in QUANTILE}
