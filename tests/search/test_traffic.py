"""How much of a bound's fleet's traffic is told, and when none of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from planner.inputs.options import Survive
from planner.objectives import named
from planner.plans.found import groups
from planner.plans.strain import SLACK, strain
from planner.search import traffic
from planner.search.traffic import carrying, nearness, realised, settled, short_of
from solvers.linear import Limits
from tests.beside.solved import on, solved

LIMITS = Limits(gap=0.01, seconds=10)


def one(**asked):
    """One GPU's question and its best fleet."""
    return solved("1xH100", "llama-3.1-8b", tpot_ms=50, **asked)[1:]


def two():
    """Two nodes of one GPU each."""
    form = Node(name="n", device="h100-sxm", count=2, gpus_per_node=1)
    return on(resolve(Cluster(nodes=[form])), "llama-3.1-8b", engine="sglang", tpot_ms=100)[1:]


def times(found, factor):
    """The fleet with so many times its traffic, whatever it carries."""
    s = found.solution
    flows = {k: v * factor for k, v in s.flows.items()}
    pairs = {k: v * factor for k, v in s.pair_flows.items()}
    return replace(found, solution=replace(s, rate=s.rate * factor, flows=flows, pair_flows=pairs))


def test_a_fleet_with_too_much_traffic_is_told_with_what_it_carries():
    question, found = one()
    told = carrying(question, times(found, 1.5), LIMITS)

    assert told.solution.rate == pytest.approx(found.solution.rate, rel=2e-3)
    assert strain(told, groups(told)) <= 1 + SLACK


@pytest.mark.parametrize("share", [0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.2, 3.0])
@pytest.mark.parametrize(("gpus", "model"), [("1xH100", "llama-3.1-8b"), ("8xH100", "llama-3.1-70b")])
@pytest.mark.parametrize("load", [{"tpot_ms": 50}, {"tpot_ms": 20}, {"isl": 4000, "osl": 1}])
def test_a_fleet_is_told_with_all_but_a_fiftieth_of_the_gap_whatever_it_has(gpus, model, load, share):
    """The most is found by halves; the limits are of times, or of servers that are full."""
    question, found = solved(gpus, model, **load)[1:]
    most = by_halves(gpus, model, **load)

    told = carrying(question, times(found, share * most), LIMITS)

    assert told.solution.rate >= found.solution.rate * most * (1 - 1.01 * nearness(LIMITS))
    assert strain(told, groups(told)) <= 1 + SLACK


@cache
def by_halves(gpus, model, **load):
    """Times its traffic that the fleet carries."""
    found = solved(gpus, model, **load)[2]
    made, low, high = groups(found), 0.5, 2.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if strain(found, made, middle) <= 1 else (low, middle)
    return low


def test_a_fleet_that_cannot_carry_the_rate_asked_for_is_no_answer():
    question, found = one()
    most = found.solution.rate
    wanted = [replace(found, problem=replace(found.problem, demand=x * most)) for x in (0.9, 1.1)]

    assert carrying(question, wanted[0], LIMITS) is not None
    assert carrying(question, wanted[1], LIMITS) is None


def test_the_cheapest_fleet_is_told_with_just_its_rate_or_not_at_all():
    question, found = one(rate=2.0, objective="cost")
    kept = carrying(question, found, LIMITS)

    assert kept.solution.rate == found.solution.rate == pytest.approx(2.0)
    assert kept.solution.objective == pytest.approx(found.solution.objective)
    assert carrying(question, times(found, 100.0), LIMITS) is None


def test_a_fleet_that_loses_its_only_node_leaves_nothing():
    question, found = one()
    lost = replace(question, survive=Survive(nodes=1, share=0.5))

    assert short_of(question, found, LIMITS) == 0.0
    assert short_of(lost, found, LIMITS) == float("inf")
    assert carrying(lost, found, LIMITS) is None


@pytest.mark.parametrize(("share", "short"), [(0.5, 1.0), (1.0, 2.0), (0.25, 0.5)])
def test_the_rest_of_two_equal_nodes_serves_half(share, short):
    question, found = two()
    lost = replace(question, survive=Survive(nodes=1, share=share))

    assert short_of(lost, found, LIMITS) == pytest.approx(short, rel=5e-3)


def test_a_fleet_serves_so_little_that_the_rest_can_serve_its_share():
    """By hand: one of two equal nodes serves half, so of all of it the fleet may serve half; where the rate
    is given, just that or nothing."""
    question, found = two()
    lost = replace(question, survive=Survive(nodes=1, share=1.0))
    cheap = replace(lost, objective=named("cost"))

    assert carrying(lost, found, LIMITS).solution.rate == pytest.approx(found.solution.rate / 2, rel=5e-3)
    assert carrying(cheap, found, LIMITS) is None
    assert carrying(cheap, times(found, 0.45), LIMITS) is not None


def test_the_nearness_is_a_fiftieth_of_the_gap_but_no_less_than_rounding():
    assert nearness(Limits(gap=0.5)) == pytest.approx(0.01)
    assert nearness(Limits(gap=0.0)) == SLACK


def test_an_interrupt_between_two_solves_keeps_the_fleet(monkeypatch):
    question, found = one()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(traffic, "tidied", interrupted)
    s = settled(question, found.problem, found.solution, LIMITS, 0.1)

    assert (s.status, s.replicas) == ("interrupted", found.solution.replicas)


def test_a_fleet_that_serves_nothing_is_no_answer():
    question, found = one()
    nothing = replace(found, solution=replace(found.solution, objective=None))

    assert realised(question, nothing, LIMITS, 0.1) is None
    assert realised(question, found, LIMITS, 0.1).solution.rate == pytest.approx(
        found.solution.rate, rel=2e-3
    )
