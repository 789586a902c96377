"""Limits on the mean over all routes: no mixture of quick and slow replicas beats the bound, and fleets that
keep the mean alone are found."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.candidates.points import batched
from planner.fleet.solve import Posed, over_routes
from planner.plans.found import Found, groups, paths
from planner.plans.operation import index_of
from planner.plans.strain import SLACK, strain, used_together
from planner.question.asked import LOADS, read
from planner.question.posed import pose, unhurried
from planner.search.find import find
from planner.search.together import alone, may
from planner.search.traffic import carrying
from solvers.linear import Limits

LIMITS = Limits(gap=0.01, seconds=30)


@cache
def solved(gpus: str, model: str = "llama-3.1-8b", **asked) -> tuple[Posed, Found, Found]:
    """The question, the best fleet whose routes keep the limits one by one, and the best whose mean does."""
    load = {k: v for k, v in asked.items() if k in LOADS}
    options = {"engine": "vllm", "risk": 0.5} | {k: v for k, v in asked.items() if k not in LOADS}
    posed = Posed(*pose(read(None, model, gpus, "chat", load, options)))
    apart = find(posed.question, posed.pool, LIMITS)
    return posed, apart, over_routes(posed, apart, LIMITS, np.inf)


def test_a_fleet_that_keeps_the_mean_alone_is_found_and_keeps_it():
    """H100 beside L40S: late tokens of the one are made up for by the other."""
    _, apart, both = solved("1xH100,1xL40S", isl=2000, osl=200, ttft_ms=300, tpot_ms=30)
    made = groups(both)
    used = used_together(both, paths(both, made))

    assert both.together
    assert not both.apart
    assert both.solution.objective > 1.05 * apart.solution.objective
    assert both.solution.objective > apart.solution.bound  # which is of fleets of other routes
    assert max(used.values()) <= 1 + SLACK
    assert strain(replace(both, together=False), made) > 1.1
    assert both.solution.bound >= both.solution.objective
    assert both.solution.status in ("within_gap", "optimal")


def test_a_fleet_of_looser_limits_that_keeps_the_tighter_mean_does_not_beat_its_bound():
    """2,200 ms of TTFT asked for, and the share of its traffic with which the fleet keeps 1,400."""
    asked = {"model": "qwen3-32b", "isl": 2000, "osl": 200, "engine": "trtllm"}
    posed, _, tight = solved("2xH100,2xL40S", ttft_ms=1400, **asked)
    _, apart, loose = solved("2xH100,2xL40S", ttft_ms=2200, **asked)
    promise = next(iter(posed.pool.made.values())).setup.promise
    for fleet in (apart, loose):
        made = {
            key: replace(own, setup=replace(own.setup, promise=promise))
            for key, own in fleet.pool.made.items()
        }
        judged = replace(fleet, pool=replace(fleet.pool, made=made), together=True)
        told = carrying(posed.question, judged, LIMITS)

        assert told is not None
        assert tight.solution.bound >= told.solution.objective


def test_servers_of_one_design_gain_nothing_by_unlike_loads():
    """What waits at them is convex in their load."""
    _, apart, both = solved("2xL40S", tpot_ms=50)

    assert both.solution.objective == pytest.approx(apart.solution.objective, rel=1e-6)
    assert both.solution.bound == pytest.approx(apart.solution.bound, rel=2e-3)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["1xH100,1xL40S", "1xA100,2xL4", "2xL40S,1xH100"]),
    st.sampled_from([(512, 128), (2000, 200), (6000, 64)]),
    st.sampled_from([(600, 25), (1500, 40), (4000, 120)]),
    st.integers(0, 2**32 - 1),
)
def test_no_mixture_beats_the_bound(gpus, lengths, limits, seed):
    """Replicas of one GPU of both classes at any loads, as the one model of a server tells them, whose
    requests keep both limits in the mean."""
    (isl, osl), (ttft, tpot) = lengths, limits
    posed, apart, both = solved(gpus, isl=isl, osl=osl, ttft_ms=ttft, tpot_ms=tpot)
    if apart.solution.objective is None:
        return
    pool = unhurried(posed.asked)
    few = {n.id: n.gpus for n in posed.question.cluster.classes}
    mixed = [c for c in pool.candidates if c.role == "mixed" and c.gpus == 1]
    ones = {n: [c for c in mixed if c.node_class == n] for n in few}
    curves = {n: [_curve(pool.setup(c), c) for c in own] for n, own in ones.items()}
    best, draw = 0.0, np.random.default_rng(seed)
    stands = [curves[n] for n, k in few.items() for _ in range(k) if curves[n]]
    for _ in range(3000):
        chosen = [own[draw.integers(len(own))] for own in stands if draw.random() < 0.95]
        if not chosen:
            continue
        rate, first, other = np.array([curve[:, draw.integers(curve.shape[1])] for curve in chosen]).T
        kept = rate @ first <= rate.sum() * ttft / 1e3 and rate @ other <= rate.sum() * tpot / 1e3
        best = max(best, float(rate.sum()) if kept else 0.0)

    assert best <= both.solution.bound * (1 + 1e-6)
    assert best > 0.5 * both.solution.objective or both.solution.objective < 1e-3


def _curve(s, c) -> np.ndarray:
    """Requests/s, cautious seconds to the first token and for a further one, (3, k), of one replica at loads
    that it has room for."""
    loads = np.geomspace(0.05, c.sequences, 60)
    p = batched(s, np.full(60, index_of(s, c)), loads, "mixed")
    able = (p.other[:, 0] <= 0) & np.isfinite(p.ttft_s[:, 0]) & np.isfinite(p.tpot_s[:, 0])
    return np.array([p.rate, p.ttft_s[:, 0], p.tpot_s[:, 0]])[:, able]


@pytest.mark.parametrize(
    ("asked", "looked"),
    [
        ({"tpot_ms": 50}, True),
        ({"tpot_ms": "none", "ttft_ms": "none"}, False),
        ({"tpot_ms": 50, "percentile": "p90"}, False),
        ({"tpot_ms": 50, "rate": 1.0, "objective": "latency"}, False),
    ],
)
def test_means_are_looked_at_where_routes_can_make_up_for_each_other(asked, looked):
    load = {k: v for k, v in asked.items() if k in LOADS}
    options = {"engine": "vllm"} | {k: v for k, v in asked.items() if k not in LOADS}
    _, pool, question = pose(read(None, "llama-3.1-8b", "1xL40S", "chat", load, options))

    assert may(question, pool) == looked


@pytest.mark.parametrize(("gpus", "one"), [("1xL40S", True), ("2xL40S", False), ("1xL40S,1xL4", False)])
def test_a_lone_replica_has_one_route(gpus, one):
    _, pool, question = pose(read(None, "llama-3.1-8b", gpus, "chat", {}, {"engine": "vllm"}))

    assert alone(question, pool) == one
