"""Bands are no narrower than what the calibration that the plan names was off by where runs were held out.

Of the shipped calibration that is here, a table of the checker's own. Of a user's, which is not, only what
follows from one another is looked at (`totals`), and `check` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from statistics import NormalDist

from planner.check.case import Case
from planner.check.violation import MODEL, Violation, at_most
from planner.plans.schema import Band

Z80 = NormalDist().inv_cdf(0.9)
"""Standard deviations that the central 80 % of a Gaussian reach."""

SHIPPED = "shipped"
"""The name of the calibration that comes with the planner."""

LEAST = {"ttft_ms": 0.2, "tpot_ms": 0.08}
"""Deviation of log(measured / predicted) of held-out runs, on the engine where it is least: on vLLM first
tokens (0.211) and tokens of models with experts (0.0825; docs/calibration.md, "Bands and risk")."""

LEAST_RATE = 0.5 * LEAST["tpot_ms"]
"""Of the most requests/s: errors of times pass into it, and some of it where limits bind hard."""


def violations(case: Case) -> Iterator[Violation]:
    """Bands of times, and of a rate that is predicted, narrower than runs were ever predicted."""
    if not rests_on_shipped(case):
        return
    predicted = case.plan.predicted
    least = {**LEAST, "rps": LEAST_RATE} if case.workload.rate_rps is None else LEAST
    for name, deviation in least.items():
        band: Band = getattr(predicted, name)
        if band.value and not at_most(deviation, width(band), MODEL):
            text = (
                f"{band.low:.5g} to {band.high:.5g}: runs that were held out are off by {deviation:g} of the"
            )
            yield Violation(
                "band_too_narrow", f"predicted.{name}", f"{text} logarithm, not {width(band):.3g}"
            )


def rests_on_shipped(case: Case) -> bool:
    """Whether the plan names the shipped calibration, and some of it was predicted by it."""
    named = case.plan.problem.calibration.get("name")
    return named == SHIPPED and not all(case.measured(r) for r in case.plan.replicas)


def width(band: Band) -> float:
    """Deviation of the logarithm, of the central 80 %; of a band from nothing that of its upper half.

    >>> round(width(Band(value=1.0, low=0.774, high=1.292)), 3)
    0.2
    """
    if band.low > 0:
        return log(max(band.high / band.low, 1.0)) / (2 * Z80)
    return log(max(band.high / band.value, 1.0)) / Z80 if band.value > 0 else 0.0
