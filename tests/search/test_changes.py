"""What a search changes of a problem between two solves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.plans.strain import Late
from planner.search.changes import EASINGS, LIGHTEST, MORE_LEFT, MOST_LEFT, eased, insured, judged, tidied
from planner.search.limits import LEAST_S, NEARLY_ALL, closer, left
from planner.search.question import at_least
from solvers.fleet.goals import COST, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Stock, Survive
from solvers.linear import Limits


def column(gpus=1, busy=0.5, stock="s", watts=100.0):
    """Of one bucket, that it fills `busy` of itself with for each request/s."""
    return Column(stock, gpus, {"busy": {"0": busy, "1": busy}, "kv": {"0": 0.1, "1": 0.1}}, watts)


PROBLEM = FleetProblem(
    columns={"a": column(), "b": column(gpus=2)},
    stocks={"s": Stock(1, 4, 2.0)},
    share={"0": 0.5, "1": 0.5},
    objective=THROUGHPUT,
)


def late(bucket="0", share=0.5, candidate="a"):
    return Late(candidate, bucket, share)


def test_a_late_column_is_charged_more_by_just_what_it_may_carry():
    """By hand: half the traffic, so twice the charge, on every resource and bucket; others as they were."""
    own = eased(PROBLEM, [late(share=0.5)], 0).columns

    assert own["a"].use == {"busy": {"0": 1.0, "1": 1.0}, "kv": {"0": 0.2, "1": 0.2}}
    assert own["b"] == PROBLEM.columns["b"]


def test_a_column_is_eased_once_a_round_for_its_worst_bucket():
    own = eased(PROBLEM, [late("0", 0.5), late("1", 0.8)], 0).columns["a"]

    assert own.use["busy"]["0"] == pytest.approx(1.0)


@pytest.mark.parametrize(("share", "rounds"), [(LIGHTEST, 0), (0.5, EASINGS)])
def test_what_no_load_is_light_enough_for_is_cut_off_from_its_bucket_alone(share, rounds):
    own = eased(PROBLEM, [late("0", share)], rounds).columns["a"]

    assert own.use == {"busy": {"1": 0.5}, "kv": {"1": 0.1}}


def test_a_column_without_buckets_is_gone():
    both = [late("0", 0.1), late("1", 0.1)]

    assert set(eased(PROBLEM, both, 0).columns) == {"b"}
    assert set(eased(PROBLEM, [late(candidate="gone")], 0).columns) == {"a", "b"}


def test_the_rest_is_left_what_it_was_short_of_and_a_little_more():
    problem = replace(PROBLEM, survive=Survive(1, 0.5))
    shares = [insured(problem, short).survive.share for short in (1.2, 1.0, 0.2, 9.0)]

    assert shares == pytest.approx(
        [0.5 * 1.2 * (1 + MORE_LEFT), 0.5 * (1 + MORE_LEFT), 0.5 * (1 + MORE_LEFT), 0.5 * MOST_LEFT]
    )


def test_fleets_worse_than_what_is_of_use_are_left_out():
    """By hand: the more demanding of what was asked for and what is of use."""
    dollars = replace(PROBLEM, objective=COST, demand=1.0, budget={"usd_per_hour": 5.0})

    assert at_least(PROBLEM, 3.0).demand == 3.0
    assert at_least(replace(PROBLEM, demand=4.0), 3.0).demand == 4.0
    assert at_least(dollars, 3.0).budget == {"usd_per_hour": 3.0}
    assert at_least(dollars, 7.0).budget == {"usd_per_hour": 5.0}
    assert at_least(replace(dollars, budget={}), 7.0).budget == {"usd_per_hour": 7.0}


def test_a_status_is_what_objective_and_bound_deserve():
    s = FleetSolution("optimal", 100.0, 100.5, "HiGHS")

    assert judged(s, Limits(gap=0.01)).status == "within_gap"
    assert judged(s, Limits(gap=0.001)).status == "time_limit"
    assert judged(replace(s, bound=100.0), Limits()).status == "optimal"
    assert judged(replace(s, status="interrupted"), Limits(gap=0.001)).status == "interrupted"


def test_of_equally_good_fleets_the_one_with_fewer_gpus_is_taken():
    """By hand: `b` serves as much as `a` on twice the GPUs, so the same rate is served on half of them."""
    p = replace(PROBLEM, stocks={"s": Stock(1, 2, 2.0)}, columns={"a": column(), "b": column(2, 0.25)})
    p = replace(p, demand=2.0, objective=COST)
    wide = FleetSolution(
        "optimal", 2.0, 2.0, "HiGHS", replicas={"b": 1}, flows={("b", "0"): 1.0, ("b", "1"): 1.0}, rate=2.0
    )
    tidy = tidied(replace(p, demand=1.0), replace(wide, rate=1.0), Limits(seconds=5))

    assert (tidy.replicas, tidy.objective, tidy.bound) == ({"a": 1}, pytest.approx(2.0), 2.0)
    assert tidied(p, replace(wide, status="interrupted"), Limits()).replicas == {"b": 1}


def test_a_tidier_fleet_serves_and_costs_the_same():
    """By hand: half the GPUs at 3 dollars are not as good as twice as many at 2, nor is half the rate."""
    both = {"s": Stock(1, 2, 2.0), "t": Stock(1, 1, 3.0)}
    dear = replace(PROBLEM, stocks=both, columns={"b": column(2), "a": column(stock="t")}, demand=1.0)
    flows = {("b", "0"): 0.5, ("b", "1"): 0.5}
    s = FleetSolution("optimal", 2.0, 2.0, "HiGHS", replicas={"b": 1}, flows=flows, rate=1.0)
    most = replace(s, objective=2.0, rate=2.0, flows=dict.fromkeys(flows, 1.0))
    fewer = replace(PROBLEM, columns={"a": column(), "b": column(2, 0.5)}, stocks={"s": Stock(1, 2, None)})

    assert tidied(replace(dear, objective=COST), s, Limits(seconds=5)).replicas == {"b": 1}
    tidy = tidied(fewer, most, Limits(seconds=5))
    assert (tidy.replicas, tidy.rate) == ({"a": 1}, pytest.approx(2.0))


def test_every_solve_gets_a_second_and_its_share_of_what_is_left(monkeypatch):
    monkeypatch.setattr("planner.search.limits.time.monotonic", lambda: 100.0)
    limits = Limits(seconds=60.0, gap=0.02)

    assert left(limits, 110.0).seconds == 10.0
    assert left(limits, 110.0, 0.5).seconds == 5.0
    assert left(limits, 90.0).seconds == LEAST_S
    assert closer(limits) == replace(limits, gap=0.005, enough=NEARLY_ALL * 0.02)


def test_a_search_that_is_tried_again_comes_nearer_by_what_the_model_took_away():
    """By hand: of a gap of 2 % it took 0.5, so 1.5 are left for the search; never less than a quarter."""
    limits = Limits(gap=0.02)

    assert closer(limits, 0.005).enough == pytest.approx(NEARLY_ALL * 0.015)
    assert closer(limits, 0.05).enough == closer(limits, 0.05).gap == 0.005
