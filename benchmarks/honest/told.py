"""Times of a plan by way: TTFT and TPOT of every route, of which the plan itself states only the mean.

Where there is one route the mean is its own. Else the one model is asked again of every replica group at the
load that the routing gives it, and its times are scaled to the mean that the plan states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.honest.answers import Answer, Comparison, caution
from benchmarks.honest.one_model import Design, OneModel, of
from benchmarks.honest.problems import Problem
from planner.check.case import Case, open_case
from planner.plans.schema import Plan, Route

Times = tuple[float, float]
"""TTFT and TPOT in seconds."""

ALIKE = "the one model asked again of a plan's replicas: within 1 %"

ONE_PERCENT = 0.01


def cautious_times(plan: Plan, problem: Problem) -> list[Times] | None:
    """Of each route, with the caution that the risk asks for; None where not known."""
    times = route_times(plan, of(problem)) if len(plan.routing) > 1 else [stated(plan)]
    if times is None:
        return None
    first, each = caution(plan, problem.risk)
    return [(ttft * first, tpot * each) for ttft, tpot in times]


def stated(plan: Plan) -> Times:
    """The plan's means."""
    return plan.predicted.ttft_ms.value / 1e3, plan.predicted.tpot_ms.value / 1e3


def route_times(plan: Plan, model: OneModel) -> list[Times] | None:
    """Of each route, scaled to the plan's means; None where a replica stands on several classes."""
    case = _case(plan)
    told = by_model(case, model)
    if told is None:
        return None
    means = _means(case, told)
    scale = [said / mean if mean > 0 else 1.0 for said, mean in zip(stated(plan), means, strict=True)]
    return [(ttft * scale[0], tpot * scale[1]) for ttft, tpot in told]


def told_again(answer: Answer) -> Iterator[Comparison]:
    """The plan's means against the one model's of its replicas: `excess` beyond one per cent."""
    plan = answer.plan
    assert plan is not None
    case = _case(plan)
    told = by_model(case, of(answer.problem))
    if told is None:
        return
    pairs = zip(_means(case, told), stated(plan), strict=True)
    off = [abs(mean / said - 1) if said else 0.0 for mean, said in pairs]
    words = f"TTFT {100 * off[0]:.2f} % off, TPOT {100 * off[1]:.2f} %"
    own = answer.problem.command
    yield Comparison(ALIKE, max(off) - ONE_PERCENT, own, own, words)


def by_model(case: Case, model: OneModel) -> list[Times] | None:
    """Of each route by the one model alone; None where a replica stands on several
    classes."""
    designs: dict[str, Design] = {}
    for name, group in case.groups.items():
        design = model.design_of(group)
        if design is None or group.role not in ("mixed", "prefill", "decode"):
            return None
        designs[name] = design
    if any(route.chains for route in case.plan.routing):
        return None
    return [_route(case, model, designs, route) for route in case.plan.routing]


def _route(case: Case, model: OneModel, designs: dict[str, Design], route: Route) -> Times:
    w = route.bucket
    if route.replica is not None:
        at = model.judge(designs[route.replica], "mixed", _load(case, route.replica))
        return float(at.ttft_s[0, w]), float(at.tpot_s[0, w])
    first, second = str(route.prefill), str(route.decode)
    sent, taken = _load(case, first), _load(case, second)
    counts = case.groups[first].count, case.groups[second].count
    both = np.minimum(sent * counts[0], taken * counts[1])
    moved = model.handed_s(designs[first], designs[second], both, (sent, taken))
    ttft = model.judge(designs[first], "prefill", sent).ttft_s[0, w]
    step = float(model.judge(designs[second], "decode", taken).tpot_s[0, w])
    return float(ttft) + (0.0 if moved is None else float(moved[0, w])) + step, step


def _load(case: Case, name: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Requests/s of each bucket at one replica of a group, (1, w)."""
    found = np.zeros((1, len(case.workload.buckets)))
    for route in case.plan.routing:
        if name in (route.replica, route.prefill, route.decode):
            found[0, route.bucket] += case.route_rps(route)
    return found / case.groups[name].count


def _means(case: Case, times: Sequence[Times]) -> Times:
    """Over requests; of TPOT over those that have a second token."""
    rates = [case.route_rps(route) for route in case.plan.routing]
    decoding = [case.workload.buckets[route.bucket].osl > 1 for route in case.plan.routing]
    ttft = sum(t * r for (t, _), r in zip(times, rates, strict=True)) / max(sum(rates), 1e-30)
    weight = [r * d for r, d in zip(rates, decoding, strict=True)]
    return ttft, sum(o * r for (_, o), r in zip(times, weight, strict=True)) / max(sum(weight), 1e-30)


def _case(plan: Plan) -> Case:
    case = open_case(plan)
    assert isinstance(case, Case)
    return case
