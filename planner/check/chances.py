"""The chance that a limit is kept follows from the prediction's own band, and is as good as was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from math import log, sqrt
from statistics import NormalDist

from planner.check.bands import rests_on_shipped
from planner.check.case import Case
from planner.check.violation import MODEL, Violation
from planner.plans.schema import Band

Z80 = NormalDist().inv_cdf(0.9)
"""Deviations that the central 80 % reach, as those of a Gaussian do."""

T90 = 1.5332063
"""Below which 90 % of Student's t with four degrees of freedom lie."""

FAR, HALVINGS = 100.0, 60
"""Deviations beyond which no risk asks, and halvings until they are known to the last digit."""

SLACK = 0.02
"""What a chance may be off by: several ways share one band."""


def violations(case: Case) -> Iterator[Violation]:
    """Stated chances against limits, bands and the risk asked for; plans may state none."""
    predicted, slo = case.plan.predicted, case.workload.slo
    for name, stated, band, limit in (
        ("chance_ttft", predicted.chance_ttft, predicted.ttft_ms, slo.ttft_ms),
        ("chance_tpot", predicted.chance_tpot, predicted.tpot_ms, slo.tpot_ms),
    ):
        where = f"predicted.{name}"
        if stated is None:
            yield from _unstated(case, band, limit, where)
            continue
        if limit is None:
            yield Violation("chance_wrong", where, f"{stated:.3g} of keeping a limit that is not there")
            continue
        own, alone = chance(band, limit), len(case.plan.routing) == 1
        if stated > own + SLACK or (alone and stated < own - SLACK):
            text = f"{stated:.4g}, but the band around {band.value:.5g} ms gives {own:.4g} for {limit:g} ms"
            yield Violation("chance_wrong", where, text)
        if stated < asked(case, band) and not case.has_warning("slo_relaxed"):
            text = f"{stated:.4g} of keeping {limit:g} ms, asked for is a risk of {case.options.risk:g}"
            yield Violation("chance_below_risk", where, text)


def _unstated(case: Case, band: Band, limit: float | None, where: str) -> Iterator[Violation]:
    """A chance that is left out is that of the band, and as good as was asked for, too."""
    if limit is None or not rests_on_shipped(case) or case.has_warning("slo_relaxed"):
        return
    own = chance(band, limit)
    if own < asked(case, band):
        text = f"the band around {band.value:.5g} ms gives {own:.4g} for {limit:g} ms"
        yield Violation("chance_below_risk", where, f"{text}, asked for is a risk of {case.options.risk:g}")


def chance(band: Band, limit: float) -> float:
    """The chance that a time with this band is within `limit`. Where there are several ways through a fleet,
    the worst is never surer than their mean.

    >>> round(chance(Band(value=100.0, low=80.0, high=125.0), 125.0), 3)
    0.9
    """
    if min(band.low, band.value, limit) <= 0 or band.high <= band.low:
        return float(band.value <= limit)
    return _below(log(limit / band.value) / _sigma(band, limit))


def asked(case: Case, band: Band) -> float:
    """The least chance that the risk asked for allows where a limit may be missed by `MODEL`."""
    if band.low <= 0 or band.high <= band.low:
        return 0.0
    return _below(_score(1 - case.options.risk) - MODEL / _sigma(band, band.high))


def _sigma(band: Band, limit: float) -> float:
    """Deviation of the log on the side of the value where `limit` is, of the central 80 %: times of servers
    that are nearly full may be longer by more than shorter, never by less."""
    both = log(band.high / band.low) / (2 * Z80)
    if limit >= band.value:
        return max(log(max(band.high / band.value, 1.0)) / Z80, both)
    return log(max(band.value / band.low, 1.0)) / Z80 or both


def _below(score: float) -> float:
    """The chance of less than `score` deviations: the distribution function of Student's t with four degrees
    of freedom, which is algebraic.

    >>> [round(_below(score), 3) for score in (-Z80, 0.0, 2.0)]
    [0.1, 0.5, 0.963]
    """
    square = (score * T90 / Z80) ** 2
    half = sqrt(square / (4 + square)) * (1.5 - square / (2 * (4 + square))) / 2
    return 0.5 + half if score > 0 else 0.5 - half


def _score(chance: float) -> float:
    """The deviations below which a share `chance` lies, by bisection.

    >>> [round(_score(chance), 4) for chance in (0.1, 0.8, 0.9)]
    [-1.2816, 0.7865, 1.2816]
    """
    low, high = -FAR, FAR
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _below(middle) < chance else (low, middle)
    return low
