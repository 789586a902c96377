"""Watts of GPUs in no replica, by hand."""

from __future__ import annotations

import pytest

from solvers import fleet
from solvers.fleet import idle as fleet_idle
from solvers.fleet.goals import COST, ENERGY
from solvers.fleet.types import Column, FleetProblem, Stock
from solvers.linear import Limits

COLUMNS = {
    "one": Column("g", 1, {"busy": {"chat": 0.1}}, watts=300.0),
    "two": Column("g", 2, {"busy": {"chat": 0.04}}, watts=800.0),
}
P = FleetProblem(COLUMNS, {"g": Stock(2, 2, 1.0, idle_watts=90.0)}, {"chat": 1.0}, ENERGY, demand=20.0)
"""Two nodes of two GPUs; 20 requests/s take two of `one`, or one of `two`."""


@pytest.mark.parametrize(("replicas", "watts"), [({}, 360), ({"one": 2}, 180), ({"one": 2, "two": 1}, 0)])
def test_every_gpu_without_a_replica_draws_its_watts(replicas: dict[str, int], watts: float):
    assert fleet_idle.draw_of(P, replicas) == watts


def test_a_fleet_is_charged_for_the_gpus_that_it_leaves():
    """Both leave two GPUs: 2 x 300 + 180 is less than 800 + 180."""
    s = fleet.solve(P, Limits())

    assert (s.replicas, s.objective, s.bound) == ({"one": 2}, pytest.approx(780.0), pytest.approx(780.0))


def test_idle_gpus_are_counted_only_where_watts_are():
    priced = FleetProblem(P.columns, P.stocks, P.share, COST, demand=20.0)

    assert {family for family, _ in fleet.build(P).model.rows} >= {"idle"}
    assert fleet.build(priced).idle == {}
    assert "idle" not in {family for family, _ in fleet.build(priced).model.rows}
