"""What each of several models takes from the others: the best fleet of the rest, by solving without it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from planner.candidates.deadline import deadline
from planner.errors import Infeasible, OutOfTime
from planner.plans.schema.several import Takes
from planner.several.find import find, only
from planner.several.joint import Fleets, Joint, Model
from solvers.fleet.union import dearness, own
from solvers.linear import Limits, judge

SHARE, LEAST_S = 1.0, 3.0
"""What each takes is looked for as long as the search of all took, times this, or so many seconds: it
explains the plan, and doesn't make it better."""


def until(began: float) -> float:
    """When looking for what each takes ends, after a search that began then (performance counter)."""
    now = time.perf_counter()
    return now + max(SHARE * (now - began), LEAST_S)


def standing(fleets: Fleets, i: int) -> float:
    """The objective of the others as they stand, without model `i`: no fleet that is worse is the best."""
    s = fleets.solution
    if fleets.joint.objective.more:
        return (1 - fleets.joint.models[i].weight) * s.rate
    rest = {name: k for name, k in s.replicas.items() if own(name)[0] != i}
    value = only(fleets.problem, s, rest).objective
    assert value is not None
    return value


def taken(joint: Joint, fleets: Fleets, limits: Limits, end: float) -> Iterator[Takes]:
    """What each model takes from the others: the best fleet of the rest without it, and the dual of one more
    request/s of it. Nothing where there is no time."""
    dual = dearness(fleets.problem, replace(limits, seconds=2.0))
    for i, m in enumerate(joint.models):
        spare_s = (end - time.perf_counter()) / (len(joint.models) - i)
        if spare_s < 0.5:
            return
        rest = Joint(_others(joint, i), None if joint.demand is None else joint.demand * (1 - m.weight))
        try:
            with deadline(end):
                found, _ = find(rest, replace(limits, seconds=spare_s))
        except (OutOfTime, Infeasible):
            return
        if found is not None:
            yield _takes(joint, fleets, i, found, dual, limits)


def _others(joint: Joint, i: int) -> tuple[Model, ...]:
    """All models but one, their parts of all requests again adding up to one."""
    rest = [m for j, m in enumerate(joint.models) if j != i]
    whole = sum(m.weight for m in rest)
    return tuple(replace(m, weight=m.weight / whole) for m in rest)


def _takes(
    joint: Joint, fleets: Fleets, i: int, rest: Fleets, dual: dict[str, float], limits: Limits
) -> Takes:
    """The line of one model: in dollars or GPUs what the rest would save, of throughput the requests/s that
    the rest would serve more."""
    m, s, value = joint.models[i], rest.solution, fleets.solution.objective
    assert value is not None
    assert s.objective is not None
    assert s.bound is not None
    more = joint.objective.more
    without = (max if more else min)(s.objective, standing(fleets, i))
    kept = (1 - m.weight) * value if more else value
    costs = without - kept if more else kept - without
    hourly = joint.objective.spends == "usd_per_hour"
    served = m.weight * fleets.solution.rate
    shares = m.question.traffic.share
    duals = [part * dual[name] for name in dual if own(name)[0] == i for part in [shares[own(name)[1]]]]
    return Takes(
        model=m.name,
        without=without,
        bound=s.bound,
        status=judge(without, s.bound, limits, "time_limit"),
        costs=costs,
        unit="USD/h" if hourly else joint.objective.unit,
        per_request=costs / (3600 * served) if hourly and served else None,
        marginal=sum(duals) if duals else None,
    )
