"""What would change the answer: prices of offers, and more to serve or to spend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from planner import api
from planner.buy.answer import BreakEven, More, Purchase, gap_of, taken
from planner.buy.breaks import Line, affords, leaves
from planner.buy.find import LEAST_S, Wish, affordable, bought_of
from planner.buy.market import Market, repriced
from planner.candidates.deadline import deadline
from planner.errors import Infeasible, OutOfTime
from planner.inputs.options import Budget
from planner.objectives import COST
from planner.plans.placement import place
from planner.question.asked import LOADS, read
from planner.question.posed import pose
from planner.replicas.pool import Pool
from planner.search.find import find
from planner.search.question import Question
from solvers.linear import Limits

WIDE = 10.0
"""Times a price, and the part of it, between which it is moved."""

TIMES = (1.25, 1.5, 2.0)
"""The rate or the budget, for what to have next."""

MORE = 0.01
"""Share more that a budget must serve for its answer to be another."""

ROUNDED = 1e-7
"""Share by which a mix may pass the limit: what rounding leaves."""

SURELY = 1e-3
"""Share above the bound of today's prices, which no mix serves at them."""

EACH_S = 30.0
"""Seconds for one mix at most; what is not proven by then is said."""

PRICES_SHARE = 0.6
"""Of the time that is left, for prices at which the answer changes."""


def outlook(found: Purchase, offered: Market, wish: Wish) -> Purchase:
    """The purchase with the prices at which it changes, and the mixes for more, as far as there is time.
    Ctrl-C ends that: the purchase is there already."""
    if found.plan.proof.status == "interrupted":
        return found
    try:
        prices, left = break_evens(found, offered, wish.soon(PRICES_SHARE))
        found = replace(found, break_even=prices, unpriced=left)
        return replace(found, more=list(more(offered, wish)))
    except KeyboardInterrupt:
        return replace(found, plan=found.plan.interrupted())


def more(offered: Market, wish: Wish) -> Iterator[More]:
    """The mix for each of `TIMES` the rate, or the budget where there is no rate. Raises
    KeyboardInterrupt."""
    for times in TIMES:
        try:
            plan = affordable(offered, wish.times(times).begun())
        except (Infeasible, OutOfTime):
            yield More(times, None)
            continue
        if plan.proof.status == "interrupted":
            raise KeyboardInterrupt
        bought, gap = bought_of(plan, offered), gap_of(plan.proof.own, plan.proof.bound)
        yield More(times, bought, taken(bought), plan.predicted.rps.value, gap)


def break_evens(found: Purchase, offered: Market, wish: Wish) -> tuple[list[BreakEven], int]:
    """The prices of every offer at which the answer changes, each alone, and of how many there was no time to
    look for them. Offers that differ in nothing but their names have none of their own."""
    prices, result = Prices(found, offered, wish), list[BreakEven]()
    try:
        with deadline(wish.until):
            pool, question = prices.posed
    except OutOfTime:
        return [], len(offered.offers)
    classes = {node.id for node in question.cluster.classes if len(node.nodes.runs) == 1}
    alone = [name for name in offered.offers if name in classes]
    for name in alone:
        if pool.late or wish.is_over:
            break
        wish.tell(f"looking for prices of {name} at which the answer changes")
        result.append(prices.of(name))
    return result, len(alone) - len(result)


@dataclass(frozen=True)
class Prices:
    """The question of the purchase over as many nodes as any price looked at buys, posed once."""

    found: Purchase
    offered: Market
    wish: Wish

    def of(self, name: str) -> BreakEven:
        """The prices of one offer at which the answer changes."""
        price, mine = self.offered.takes[name], self.own(name)
        low, high = price / WIDE, price * WIDE
        if self.wish.rate is None:
            limit = self.wish.money.most
            assert limit is not None
            below, gap = affords(low, limit, lambda p, most: self.cheapest(name, p, most))
            below = None if below is None else min(below, price)
            above = (limit - mine.rest) / mine.nodes if mine.nodes else None
            return BreakEven(name, price, below, above, (low, price), gap)
        below, gap = leaves(mine, low, lambda p, most: self.cheapest(name, p, most))
        above, other = None, 0.0
        if mine.nodes:
            above, other = leaves(mine, high, lambda p, most: self.cheapest(name, p, most))
        return BreakEven(name, price, below, above, (low, high), max(gap, other))

    def own(self, name: str) -> Line:
        """What is bought, by the price of one offer."""
        nodes = sum(each.nodes for each in self.found.bought if each.offer == name)
        return Line(self.found.takes - nodes * self.offered.takes[name], nodes)

    def cheapest(self, name: str, price: float, most: float = inf) -> Line | None:
        """The cheapest mix where one offer has another price, of those that take no more than `most`: for the
        rate, or for more than the budget serves. None: there is none. Where none is found in time, what is
        bought, with its distance from the bound. Raises KeyboardInterrupt."""
        pool, question = self.posed
        worst = None if most == inf else most * (1 + ROUNDED)
        moved = replace(question, cluster=repriced(question.cluster, name, price), worst=worst)
        fleet = find(
            moved, pool, Limits(gap=0.0, seconds=max(min(EACH_S, self.wish.left_s), LEAST_S), seed=0)
        )
        s = fleet.solution.unbroken()
        if s.objective is None and s.status == "infeasible":
            return None
        bound = s.bound or 0.0
        if s.objective is None:
            mine = self.own(name)
            return replace(mine, gap=gap_of(mine.at(price), min(bound, mine.at(price))))
        counts = {c: k for c, k in s.replicas.items() if k}
        used = place(fleet.cluster.classes, counts, fleet.candidates).used
        nodes = used.get(name, 0)
        rest = sum(self.offered.takes.get(n, 0.0) * k for n, k in used.items() if n != name)
        return Line(rest, nodes, gap_of(rest + nodes * price, bound))

    @cached_property
    def posed(self) -> tuple[Pool, Question]:
        """Candidates, and the least that serves the rate, or more than the budget does."""
        most = self.wish.money.most if self.wish.rate is None else self.found.takes
        assert most is not None
        cluster, given = self.offered.cluster(WIDE * most, dearer=True), self.wish.question
        loads = {name: given.get(name) for name in LOADS}
        options = {k: v for k, v in given.items() if k not in {*LOADS, "workload"}}
        workload = given.get("workload") or "chat"
        asked = api.with_loads(read(cluster, self.wish.model, None, workload, loads, options), None)
        _, pool, question = pose(asked)
        if self.wish.rate is not None:
            return pool, question
        rate = max((1 + MORE) * self.found.value, (1 + SURELY) * self.found.bound)
        traffic = replace(question.traffic, rate_rps=rate)
        return pool, replace(question, traffic=traffic, objective=COST, budget=Budget())
