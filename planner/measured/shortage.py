"""No fleet of the designs of the table does what was asked: why, and the smallest change that would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.errors import Infeasible, MeshwrightError, OutOfTime
from planner.explain.rounding import ceil_to, floor_to
from planner.inputs.options import Objective
from planner.plans.assemble import Found
from solvers import fleet
from solvers.fleet import FleetProblem
from solvers.linear import Limits

LEAST: dict[str, Objective] = {"usd_per_hour": "cost", "watts": "energy", "gpus": "gpus"}
"""The objective whose optimum is the least of each budget."""

MOST_NODES = 4096
"""Where the search for enough nodes ends."""

LOOK_S = 2.0
"""Seconds of one solve for a hint."""


def explain(found: Found, limits: Limits) -> MeshwrightError:
    """The error to raise. Raises KeyboardInterrupt where that ended the search."""
    if found.solution.status == "interrupted":
        raise KeyboardInterrupt
    if found.solution.status == "time_limit":
        hint = "--time-limit with more seconds"
        return OutOfTime("time limit reached before any plan was found", hint=hint)
    quick = replace(limits, gap=1e-4, seconds=min(limits.seconds, LOOK_S))
    p, rate = found.problem, found.workload.rate_rps
    free = replace(p, budget={})
    most = fleet.solve(replace(p, objective="throughput", demand=None), quick).objective or 0.0
    unbudgeted = fleet.solve(replace(free, objective="throughput", demand=None), quick).objective or 0.0
    if rate is None:
        if not p.budget:
            return Infeasible(
                "no fleet of the table's designs serves every bucket on these nodes", "--profile"
            )
        return Infeasible(
            "the budget does not pay for a fleet", "--budget", _budgets(free, p.budget, None, quick)
        )
    hints = [f"--rate {floor_to(most)}"] if most > 0 else []
    if unbudgeted >= rate:
        hints.append(_budgets(free, p.budget, rate, quick))
        within = "within the budget"
    else:
        hints += [text for _, text in sorted(_more_nodes(free, rate, quick))[:2]]
        within = "by these nodes at the table's rates"
    message = f"{rate:g} req/s cannot be served {within}: at most {most:.4g} req/s"
    return Infeasible(message, "--rate", " or ".join(hints) or None)


def _budgets(free: FleetProblem, budget: object, rate: float | None, limits: Limits) -> str:
    """`--budget …` with the least of each that was limited, where the others are not."""
    demand = rate if rate is not None else 1e-6
    parts = []
    for name in budget if isinstance(budget, dict) else ():
        least = fleet.solve(replace(free, objective=LEAST[name], demand=demand), limits).objective
        if least is not None:
            parts.append(f"{name}={round(least) if name == 'gpus' else ceil_to(least)}")
    return "--budget " + ",".join(parts) if parts else "a larger budget"


def _more_nodes(p: FleetProblem, rate: float, limits: Limits) -> Iterator[tuple[int, str]]:
    """For each class the fewest more nodes that carry the load with what is there."""
    for g in {column.stock for column in p.columns.values()}:
        low, high = 0, 1
        while high <= MOST_NODES and not _carries(p, g, high, rate, limits):
            low, high = high, 2 * high
        if high > MOST_NODES:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _carries(p, g, middle, rate, limits) else (middle, high)
        yield high, f"{high} more node{'s' if high > 1 else ''} of {g}"


def _carries(p: FleetProblem, g: str, more: int, rate: float, limits: Limits) -> bool:
    stock = replace(p.stocks[g], nodes=p.stocks[g].nodes + more)
    larger = replace(p, stocks={**p.stocks, g: stock}, objective="throughput", demand=None)
    return (fleet.solve(larger, limits).objective or 0.0) >= rate
