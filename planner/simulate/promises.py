"""Whether a replay kept what a plan promises: of each bucket, over all its requests whatever their way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.designs.shape import Floats, Ints
from planner.inputs.workload import Workload

QUANTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
"""Percentiles of times, by linear interpolation between requests (NumPy's)."""

Times = dict[str, float]
"""Milliseconds by "mean" and the names of QUANTILES."""


NEARLY = 0.02
"""Share of a limit by which a time in a closed loop may be beyond it: such plans stand just at their limit,
by formulas that are so near to the replay (`planner/queueing`)."""


@dataclass(frozen=True)
class Promise:
    """A limit on the times of each bucket's requests at a percentile: the time of the bucket that is latest
    there, the least share of a bucket's requests within the limit, and whether the percentile (or mean) of
    every bucket was; in a closed loop but for `NEARLY`."""

    limit_ms: float
    percentile: str
    achieved_ms: float
    attained: float
    kept: bool


def promises_of(
    workload: Workload, times: Mapping[str, Floats], kinds: Ints
) -> tuple[dict[str, Promise], Floats]:
    """The limits by name, and whether each request (n,) was within all of them. `times` in ms by the limit's
    name, `kinds` which requests are judged together, (n,) each."""
    closed, slo = workload.loop == "closed", workload.slo
    percentile = slo.percentile
    promises, within = dict[str, Promise](), np.ones(len(kinds))
    for name, each in times.items():
        limit = getattr(slo, name)
        if limit is None or np.isnan(each).all():
            continue
        good = np.isnan(each) | (each <= limit)
        within *= good
        buckets = [kinds == kind for kind in np.unique(kinds)]
        got = max(times_of(each[own])[percentile] for own in buckets)
        attained = min(float(good[own].mean()) for own in buckets)
        most = limit * (1 + NEARLY) if closed else limit
        promises[name] = Promise(limit, percentile, got, attained, got <= most)
    return promises, within


def times_of(ms: Floats) -> Times:
    """Mean and percentiles, of requests that have such a time; 0 where none has."""
    known = ms[~np.isnan(ms)]
    if not len(known):
        return dict.fromkeys(("mean", *QUANTILES), 0.0)
    return {"mean": float(known.mean())} | {
        name: float(np.percentile(known, q)) for name, q in QUANTILES.items()
    }
