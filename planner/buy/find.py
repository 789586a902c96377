"""The best fleet that money can rent: the planner's own program over all the nodes that the money buys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster_configs.resolving import MAX_NODES
from planner import api
from planner.buy.market import Market, market
from planner.buy.money import FORM, parse_money
from planner.buy.prices import read_prices
from planner.check.case import Case, open_case
from planner.check.packing import nodes_used
from planner.errors import Infeasible, InputError
from planner.plans.schema import Plan

YEARS = 4.0
"""Of use, over which bought nodes are paid."""

STEP = 4.0
"""Times the money, where a rate needs more than was looked at."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Rented:
    """Nodes of one offer: how many, and dollars an hour of each."""

    offer: str
    nodes: int
    usd_per_hour: float


@dataclass(frozen=True)
class Purchase:
    """What to rent, and the plan on all that was offered, whose bound no other purchase passes."""

    rented: list[Rented]
    plan: Plan
    offers: int

    @property
    def gap(self) -> float:
        """How far the plan is from the bound, as a share of its own objective."""
        proof = self.plan.proof
        return abs(proof.bound - proof.own) / abs(proof.own)

    @property
    def usd_per_hour(self) -> float:
        return sum(each.nodes * each.usd_per_hour for each in self.rented)


def buy(model: str, prices: str, budget: str | None, tell: Progress, **question: Any) -> Purchase:
    """The best mix of a price list's offers, within the budget, or the cheapest for the rate. Raises
    InputError, Infeasible, OutOfTime."""
    money = parse_money(budget)
    if money.usd is not None or money.watts is not None:
        raise InputError("only dollars an hour are planned with", "--budget", "write it as 50$/h")
    if money.usd_per_hour is None and question.get("rate") is None:
        raise InputError("name what may be spent, or a rate to serve", "--budget", f"{FORM}; or add --rate")
    offered = market(*read_prices(prices), money, YEARS, None)[0]
    plan = _planned(offered, model, money.usd_per_hour, tell, question)
    return Purchase(_rented(plan, offered), plan, len(offered.offers))


def _planned(
    offered: Market, model: str, usd_per_hour: float | None, tell: Progress, question: dict[str, Any]
) -> Plan:
    """The plan on all that the money buys. Without a limit, more is looked at until it serves the rate:
    what is found costs no more than that, so that no cheaper fleet was left out."""
    if usd_per_hour is not None:
        return _within(offered, model, usd_per_hour, tell, question)
    money = STEP * max(offered.price.values())
    while True:
        try:
            return _within(offered, model, money, tell, question)
        except Infeasible:
            money *= STEP
            if money / min(offered.price.values()) > MAX_NODES:
                raise


def _within(offered: Market, model: str, money: float, tell: Progress, question: dict[str, Any]) -> Plan:
    if money / min(offered.price.values()) > MAX_NODES:
        most = f"at most {MAX_NODES:,} nodes of an offer are planned with"
        raise InputError(most, "--budget", "a smaller budget, or a list without the cheapest offers")
    tell(f"looking at what ${money:,.4g} an hour rents")
    cluster = offered.cluster(money, None)
    limit = f"usd_per_hour={money!r}"
    return api.plan(cluster, model, budget=limit, simple=0.0, explain=False, on_progress=tell, **question)


def _rented(plan: Plan, offered: Market) -> list[Rented]:
    case = open_case(plan)
    assert isinstance(case, Case)  # every plan has passed its check
    counts = {each.id: nodes_used(case, each) for each in case.cluster.classes}
    return [Rented(name, n, offered.price[name]) for name, n in counts.items() if n]
