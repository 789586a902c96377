"""Figures of a plan with their 80 % bands, and the chance that a limit is kept, by errors of logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from typing import NamedTuple

from planner.cost.bands import Z80
from planner.cost.student import chance_below
from planner.plans import schema

WATTS_SIGMA = 0.2
"""Deviation of the log of measured over predicted watts."""


class Way(NamedTuple):
    """Requests/s of one way through the fleet, a time that they see, and the deviation of its log; `longer`
    where it may be more above than below: queues grow by more than what waits in them."""

    rate: float
    time: float
    sigma: float
    longer: float = 0.0

    @property
    def above(self) -> float:
        """The deviation of longer times."""
        return max(self.sigma, self.longer)

    def factor(self, z: float) -> float:
        """What the time at a normal score is of the predicted one."""
        return exp(z * (self.above if z > 0 else self.sigma))


@dataclass(frozen=True)
class Edges:
    """Ends of the central 80 % of a figure, over the figure: low <= 1 <= high."""

    low: float = 1.0
    high: float = 1.0

    @staticmethod
    def of(sigma: float) -> Edges:
        """Edges of a figure whose log is off by `sigma`."""
        return Edges(exp(-Z80 * sigma), exp(Z80 * sigma))

    def flattered(self, by: float) -> Edges:
        """Lower, where choosing the best of many predictions has flattered the figure by so much (of its
        logarithm); 1 stays inside."""
        shift = min(by, log(self.high))
        return Edges(self.low * exp(-shift), self.high * exp(-shift))


@dataclass(frozen=True)
class Totals:
    """What a fleet delivers and takes in all, however it was found: `speed` are the edges of its rate,
    `watts_sigma` the deviation of the log of its watts."""

    rps: float
    out_tok_per_s: float
    total_tok_per_s: float
    usd_per_hour: float | None
    watts: float
    speed: Edges = Edges()
    watts_sigma: float = WATTS_SIGMA

    def predicted(
        self,
        ttft_ms: schema.Band,
        tpot_ms: schema.Band,
        utilisation: schema.Band,
        chances: tuple[float | None, float | None] = (None, None),
    ) -> schema.Predicted:
        """In the Plan's form, beside latencies, the busiest server, and the odds that limits are kept."""
        usd, out = self.usd_per_hour, self.out_tok_per_s
        return schema.Predicted(
            out_tok_per_s=within(out, self.speed),
            total_tok_per_s=within(self.total_tok_per_s, self.speed),
            rps=within(self.rps, self.speed),
            ttft_ms=ttft_ms,
            tpot_ms=tpot_ms,
            utilisation=utilisation,
            usd_per_hour=None if usd is None else band(usd, 0.0),
            usd_per_mtok=None if usd is None else each(usd / (out * 3600 / 1e6), self.speed),
            watts=band(self.watts, self.watts_sigma),
            joules_per_tok=each(self.watts / out, self.speed, self.watts_sigma),
            chance_ttft=chances[0],
            chance_tpot=chances[1],
        )


def mean_band(ways: Sequence[Way]) -> schema.Band:
    """The mean over requests; errors of all ways count as one, so their edges are averaged as they are.

    >>> mean_band([Way(1.0, 10.0, 0.0), Way(3.0, 20.0, 0.0)])
    Band(value=17.5, low=17.5, high=17.5)
    """
    rate = sum(way.rate for way in ways)
    if not ways:
        return band(0.0, 0.0)
    value, low, high = (
        sum(way.rate * way.time * way.factor(z * Z80) for way in ways) / rate for z in (0.0, -1.0, 1.0)
    )
    return schema.Band(value=value, low=low, high=high)


def chance(limit: float | None, ways: Sequence[Way]) -> float | None:
    """Odds that the way which keeps `limit` worst does, errors of its logarithm as in
    `planner/cost/student.py`; None without a limit.

    >>> [round(chance(100.0, [Way(1.0, t, 0.2)]), 3) for t in (100.0, 80.0, 125.0)]
    [0.5, 0.874, 0.126]
    >>> round(chance(100.0, [Way(9.0, 50.0, 0.2), Way(1.0, 80.0, 0.2)]), 3)  # however few requests take it
    0.874
    """
    if limit is None or not ways:
        return None
    return min(_kept(limit, way) for way in ways)


def chance_of_mean(limit: float, ways: Sequence[Way]) -> float:
    """Odds that the mean over the requests of all ways is within `limit`: errors of all ways count as one, as
    in `mean_band`.

    >>> [round(chance_of_mean(100.0, [Way(1.0, t, 0.2)]), 3) for t in (100.0, 80.0, 125.0)]
    [0.5, 0.874, 0.126]
    >>> round(chance_of_mean(100.0, [Way(9.0, 50.0, 0.2), Way(1.0, 200.0, 0.2)]), 3)  # a mean of 65
    0.969
    """
    rate = sum(way.rate for way in ways)
    if all(way.above == 0 or way.time <= 0 for way in ways):
        return float(sum(way.rate * way.time for way in ways) <= limit * rate)
    low, high = -FAR, FAR
    for _ in range(HALVINGS):
        z = (low + high) / 2
        kept = sum(way.rate * way.time * way.factor(z) for way in ways) <= limit * rate
        low, high = (z, high) if kept else (low, z)
    return chance_below(low)


FAR, HALVINGS = 50.0, 60
"""Deviations beyond which odds are 0 or 1, and halvings between these: to rounding."""


def _kept(limit: float, way: Way) -> float:
    time, sigma = way.time, way.above if limit > way.time else way.sigma
    if time <= 0 or sigma == 0:
        return float(time <= limit)
    return chance_below(log(limit / time) / sigma)


def band(value: float, sigma: float) -> schema.Band:
    """The central 80 % around a median `value` whose logarithm is off by `sigma`.

    >>> found = band(100.0, 0.1)
    >>> round(found.low, 1), found.value, round(found.high, 1)
    (88.0, 100.0, 113.7)
    """
    return within(value, Edges.of(sigma))


def within(value: float, edges: Edges) -> schema.Band:
    """`value` between its edges."""
    return schema.Band(value=value, low=value * edges.low, high=value * edges.high)


def each(value: float, speed: Edges, sigma: float = 0.0) -> schema.Band:
    """What each token takes of something that flows by the hour, `value` at the predicted rate: little where
    the rate is high. `sigma`: of the flow's own log, independent of the rate.

    >>> found = each(8.0, Edges(low=0.5, high=1.25))
    >>> found.low, found.high
    (6.4, 16.0)
    """
    own = Z80 * sigma
    low, high = exp(-hypot(own, log(speed.high))), exp(hypot(own, -log(speed.low)))
    return schema.Band(value=value, low=value * low, high=value * high)
