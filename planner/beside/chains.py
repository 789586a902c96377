"""Where declared links join places: chains of nodes with some of the layers each. No stock engine
routes requests over them as it comes; `--engine chains` plans them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.beside.planned import Planned
from planner.candidates.deadline import left_s
from planner.errors import Infeasible
from planner.plans.schema import Alternative

WHAT = "chains of nodes with some of the layers each"

MOST_NODES, CHAINS_S = 24, 2.0
"""Larger networks take chains many seconds; and after how many the sweep is refined no further."""


def chains(planned: Planned) -> Iterator[Alternative]:
    """The best chains found at the median prediction, against the bound of them all."""
    cluster = planned.asked.cluster
    nodes = sum(c.node_count for c in cluster.classes)
    if not cluster.links or nodes > MOST_NODES or not planned.open_ended or planned.asked.offload:
        return
    from planner.chains import plan as chained  # here, not above: it loads SciPy, which few plans need
    from solvers.placement import served_bound as placement_served_bound

    try:
        seconds = min(CHAINS_S, left_s())
        _, posed, _, replicas = chained.chosen(replace(planned.asked.at_median, defaulted=[]), seconds)
    except Infeasible as error:
        yield Alternative(
            what=WHAT, objective=None, loss=None, why=error.message, status="none_found", seconds=CHAINS_S
        )
        return
    tokens = sum(r.tokens_per_s for r in replicas)
    most = placement_served_bound.bound(posed.service, tokens)
    served, bound = tokens / posed.service.output, most / posed.service.output
    sure = served if planned.fleet.gain(served) >= 0 else bound
    why = "no stock engine routes requests so; --engine chains prints the plan"
    loss = max(-planned.fleet.gain(sure), 0.0)
    yield Alternative(what=WHAT, objective=served, loss=loss, why=why, status="stopped", bound=bound)
