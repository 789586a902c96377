"""The best mix of nodes to have: the planner's own program over all the nodes that the money buys."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from cluster_configs.reading import read_cluster
from cluster_configs.resolving import MAX_NODES
from cluster_configs.schema import ResolvedCluster
from planner import api
from planner.buy.answer import Bought, Purchase, taken
from planner.buy.market import Market, market, read_prices
from planner.buy.money import FORM, Money, parse_money
from planner.buy.shortlist import shortlist
from planner.candidates.deadline import late
from planner.check.case import Case, open_case
from planner.check.packing import nodes_used
from planner.errors import Infeasible, InputError, OutOfTime
from planner.inputs.options import Options
from planner.inputs.reading import read_workload
from planner.inputs.workload import Workload
from planner.plans.schema import OUT_OF_TIME, Cap, Plan
from planner.question.asked import LOADS

YEARS = 4.0
"""Of use, over which bought nodes are paid."""

STEP = 4.0
"""Times the money, where a rate needs more than was looked at."""

USUAL_S: float = Options.model_fields["time_limit_s"].default

PLAN_SHARE = 0.6
"""Of the time that is left, for the next plan: the first is there within half of the limit, or nearly."""

FIRST_SHARE = 0.5
"""Of the time that is left, for a plan on a few of many offers."""

LEAST_S = 0.1
"""Seconds below which no plan is begun."""

ANY_RATE_RPS = 1e-3
"""A rate that every fleet which serves at all serves."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """What is wanted: the model, what may be spent, and the other options of `plan`."""

    model: str
    money: Money
    question: dict[str, Any]
    tell: Progress = lambda text: None
    until: float = inf  # `time.perf_counter`; inf: each plan has the whole time limit

    def begun(self) -> Wish:
        """The same, whose time limit begins now, where none has begun."""
        if self.until < inf:
            return self
        return replace(self, until=time.perf_counter() + float(self.question.get("time_limit_s") or USUAL_S))

    def soon(self, share: float) -> Wish:
        """The same with a share of the time that is left."""
        now = time.perf_counter()
        return replace(self, until=now + share * (self.until - now))

    @property
    def left_s(self) -> float:
        """Seconds that are left, endless where no limit has begun."""
        return self.until - time.perf_counter()

    @property
    def is_over(self) -> bool:
        """Whether no time is left for a further plan."""
        return self.left_s < LEAST_S

    @property
    def rate(self) -> float | None:
        found: float | None = self.question.get("rate")
        return found

    def times(self, factor: float) -> Wish:
        """The same for so many times the rate, or the budget where there is no rate."""
        if self.rate is not None:
            load, rate = self.question.get("workload"), factor * self.rate
            if isinstance(load, Workload):
                load = load.model_copy(update={"rate_rps": rate})
            return replace(self, question={**self.question, "workload": load or "chat", "rate": rate})
        assert self.money.most is not None
        return replace(self, money=replace(self.money, most=factor * self.money.most))


def buy(cluster: str | None, prices: str, wish: Wish, years: float = YEARS) -> tuple[Purchase, Market]:
    """The best mix of a price list's offers beside the nodes of `cluster`, within the budget, or the cheapest
    for the rate; and the market that it is from. Raises InputError, Infeasible, OutOfTime."""
    if wish.money.most is None and wish.rate is None:
        raise InputError("name what may be spent, or a rate to serve", "--budget", f"{FORM}; or add --rate")
    own = None if cluster is None else read_cluster(cluster)
    wish = wish.begun()
    offered, left_out = market(*read_prices(prices), wish.money.measure, years, own)
    plan = in_time_for(offered, wish)
    shown, bought = on_its_own(offered, wish, plan, bought_of(plan, offered))
    proof, offers = plan.proof, len(offered.offers)
    in_time = not proof.space.late
    return Purchase(wish.money, wish.rate, bought, shown, proof.bound, offers, left_out, in_time), offered


def in_time_for(offered: Market, wish: Wish) -> Plan:
    """The plan on all that the money buys; of many offers first one on a few of them, which stands where the
    time ends before all are looked at, and says so. Raises Infeasible, OutOfTime."""
    few = shortlist(offered)
    first = None if few is offered else _on_few(few, len(offered.offers), wish)
    try:
        whole = affordable(offered, wish)
    except (Infeasible, OutOfTime):
        if first is None:
            raise
        return first
    more = whole.proof.sense == "max"
    if first is None or not whole.proof.space.late or (first.proof.own > whole.proof.own) != more:
        return whole
    return first


def _on_few(few: Market, offers: int, wish: Wish) -> Plan | None:
    """The plan on a few of so many offers, with half of the time that is left; None: there is none."""
    soon = wish.soon(FIRST_SHARE)
    try:
        plan = within(few, soon, wish.money.most) if wish.money.most is not None else without_limit(few, soon)
    except (Infeasible, OutOfTime):
        return None
    looked_at = len(few.offers)
    what = f"{OUT_OF_TIME} ({offers - looked_at:,} of {offers:,} offers not looked at)"
    caps = [Cap(what=what, value=looked_at, binds=True), *plan.proof.space.caps]
    space = plan.proof.space.model_copy(update={"caps": caps, "complete": False})
    ended = plan.proof.status if plan.proof.status == "interrupted" else "time_limit"
    proof = plan.proof.model_copy(update={"space": space, "status": ended, "why": ""})
    return plan.model_copy(update={"proof": proof})


def affordable(offered: Market, wish: Wish) -> Plan:
    """The plan on all that the money buys; where that serves nothing, the error says what would."""
    if wish.money.most is None:
        return without_limit(offered, wish)
    try:
        return within(offered, wish, wish.money.most)
    except (Infeasible, OutOfTime) as error:
        raise _too_little(offered, wish, error) from None


def _too_little(offered: Market, wish: Wish, error: Infeasible | OutOfTime) -> Infeasible | OutOfTime:
    """What the cheapest fleet takes that would do; that the budget is too small only where it is proven."""
    question = {**wish.question, "rate": wish.rate or ANY_RATE_RPS}
    assert wish.money.most is not None
    try:
        least = without_limit(offered, replace(wish, question=question))
    except (Infeasible, OutOfTime):
        return error  # no money helps, or how much does is not known
    bought = bought_of(least, offered)
    mix = " and ".join(f"{each.nodes} x {each.offer}" for each in bought)
    what = f"{wish.rate:g} requests a second of {wish.model}" if wish.rate else wish.model
    text = f"nothing that serves {what} costs {wish.money.said(wish.money.most)} or less"
    takes = f"that does takes {wish.money.said(taken(bought))}: {mix}"
    if isinstance(error, OutOfTime):
        return OutOfTime(error.message, "--budget", f"one {takes}")
    return Infeasible(text, "--budget", f"the cheapest {takes}")


def without_limit(offered: Market, wish: Wish) -> Plan:
    """The cheapest plan for a rate. More is looked at until some fleet serves it: what is found takes no more
    than was looked at, so that no cheaper fleet was left out; or until that is all there is."""
    limit = STEP * max(offered.takes.values())
    while True:
        try:
            return within(offered, wish, limit)
        except (Infeasible, OutOfTime):  # a search that proves nothing may find a fleet among more nodes
            if wish.is_over:
                raise
            if offered.all_within(limit):
                return _planned(offered.cluster(limit), wish)
            limit *= STEP
            if offered.most_nodes(limit) > MAX_NODES:
                raise


def within(offered: Market, wish: Wish, limit: float) -> Plan:
    """The best plan that takes no more than the limit."""
    if offered.most_nodes(limit) > MAX_NODES:
        most = f"at most {MAX_NODES:,} nodes are planned with"
        raise InputError(most, "--budget", "a smaller budget, or a list without the cheapest offers")
    wish.tell(f"looking at what {wish.money.said(limit)} buys")
    cluster = offered.cluster(limit)
    return _planned(cluster, wish, budget=f"usd_per_hour={limit!r}")


def _planned(cluster: ResolvedCluster, wish: Wish, **more: Any) -> Plan:
    """With a rate for the least money, where prices are known."""
    question = {**wish.question, **more, "simple": 0.0}
    if wish.until < inf:
        if wish.is_over:
            raise late()
        question["time_limit_s"] = PLAN_SHARE * wish.left_s
    return api.plan(cluster, wish.model, explain=False, on_progress=wish.tell, **question)


def on_its_own(
    offered: Market, wish: Wish, plan: Plan, bought: Sequence[Bought]
) -> tuple[Plan, Sequence[Bought]]:
    """The plan on what is bought and nothing else, by what it costs an hour; less is bought where that plan
    leaves nodes idle. Where none is found on it, or the search was broken off, the market's own plan."""
    while plan.proof.status != "interrupted":
        cluster = offered.bought({each.offer: each.nodes for each in bought})
        try:
            own = _planned(cluster, wish)
        except (Infeasible, OutOfTime):  # a search that ends within a gap may miss what a wider one has found
            return plan, bought
        used = bought_of(own, offered)
        if sum(each.nodes for each in used) >= sum(each.nodes for each in bought):
            return own, bought
        plan, bought = own, used
    return plan, bought


def bought_of(plan: Plan, offered: Market) -> list[Bought]:
    """Nodes of each offer that a plan takes."""
    case = open_case(plan)
    assert isinstance(case, Case)  # every plan has passed its check
    counts = dict[str, int]()
    for node in case.cluster.classes:
        left = nodes_used(case, node)
        for run in sorted(node.nodes.runs, key=lambda run: offered.usd_per_hour.get(run.stem) or 0.0):
            taken = min(left, run.stop - run.start)  # offers alike are one class: the cheaper first
            counts[run.stem], left = counts.get(run.stem, 0) + taken, left - taken
    return [
        Bought(name, n, offered.takes[name], offered.usd_per_hour[name])
        for name, n in counts.items()
        if n and name in offered.offers
    ]


def asked_of(model: str, budget: str | None, tell: Progress, **question: Any) -> Wish:
    """What is wanted, in the words of the command. Raises InputError."""
    money, load = parse_money(budget), question.get("workload") or "chat"
    if not isinstance(load, Workload):
        given = {name: question[name] for name in LOADS if name in question}
        load = read_workload(load, **given)[0]
    return Wish(model, money, {**question, "rate": load.rate_rps}, tell)
