"""Parts of the same nodes are paid once, against trying every fleet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers import fleet
from solvers.fleet.goals import COST, GPUS
from solvers.fleet.types import Column, FleetProblem, Stock
from solvers.linear import Limits
from tests.solvers.fleets import best_by_trying_all, boxed, random_fleet

FAST, SLOW = Column("a", 1, {"busy": {"w": 0.5}}), Column("b", 1, {"busy": {"w": 1.0}})
PC = FleetProblem(
    columns={"fast": FAST, "slow": SLOW},
    stocks={"a": Stock(1, 1, 3.0, box="pc"), "b": Stock(1, 1, 3.0, box="pc")},
    share={"w": 1.0},
    objective=COST,
    demand=1.0,
)


@pytest.mark.parametrize("demand", [1.0, 2.5])
def test_one_node_costs_what_it_costs_with_one_part_in_use_or_two(demand: float):
    s = fleet.solve(replace(PC, demand=demand), Limits())

    assert (s.objective, s.bound) == (3.0, 3.0)
    assert demand < 2 or len(s.replicas) == 2


def test_the_other_part_fits_a_budget_that_the_first_has_filled():
    s = fleet.solve(replace(PC, objective=GPUS, demand=2.5, budget={"usd_per_hour": 3.0}), Limits())

    assert (s.status, s.objective) == ("optimal", 2.0)


def test_agrees_with_trying_every_fleet():
    for seed in range(60):
        p = boxed(random_fleet(seed, "cost"))
        s, best = fleet.solve(p, Limits()), best_by_trying_all(p)

        assert (s.objective is None) == (best is None), f"seed {seed}"
        assert best is None or s.objective == pytest.approx(best, abs=1e-6), f"seed {seed}"
