"""What a plan promises in all: totals with their 80 % bands, and the chance that each limit is kept.

The rate's band comes from the phase that binds (`binding`), those of TTFT and TPOT from the servers that make
the first token and the others. A limit's chance is that of the mean over all requests of a bucket, of the
bucket that keeps it worst; of a percentile that of the way through the fleet that keeps it worst.

Watts are those of the cluster's GPUs, all of them: a replica's at its load, and `idle_watts` of GPUs that
stand in no replica, in nodes that are otherwise unused, too: whoever has them has them switched on. Hosts,
switches and cooling are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from cluster_configs.schema import NodeClass
from planner.cost.bands import of_role
from planner.cost.power import idle_watts
from planner.plans import placement, schema
from planner.plans.bands import Edges, Totals, Way, band, chance, chance_of_mean
from planner.plans.binding import rate_edges, rate_sigma
from planner.plans.found import Found, Group, Path, paths
from planner.plans.operation import index_of
from planner.plans.percentiles import bands_of


def predicted(found: Found, made: Sequence[Group], placed: placement.Placed) -> schema.Predicted:
    """Totals. Times are at the workload's percentile of all requests."""
    ways, w = paths(found, made), found.workload
    rate = sum(p.rate for p in ways)
    out = sum(p.rate * w.buckets[p.bucket].osl for p in ways)
    tokens = out + sum(p.rate * w.buckets[p.bucket].isl for p in ways)
    (firsts, others), sure = times_ms(found, ways), kept(found, ways)
    usd = price(found.cluster.classes, placed.used)
    busiest = max(made, key=lambda g: g.operation.used)
    given = w.loop == "open" and not found.objective.more  # an asked rate is served
    picked = max(g.setup.model.calibration.picked for g in made)
    speed = Edges() if given else rate_edges(made, ways).flattered(picked)
    used = {n.id: sum(g.count * g.candidate.gpus_on(n.id) for g in made) for n in found.cluster.classes}
    watts = sum(g.count * g.operation.watts for g in made) + idle(found.cluster.classes, used)
    used_share = band(busiest.operation.used, rate_sigma(busiest) if given else 0.0)
    totals = Totals(rate, out, tokens, usd, watts, speed)
    return totals.predicted(*bands_of(found, made, firsts, others), used_share, sure)


def times_ms(found: Found, ways: Sequence[Path]) -> tuple[list[Way], list[Way]]:
    """TTFT of each way, by the server that computes the prompt, and TPOT, by the one that makes the tokens: a
    single output token has none."""
    decoding = [p for p in ways if found.workload.buckets[p.bucket].osl > 1]
    firsts = [Way(p.rate, 1e3 * p.ttft_s, sigma_of(p.first, 0), longer(p)) for p in ways]
    return firsts, [Way(p.rate, 1e3 * p.tpot_s, sigma_of(p.decoder, 1)) for p in decoding]


def chances(found: Found, made: Sequence[Group]) -> tuple[float | None, float | None]:
    """Odds that the fleet keeps its limits on TTFT and TPOT."""
    return kept(found, paths(found, made))


def kept(found: Found, ways: Sequence[Path]) -> tuple[float | None, float | None]:
    """Odds that the `ways` keep the limits on TTFT and TPOT: those of the bucket whose requests keep them
    worst in the mean, or of the way that does where a percentile is promised."""
    slo, limits = found.workload.slo, (found.workload.slo.ttft_ms, found.workload.slo.tpot_ms)
    if slo.percentile != "mean" and found.workload.loop == "open":
        firsts, others = times_ms(found, ways)
        return chance(limits[0], firsts), chance(limits[1], others)
    odds: tuple[list[float], list[float]] = ([], [])
    for bucket in {way.bucket for way in ways}:
        own = times_ms(found, [way for way in ways if way.bucket == bucket])
        for kind, (limit, times) in enumerate(zip(limits, own, strict=True)):
            if limit is not None and times:
                odds[kind].append(chance_of_mean(limit, times))
    return min(odds[0], default=None), min(odds[1], default=None)


def longer(p: Path) -> float:
    """Deviation of the log of longer TTFTs than a way's, where a risk is asked for: that by which the limit
    is kept with it, as queues of busy servers that only prefill grow by more than prompts do."""
    z = p.first.setup.risk_z
    return math.log(p.cautious_ttft_s / p.ttft_s) / z if z > 0 and p.ttft_s > 0 else 0.0


def sigma_of(g: Group, kind: int) -> float:
    """Deviation of the log of a group's TTFT (0) or TPOT (1)."""
    s = g.setup
    own = s.model.sigmas(s.designs.take(np.array([index_of(s, g.candidate)])))
    return float(of_role(own, g.operation.does)[kind, 0])


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
