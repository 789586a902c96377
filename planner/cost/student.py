"""How often predictions are off by how much: Student's t with four degrees of freedom, as in the fit.

Deviations are those of bands, whose central 80 % reach `Z80` of them either way; a tenth of errors are beyond
either edge by any law, but how many are beyond half of it or twice is the law's. Of rows whose model or
layout was left out with their engine, 90 % of TPOT's errors are below 1.41 and 1.44 times what 80 % are
below; by this law 1.39 times, by the normal one 1.28. The mean log likelihood of TPOT's errors is -1.52 and
-1.50 by this law, -1.70 and -1.66 by the normal one (docs/calibration.md, "Bands and risk").
"""

from __future__ import annotations

from math import acos, copysign, cos, sqrt

from planner.cost.bands import Z80


def chance_below(z: float) -> float:
    """The chance that an error is less than `z` deviations.

    >>> [round(chance_below(z), 4) for z in (-Z80, 0.0, 0.7865, Z80)]
    [0.1, 0.5, 0.8, 0.9]
    """
    t = z * T90 / Z80
    x = t / sqrt(4 + t * t)
    return 0.5 + 0.75 * x - 0.25 * x**3


def deviations(chance: float) -> float:
    """How many deviations an error is less than with a `chance` of more than 0 and less than 1.

    >>> [round(deviations(chance), 4) for chance in (0.1, 0.5, 0.8, 0.95)]
    [-1.2816, 0.0, 0.7865, 1.782]
    """
    return _quantile(chance) * Z80 / T90


def _quantile(chance: float) -> float:
    """Of Student's t with four degrees of freedom (Shaw 2006, "Sampling Student's T distribution")."""
    a = 4 * chance * (1 - chance)
    root = 2 * sqrt(max(cos(acos(sqrt(a)) / 3) / sqrt(a) - 1, 0.0))
    return copysign(root, chance - 0.5)


T90 = _quantile(0.9)
"""Below which nine in ten are."""
