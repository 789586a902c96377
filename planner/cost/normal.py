"""The standard normal distribution, for arrays."""

from __future__ import annotations

import numpy as np

from planner.designs.shape import Floats


def density(z: Floats) -> Floats:
    """Density of the standard normal distribution."""
    return np.asarray(np.exp(-np.square(z) / 2) / np.sqrt(2 * np.pi))


def tail(z: Floats) -> Floats:
    """P(Y > z) of a standard normal.

    >>> tail(np.array([-1.0, 0.0, 1.6448536])).round(6).tolist()
    [0.841345, 0.5, 0.05]
    """
    upper = np.exp(-np.square(z) / 2) * erfcx(np.abs(z) / np.sqrt(2)) / 2
    return np.asarray(np.where(z >= 0, upper, 1 - upper))


ERFCX = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip


def erfcx(x: Floats) -> Floats:
    """exp(x²) erfc(x) for x >= 0, within 1.2e-7 of it (Press et al., Numerical Recipes, 6.2)."""
    t = 2 / (2 + np.asarray(x))
    series = np.zeros_like(t)
    for c in reversed(ERFCX):
        series = series * t + c
    return np.asarray(t * np.exp(series))
