"""Candidates exist but no fleet of them does what was asked: the rate is too high for the nodes, or a budget
too small. Every hint has been solved before it is given."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from cluster_configs.names import NameRun, NodeNames
from cluster_configs.schema import NodeClass
from planner.candidates.deadline import deadline, late
from planner.errors import Infeasible, MeshwrightError, OutOfTime
from planner.inputs.options import Budget
from planner.objectives import COST, ENERGY, GPUS, THROUGHPUT, Objective
from planner.plans.found import Found
from planner.replicas.pool import Pool
from planner.search.find import find
from planner.search.question import Question
from planner.why.rounding import budget_words, enough, fewest, floor_to, most_served
from solvers import fleet
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import Limits

LOOK_S = 10.0
"""Seconds spent at most on looking for hints; each solve also has them."""

STEPS_DOWN = (1.0, 0.97, 0.9, 0.75, 0.5)
"""Shares of the highest rate that are tried: a fleet for another objective may keep its promise a little
less."""

STEPS_UP = (1.0, 1.01, 1.05)
"""Shares of the least budget that are tried: a fleet for another objective may take a little more."""

LIGHTEST = 0.01
"""Share of what a replica carries for which a hint is looked for."""

GOALS: Mapping[str, Objective] = {str(one.spends): one for one in (COST, ENERGY, GPUS)}
"""The objective whose optimum is the least of each budget."""

ROUGH = 0.1
"""Gap to which a fleet is looked for where any is enough."""


@dataclass(frozen=True)
class Look:
    """What hints are looked for with: the question, its candidates, limits of one solve, when to end."""

    question: Question
    pool: Pool
    limits: Limits
    until: float

    def solved(self, question: Question) -> FleetSolution | None:
        """How the search for the question's fleet ended; None where there was no time for it. Raises
        KeyboardInterrupt."""
        left = self.until - time.monotonic()
        if left <= 0:
            return None
        with deadline(time.perf_counter() + left), suppress(OutOfTime):
            return find(question, self.pool, replace(self.limits, seconds=left)).solution.unbroken()
        return None

    def least(self, question: Question) -> float | None:
        """The objective of the question's fleet; None where there is none, or no time."""
        s = self.solved(question)
        return None if s is None else s.objective

    def carries(self, question: Question) -> bool:
        """Whether some fleet does it, as far as is known: how good it is, is not asked."""
        rough = replace(self, limits=replace(self.limits, gap=max(self.limits.gap, ROUGH)))
        return rough.least(question) is not None

    def may(self, question: Question) -> bool:
        """Whether some fleet may do it: a search that was stopped does not say that none does."""
        s = self.solved(question)
        return s is None or not s.refuted


def explain(question: Question, pool: Pool, found: Found, limits: Limits) -> MeshwrightError:
    """Why there is no fleet although there are candidates; OutOfTime where that is not proven. Raises
    KeyboardInterrupt where that ended the search."""
    ended = found.solution.unbroken()
    if ended.status == "time_limit" or pool.late:
        return late()
    seconds = min(LOOK_S, limits.seconds)
    look = Look(question, pool, replace(limits, seconds=seconds), time.monotonic() + seconds)
    if question.traffic.rate_rps is not None:
        return _too_much(look, question.traffic.rate_rps, ended.refuted)
    if not ended.refuted:
        text = "whether any fleet of these nodes keeps the SLO with the whole mix of requests is not known"
        return OutOfTime(text, hint="loosen the SLO, or add nodes")
    return _nothing_runs(look, found.problem)


def _nothing_runs(look: Look, problem: FleetProblem) -> Infeasible:
    """No rate was asked, and still there is no fleet."""
    if look.question.survive is not None and look.may(replace(look.question, survive=None)):
        return Infeasible(
            f"no fleet of these nodes serves anything{_after_loss(look.question)}",
            hint="add nodes, or leave out --survive",
        )
    if look.question.cluster.feeds and not problem.budget and look.may(_unheld(look.question)):
        return Infeasible(f"no replica runs within {FEEDS}", hint=MORE_WATTS)
    if not problem.budget:
        return Infeasible(
            "no fleet of these nodes keeps the SLO with the whole mix of requests",
            hint="loosen the SLO, or add nodes",
        )
    smallest = min(c.gpus for c in look.pool.candidates)
    gpus = f"{smallest} GPU{'s' if smallest > 1 else ''}"
    return Infeasible(
        f"the budget does not pay for a single replica that keeps the SLO (the smallest takes {gpus})",
        hint=" or ".join(budget_hints(look, _trickle(problem))) or "a larger budget",
    )


def _trickle(problem: FleetProblem) -> float:
    """Requests/s that the column with the fewest watts carries without effort, and not so few that a solver
    takes them for nothing."""
    rates = [
        (c.watts, 1 / (u * problem.share[w]))
        for c in problem.columns.values()
        for row in c.use.values()
        for w, u in row.items()
        if u > 0 and problem.share.get(w, 0) > 0
    ]
    return max(LIGHTEST * min(rates)[1], 1e-4 * max(rate for _, rate in rates)) if rates else 1.0


def _too_much(look: Look, rate: float, refuted: bool) -> MeshwrightError:
    """The rate asked for is above what the nodes, or the budget, allow: proven where the search `refuted` it,
    or by the bound of the most that is served."""
    q = look.question
    most = look.solved(_at(q, None, THROUGHPUT))
    held = "by these nodes within the SLO" + (" and the budget" if _asked(q.budget) else "")
    if most is None or (most.objective is None and not most.refuted):
        if not refuted:
            return late()
        hint = "a larger --time-limit, to be told how much they serve and what would help"
        return Infeasible(f"{rate:g} req/s cannot be served {held}{_after_loss(q)}", hint=hint)
    ceiling = most.objective or 0.0
    unlimited = replace(q, budget=Budget())
    budgeted = bool(_asked(q.budget)) and look.may(replace(unlimited, objective=GPUS))
    fed = not budgeted and bool(q.cluster.feeds) and look.may(_unheld(q))
    hints = [f"--rate {lower}" for lower in _rates(look, rate, ceiling)]
    if fed:
        hints.append(MORE_WATTS)
    else:
        hints += budget_hints(look, rate) if budgeted else node_hints(look)
    held = "within the budget" if budgeted else f"within {FEEDS}" if fed else held
    hints += _share_hints(look, rate, ceiling)
    instead = "a larger budget" if budgeted else "a lower --rate, or more nodes"
    if not hints and _asked(q.budget) and not budgeted:
        hints += _cheaper_hints(look, rate)
        instead += ", and a larger budget"
    hint = " or ".join(hints) or instead
    told, known = f"served {held}{_after_loss(q)}", most_served(most, rate)
    if refuted or most.refuted or (most.bound is not None and most.bound < rate):
        return Infeasible(f"{rate:g} req/s cannot be {told}: {known}", hint=hint)
    return OutOfTime(f"whether {rate:g} req/s can be {told} is not known: {known}", hint=hint)


MORE_WATTS = "a higher `power_caps_watts`"
FEEDS = "what racks and zones may draw (`power_caps_watts`)"


def _unheld(question: Question) -> Question:
    """The question where racks and zones may draw whatever they do."""
    return replace(question, cluster=replace(question.cluster, feeds=()))


def _after_loss(question: Question) -> str:
    """What is to be survived, in words."""
    lost = question.survive
    if lost is None:
        return ""
    nodes = "any one node" if lost.nodes == 1 else f"any {lost.nodes:,} nodes"
    share = "" if lost.share == 1 else f"{100 * lost.share:g} % of it "
    return f" with {share}left after the loss of {nodes}" if share else f" after the loss of {nodes}"


def _share_hints(look: Look, rate: float, ceiling: float) -> Iterator[str]:
    """The largest share of the rate that the rest carries where nodes are lost."""
    lost = look.question.survive
    for step in STEPS_DOWN if lost is not None else ():
        assert lost is not None
        percent = int(100 * lost.share * min(step * ceiling / rate, 1.0))
        fewer = lost.model_copy(update={"share": percent / 100})
        if percent and look.carries(replace(look.question, survive=fewer)):
            yield f"--survive {'node' if lost.nodes == 1 else lost.nodes}:{percent}%"
            return


def _at(question: Question, rate: float | None, objective: Objective | None = None) -> Question:
    """The question at another rate, and for another objective."""
    traffic = replace(question.traffic, rate_rps=rate)
    return replace(question, traffic=traffic, objective=objective or question.objective)


def _asked(budget: Budget) -> dict[str, float]:
    return {k: float(v) for k, v in budget.model_dump().items() if v is not None}


def _rates(look: Look, asked: float, ceiling: float) -> Iterator[str]:
    """The highest rate below the one `asked` that a fleet for the same objective carries, if any."""
    for share in STEPS_DOWN:
        rate = floor_to(share * min(ceiling, asked))
        if 0 < float(rate) < asked and look.carries(_at(look.question, float(rate))):
            yield rate
            return


def _cheaper_hints(look: Look, asked: float) -> Iterator[str]:
    """The highest rate without a budget, with the least budget for it, where neither alone is enough."""
    free = replace(look, question=replace(look.question, budget=Budget()))
    for rate in _rates(free, asked, free.least(_at(free.question, None, THROUGHPUT)) or 0.0):
        own = replace(look, question=_at(look.question, float(rate)))
        yield from (f"--rate {rate} {budget}" for budget in budget_hints(own, float(rate))[:1])


def budget_hints(look: Look, rate: float) -> list[str]:
    """The least change of the budget that lets `rate` requests/s through: one limit raised, where that is
    enough; else as many as it takes, each as little as the ones before it allow, the last a little more."""
    asked = _asked(look.question.budget)
    single = []
    for name in asked:
        rest = {k: v for k, v in asked.items() if k != name}
        least = look.least(_spending(look.question, rate, rest, name))
        if least is None:
            continue
        raised = ({**asked, name: enough(name, step * least)} for step in STEPS_UP)
        kept = next((one for one in raised if look.carries(_paying(look.question, one))), None)
        if kept is not None:
            single.append(budget_words(kept))
    if single or len(asked) < 2:
        return single[:2]
    every: dict[str, float] = {}
    for name in asked:
        least = look.least(_spending(look.question, rate, every, name))
        if least is None:
            return []
        every[name] = max(enough(name, least), asked[name])
    raised = ({**every, name: enough(name, step * every[name])} for step in STEPS_UP)
    return [budget_words(one) for one in raised if look.carries(_paying(look.question, one))][:1]


def _spending(question: Question, rate: float, budget: Mapping[str, float], name: str) -> Question:
    """The question whose objective is the least of budget `name`, the others held."""
    return _paying(_at(question, rate, GOALS[name]), budget)


def _paying(question: Question, budget: Mapping[str, float]) -> Question:
    """The question with another budget."""
    limits = {k: int(v) if k == "gpus" else v for k, v in budget.items()}
    return replace(question, budget=Budget.model_validate(limits))


def node_hints(look: Look) -> list[str]:
    """For the two classes that need the fewest: how many more nodes carry the load with what is there."""
    found: list[tuple[int, str]] = []
    for node in look.question.cluster.classes:
        more = _more_nodes(look, node)
        if more is not None:
            found.append((more, f"{more} more node{'s' if more > 1 else ''} of {node.id}"))
    return [text for _, text in sorted(found)[:2]]


def _more_nodes(look: Look, node: NodeClass) -> int | None:
    """The fewest more that carry the load; None where too many are needed."""
    problem = look.question.state(look.pool, "bound")
    high = fewest(lambda more: _may_carry(look, problem, node.id, more))
    if high is None:
        return None
    for more in (high, high + 1, -(-high * 11 // 10) + 1):  # a fleet at its limit may answer late
        if look.carries(_with_more(look.question, node, more)):
            return more
    return None


def _may_carry(look: Look, problem: FleetProblem, g: str, more: int) -> bool:
    """Whether `more` nodes of class `g` are enough before answers are looked at again; False out of time.
    Raises KeyboardInterrupt."""
    left = look.until - time.monotonic()
    if left <= 0:
        return False
    stock = replace(problem.stocks[g], nodes=problem.stocks[g].nodes + more)
    larger = replace(problem, stocks={**problem.stocks, g: stock}, objective=GPUS.goal)
    return fleet.solve(larger, replace(look.limits, gap=0.5, seconds=left)).unbroken().objective is not None


def _with_more(question: Question, node: NodeClass, more: int) -> Question:
    """The question on a cluster with `more` nodes of a class."""
    runs = node.nodes.runs if isinstance(node.nodes, NodeNames) else ()
    larger = replace(node, nodes=NodeNames((*runs, NameRun("more", 0, more))))
    classes = tuple(larger if n.id == node.id else n for n in question.cluster.classes)
    return replace(question, cluster=replace(question.cluster, classes=classes))
