"""What each slot is sized for."""

from __future__ import annotations

from planner.inputs.traffic import Traffic

TAIL = ("p95", "p99")
"""Percentiles for which a slot is sized by its busiest minute where its queue is not known: a minute of too
many breaks them."""


def demand(traffic: Traffic, percentile: str, margin: float) -> tuple[list[float], str]:
    """Requests/s that each slot is sized for, and by what: the queue of its own arrivals where that is known,
    else its busiest minute or its mean."""
    if percentile != "mean" and traffic.needed_rps:
        base, by = traffic.needed_rps, f"queue at {percentile}"
    elif percentile in TAIL and traffic.peak_rps:
        base, by = traffic.peak_rps, "busiest minute"
    else:
        base, by = traffic.rate_rps, "mean"
    return [r * (1 + margin) for r in base], by
