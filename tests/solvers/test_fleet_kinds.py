"""At most so many kinds of replica, and the fewest: by hand, by trying every fleet, by what must hold."""

from dataclasses import replace

import pytest

from solvers import fleet
from solvers.fleet import kinds as fleet_kinds
from solvers.fleet.extract import fullest
from solvers.fleet.goals import THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Stock
from solvers.linear import Limits
from tests.solvers.fleets import OBJECTIVES, best_by_trying_all, kinded, random_fleet
from tests.solvers.test_fleet import SENSE, same

SMALL = FleetProblem(
    columns={
        "long alone": Column("g", 2, {"busy": {"long": 0.5}}),
        "long beside short": Column("g", 2, {"busy": {"long": 0.6, "short": 0.4}}),
        "short": Column("g", 1, {"busy": {"short": 0.2}}),
    },
    stocks={"g": Stock(3, 2, 1.0)},
    share={"long": 0.5, "short": 0.5},
    objective=THROUGHPUT,
    kinds={"long alone": "big", "long beside short": "big", "short": "small"},
)


def solved(p: FleetProblem, **limits: float) -> FleetSolution:
    return fleet.solve(p, Limits(**limits))  # type: ignore[arg-type]


def kinds_of(p: FleetProblem, s: FleetSolution) -> int:
    return len({p.kind(c) for c in s.replicas})


def test_one_kind_of_replica_may_run_at_two_loads():
    """One bears 2/s of long prompts, two all short ones and the rest: R/2 = 2 + (2 - 0.2 R) / 0.6."""
    s = solved(replace(SMALL, most_kinds=1))

    assert s.rate == pytest.approx(6.4)
    assert s.replicas == {"long alone": 1, "long beside short": 2}


def test_a_second_kind_is_taken_only_where_it_is_allowed():
    """With a small one for all short prompts, two big ones bear long ones alone, 4/s."""
    two = solved(replace(SMALL, most_kinds=2))

    assert two.rate == solved(SMALL).rate == pytest.approx(8.0)
    assert two.replicas == {"long alone": 2, "short": 1}


def test_a_column_without_a_kind_is_one_by_itself():
    assert solved(replace(SMALL, kinds={}, most_kinds=1)).rate == pytest.approx(6.0)


def test_kinds_are_counted_only_where_that_is_asked():
    free = fleet.build(SMALL).model

    assert "u" not in free.families
    assert not {"kind", "kinds"} & {family for family, _ in free.rows}


def test_spreading_traffic_keeps_the_kinds():
    p = replace(SMALL, most_kinds=1)
    s = solved(p)
    spread = fleet.balance(p, replace(s, rate=0.9 * s.rate), Limits())

    assert spread.replicas == s.replicas
    assert fullest(p, spread) == pytest.approx(0.9)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_with_few_kinds_the_answer_is_that_of_trying_every_fleet(objective):
    for seed in range(40):
        p = kinded(random_fleet(seed, objective), seed)
        s = solved(p)

        assert same(s.objective, best_by_trying_all(p)), f"seed {seed}"
        assert s.bound == s.objective, f"seed {seed}"
        assert kinds_of(p, s) <= (p.most_kinds or 0), f"seed {seed}"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_kinds_that_are_looked_for_first_leave_the_answer_as_it_is(objective, monkeypatch):
    """On few nodes whole replicas often lose: then all is looked for at once."""
    monkeypatch.setattr(fleet_kinds, "NODES", 0)
    for seed in range(24):
        p = kinded(random_fleet(seed, objective), seed)
        s, first = solved(p), fleet_kinds.first(p, fleet.build(p), Limits(), fleet.at_once)

        assert same(s.objective, best_by_trying_all(p)), f"seed {seed}"
        assert kinds_of(p, s) <= (p.most_kinds or 0), f"seed {seed}"
        assert first is None or same(first.objective, s.objective), f"seed {seed}"


@pytest.mark.parametrize(("k", "most"), [(1, 1000 / 0.45), (2, 1000 / 0.3)])
def test_on_many_nodes_kinds_are_looked_for_first(k, most):
    """By hand, of parts of replicas: with a small kind R/2 takes a node for 2/s, R/2 half of one for 5/s;
    without it R/4 nodes have long prompts alone, and R/2 = (1000 - R/4) / 0.4."""
    p = replace(SMALL, stocks={"g": Stock(1000, 2, 1.0)}, most_kinds=k)
    first, s = fleet_kinds.first(p, fleet.build(p), Limits(gap=0.01), fleet.at_once), solved(p, gap=0.01)

    assert first is not None
    assert first.status in ("optimal", "within_gap")
    assert first.objective is not None
    assert 0.99 * most <= first.objective <= most
    assert first.bound == pytest.approx(most, rel=0.0025)
    assert first.bound >= most * (1 - 1e-9)
    assert kinds_of(p, first) <= k
    assert (first.replicas, first.bound, first.among) == (s.replicas, s.bound, s.among)
    assert s.among
    assert not fleet_kinds.worth(SMALL)


@pytest.mark.parametrize("objective", ["throughput", "cost", "energy"])
def test_each_kind_more_is_never_worse_and_all_reach_the_best(objective):
    for seed in range(12):
        p = kinded(random_fleet(seed, objective), seed)
        best = solved(replace(p, most_kinds=None))
        if not best.objective:
            continue
        most = len({p.kind(c) for c in p.columns})
        values = [solved(replace(p, most_kinds=k)).objective for k in range(1, most + 1)]
        known = [SENSE[objective] * v for v in values if v is not None]

        assert known == sorted(known), f"seed {seed}"
        assert same(values[-1], best.objective), f"seed {seed}"


def test_flows_have_upper_limits_beyond_every_fleet():
    """Without them HiGHS 1.12 stated 8 kinds as the fewest of a fleet that 7 serve."""
    for seed in range(24):
        p = random_fleet(seed)
        b = fleet.build(p)
        s = solved(p)

        for v in (*b.f.values(), *b.x.values(), b.rate, *b.e.values()):
            assert b.model.upper[v.column] < float("inf")
            if s.point is not None and b.model.lower[v.column] < b.model.upper[v.column]:
                assert s.point[v.column] < 0.9 * b.model.upper[v.column], f"seed {seed}"
