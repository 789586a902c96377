"""Integers that decide: against trying every fleet, against HiGHS alone, and where the search ends early."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from solvers import fleet
from solvers.fleet.goals import COST
from solvers.fleet.types import FleetProblem
from solvers.linear import INF, Limits, Linear, Outcome, cbc, deciding, highs, met, total
from solvers.linear.program import better
from tests.solvers.fleets import best_by_trying_all, random_fleet
from tests.solvers.test_bounds_hold import medium
from tests.solvers.test_linear import hard

NOTHING = Outcome("time_limit", None, None, None, "HiGHS")


def cheapest(seed: int, rate: float) -> FleetProblem:
    """Three classes, whole prices, dozens of designs."""
    p = medium(seed)
    prices = dict(zip(p.stocks, (24.0, 32.0, 12.0), strict=True))
    stocks = {g: replace(stock, price=prices[g], nodes=9) for g, stock in p.stocks.items()}
    return replace(p, stocks=stocks, objective=COST, demand=rate)


@pytest.mark.parametrize("seed", range(60))
def test_the_cheapest_fleet_of_all_is_found_and_proven(seed):
    p = random_fleet(seed, "cost")
    built = fleet.build(p)
    found = deciding.solve(built.model, Limits(), NOTHING)
    best = best_by_trying_all(p)

    if best is None:
        assert found.status == "infeasible"
        return
    assert (found.status, found.value) == ("optimal", pytest.approx(best, rel=1e-6, abs=1e-9))


@pytest.mark.parametrize(("seed", "rate"), [(0, 60.0), (1, 60.0), (4, 90.0), (5, 90.0), (7, 60.0), (7, 90.0)])
def test_with_a_wide_gap_the_bound_holds_for_the_cheapest_fleet(seed, rate):
    """Plans are tried there that cost more than the lowest points, which stay to be refuted."""
    built = fleet.build(cheapest(seed, rate))
    rough = deciding.solve(built.model, Limits(gap=0.3), NOTHING)
    best = highs.solve(built.model, Limits(), None)

    assert rough.bound is not None
    assert best.value is not None
    assert rough.bound <= best.value + 1e-6
    assert best.value - 1e-6 <= (rough.value or 0.0) <= best.value / 0.7 + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_its_bound_and_highs_bound_hold_for_each_others_plans(seed):
    built = fleet.build(cheapest(seed, 40.0))
    ours = deciding.solve(built.model, Limits(gap=0.005, seconds=20.0), NOTHING)
    other = highs.solve(built.model, Limits(gap=0.005, seconds=20.0), None)

    assert ours.value is not None
    assert other.value is not None
    assert ours.bound is not None
    assert other.bound is not None
    assert ours.bound <= min(ours.value, other.value) + 1e-6
    assert other.bound <= ours.value + 1e-6
    assert ours.status in ("optimal", "within_gap")


def test_what_is_known_is_kept_where_boxes_are_too_many(monkeypatch):
    built = fleet.build(cheapest(0, 40.0))
    known = replace(highs.solve(built.model, Limits(gap=0.1), None), bound=1.0)
    monkeypatch.setattr(deciding, "BOXES", 2)
    found = deciding.solve(built.model, Limits(), known)

    assert found.value == known.value
    assert found.bound is not None
    assert 1.0 <= found.bound < (found.value or 0.0)
    assert found.status == "time_limit"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ArithmeticError])
@pytest.mark.parametrize("after", [0, 1, 2, 4, 7, 12, 20])
def test_a_bound_holds_wherever_the_search_breaks_off(after, stop, monkeypatch):
    """In the middle of a split, when a part of a box is not known yet, too."""
    within, left = highs.Relaxation.within, 0

    def breaks_off(*given):
        nonlocal left
        left -= 1
        if left < 0:
            raise stop
        return within(*given)

    monkeypatch.setattr(highs.Relaxation, "within", breaks_off)
    for seed in range(12):
        p, left = random_fleet(seed, "cost"), after
        best = best_by_trying_all(p)
        for known in (NOTHING, replace(NOTHING, value=best and 2 * best)):
            found = deciding.solve(fleet.build(p).model, Limits(), known)

            assert best is None or found.status != "infeasible"
            assert best is None or found.bound is None or found.bound <= best + 1e-6
            assert left >= 0 or found.status == ("interrupted" if stop is KeyboardInterrupt else "time_limit")


def test_time_may_end_before_the_first_split(monkeypatch):
    """What no plan is below is then the relaxation."""
    model = fleet.build(cheapest(0, 40.0)).model
    clock = iter([0.0, 0.5, *[2.0] * 9])
    monkeypatch.setattr(deciding, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = deciding.solve(model, Limits(seconds=1.0), NOTHING)
    relaxed = highs.solve(model, Limits(), None, relaxed=True).value

    assert (found.status, found.value) == ("time_limit", None)
    assert relaxed <= found.bound <= relaxed + deciding.step(model)


def test_a_point_that_is_not_decided_is_looked_at_again_with_more_nodes(monkeypatch):
    built, nodes = fleet.build(cheapest(4, 90.0)), list[int]()
    whole = highs.solve

    def at_first_nothing(model, limits, start, **given):
        nodes.append(given["nodes"])
        return NOTHING if given["nodes"] == deciding.NODES else whole(model, limits, start, **given)

    monkeypatch.setattr(highs, "solve", at_first_nothing)
    found = deciding.solve(built.model, Limits(seconds=60.0), NOTHING)

    assert (found.status, found.value) == ("optimal", pytest.approx(whole(built.model, Limits(), None).value))
    assert max(nodes) > deciding.NODES


def test_a_bound_that_a_plan_refutes_is_none():
    """HiGHS has stated such: 1.12 did so at tolerances below ours."""
    built = fleet.build(cheapest(2, 30.0))
    best = highs.solve(built.model, Limits(), None)
    assert best.value is not None
    above = replace(NOTHING, bound=1.2 * best.value)
    found = deciding.solve(built.model, Limits(), above)
    both = better(above, replace(best, bound=0.9 * best.value, status="time_limit"), Limits())

    assert (found.value, found.bound) == (pytest.approx(best.value), pytest.approx(best.value))
    assert both.bound == pytest.approx(0.9 * best.value)
    assert both.status == "time_limit"


def test_a_start_that_is_best_is_returned_as_proven():
    built = fleet.build(cheapest(2, 30.0))
    best = highs.solve(built.model, Limits(), None)
    found = deciding.solve(built.model, Limits(), replace(best, bound=None, status="time_limit"))

    assert (found.status, found.value) == ("optimal", best.value)


def test_long_searches_branch_on_nodes_first(monkeypatch):
    """And only those whose model says which integers decide."""
    looked = list[str]()
    monkeypatch.setattr(deciding, "QUICK", 0)
    monkeypatch.setattr(
        cbc.deciding, "solve", lambda model, limits, known: looked.append(model.name) or known
    )
    built = fleet.build(cheapest(3, 40.0))
    found = cbc.searched(built.model, Limits(gap=0.01, seconds=20.0))

    assert looked == ["fleet"]
    assert found.status in ("optimal", "within_gap")
    assert not hard().first


def test_a_long_search_ends_once_it_is_near_enough(monkeypatch):
    looks = list[bool]()
    monkeypatch.setattr(highs, "LONG", 1)
    monkeypatch.setattr(highs, "met", lambda *known: looks.append(met(*known)) or looks[-1])
    found = highs.solve(hard(), Limits(gap=0.0, enough=0.9, seconds=60.0), None)

    assert found.value is not None
    assert found.bound is not None
    assert 0.0 < (found.value - found.bound) / abs(found.value) <= 0.9
    assert looks[-1]


@pytest.mark.parametrize(
    ("costs", "step"),
    [((24.0, 32.0, 12.0), 4.0), ((10.32, 8.0), 0.08), ((1 / 3, 1.0), 0.0), ((), 0.0)],
)
def test_costs_of_whole_numbers_of_nodes_are_multiples_of_a_step(costs, step):
    m = Linear("costs")
    y = m.integers("y", range(len(costs)))
    m.minimise([y[i] * c for i, c in enumerate(costs)])

    assert deciding.step(m) == pytest.approx(step)


def test_a_cost_of_what_is_not_whole_has_no_step():
    m = Linear("mixed")
    y, x = m.integers("y", "y")["y"], m.reals("x", "x", INF)["x"]
    m.add("row", 0, total([y, x]) >= 1.5)
    m.minimise([y * 2.0, x * 2.0])

    assert deciding.step(m) == 0.0
