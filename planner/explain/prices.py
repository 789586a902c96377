"""What one more of each limit would bring: solved again with it, from the same start; LP duals only as "marginal"."""

from __future__ import annotations

import time
from dataclasses import replace

from planner.plans.assemble import UNITS, Found
from planner.plans.schema import Price
from solvers import fleet
from solvers.fleet import FleetProblem
from solvers.linear import Limits

BUDGET_STEP = 0.1
"""How much more of a budget is tried."""


def prices(found: Found, limits: Limits) -> list[Price]:
    """One more node of each class, a tenth more of each budget; the most valuable first."""
    until = time.monotonic() + limits.seconds
    marginal = fleet.marginals(found.problem, limits)
    made: list[Price] = []
    for node in found.cluster.classes:
        stock = found.problem.stocks[node.id]
        more = replace(found.problem, stocks={**found.problem.stocks, node.id: replace(stock, nodes=stock.nodes + 1)})
        one = f"{node.gpus_per_node} GPUs (a node)" if node.gpus_per_node > 1 else "1 GPU (a node)"
        made.append(_price(found, more, f"nodes {node.id}", one, marginal.get(("nodes", node.id)), limits))
        if time.monotonic() > until:
            break
    for name, value in found.problem.budget.items():
        more = replace(found.problem, budget={**found.problem.budget, name: value * (1 + BUDGET_STEP)})
        one = f"{value * BUDGET_STEP:g} {name}"
        made.append(_price(found, more, f"budget {name}", one, marginal.get(("budget", name)), limits))
    return sorted(made, key=lambda p: -p.worth)


def _price(
    found: Found, more: FleetProblem, limit: str, one: str, marginal: float | None, limits: Limits
) -> Price:
    """`worth` >= 0: how much better the objective gets."""
    s = found.solution
    start = s.point if s.point is not None and len(more.columns) == len(found.problem.columns) else None
    again = fleet.solve(more, limits, start)
    worth = 0.0
    if again.objective is not None and s.objective is not None:
        worth = again.objective - s.objective
        worth = max(worth if found.objective == "throughput" else -worth, 0.0)
    return Price(
        limit=limit,
        one_more=one,
        worth=worth,
        unit=UNITS[found.objective],
        marginal=None if marginal is None else abs(marginal),
    )
