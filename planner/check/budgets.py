"""Hard limits over the whole plan: USD per hour, GPUs, watts, and the power cap of each node."""

from __future__ import annotations

from collections.abc import Iterator

from planner.check import totals
from planner.check.case import Case, gpus_of
from planner.check.violation import EXACT, MODEL, Violation, at_most


def violations(case: Case) -> Iterator[Violation]:
    """Everything over a budget."""
    budget, predicted = case.options.budget, case.plan.predicted
    stated = predicted.usd_per_hour.value if predicted.usd_per_hour else None
    costs = [cost for cost in (stated, totals.least_usd_per_hour(case)) if cost is not None]
    gpus = float(gpus_used(case))
    watts = max(predicted.watts.value, sum(replica.count * replica.watts for replica in case.plan.replicas))
    for name, used, limit in (
        ("usd_per_hour", max(costs, default=None), budget.usd_per_hour),
        ("gpus", gpus, budget.gpus),
        ("watts", watts, budget.watts),
    ):
        if limit is None:
            continue
        if used is None:
            yield Violation("budget_unknown", f"problem.options.budget.{name}", "the plan states no cost")
        elif not at_most(used, limit, EXACT):
            text = f"{used:.6g}, the budget is {limit:.6g}"
            yield Violation("budget_over", f"problem.options.budget.{name}", text)
    yield from _caps(case)


def gpus_used(case: Case) -> int:
    """GPUs of all replicas."""
    return sum(replica.count * gpus_of(replica) for replica in case.plan.replicas)


def _caps(case: Case) -> Iterator[Violation]:
    """Replicas of a class together within the power caps of its nodes; a replica's watts lie evenly on its
    GPUs."""
    for node_class in case.cluster.classes:
        if node_class.power_cap_watts is None:
            continue
        here = ((r, gpus_of(r, node_class.id) / max(gpus_of(r), 1)) for r in case.plan.replicas)
        watts = sum(replica.count * replica.watts * share for replica, share in here)
        cap = node_class.power_cap_watts * node_class.node_count
        if not at_most(watts, cap, MODEL):
            yield Violation(
                "power_cap_over", f"class {node_class.id}", f"{watts:.5g} W under caps of {cap:.5g} W"
            )
