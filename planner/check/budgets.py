"""Hard limits over the whole plan: USD per hour, GPUs, watts, the power caps of nodes, racks and zones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cluster_configs.schema import NodeClass, ResolvedCluster
from planner.check import totals
from planner.check.case import Case, gpus_of
from planner.check.violation import EXACT, MODEL, Violation, at_most
from planner.plans.schema import Replica


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
    yield from _told(case)
    yield from over_feeds(case.cluster, case.plan.replicas)


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


def _told(case: Case) -> Iterator[Violation]:
    """A limit that GPUs are told is below their own, and not below what they draw on average."""
    for index, replica in enumerate(case.plan.replicas):
        told, where = replica.power_limit_watts, f"replicas[{index}].power_limit_watts"
        if told is None:
            continue
        own = min(_may_draw(case.classes[stage.node_class], None) for stage in replica.stages)
        if not at_most(told, own, EXACT):
            yield Violation("limit_over", where, f"{told:g} W, a GPU may draw {own:g} W")
        if not at_most(replica.watts, told * gpus_of(replica), MODEL):
            text = f"{replica.watts:.5g} W on {gpus_of(replica)} GPUs that may draw {told:g} W each"
            yield Violation("limit_over", where, text)


def over_feeds(cluster: ResolvedCluster, replicas: Iterable[Replica]) -> Iterator[Violation]:
    """What the GPUs of each rack or zone may draw at any moment: those in replicas their limits, others
    something at rest."""
    every = list(replicas)
    for feed in cluster.feeds:
        watts = 0.0
        for node in (c for c in cluster.classes if c.id in feed.classes):
            taken = [(r, r.count * gpus_of(r, node.id)) for r in every]
            watts += sum(gpus * _may_draw(node, r.power_limit_watts) for r, gpus in taken)
            rest = node.gpus - sum(gpus for _, gpus in taken)
            watts += max(rest, 0) * totals.LEAST_IDLE * node.device.tdp_watts
        if not at_most(watts, feed.watts, EXACT):
            text = f"its GPUs may draw {watts:.6g} W, it holds {feed.watts:.6g} W"
            yield Violation("feed_over", f"problem.cluster.power_caps_watts.{feed.name}", text)


def _may_draw(node: NodeClass, told: float | None) -> float:
    """Watts of a GPU by its own limit, its share of its node's cap, and what it is told."""
    cap = node.power_cap_watts
    own = (node.device.tdp_watts, told, None if cap is None else cap / node.gpus_per_node)
    return min(x for x in own if x is not None)
