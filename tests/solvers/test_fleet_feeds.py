"""Racks and zones that may draw so many watts, by hand and against trying every fleet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers import fleet
from solvers.fleet import prices as fleet_prices
from solvers.fleet.goals import COST, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, Stock
from solvers.fleet.union import union
from solvers.linear import Limits
from tests.solvers.fleets import OBJECTIVES, best_by_trying_all, fed, random_fleet

COLUMNS = {
    "full": Column("g", 1, {"busy": {"chat": 1 / 10}}, feeds={"rack": 600.0}),
    "held": Column("g", 1, {"busy": {"chat": 1 / 8}}, feeds={"rack": 300.0}),
}
P = FleetProblem(COLUMNS, {"g": Stock(4, 1, 1.0)}, {"chat": 1.0}, THROUGHPUT, feeds={"rack": 1500.0})
"""Four GPUs that serve 10 requests/s at 600 W more than at rest, or 8 at 300 W more."""


@pytest.mark.parametrize(
    ("watts", "replicas", "rate"),
    [
        (2400.0, {"full": 4}, 40.0),
        (1500.0, {"full": 1, "held": 3}, 34.0),
        (1499.0, {"held": 4}, 32.0),
        (600.0, {"held": 2}, 16.0),
        (0.0, {}, 0.0),
    ],
)
def test_what_a_rack_serves_by_its_watts(watts: float, replicas: dict[str, int], rate: float) -> None:
    s = fleet.solve(replace(P, feeds={"rack": watts}), Limits())

    assert (s.replicas, s.objective) == (replicas, pytest.approx(rate, abs=1e-9))


def test_a_rack_whose_gpus_at_rest_draw_more_than_it_holds_has_no_fleet() -> None:
    assert fleet.solve(replace(P, feeds={"rack": -1.0}), Limits()).status == "infeasible"


def test_a_kilowatt_more_is_worth_what_the_relaxation_says() -> None:
    """600 W of a rack turn two limited GPUs into full ones: 2 requests/s for 300 W each."""
    worth = fleet.marginals(replace(P, feeds={"rack": 1500.0}), Limits())

    assert worth["feed", "rack"] == pytest.approx(2 / 300)


def test_feeds_leave_fleets_alone_that_they_hold() -> None:
    demand = replace(P, objective=COST, demand=30.0)

    assert fleet.solve(replace(demand, feeds={"rack": 1e6}), Limits()).replicas == {"full": 3}
    assert fleet.solve(demand, Limits()).objective == pytest.approx(4.0)


@pytest.mark.parametrize("seed", range(60))
def test_fleets_under_feeds_are_as_good_as_the_best_of_all(seed: int) -> None:
    p = fed(random_fleet(seed, OBJECTIVES[seed % len(OBJECTIVES)]), seed)
    s, best = fleet.solve(p, Limits(gap=0.0)), best_by_trying_all(p)

    assert (s.objective is None) == (best is None)
    if best is not None:
        assert s.objective == pytest.approx(best, rel=1e-5, abs=1e-6)
        assert s.bound == pytest.approx(best, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_columns_left_out_by_prices_are_in_no_better_fleet_under_feeds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_prices, "MANY", 1)
    p = fed(random_fleet(seed, OBJECTIVES[seed % len(OBJECTIVES)]), seed)
    s, best = fleet.solve(p, Limits(gap=0.0)), best_by_trying_all(p)

    assert s.objective == (best if best is None else pytest.approx(best, rel=1e-5, abs=1e-6))


def test_parts_of_a_union_share_a_feed() -> None:
    """1,500 W for both: two limited GPUs each, as a full one in place of a limited one helps one alone."""
    both = union([P, P], [0.5, 0.5], None)
    s = fleet.solve(both, Limits())

    assert sum(k * both.columns[c].feeds["rack"] for c, k in s.replicas.items()) <= 1500.0
    assert s.objective == pytest.approx(32.0)
    with pytest.raises(ValueError, match="parts of a union differ in their feeds"):
        union([P, replace(P, feeds={"rack": 900.0})], [0.5, 0.5], None)
