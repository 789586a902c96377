"""Fleets over time against all of them, cuts against all points, windows against the rows that they touch."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import schedule as module
from solvers.linear import Limits
from solvers.schedule import Kind, Problem, Stated, reserve, solve, static
from solvers.schedule_hull import Hull, cheapest, in_units

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "schedule"
EXACTLY = Limits(gap=0.0, seconds=20.0)


def kinds(draw: st.DrawFn) -> tuple[Kind, ...]:
    made = []
    for i in range(draw(st.integers(1, 2))):
        made.append(
            Kind(
                name=f"k{i}",
                capacity=draw(st.sampled_from([0.5, 1.0, 1.3, 2.0])),
                price_usd_per_hour=draw(st.sampled_from([1.0, 1.7, 2.5, 4.0])),
                most=draw(st.integers(1, 3)),
                cold_hours=draw(st.sampled_from([0.0, 0.2, 1.5])),
                up_slots=draw(st.integers(1, 3)),
                reserved=draw(st.sampled_from([None, 0.5, 0.7])),
                risky=i == 1 and draw(st.booleans()),
            )
        )
    return tuple(made)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    own = kinds(draw)
    demand = draw(st.lists(st.sampled_from([0.0, 0.4, 1.0, 1.9, 3.0]), min_size=1, max_size=4))
    return Problem(own, tuple(demand), draw(st.sampled_from([0.5, 1.0])), draw(st.sampled_from([0.0, 0.5])))


def best_of_all(p: Problem) -> float:
    """The least cost over every schedule; infinite where none keeps the rows."""
    slots = len(p.demand)
    ways = [list(product(range(k.most + 1), repeat=slots)) for k in p.kinds]
    least = math.inf
    for choice in product(*ways):
        n = np.array(choice)
        if p.keeps(n):
            least = min(least, p.cost(n, reserve(p, n)))
    return least


@settings(max_examples=40, deadline=None)
@given(problems())
def test_the_optimum_is_that_of_all_schedules(p: Problem) -> None:
    found, least = solve(p, EXACTLY), best_of_all(p)
    if math.isinf(least):
        assert (found.counts, found.status) == (None, "infeasible")
        return
    assert found.counts is not None
    assert p.keeps(found.counts)
    assert found.value == pytest.approx(least, abs=1e-6)
    assert found.bound == pytest.approx(least, abs=1e-4)
    assert found.value == pytest.approx(p.cost(found.counts, found.reserved))


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(0, 3), st.integers(1, 3), st.integers(0, 99))
def test_a_window_planned_anew_keeps_all_rows_and_is_never_dearer(p, first, width, seed) -> None:
    """From any schedule that keeps the rows: what its window gives does, too."""
    slots = len(p.demand)
    ways = [list(product(range(k.most + 1), repeat=slots)) for k in p.kinds]
    good = [n for n in map(np.array, product(*ways)) if p.keeps(n)]
    if not good:
        return
    n = good[seed % len(good)]
    window = range(min(first, slots - 1), min(min(first, slots - 1) + width, slots))
    r = reserve(p, n)
    part = Stated(p, window, n, r)
    part.after(n)
    found = part.m.solve(EXACTLY)
    trial = n.copy()
    trial[:, window.start : window.stop] = part.counts(found)
    assert p.keeps(trial)
    assert p.cost(trial, r) <= p.cost(n, r) + 1e-6


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    need=st.integers(1, 30),
    at=st.lists(st.floats(0, 4), min_size=3, max_size=3),
)
def test_cuts_lose_no_fleet_and_cut_off_the_point(capacity: list[int], need: int, at: list[float]) -> None:
    x = np.array(at[: len(capacity)])
    a = Hull(tuple(capacity), need).cut(x)
    if a is None:
        return
    assert float(a @ x) < 1
    most = [math.ceil(need / c) for c in capacity]
    for point in product(*(range(m + 1) for m in most)):
        if np.dot(capacity, point) >= need:
            assert float(a @ np.array(point)) >= 1 - 1e-9


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    need=st.integers(0, 25),
    cost=st.lists(st.floats(0, 5), min_size=3, max_size=3),
)
def test_the_cheapest_counts_are_those_of_all(capacity: list[int], need: int, cost: list[float]) -> None:
    price = np.array(cost[: len(capacity)])
    value, counts = cheapest(capacity, need, price)
    ways = product(*(range(math.ceil(need / c) + 1) for c in capacity))
    least = min(float(price @ np.array(w)) for w in ways if np.dot(capacity, w) >= need)
    assert value == pytest.approx(least)
    assert np.dot(capacity, counts) >= need
    assert float(price @ np.array(counts)) == pytest.approx(value)


def test_figures_of_many_decimals_are_rounded_in_the_fleets_favour() -> None:
    capacity, need = in_units(np.array([math.pi, 1.1]), np.array([37.7, 1.0]))
    for c, units in zip((math.pi, 1.1), capacity, strict=True):
        assert units * 37.7 / 20_000 >= c
    assert need[0] * 37.7 / 20_000 <= 37.7


def test_the_fleet_that_never_changes_is_reserved_where_that_is_cheaper() -> None:
    p = Problem((Kind("a", 1.0, 2.0, 9, reserved=0.6),), (1.0, 3.0), 1.0)
    assert static(p).value == pytest.approx(2 * 3 * 2.0 * 0.6)
    assert static(Problem((Kind("a", 1.0, 2.0, 1),), (3.0,), 1.0)).status == "infeasible"


@pytest.mark.parametrize("demand", [(), (-1.0,), (math.nan,)])
def test_demands_that_are_none(demand: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="schedule needs"):
        Problem((Kind("a", 1.0, 1.0, 1),), demand, 1.0)


@pytest.mark.skipif(not CASES.is_dir(), reason="the stored cases lie beside the repository and are not here")
@pytest.mark.parametrize("name", ["m_large_day_one_class", "m_small_fortnight_reserved"])
def test_stored_cases_with_one_kind_are_solved_to_the_end(name: str) -> None:
    case = json.loads((CASES / f"{name}.json").read_text())
    found = solve(of_case(case["problem"]), Limits(gap=1e-6, seconds=30.0))
    assert found.value == pytest.approx(case["known"]["best_known"], rel=1e-6)
    assert found.bound == pytest.approx(case["known"]["bound"], rel=1e-6)


def of_case(p: dict) -> Problem:
    made = tuple(
        Kind(
            c["name"],
            c["capacity"],
            c["price_usd_per_hour"],
            c.get("max_count", math.ceil(max(p["demand"]) / c["capacity"])),
            p["cold_start_minutes"] / 60,
            max(1, math.ceil(p["minimum_up_minutes"] / p["slot_minutes"])),
            p["reserved_price_factor"],
        )
        for c in p["classes"]
    )
    return Problem(made, tuple(p["demand"]), p["slot_minutes"] / 60)


def test_a_limit_on_work_gives_the_same_answer_twice() -> None:
    rng = np.random.default_rng(3)
    own = (
        Kind("a", 1.0, 4.0, 30, 0.2, 2),
        Kind("b", 0.45, 2.0, 30, 0.2, 2),
        Kind("c", 0.22, 1.1, 30, 0.2, 2),
    )
    p = Problem(own, tuple(rng.uniform(2, 9, 30)), 0.5)
    one, two = (solve(p, Limits(gap=1e-4, work=20)) for _ in range(2))
    assert one.value == two.value
    assert one.bound == two.bound
    assert one.gap < 0.02


def test_windows_make_a_plan_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the fleet that never changes, without the help of branch and bound."""
    own = (Kind("a", 1.0, 4.0, 9, 0.1, 1), Kind("b", 0.45, 2.0, 9, 0.1, 1))
    p = Problem(own, tuple([1.0, 5.0] * 10), 1.0)
    monkeypatch.setattr(module, "_started", lambda *_: module._static(p))
    found = solve(p, Limits(gap=0.0, work=1))
    assert found.value < static(p).value
