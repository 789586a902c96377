"""What a plan of random arrivals serves in a closed loop, as vendors' benchmarks run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.plans.carried import most
from planner.plans.found import Found, Group, operate_anew, paths
from planner.plans.schema import Saturated
from planner.plans.strain import SLACK, scaled, strain
from planner.queueing import Percentile


def saturated(found: Found, made: Sequence[Group]) -> Saturated | None:
    """Return what the plan's own replicas serve with as many requests always in flight as serve most within
    the limits, each bucket on the plan's routes, its times as means; None where there is no such load."""
    full = [_closed(g, 1.0, g.setup.promise.percentile) for g in made]
    factor = most(lambda share: strain(found, full, share), strain(found, full), SLACK)
    if factor <= 0:
        return None
    buckets = found.workload.buckets
    ways = paths(scaled(found, factor), [_closed(g, factor, "mean") for g in made])
    rate, steps = sum(p.rate for p in ways), sum(p.rate * (buckets[p.bucket].osl > 1) for p in ways)
    answers = sum(p.rate * (buckets[p.bucket].osl - 1) * p.tpot_s for p in ways)
    others = sum(p.rate * p.tpot_s for p in ways if buckets[p.bucket].osl > 1)
    first = sum(p.rate * p.ttft_s for p in ways)
    return Saturated(
        in_flight=first + answers,
        rps=rate,
        out_tok_per_s=sum(p.rate * buckets[p.bucket].osl for p in ways),
        ttft_ms=1e3 * first / rate,
        tpot_ms=1e3 * others / steps if steps else 0.0,
    )


def _closed(g: Group, factor: float, percentile: Percentile) -> Group:
    """The group in a closed loop, with `factor` of its traffic, and with times at a percentile."""
    return operate_anew(g, factor, replace(g.setup.promise, percentile=percentile, loop="closed"))
