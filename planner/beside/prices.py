"""What one more of each limit would bring: solved again with it, from the same start; LP duals only as
"marginal"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cluster_configs.schema import NameRun, NodeClass, NodeNames
from planner.beside.cache_worth import memory_tries
from planner.beside.planned import Planned
from planner.inputs.options import Budget
from planner.plans.found import Found
from planner.plans.schema import Price
from planner.search.find import find
from planner.search.question import Question
from solvers import fleet
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import EXACT, Limits

BUDGET_STEP = 0.1
"""How much more of a budget is tried."""

STEPS = {
    "usd_per_hour": lambda x: f"${x:,.2f}/h",
    "gpus": lambda x: f"{x:g} GPUs",
    "watts": lambda x: f"{x:,.4g} W",
}
"""A budget's step in words."""


@dataclass(frozen=True)
class Try:
    """The bound's problem with one `step` more of a `limit`, the dual of that, and the question with it."""

    problem: FleetProblem
    limit: str
    step: str
    marginal: float | None = None
    question: Question | None = None


def prices(planned: Planned) -> list[Price]:
    """One more node of each class, a tenth more of each budget, and a GB more on each GPU; the most valuable
    first."""
    budget = planned.asked.options.budget
    return priced(planned.found, planned.limits, budget, memory_tries(planned), planned.question)


def priced(
    found: Found,
    limits: Limits,
    budget: Budget,
    more: Iterable[tuple[FleetProblem, str, str]] = (),
    question: Question | None = None,
) -> list[Price]:
    """Prices of nodes, of each `budget` that was asked for (others only cut the search short), and of what
    `more` states as problems, limits and steps. With the `question` that the fleet answers it is asked again:
    fleets of the bound's problem alone may be far better than any that is sound, where no fleet was yet."""
    marginal = fleet.marginals(found.space, limits)
    tries: list[Try] = []
    for node in found.cluster.classes:
        stock = found.space.stocks[node.id]
        larger = replace(
            found.space, stocks={**found.space.stocks, node.id: replace(stock, nodes=stock.nodes + 1)}
        )
        unit = f"of this kind in a node as {node.box}" if node.box else "a node"
        one = f"{node.gpus_per_node} GPUs ({unit})" if node.gpus_per_node > 1 else f"1 GPU ({unit})"
        again = None if question is None or node.box else _one_more(question, node)
        tries.append(Try(larger, f"nodes {node.id}", one, marginal.get(("nodes", node.id)), again))
    asked_for = budget.model_dump(exclude_none=True)
    for name, value in ((name, found.space.budget[name]) for name in asked_for):
        larger = replace(found.space, budget={**found.space.budget, name: value * (1 + BUDGET_STEP)})
        again = None if question is None else _tenth_more(question, name)
        step = STEPS[name](value * BUDGET_STEP)
        tries.append(Try(larger, f"budget {name}", step, marginal.get(("budget", name)), again))
    tries += [Try(*one) for one in more]
    each = replace(limits, seconds=limits.seconds / max(len(tries), 1))
    before = fleet.relaxed(found.space, each)
    made = (_price(found, before, one, each) for one in tries)
    return sorted((p for p in made if p is not None), key=lambda p: -p.worth)


def _one_more(question: Question, node: NodeClass) -> Question:
    """The question with a node more of a class."""
    more = NodeNames((*node.nodes.runs, NameRun(f"{node.id}-more", 0, 1)))
    classes = (replace(n, nodes=more) if n.id == node.id else n for n in question.cluster.classes)
    return replace(question, cluster=replace(question.cluster, classes=tuple(classes)))


def _tenth_more(question: Question, name: str) -> Question:
    """The question with a tenth more of a budget."""
    more = getattr(question.budget, name) * (1 + BUDGET_STEP)
    return replace(question, budget=question.budget.model_copy(update={name: more}))


def _price(found: Found, before: float | None, one: Try, limits: Limits) -> Price | None:
    """`worth` >= 0: how much better the objective gets, solved again to a tenth of what it can be; None where
    the time for that was over before anything better was found, which says nothing of what it is worth.

    The relaxations, `before` and with `more`, say how much that is. Where they are as good as the fleet and
    differ by less than the gap that solves leave open, they are the answer: on a large cluster they miss
    little. On a small one they may have parts of nodes that no budget pays whole: those say nothing.
    """
    s = found.solution
    assert s.objective is not None
    sign, size = -found.objective.sign, abs(s.objective)
    after = fleet.relaxed(one.problem, limits)
    step = 0.0 if before is None or after is None else sign * (after - before)
    worth = max(step, 0.0)
    if after is not None and sign * (after - s.objective) <= EXACT * size:
        worth = 0.0  # not even a fraction of a replica more would help
    elif step > 2 * limits.gap * size or s.status == "optimal" or _loose(before, s.objective, sign, limits):
        larger = max(abs(after) if after is not None else size, size)
        again = _again(found, one, replace(limits, gap=max(limits.gap, 0.1 * worth / larger)))
        if again.status == "interrupted":
            raise KeyboardInterrupt
        better = 0.0 if again.objective is None else max(sign * (again.objective - s.objective), 0.0)
        if not better and again.status == "time_limit":
            return None
        seen = s.status == "optimal" or better > limits.gap * size  # what is less may be the gap's own
        worth = better if seen else min(worth, better)
    return Price(
        limit=one.limit,
        one_more=one.step,
        worth=worth,
        unit=found.objective.unit,
        marginal=None if one.marginal is None else abs(one.marginal),
    )


def _again(found: Found, one: Try, limits: Limits) -> FleetSolution:
    """The best fleet with one more."""
    if one.question is not None:
        return find(one.question, found.pool, limits).solution
    s = found.solution
    start = s.point if not s.among and len(one.problem.columns) == len(found.space.columns) else None
    return fleet.solve(one.problem, limits, start)


def _loose(relaxed: float | None, objective: float, sign: float, limits: Limits) -> bool:
    """Whether a relaxation is so far above the fleet that was found that what it says of one more is open."""
    return relaxed is None or sign * (relaxed - objective) > 2 * limits.gap * abs(objective)
