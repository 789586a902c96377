"""Watts and latency that grow with the load: by hand, against trying every fleet, by what must hold."""

from dataclasses import replace

import pytest

from solvers import fleet
from solvers.fleet import costs as fleet_costs
from solvers.fleet.extract import value
from solvers.fleet.goals import COST, ENERGY, GPUS, LATENCY, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Stock
from solvers.linear import Limits
from tests.solvers.fleets import best_by_trying_all, curved, goal, random_fleet
from tests.solvers.test_fleet import same

# a replica takes 100 W idle and 40 W for each request/s, above 5/s 80 W for each
STEEP = ((100.0, {"w": 40.0}), (-100.0, {"w": 80.0}))
SMALL = FleetProblem(
    columns={"c": Column("g", 1, {"busy": {"w": 0.1}}, watts=900.0, tangents=STEEP)},
    stocks={"g": Stock(4, 1, 1.0)},
    share={"w": 1.0},
    objective=ENERGY,
    demand=10.0,
)


def solved(p: FleetProblem) -> FleetSolution:
    return fleet.solve(p, Limits())


def test_a_second_replica_saves_what_the_steep_part_of_the_first_takes():
    """One at 10/s: 700 W. Two at 5/s: 200 W and 400 W."""
    s = solved(SMALL)

    assert s.replicas == {"c": 2}
    assert s.objective == pytest.approx(600.0) == s.bound


def test_a_column_without_tangents_takes_the_same_at_any_load():
    flat = replace(SMALL, columns={"c": replace(SMALL.columns["c"], tangents=())})

    assert solved(flat).objective == pytest.approx(900.0)


def test_watts_that_grow_count_in_the_budget():
    p = replace(SMALL, objective=THROUGHPUT, demand=None, budget={"watts": 600.0})

    assert solved(p).rate == pytest.approx(10.0)
    assert solved(replace(p, budget={"watts": 99.0})).rate == pytest.approx(0.0)
    assert solved(replace(SMALL, objective=GPUS, budget={"watts": 650.0})).objective == 2
    assert solved(replace(SMALL, objective=GPUS, budget={"watts": 700.1})).objective == 1


def test_latency_that_grows_is_the_mean_over_requests():
    """Requests in a replica: f, above 4/s 3 f - 8. Over four replicas 10/s are in 1 s, over two in 1.4 s."""
    slow = ((0.0, {"w": 1.0}), (-8.0, {"w": 3.0}))
    p = replace(SMALL, columns={"c": replace(SMALL.columns["c"], tangents=slow)}, objective=LATENCY)

    assert solved(p).objective == pytest.approx(1.0)
    assert solved(replace(p, stocks={"g": Stock(2, 1, 1.0)})).objective == pytest.approx(1.4)


def test_the_mean_latency_may_be_a_budget():
    p = replace(SMALL, columns={"c": Column("g", 1, {"busy": {"w": 0.1}}, latency={"w": 1.5})})
    slow = ((0.0, {"w": 1.0}), (-8.0, {"w": 3.0}))
    bent = replace(p, columns={"c": replace(p.columns["c"], tangents=slow)}, objective=GPUS)

    assert solved(replace(bent, budget={"latency": 1.4})).objective == 2
    assert solved(replace(bent, budget={"latency": 1.3})).objective == 3
    assert solved(replace(p, budget={"latency": 1.4})).status == "infeasible"
    fastest = replace(bent, objective=THROUGHPUT, demand=None, budget={"latency": 1.4})
    assert solved(fastest).rate == pytest.approx(20.0)


def test_replicas_without_traffic_take_what_they_take_idle():
    idle = FleetSolution("optimal", None, None, "", {"c": 2})

    assert fleet_costs.highest(SMALL.columns["c"], "c", idle) == 200.0


def test_a_cost_is_never_below_nothing():
    p = replace(SMALL, columns={"c": replace(SMALL.columns["c"], tangents=((-100.0, {"w": 1.0}),))})

    assert solved(p).objective == 0.0


def test_tangents_are_stated_only_where_they_count():
    assert "cost" not in {family for family, _ in fleet.build(replace(SMALL, objective=GPUS)).model.rows}
    assert fleet_costs.curved(replace(SMALL, objective=COST)) == {}


def test_spreading_traffic_leaves_the_least_watts_and_keeps_a_budget():
    """10/s on the steady one and 4/s on the other, 810 W; 7/s on each would take 890 W."""
    lone = replace(SMALL.columns["c"], tangents=((150.0, {"w": 40.0}),))
    two = {"c": SMALL.columns["c"], "steady": lone}
    p = replace(SMALL, columns=two, stocks={"g": Stock(2, 1, 1.0)})
    s = solved(replace(p, demand=14.0))
    dearer = replace(p, objective=GPUS, demand=14.0, budget={"watts": s.objective})

    assert s.replicas == {"c": 1, "steady": 1}
    assert s.objective == pytest.approx(810.0)
    assert fleet.balance(replace(p, demand=14.0), s, Limits()).flows == s.flows
    spread = fleet.balance(dearer, s, Limits())
    assert value(p, spread) == pytest.approx(s.objective)
    free = fleet.balance(replace(dearer, budget={}), s, Limits())
    assert free.flows == pytest.approx({("c", "w"): 7.0, ("steady", "w"): 7.0})


@pytest.mark.parametrize("objective", ["energy", "latency", "throughput", "cost", "spare"])
def test_with_tangents_the_answer_is_that_of_trying_every_fleet(objective):
    bent = 0
    for seed in range(25):
        p = random_fleet(seed, objective)
        p = curved(replace(p, objective=goal(objective)), seed)
        s = solved(p)
        bent += bool(fleet_costs.curved(p))

        assert same(s.objective, best_by_trying_all(p)), f"seed {seed}"
        assert s.bound == s.objective, f"seed {seed}"
    assert bent > 5


def test_tangents_of_any_size_are_kept_as_well():
    """A thousandth and ten thousand times the watts: the same fleet."""
    for factor in (1e-3, 1e4):
        steep = tuple((a * factor, {"w": b["w"] * factor}) for a, b in STEEP)
        s = solved(replace(SMALL, columns={"c": replace(SMALL.columns["c"], tangents=steep)}))

        assert s.objective == pytest.approx(600.0 * factor)
        assert s.replicas == {"c": 2}
