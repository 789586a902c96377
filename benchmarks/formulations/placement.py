"""Placement: which layers each of many unequal, networked nodes holds, and which way requests take.

    placement.solve(problem, objective, limits) -> Placement

`maxflow`  the most tokens/s that can flow through nodes and links (comparable with the literature; a max-flow
           optimum alone serves less than a plain plan). `problem`: a Network or a Service.
`served`   the best trade of tokens/s and latency of requests that hold memory on all nodes of their way, by
           the closed form of `placement_predict`. `problem`: a Service. `Placement.front` has all plans that
           no plan found beats in both.

A Placement has the layers [first, end) of each node, the chains (nodes in order, the layers that each runs,
the share of the requests), tokens/s, the bound on them and what that proves, and for `served` the seconds of
a token and of a prompt. A node of a chain may hold more layers than it runs there. `placement_replan.replan`
repairs a placement after nodes have left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.formulations import placement_maxflow
from solvers.linear import Limits, Status, judge
from solvers.placement import served as placement_served
from solvers.placement import served_bound as placement_served_bound
from solvers.placement.predict import Served
from solvers.placement.routing import Chain, decomposed, shares
from solvers.placement.service import Service
from solvers.placement.shares import Route
from solvers.placement.types import Interval, Network

Objective = Literal["maxflow", "served"]


@dataclass(frozen=True)
class Placement:
    """What is placed and what it is predicted to give; no intervals where nothing holds all layers."""

    intervals: Mapping[int, Interval]
    shares: Mapping[Route, float]
    """Of the requests, by link."""
    chains: tuple[Chain, ...]
    tokens_per_s: float
    bound: float
    status: Status
    decode_s: float | None = None
    """Seconds of a token, `served` only."""
    ttft_s: float | None = None
    """Seconds of a prompt's trip where no other is ahead, `served` only."""
    front: tuple[Served, ...] = ()


def solve(problem: Network | Service, objective: Objective, limits: Limits) -> Placement:
    """The placement, its chains, and a bound on what any placement gives."""
    if objective == "maxflow":
        return _flowing(problem.network if isinstance(problem, Service) else problem, limits)
    if not isinstance(problem, Service):
        raise TypeError("the objective `served` needs a Service: memory, seconds and latency, not only flow")
    return _serving(problem, limits)


def _flowing(network: Network, limits: Limits) -> Placement:
    found = placement_maxflow.solve(network, limits)
    by_link = shares(network, found.intervals)
    chains = decomposed(found.intervals, by_link)
    return Placement(found.intervals, by_link, chains, found.flow, found.bound, found.status)


def _serving(service: Service, limits: Limits) -> Placement:
    front = placement_served.front(service)
    if not front:
        return Placement({}, {}, (), 0.0, 0.0, "infeasible")
    plan = placement_served.chosen(front)
    bound = placement_served_bound.bound(service, max(p.tokens_per_s for p in front))
    return Placement(
        plan.intervals,
        plan.shares,
        decomposed(plan.intervals, plan.shares),
        plan.tokens_per_s,
        bound,
        judge(plan.tokens_per_s, bound, limits, "time_limit"),
        plan.decode_s,
        plan.prompt_s,
        tuple(front),
    )
