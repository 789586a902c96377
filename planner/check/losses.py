"""What a plan says is left of it after each loss of nodes, as plans of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.check.case import Case
from planner.plans.schema import Loss


def rests(case: Case) -> Iterator[tuple[Loss, Case]]:
    """Each loss, and the case of the other replicas with the share of the rate that they are to serve."""
    told = case.plan.survives
    for loss in told.losses if told else []:
        left = ((r, r.count - loss.lost.get(r.id, 0)) for r in case.plan.replicas)
        rate = case.plan.predicted.rps.model_copy(update={"value": told.share * case.rps if told else 0.0})
        rest = {
            "replicas": [r.model_copy(update={"count": count}) for r, count in left if count > 0],
            "routing": loss.routing,
            "predicted": case.plan.predicted.model_copy(update={"rps": rate}),
            "survives": None,
        }
        yield loss, replace(case, plan=case.plan.model_copy(update=rest))
