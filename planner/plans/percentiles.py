"""Times of all requests at the workload's percentile, whatever way they take: of the mixture of all ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from planner.cost.bands import Z80
from planner.plans import schema
from planner.plans.bands import Way, mean_band
from planner.plans.found import Found, Group, Path, operate_anew, paths
from planner.queueing import Percentile
from planner.queueing.mixture import Part, quantile_of


def bands_of(
    found: Found, made: Sequence[Group], firsts: Sequence[Way], others: Sequence[Way]
) -> tuple[schema.Band, schema.Band]:
    """Time to first token and time per output token, with their bands: means of the ways' own values where a
    mean is promised, else the percentile over the requests of all ways. `firsts`, `others`: those values."""
    percentile = made[0].setup.promise.percentile
    if percentile == "mean" or len(firsts) == 1:
        return mean_band(firsts), mean_band(others)
    every = [paths(found, [at(g, which) for g in made]) for which in get_args(Percentile)[1:]]
    first = [[way[i] for way in every] for i in range(len(every[0]))]
    decoding = [ways for ways in first if found.workload.buckets[ways[0].bucket].osl > 1]
    return (
        _band([_part(ways, "ttft_s") for ways in first], firsts, percentile),
        _band([_part(ways, "tpot_s") for ways in decoding], others, percentile),
    )


def at(g: Group, percentile: Percentile) -> Group:
    """The group with times at another percentile."""
    if percentile == g.setup.promise.percentile:
        return g
    return operate_anew(g, promise=replace(g.setup.promise, percentile=percentile))


def _part(ways: Sequence[Path], name: str) -> Part:
    """Milliseconds of one way at each percentile."""
    return Part(ways[0].rate, np.array([1e3 * getattr(way, name) for way in ways]))


def _band(parts: Sequence[Part], ways: Sequence[Way], percentile: str) -> schema.Band:
    """Errors of all ways count as one."""
    if not parts:
        return mean_band(ways)
    value, low, high = (
        quantile_of([p.scaled(way.factor(z * Z80)) for p, way in zip(parts, ways, strict=True)], percentile)
        for z in (0.0, -1.0, 1.0)
    )
    return schema.Band(value=value, low=low, high=high)
