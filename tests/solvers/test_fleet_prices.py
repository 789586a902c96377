"""Columns left out by their prices: answers stay as they are, and no fleet with a column beats its price."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from solvers import fleet
from solvers.fleet import prices as fleet_prices
from solvers.fleet.extract import extract
from solvers.fleet.goals import COST, THROUGHPUT
from solvers.fleet.prices import Prices, few, prices
from solvers.fleet.types import Column, FleetProblem, FleetSolution, Stock
from solvers.linear import Limits
from tests.solvers.fleets import OBJECTIVES, best_by_trying_all, random_fleet

SENSE = dict.fromkeys(OBJECTIVES, -1.0) | {"throughput": 1.0}


@pytest.fixture
def priced(monkeypatch):
    """Prices for small fleets, too, and so near at first that a second look is needed."""
    monkeypatch.setattr(fleet_prices, "MANY", 1)
    monkeypatch.setattr(fleet_prices, "NEAR", 1e-3)


def bent(p: FleetProblem, seed: int) -> FleetProblem:
    """The problem with two lines under what each column costs."""
    r = random.Random(seed)
    lines = {
        c: tuple(
            (a * column.watts, {w: r.uniform(0.0, 0.5) * column.watts for w in column.buckets})
            for a in (1.0, 0.5)
        )
        for c, column in p.columns.items()
    }
    return replace(p, columns={c: replace(column, tangents=lines[c]) for c, column in p.columns.items()})


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_agrees_with_trying_every_fleet(objective, priced):
    for seed in range(40):
        p = random_fleet(seed, objective)
        s, best = fleet.solve(p, Limits()), best_by_trying_all(p)

        assert s.objective == (best if best is None else pytest.approx(best, rel=1e-6, abs=1e-9)), (
            f"seed {seed}"
        )
        assert s.status == ("infeasible" if best is None else "optimal"), f"seed {seed}"


@pytest.mark.parametrize("objective", ["energy", "throughput"])
def test_no_fleet_with_a_column_is_better_than_its_price(objective):
    looked_at = 0
    for seed in range(100):
        p = bent(random_fleet(seed, objective), seed)
        known = prices(fleet.build(p), Limits())
        for c in p.columns if known else ():
            built = fleet.build(p)
            built.model.lower[built.n[c].column] = 1.0
            s = extract(p, built, built.model.solve(Limits()))
            if s.objective is not None:
                looked_at += known.more[c] > 1e-6
                least = known.best + known.more[c]
                assert -SENSE[objective] * s.objective >= least - 1e-6 * max(1.0, abs(least)), (
                    f"seed {seed} {c}"
                )

    assert looked_at >= 40


def test_lines_under_costs_are_a_columns_own(priced, monkeypatch):
    for seed in range(40):
        p = bent(random_fleet(seed, "energy"), seed)
        s = fleet.solve(p, Limits())
        monkeypatch.setattr(fleet_prices, "MANY", 1000)
        plain = fleet.solve(p, Limits())
        monkeypatch.setattr(fleet_prices, "MANY", 1)

        assert s.objective == (plain.objective and pytest.approx(plain.objective, rel=1e-6)), f"seed {seed}"


@pytest.mark.parametrize("limits", [Limits(gap=0.3), Limits(work=1)], ids=["gap 30 %", "one node"])
def test_a_bound_is_true_however_early_the_search_ends(limits, priced):
    for seed in range(60):
        p = random_fleet(seed)
        s, best = fleet.solve(p, limits), best_by_trying_all(p)
        if best is not None:
            slack = 1e-6 * max(1.0, abs(best))

            assert SENSE[p.objective.name] * (s.bound - best) >= -slack, f"seed {seed}"


def test_a_group_without_a_partner_goes():
    p = next(q for q in map(random_fleet, range(100)) if q.pairs)
    lone = [c for c in p.columns if p.columns[c].group is None or p.columns[c].group.startswith("prefill")]

    assert all(k.group is None for k in few(p, lone).columns.values())
    assert few(p, p.columns).columns.keys() >= {c for c, k in p.columns.items() if k.group is None}


def looked_through(
    answers: list[FleetSolution], limits: Limits
) -> tuple[FleetSolution, list[tuple[int, float]]]:
    """`searched` where `answers` are found in turn, and how many columns had how many seconds each time.

    No fleet is below 100, with b none below 105, with c none below 150."""
    columns = {c: Column("a", 1, {"busy": {"0": 1.0}}) for c in "abc"}
    p = FleetProblem(columns, {"a": Stock(9, 1, 1.0)}, {"0": 1.0}, COST, 1.0)
    looks = list[tuple[int, float]]()

    def answer(near: FleetProblem, own: Limits) -> FleetSolution:
        looks.append((len(near.columns), round(own.seconds)))
        return answers[len(looks) - 1]

    return fleet_prices.searched(p, Prices(100.0, {"a": 0.0, "b": 5.0, "c": 50.0}), limits, answer), looks


@pytest.mark.parametrize(
    ("answers", "looks", "status", "value", "bound"),
    [
        ([("optimal", 104, 104)], 1, "optimal", 104, 104),  # below all that b could give
        ([("time_limit", 120, 103)], 1, "time_limit", 120, 103),  # more columns prove no more
        ([("time_limit", 120, 105)], 1, "time_limit", 120, 105),
        ([("time_limit", 120, 110), ("optimal", 108, 108)], 2, "optimal", 108, 108),
        ([("optimal", 120, 120), ("optimal", 120, 120)], 2, "optimal", 120, 120),
        ([("optimal", 120, 120), ("within_gap", 121, 119), ("optimal", 120, 120)], 3, "optimal", 120, 120),
        ([("infeasible", None, None)] * 2 + [("optimal", 160, 160)], 3, "optimal", 160, 160),
        ([("infeasible", None, None)] * 3, 3, "infeasible", None, None),
        ([("optimal", 120, 120), ("interrupted", None, None)], 2, "interrupted", 120, 105),
    ],
)
def test_columns_are_looked_through_until_no_other_can_do_better(answers, looks, status, value, bound):
    found = [FleetSolution(word, v, b, "") for word, v, b in answers]
    s, looked = looked_through(found, Limits(seconds=100.0))

    assert [count for count, _ in looked] == [1, 2, 3][:looks]
    assert [seconds for _, seconds in looked] == [50, 50, 100][:looks]
    assert (s.status, s.objective, s.bound) == (status, value, bound)
    assert value is None or s.least == {"a": 100.0, "b": 105.0, "c": 150.0}


@pytest.mark.parametrize(("many", "nodes", "told"), [(500, 1, True), (100, 250, True), (100, 249, False)])
def test_columns_are_left_out_where_they_or_their_nodes_are_many(many, nodes, told):
    own = {f"c{i}": Column("a", 1, {"busy": {"0": 1.0}}) for i in range(many)}

    p = FleetProblem(own, {"a": Stock(nodes, 8, 1.0)}, {"0": 1.0}, THROUGHPUT)

    assert fleet_prices.worth(p) == told
