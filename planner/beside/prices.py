"""What one more of each limit would bring: solved again with it, from the same start; LP duals only as
"marginal"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from planner.beside.cache_worth import memory_tries
from planner.beside.feed_prices import feed_prices
from planner.beside.planned import Planned
from planner.inputs.options import Budget
from planner.plans.found import Found
from planner.plans.schema import Price
from solvers import fleet
from solvers.fleet.types import FleetProblem
from solvers.linear import EXACT, Limits

BUDGET_STEP = 0.1
"""How much more of a budget is tried."""

PART = 0.05
"""Of what one more can be worth, which a solve may leave open."""

STEPS = {
    "usd_per_hour": lambda x: f"${x:,.2f}/h",
    "gpus": lambda x: f"{x:g} GPUs",
    "watts": lambda x: f"{x:,.4g} W",
}
"""A budget's step in words."""


def prices(planned: Planned) -> list[Price]:
    """One more node of each class, a tenth more of each budget and feed, and a GB more on each GPU; the
    most valuable first."""
    budget = planned.asked.options.budget
    found = priced(planned.found, planned.limits, budget, memory_tries(planned))
    return sorted([*found, *feed_prices(planned)], key=lambda p: -p.worth)


def priced(
    found: Found, limits: Limits, budget: Budget, more: Iterable[tuple[FleetProblem, str, str]] = ()
) -> list[Price]:
    """Prices of nodes, of each `budget` that was asked for (others only cut the search short), and of what
    `more` states as problems, limits and steps."""
    marginal = fleet.marginals(found.space, limits)
    tries: list[tuple[FleetProblem, str, str, float | None]] = []
    for node in found.cluster.classes:
        stock = found.space.stocks[node.id]
        larger = replace(
            found.space, stocks={**found.space.stocks, node.id: replace(stock, nodes=stock.nodes + 1)}
        )
        unit = f"of this kind in a node as {node.box}" if node.box else "a node"
        one = f"{node.gpus_per_node} GPUs ({unit})" if node.gpus_per_node > 1 else f"1 GPU ({unit})"
        tries.append((larger, f"nodes {node.id}", one, marginal.get(("nodes", node.id))))
    asked_for = budget.model_dump(exclude_none=True)
    for name, value in ((name, found.space.budget[name]) for name in asked_for):
        larger = replace(found.space, budget={**found.space.budget, name: value * (1 + BUDGET_STEP)})
        tries.append(
            (larger, f"budget {name}", STEPS[name](value * BUDGET_STEP), marginal.get(("budget", name)))
        )
    tries += [(*one, None) for one in more]
    each = replace(limits, seconds=limits.seconds / max(len(tries), 1))
    before = fleet.relaxed(found.space, each)
    made: Iterable[Price | None] = (_price(found, before, *one, each) for one in tries)
    if asked_for and _loose(found, before, each):
        made = _whole(found, list(made), [problem for problem, *_ in tries], each)
    return sorted((p for p in made if p is not None), key=lambda p: -p.worth)


def _price(
    found: Found,
    before: float | None,
    more: FleetProblem,
    limit: str,
    one: str,
    marginal: float | None,
    limits: Limits,
) -> Price | None:
    """`worth` >= 0: how much better the objective gets, solved again to a `PART` of what it can be; None
    where the time for that was over before anything better was found, which says nothing of what it is worth.

    The relaxations, `before` and with `more`, say how much that is. Where it is less than the gap that solves
    leave open, they are the answer: on a large cluster they miss little.
    """
    s = found.solution
    assert s.objective is not None
    sign, size = -found.objective.sign, abs(s.objective)
    after = fleet.relaxed(more, limits)
    step = 0.0 if before is None or after is None else sign * (after - before)
    worth = max(step, 0.0)
    if after is not None and sign * (after - s.objective) <= EXACT * size:
        worth = 0.0  # not even a fraction of a replica more would help
    elif step > 2 * limits.gap * size or s.status == "optimal":
        larger = max(abs(after) if after is not None else size, size)
        start = s.point if not s.among and len(more.columns) == len(found.space.columns) else None
        again = fleet.solve(more, replace(limits, gap=max(limits.gap / 2, PART * worth / larger)), start)
        if again.status == "interrupted":
            raise KeyboardInterrupt
        better = 0.0 if again.objective is None else max(sign * (again.objective - s.objective), 0.0)
        if not better and again.status == "time_limit":
            return None
        worth = better
    return Price(
        limit=limit,
        one_more=one,
        worth=worth,
        unit=found.objective.unit,
        marginal=None if marginal is None else abs(marginal),
    )


def _loose(found: Found, relaxed: float | None, limits: Limits) -> bool:
    """Whether a relaxation is far beyond the bound on whole nodes: it has parts of nodes that the budget does
    not pay whole, and hides what others are worth."""
    bound = found.solution.bound
    if relaxed is None or bound is None:
        return True
    return -found.objective.sign * (relaxed - bound) > 2 * limits.gap * abs(bound)


def _whole(
    found: Found, prices: Sequence[Price | None], more: Sequence[FleetProblem], limits: Limits
) -> Iterator[Price | None]:
    """Each price as the fleets of whole nodes with and without one more differ, where that is more than the
    gap that both leave open; `more`: the problem with one more of each."""
    start = None if found.solution.among else found.solution.point
    ours = fleet.solve(found.space, limits, start)
    for price, larger in zip(prices, more, strict=True):
        if price is None or price.limit.startswith("memory"):
            yield price  # of other candidates, which differ by more than what is added
            continue
        theirs = fleet.solve(larger, limits, start)
        if "interrupted" in (ours.status, theirs.status):
            raise KeyboardInterrupt
        if ours.objective is None or theirs.objective is None:
            yield price
            continue
        better = -found.objective.sign * (theirs.objective - ours.objective)
        known = better > max(price.worth, 2 * limits.gap * abs(ours.objective))
        yield price.model_copy(update={"worth": better}) if known else price
