"""The price of one offer at which the best mix changes, exactly.

What a mix takes is a line in the price p of one offer: rest + nodes * p. The least over all mixes is concave
and piecewise linear in p, and lies under each mix's line. From a price where another mix is better one goes
to where its line meets the own one. There either nothing is better, and the answer changes at this price, or
a third mix is, whose line meets the own one nearer. Each step is a solve, and there are as many as mixes
between.

Source     Newton's method for parametric programs: Radzik, Fractional combinatorial optimization, 1998.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

SAME = 1e-6
"""Share of what a mix takes, below which two take the same."""

MOST = 50
"""Mixes between: more were never met."""


@dataclass(frozen=True)
class Line:
    """What a mix takes by the price of one offer, and how far its proof leaves it from the least, as a
    share."""

    rest: float
    nodes: int
    gap: float = 0.0

    def at(self, price: float) -> float:
        """What it takes in all."""
        return self.rest + self.nodes * price


Cheapest = Callable[[float, float], Line | None]
"""The cheapest mix at a price of the offer that takes no more than a limit; None: there is none."""


def leaves(own: Line, start: float, cheapest: Cheapest) -> tuple[float | None, float]:
    """The price nearest to the own mix's at which another is as good, looked for from the price `start`,
    which may lie above or below; and how far from proven the least is there. None: the own mix is the best
    at `start`, too.

    >>> mixes = Line(0.0, 2), Line(3.0, 1), Line(9.0, 0)
    >>> leaves(mixes[0], 10.0, lambda p, limit: min(mixes, key=lambda mix: mix.at(p)))
    (3.0, 0.0)
    """
    price, met, gap = start, None, 0.0
    for _ in range(MOST):
        other = cheapest(price, own.at(price)) or replace(own, gap=0.0)
        gap = other.gap
        if own.at(price) - other.at(price) <= SAME * abs(own.at(price)) or other.nodes == own.nodes:
            return met, gap
        price = met = (other.rest - own.rest) / (own.nodes - other.nodes)
    return met, gap


def affords(start: float, limit: float, cheapest: Cheapest) -> tuple[float | None, float]:
    """The highest price at which the cheapest mix takes no more than the limit, looked for from the lower
    price `start`; and how far from proven the least is there. None: not even there.

    >>> affords(1.0, 8.0, lambda p, limit: min(Line(0.0, 4), Line(3.0, 2), key=lambda m: m.at(p)))
    (2.5, 0.0)
    """
    price, met, gap = start, None, 0.0
    for _ in range(MOST):
        mix = cheapest(price, limit)
        if mix is None:
            return met, 0.0
        gap = mix.gap
        if mix.at(price) > limit * (1 + SAME):
            return met, gap
        if mix.nodes == 0:
            return float("inf"), gap
        own = (limit - mix.rest) / mix.nodes
        if met is not None and own <= price * (1 + SAME):
            return met, gap
        price = met = own
    return met, gap
