"""What a plan promises in all: totals with their 80 % bands, and the chance that each limit is kept.

The rate's band comes from the phase that binds (`binding`), those of TTFT and TPOT from the servers that make
the first token and the others. A limit's chance is that of the way through the fleet that keeps it worst.

Watts are those of the cluster's GPUs, all of them: a replica's at its load, and `idle_watts` of GPUs that
stand in no replica, in nodes that are otherwise unused, too: whoever has them has them switched on. Hosts,
switches and cooling are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, hypot, log
from statistics import NormalDist

import numpy as np

from cluster_configs.schema import NodeClass
from planner.cost.power import idle_watts
from planner.plans import placement, schema
from planner.plans.binding import Z80, Edges, rate_edges, rate_sigma
from planner.plans.found import Found, Group, Path, paths
from planner.plans.operation import index_of
from planner.plans.parts import usd_per_mtok

WATTS_SIGMA = 0.2
"""Of the log of measured / predicted watts."""


def predicted(found: Found, made: Sequence[Group], placed: placement.Placed) -> schema.Predicted:
    """Totals. Times are means over requests of each way's value at the workload's percentile."""
    ways, w = paths(found, made), found.workload
    rate = sum(p.rate for p in ways)
    out = sum(p.rate * w.buckets[p.bucket].osl for p in ways)
    tokens = out + sum(p.rate * w.buckets[p.bucket].isl for p in ways)
    (firsts, others), sure = times_ms(found, ways), kept(found, ways)
    usd = price(found.cluster.classes, placed.used)
    busiest = max(made, key=lambda g: g.operation.utilisation)
    given = w.rate_rps is not None and not found.objective.more  # an asked rate is served
    picked = max(g.setup.model.calibration.picked for g in made)
    speed = Edges() if given else rate_edges(made, ways).flattered(picked)
    used = {n.id: sum(g.count * g.candidate.gpus_on(n.id) for g in made) for n in found.cluster.classes}
    watts = sum(g.count * watts_of(found, g) for g in made) + idle(found.cluster.classes, used)
    return schema.Predicted(
        out_tok_per_s=within(out, speed),
        total_tok_per_s=within(tokens, speed),
        rps=within(rate, speed),
        ttft_ms=mean_band(firsts),
        tpot_ms=mean_band(others),
        utilisation=band(busiest.operation.utilisation, rate_sigma(busiest) if given else 0.0),
        usd_per_hour=None if usd is None else band(usd, 0.0),
        usd_per_mtok=None if usd is None else each(usd_per_mtok(usd, out), speed),
        watts=band(watts, WATTS_SIGMA),
        joules_per_tok=each(watts / out, speed, WATTS_SIGMA),
        chance_ttft=sure[0],
        chance_tpot=sure[1],
    )


Way = tuple[float, float, float]
"""Requests/s of one way through the fleet, a time that they see, and the deviation of its log."""


def times_ms(found: Found, ways: Sequence[Path]) -> tuple[list[Way], list[Way]]:
    """TTFT of each way, by the server that computes the prompt, and TPOT, by the one that makes the tokens: a
    single output token has none."""
    decoding = [p for p in ways if found.workload.buckets[p.bucket].osl > 1]
    firsts = [(p.rate, 1e3 * p.ttft_s, sigma_of(p.first, 0)) for p in ways]
    return firsts, [(p.rate, 1e3 * p.tpot_s, sigma_of(p.decoder, 1)) for p in decoding]


def chances(found: Found, made: Sequence[Group]) -> tuple[float | None, float | None]:
    """Odds that the fleet keeps its limits on TTFT and TPOT."""
    return kept(found, paths(found, made))


def kept(found: Found, ways: Sequence[Path]) -> tuple[float | None, float | None]:
    """Odds that the `ways` keep the limits on TTFT and TPOT."""
    slo, (firsts, others) = found.workload.slo, times_ms(found, ways)
    return chance(slo.ttft_ms, firsts), chance(slo.tpot_ms, others)


def sigma_of(g: Group, kind: int) -> float:
    """Deviation of the log of a group's TTFT (0) or TPOT (1)."""
    s = g.setup
    return float(s.model.sigmas(s.designs.take(np.array([index_of(s, g.candidate)])))[kind, 0])


def mean_band(ways: Sequence[Way]) -> schema.Band:
    """The mean over requests; errors of all ways count as one, so their edges are averaged as they are.

    >>> mean_band([(1.0, 10.0, 0.0), (3.0, 20.0, 0.0)])
    Band(value=17.5, low=17.5, high=17.5)
    """
    rate = sum(r for r, _, _ in ways)
    if not ways:
        return band(0.0, 0.0)
    value, low, high = (
        sum(r * t * exp(z * Z80 * sigma) for r, t, sigma in ways) / rate for z in (0.0, -1.0, 1.0)
    )
    return schema.Band(value=value, low=low, high=high)


def chance(limit: float | None, ways: Sequence[Way]) -> float | None:
    """Odds that the way which keeps `limit` worst does, times log-normal around their prediction; None
    without a limit.

    >>> [round(chance(100.0, [(1.0, t, 0.2)]), 3) for t in (100.0, 80.0, 125.0)]
    [0.5, 0.868, 0.132]
    >>> round(chance(100.0, [(9.0, 50.0, 0.2), (1.0, 80.0, 0.2)]), 3)  # however few requests take it
    0.868
    """
    if limit is None or not ways:
        return None
    return min(_kept(limit, time, sigma) for _, time, sigma in ways)


def _kept(limit: float, time: float, sigma: float) -> float:
    if time <= 0 or sigma == 0:
        return float(time <= limit)
    return NormalDist().cdf(log(limit / time) / sigma)


def band(value: float, sigma: float) -> schema.Band:
    """The central 80 % of a log-normal with median `value`.

    >>> found = band(100.0, 0.1)
    >>> round(found.low, 1), found.value, round(found.high, 1)
    (88.0, 100.0, 113.7)
    """
    return within(value, Edges.of(sigma))


def within(value: float, edges: Edges) -> schema.Band:
    """`value` between its edges."""
    return schema.Band(value=value, low=value * edges.low, high=value * edges.high)


def each(value: float, speed: Edges, sigma: float = 0.0) -> schema.Band:
    """What each token takes of something that flows by the hour, `value` at the predicted rate: little where
    the rate is high. `sigma`: of the flow's own log, independent of the rate.

    >>> found = each(8.0, Edges(low=0.5, high=1.25))
    >>> found.low, found.high
    (6.4, 16.0)
    """
    own = Z80 * sigma
    low, high = exp(-hypot(own, log(speed.high))), exp(hypot(own, -log(speed.low)))
    return schema.Band(value=value, low=value * low, high=value * high)


def price(classes: Sequence[NodeClass], used: Mapping[str, int]) -> float | None:
    """US$/h of the whole nodes in use; None where one of them has no price."""
    here = [n for n in classes if used.get(n.id, 0)]
    if any(n.price_usd_per_hour is None for n in here):
        return None
    paid: dict[tuple[str, str], float] = {}  # parts of one node are paid once
    for n in here:
        key = ("box", n.box) if n.box else ("class", n.id)
        paid[key] = max(paid.get(key, 0.0), (n.price_usd_per_hour or 0.0) * used[n.id])
    return float(sum(paid.values()))


def idle(classes: Iterable[NodeClass], used: Mapping[str, int]) -> float:
    """Watts of all GPUs that stand in no replica; `used`: GPUs in replicas, by class."""
    return sum((n.gpus - used.get(n.id, 0)) * idle_watts(n.device.tdp_watts) for n in classes)


def watts_of(found: Found, g: Group) -> float:
    """Watts of one replica at its real load."""
    return g.operation.watts
