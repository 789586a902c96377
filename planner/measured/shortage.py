"""No fleet of the designs of the table does what was asked: why, and the smallest change that would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from planner.errors import LONGER, Infeasible, MeshwrightError, OutOfTime
from planner.plans.found import Found
from planner.why.rounding import budget_words, enough, fewest, floor_to, most_served
from solvers import fleet
from solvers.fleet.goals import COST, ENERGY, GPUS, THROUGHPUT
from solvers.fleet.types import FleetProblem, FleetSolution
from solvers.linear import Limits

LEAST = {str(goal.spends): goal for goal in (COST, ENERGY, GPUS)}
"""The objective whose optimum is the least of each budget."""

LOOK_S = 2.0
"""Seconds of one solve for a hint."""


def explain(found: Found, limits: Limits) -> MeshwrightError:
    """The error to raise. Raises KeyboardInterrupt where that ended the search."""
    if found.solution.unbroken().status == "time_limit":
        return OutOfTime("time limit reached before any plan was found", hint=LONGER)
    quick = replace(limits, gap=1e-4, seconds=min(limits.seconds, LOOK_S))
    p, rate = found.problem, found.workload.rate_rps
    free = replace(p, budget={})
    most = fleet.solve(replace(p, objective=THROUGHPUT, demand=None), quick).unbroken()
    unbudgeted = fleet.solve(replace(free, objective=THROUGHPUT, demand=None), quick).unbroken()
    if rate is None:
        if not p.budget:
            return Infeasible(
                "no fleet of the table's designs serves every bucket on these nodes", "--profile"
            )
        return Infeasible(
            "the budget does not pay for a fleet", "--budget", _budgets(free, p.budget, None, quick)
        )
    hints = [f"--rate {floor_to(most.objective)}"] if most.objective else []
    if p.budget and not _short(unbudgeted, rate):
        hints.append(_budgets(free, p.budget, rate, quick))
        within = "within the budget"
    else:
        hints += [text for _, text in sorted(_more_nodes(free, rate, quick))[:2]]
        within = "by these nodes at the table's rates"
    known = f": {most_served(most, rate)}" if most.objective is not None or most.refuted else ""
    message = f"{rate:g} req/s cannot be served {within}{known}"
    return Infeasible(message, "--rate", " or ".join(hints) or None)


def _short(most: FleetSolution, rate: float) -> bool:
    """Whether it is proven that no fleet serves the rate, `most` being the most that was found."""
    return most.refuted or (most.bound is not None and most.bound < rate)


def _budgets(free: FleetProblem, budget: Mapping[str, float], rate: float | None, limits: Limits) -> str:
    """One limit raised as little as is enough, where that is enough; else one after the other, each as little
    as those before it allow."""
    problem = replace(free, demand=rate if rate is not None else _trickle(free))
    for name in budget:
        others = {k: v for k, v in budget.items() if k != name}
        least = _least(problem, name, others, limits)
        if least is not None:
            return budget_words({**budget, name: least})
    raised: dict[str, float] = {}
    for name, limit in budget.items():
        least = _least(problem, name, raised, limits)
        if least is None:
            return "a larger budget"
        raised[name] = max(least, limit)
    return budget_words(raised)


def _least(p: FleetProblem, name: str, budget: Mapping[str, float], limits: Limits) -> float | None:
    """The least of the limit `name` that carries the demand within the others, rounded up."""
    least = fleet.solve(replace(p, objective=LEAST[name], budget=budget), limits).unbroken().objective
    return None if least is None else enough(name, least)


def _trickle(p: FleetProblem) -> float:
    """Requests/s that any one replica carries: where no rate was asked for."""
    work = [sum(p.share.get(w, 0.0) * u for w, u in column.first.items()) for column in p.columns.values()]
    return 0.01 / max(work)


def _more_nodes(p: FleetProblem, rate: float, limits: Limits) -> Iterator[tuple[int, str]]:
    """For each class the fewest more nodes that carry the load with what is there."""
    for g in {column.stock for column in p.columns.values()}:
        more = fewest(partial(_carries, p, g, rate, limits))
        if more is not None:
            yield more, f"{more} more node{'s' if more > 1 else ''} of {g}"


def _carries(p: FleetProblem, g: str, rate: float, limits: Limits, more: int) -> bool:
    stock = replace(p.stocks[g], nodes=p.stocks[g].nodes + more)
    larger = replace(p, stocks={**p.stocks, g: stock}, objective=THROUGHPUT, demand=None)
    return (fleet.solve(larger, limits).unbroken().objective or 0.0) >= rate
