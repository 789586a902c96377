"""What is bought, how good that is, and what would change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from planner.buy.money import Money
from planner.plans.schema import Plan


@dataclass(frozen=True)
class Bought:
    """Nodes of one offer: how many; of each, what it takes of the measure, and dollars an hour."""

    offer: str
    nodes: int
    takes: float
    usd_per_hour: float | None


@dataclass(frozen=True)
class BreakEven:
    """The prices of one offer at which the answer changes, in what the budget counts; None: none in the
    range `looked_at`. `below` its `price` another mix has more of it, above `above` one has less.

    `gap`: how far from proven it is, at these prices, that no further mix is better.
    """

    offer: str
    price: float
    below: float | None
    above: float | None
    looked_at: tuple[float, float]
    gap: float


@dataclass(frozen=True)
class More:
    """The mix for `times` the rate or the budget; None: not found."""

    times: float
    bought: Sequence[Bought] | None
    takes: float | None = None
    rps: float | None = None
    gap: float | None = None


@dataclass(frozen=True)
class Purchase:
    """The best mix by what `money` counts, the plan on it, and the bound that no mix of the offers passes:
    requests a second for a budget, or what the cheapest fleet for the rate takes."""

    money: Money
    rate_rps: float | None
    bought: Sequence[Bought]
    plan: Plan
    bound: float
    offers: int
    left_out: Sequence[str] = ()  # offers that do not say what they take
    in_time: bool = True  # whether all offers were looked at before the time was over
    break_even: Sequence[BreakEven] = field(default=())
    more: Sequence[More] = field(default=())
    unpriced: int = 0  # offers for whose prices there was no time

    @property
    def takes(self) -> float:
        """Of the measure, all that is bought."""
        return taken(self.bought)

    @property
    def value(self) -> float:
        """Requests a second, or for a rate what is taken: what the bound is about."""
        return self.takes if self.rate_rps is not None else self.plan.predicted.rps.value

    @property
    def gap(self) -> float:
        """How far the value is from the bound, as a share of the value."""
        return gap_of(self.value, self.bound)

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The document of docs/buy.md."""
        return {
            "measure": self.money.measure,
            "budget": self.money.most,
            "rate_rps": self.rate_rps,
            "bought": [asdict(each) for each in self.bought],
            "takes": self.takes,
            "rps": self.plan.predicted.rps.value,
            "bound": self.bound,
            "gap": self.gap,
            "offers": self.offers,
            "left_out": list(self.left_out),
            "in_time": self.in_time,
            "break_even": [asdict(each) for each in self.break_even],
            "unpriced": self.unpriced,
            "more": [asdict(each) for each in self.more],
            "plan": self.plan.model_dump(mode="json", by_alias=True),
        }


def taken(bought: Sequence[Bought]) -> float:
    """Of the measure, all of it."""
    return sum(each.nodes * each.takes for each in bought)


def gap_of(value: float, bound: float) -> float:
    """Their distance as a share of the value; 0 where both are nothing."""
    return 0.0 if value == bound else abs(bound - value) / abs(value) if value else float("inf")
