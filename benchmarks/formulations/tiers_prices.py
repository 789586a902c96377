"""What one more byte of a tier, or a faster link, is worth at the best batch point of `tiers.py`.

The margins are the program's own prices. With C the seconds of the block, V = tokens / C:

    room[t]  dV/droom = V / C * sum(f in F[t]) y[f]
    rate[l]  dV/drate = V / C * sum(r) y[r] * (seconds of l in r at x) / rate      (seconds of l ~ 1 / rate)

Each lies between the left and the right derivative of V at that point where the optimum x is the only one;
`worth` is what so much more really brings: the whole grid solved again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from solvers import tiers
from solvers.linear import Limits
from solvers.tiers.types import TiersProblem, TiersSolution


@dataclass(frozen=True)
class Price:
    """`of` a tier or resource, in tokens/s: `marginal` a unit, `worth` of `more` units."""

    of: str
    marginal: float
    more: float
    worth: float


def prices(p: TiersProblem, s: TiersSolution, more: dict[str, float], limits: Limits) -> list[Price]:
    """Of each tier and resource that `more` names, where `s` has a point."""
    marginal = margins(p, s)
    found = []
    for of, amount in more.items() if marginal else ():
        again = tiers.solve(with_more(p, of, amount), limits)
        found.append(Price(of, marginal[of], amount, (again.tokens_per_s or 0.0) - (s.tokens_per_s or 0.0)))
    return found


def margins(p: TiersProblem, s: TiersSolution) -> dict[str, float]:
    """Tokens/s a unit of every tier and resource, at the point of `s`."""
    if s.point is None or s.shares is None or s.duals is None or s.tokens_per_s is None:
        return {}
    duals, per_second = s.duals, s.tokens_per_s**2 / s.point.tokens
    rooms = {
        tier: per_second * sum(y for y, (t, _) in zip(duals.fits, p.fits, strict=True) if t == tier)
        for tier in p.room
    }
    spent = s.point.seconds @ np.append(s.shares, 1.0) @ duals.busy
    rates = {
        of: per_second * float(seconds) / rate
        for (of, rate), seconds in zip(p.rate.items(), spent, strict=True)
    }
    return {**rooms, **rates}


def with_more(p: TiersProblem, of: str, amount: float) -> TiersProblem:
    """`p` with `amount` units more of a tier or resource."""
    if of in p.room:
        return replace(p, room={**p.room, of: p.room[of] + amount})
    i, rate = list(p.rate).index(of), p.rate[of] + amount
    lines = []
    for line in p.lines:
        seconds = line.seconds.copy()
        seconds[:, i] *= p.rate[of] / rate
        lines.append(replace(line, seconds=seconds))
    return replace(p, rate={**p.rate, of: rate}, lines=lines)
