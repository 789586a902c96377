"""What each slot is sized for."""

from __future__ import annotations

from planner.inputs.traffic import Traffic

TAIL = ("p95", "p99")
"""Percentiles for which a slot is sized by its busiest minute: a minute of too many breaks them."""


def demand(traffic: Traffic, percentile: str, margin: float) -> tuple[list[float], str]:
    """Requests/s that each slot is sized for, and by which window."""
    tail = percentile in TAIL and bool(traffic.peak_rps)
    base = traffic.peak_rps if tail else traffic.rate_rps
    return [r * (1 + margin) for r in base], "busiest minute" if tail else "mean of the slot"
