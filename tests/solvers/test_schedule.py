"""Fleets over time against all of them, cuts against all points, windows against the rows that they touch."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from itertools import islice, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.peers.schedule import problem as of_case
from solvers.linear import Limits
from solvers.schedule import Kind, Problem, Stated, reserve, solve, static
from solvers.schedule.blocks import Blocks
from solvers.schedule.hull import Hull, cheapest, in_units
from solvers.schedule.race import Ends, Race
from solvers.schedule.windows import improve

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "schedule"
EXACTLY = Limits(gap=0.0, seconds=20.0)


NEVER = Ends(math.inf)


def kinds(draw: st.DrawFn, needs: int, slots: int) -> tuple[Kind, ...]:
    """Up to three kinds; the last may be another role of the machines of the one before."""
    made: list[Kind] = []
    for i in range(draw(st.integers(1, 3 if slots < 4 else 2))):
        own = Kind(
            name=f"k{i}",
            capacity=draw(st.sampled_from([0.5, 1.0, 1.3, 2.0])),
            price_usd_per_hour=draw(st.sampled_from([1.0, 1.7, 2.5, 4.0])),
            most=draw(st.integers(1, 3 if i < 2 else 1)),
            cold_hours=draw(st.sampled_from([0.0, 0.2, 1.5])),
            up_slots=draw(st.integers(1, 3)),
            reserved=draw(st.sampled_from([None, 0.5, 0.7])),
            risky=i == 1 and draw(st.booleans()),
        )
        if made and draw(st.booleans()):
            first = made[-1]
            shared = {n: getattr(first, n) for n in ("price_usd_per_hour", "most", "reserved", "risky")}
            own = replace(own, of=first.of or first.name, **shared)
        if needs == 2:
            by_slot = st.lists(st.sampled_from([0.0, 0.6, 1.0, 2.1]), min_size=slots, max_size=slots)
            each = np.array([draw(by_slot), draw(by_slot)])
            own = replace(own, capacity=each if each.any() else np.ones((2, slots)))
        made.append(own)
    return tuple(made)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    slots, needs = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    one = st.lists(st.sampled_from([0.0, 0.4, 1.0, 1.9, 3.0]), min_size=slots, max_size=slots)
    demand = np.array([draw(one) for _ in range(needs)])
    hours, safe = draw(st.sampled_from([0.5, 1.0])), draw(st.sampled_from([0.0, 0.5]))
    return Problem(kinds(draw, needs, slots), demand, hours, safe)


def carrying(p: Problem) -> np.ndarray:
    """All counts (n, k, t) that carry every need, and some that nearly do: in one pass, as most do not."""
    ways = [list(product(range(k.most + 1), repeat=p.slots)) for k in p.kinds]
    every = np.array(list(product(*ways)))
    short = p.needs - np.einsum("kdt,nkt->ndt", p.capacity, every)
    return every[(short <= 0.01).all(axis=(1, 2))]


def stays(mine: np.ndarray, up_slots: int) -> bool:
    """Whether the counts of a kind (t,) can be servers that each run so many slots at least before they go:
    the oldest go first."""
    ages: list[int] = []
    for many in mine:
        ages = sorted((age + 1 for age in ages), reverse=True)
        gone, ages = ages[: max(len(ages) - many, 0)], ages[max(len(ages) - many, 0) :]
        if any(age <= up_slots for age in gone):
            return False
        ages += [1] * (many - len(ages))
    return True


def lawful(p: Problem, n: np.ndarray) -> bool:
    """Whether counts (k, t) keep what the docstring of the formulation says, restated."""
    for d, t in product(range(len(p.needs)), range(p.slots)):
        each = [float(p.capacity[k, d, t] * n[k, t]) for k in range(len(p.kinds))]
        sure = sum(c for c, kind in zip(each, p.kinds, strict=True) if not kind.risky)
        if sum(each) < p.needs[d, t] - 1e-9 or sure < p.safe * p.needs[d, t] - 1e-9:
            return False
    if any(sum(n[k, t] for k in own) > p.kinds[own[0]].most for own in p.machines for t in range(p.slots)):
        return False
    return all(stays(mine, kind.up_slots) for kind, mine in zip(p.kinds, n, strict=True))


def dollars(p: Problem, n: np.ndarray) -> float:
    """What counts (k, t) cost, machine by machine, each reserved where that is cheaper."""
    whole = 0.0
    for own in p.machines:
        kind = p.kinds[own[0]]
        for machine in range(kind.most):
            busy = sum(int(n[own, t].sum()) > machine for t in range(p.slots))
            paid = busy if kind.reserved is None else min(busy, kind.reserved * p.slots)
            whole += kind.price_usd_per_hour * p.hours * paid
    for kind, mine in zip(p.kinds, n, strict=True):
        started = sum(max(int(b) - int(a), 0) for a, b in pairwise(mine))
        whole += kind.price_usd_per_hour * kind.cold_hours * started
    return whole


def best_of_all(p: Problem) -> float:
    """The least cost over every schedule; infinite where none keeps the rows."""
    return min((dollars(p, n) for n in carrying(p) if lawful(p, n)), default=math.inf)


def drawn(seed: int) -> Problem:
    """Two kinds over three or four slots, with most of what there is: starts that cost, servers that stay,
    machines reserved, shared or taken away, prompts and answers."""
    r = random.Random(seed)
    slots, needs, shared = r.choice([3, 4, 4]), r.choice([1, 1, 2]), r.random() < 0.3
    made: list[Kind] = []
    for i in range(2):
        sizes = np.array([[r.choice([0.0, 0.7, 1.0, 2.1]) for _ in range(slots)] for _ in range(needs)])
        own = Kind(
            f"k{i}",
            np.maximum(sizes, 0.3) if needs == 2 and r.random() < 0.5 else r.choice([0.5, 1.0, 1.3, 2.0]),
            r.choice([1.0, 1.7, 2.5]),
            r.randint(2, 3) if slots == 3 else 2,
            r.choice([0.0, 0.3, 1.5]),
            r.randint(1, slots),
            r.choice([None, 0.4, 0.6]),
            r.random() < 0.3,
        )
        if made and shared:
            same = {n: getattr(made[0], n) for n in ("price_usd_per_hour", "most", "reserved", "risky")}
            own = replace(own, of=made[0].name, **same)
        made.append(own)
    demand = np.array([[r.choice([0.0, 0.4, 1.0, 1.9, 3.0]) for _ in range(slots)] for _ in range(needs)])
    return Problem(tuple(made), demand, r.choice([0.5, 1.0]), r.choice([0.0, 0.5]))


def test_counts_keep_and_cost_what_the_docstring_says() -> None:
    for seed in range(40):
        p = drawn(seed)
        for n in carrying(p)[::7]:
            assert p.keeps(n) == lawful(p, n), (seed, n.tolist())
            if lawful(p, n):
                assert p.cost(n, reserve(p, n)) == pytest.approx(dollars(p, n)), (seed, n.tolist())


def test_the_optimum_is_that_of_all_schedules() -> None:
    for seed in range(40):
        p = drawn(seed)
        found, least = solve(p, EXACTLY), best_of_all(p)
        if math.isinf(least):
            assert (found.counts, found.status) == (None, "infeasible"), seed
            continue
        assert found.counts is not None
        assert lawful(p, found.counts), seed
        assert dollars(p, found.counts) == pytest.approx(least, abs=1e-6), seed
        assert found.value == pytest.approx(least, abs=1e-6), seed
        assert found.bound == pytest.approx(least, abs=1e-4), seed
        assert found.value == pytest.approx(p.cost(found.counts, found.reserved)), seed
        assert found.status == "optimal", seed


@settings(max_examples=40)
@given(problems(), st.integers(0, 3), st.integers(1, 3), st.integers(0, 99))
def test_a_window_planned_anew_keeps_all_rows_and_is_never_dearer(p, first, width, seed) -> None:
    """From any schedule that keeps the rows: what its window gives does, too."""
    good = list(islice((n for n in carrying(p) if p.keeps(n)), seed + 1))
    if not good:
        return
    n = good[seed % len(good)]
    begin = min(first, p.slots - 1)
    window = range(begin, min(begin + width, p.slots))
    r = reserve(p, n)
    part = Stated(p, window, n, r)
    part.after(n)
    found = part.m.solve(EXACTLY)
    trial = n.copy()
    trial[:, window.start : window.stop] = part.counts(found.values)
    assert p.keeps(trial)
    assert p.cost(trial, r) <= p.cost(n, r) + 1e-6


@settings(max_examples=60)
@given(problems(), st.integers(1, 4), st.integers(0, 9))
def test_blocks_bound_every_schedule_whatever_the_duals_are(p: Problem, many: int, seed: int) -> None:
    """From the relaxation they begin at least at its value; duals that are wrong make a bound weak, never
    false."""
    least, stated = best_of_all(p), Stated(p, range(p.slots))
    relaxed = stated.m.relax(Limits())
    if math.isinf(least) or relaxed.value is None:
        return
    blocks = Blocks.of(stated, relaxed)
    edges = np.unique(np.linspace(0, p.slots, many + 1).round())
    bound, values = blocks.solved(edges, EXACTLY, NEVER)
    assert bound is not None
    assert p.carries(stated.counts(values))  # a plan of each block, side by side
    assert relaxed.value - 1e-6 <= bound <= least + 1e-6 + 2e-5 * abs(least)
    noise = np.random.default_rng(seed).uniform(0.0, 2.0, len(blocks.duals))
    weak, _ = Blocks(stated, blocks.duals * noise).solved(edges, EXACTLY, NEVER)
    assert weak is not None
    assert weak <= least + 1e-6 + 2e-5 * least


@pytest.mark.parametrize("many", [2, 3, 6, 12])
@pytest.mark.parametrize("reserved", [None, 0.6])
def test_blocks_lose_nothing_where_the_relaxation_is_whole(many: int, reserved: float | None) -> None:
    """One kind, whole demands: starts and stays over the edges are priced by their duals, and add up."""
    kind = Kind("a", 1.0, 3.0, 9, cold_hours=0.7, up_slots=3, reserved=reserved)
    p = Problem((kind,), (1.0, 5.0, 2.0, 2.0, 6.0, 3.0, 1.0, 4.0, 1.0, 1.0, 7.0, 2.0), 1.0)
    stated = Stated(p, range(12))
    relaxed = stated.m.relax(Limits())
    bound, _ = Blocks.of(stated, relaxed).solved(np.linspace(0, 12, many + 1), EXACTLY, NEVER)
    assert solve(p, EXACTLY).value == pytest.approx(relaxed.value)
    assert bound == pytest.approx(relaxed.value, rel=1e-5)


@settings(max_examples=60)
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


@settings(max_examples=60)
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
    capacity, need = in_units(np.array([math.pi, 1.1]), np.array([37.7, 1.0]), 37.7)
    for c, units in zip((math.pi, 1.1), capacity, strict=True):
        assert units * 37.7 / 20_000 >= c
    assert need[0] * 37.7 / 20_000 <= 37.7
    assert in_units(np.array([0.013, 0.027]), np.array([9000.0]), 9000.0) == ([1, 1], [20_000])  # of 9e6


@settings(max_examples=40)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(1, 30), st.integers(0, 99))
def test_points_beside_a_fleet_round_all_kinds_but_one_whose_servers_carry_the_rest(capacity, need, seed):
    x = np.random.default_rng(seed).uniform(0, 4, len(capacity))
    hull = Hull(tuple(capacity), need)
    hull._near(x)
    expected = {tuple(math.ceil(need / c) * (i == k) for i in range(len(x))) for k, c in enumerate(capacity)}
    for last in range(len(x)):
        for n in product(*({math.floor(v), math.ceil(v)} if k != last else {0} for k, v in enumerate(x))):
            point = list(n)
            while np.dot(capacity, point) < need:
                point[last] += 1
            expected.add(tuple(point))

    assert set(map(tuple, hull.points)) == expected


def test_the_fleet_that_never_changes_is_reserved_where_that_is_cheaper() -> None:
    p = Problem((Kind("a", 1.0, 2.0, 9, reserved=0.6),), (1.0, 3.0), 1.0)
    assert static(p).value == pytest.approx(2 * 3 * 2.0 * 0.6)
    none = static(Problem((Kind("a", 1.0, 2.0, 1),), (3.0,), 1.0))
    assert (none.counts, none.reserved, none.status) == (None, (), "infeasible")


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


def test_a_limit_on_work_gives_the_same_answer_twice() -> None:
    rng = np.random.default_rng(3)
    own = (
        Kind("a", 1.0, 4.0, 30, 0.2, 2),
        Kind("b", 0.45, 2.0, 30, 0.2, 2),
        Kind("c", 0.22, 1.1, 30, 0.2, 2),
    )
    p = Problem(own, tuple(rng.uniform(2, 9, 20)), 0.5)
    one, two = (solve(p, Limits(gap=1e-4, work=20)) for _ in range(2))
    assert one.value == two.value
    assert one.bound == two.bound
    assert one.gap < 0.02


def test_windows_make_a_plan_cheaper() -> None:
    """From the fleet that never changes, without the help of branch and bound."""
    own = (Kind("a", 1.0, 4.0, 9, 0.1, 1), Kind("b", 0.45, 2.0, 9, 0.1, 1))
    p = Problem(own, tuple([1.0, 5.0] * 10), 1.0)
    race, start = Race(p, Limits(work=1), NEVER), static(p)
    race.offer(start.counts)
    improve(race, [[]] * 20)
    assert p.keeps(race.best)
    assert race.value == pytest.approx(p.cost(race.best, reserve(p, race.best)))
    assert race.value < start.value


def test_servers_of_prompts_and_of_answers_follow_each_slot() -> None:
    """By hand: 4 requests/s take 2 that prefill and 4 that decode, with half as long answers 2 and 2; one
    that does both carries 1 of either and costs as much."""
    mixed = Kind("m", 1.0, 1.0, 9, of="node")
    prefill = Kind("p", np.array([[2.0, 2.0], [0.0, 0.0]]), 1.0, 9, of="node")
    decode = Kind("d", np.array([[0.0, 0.0], [1.0, 2.0]]), 1.0, 9, of="node")
    p = Problem((mixed, prefill, decode), np.full((2, 2), 4.0), 1.0)
    found = solve(p, EXACTLY)
    assert found.value == pytest.approx(4.0 + 4.0)
    assert found.counts[:, 1].tolist() == [0, 2, 2]
    few = Problem(tuple(replace(k, most=3) for k in p.kinds), p.needs, 1.0)
    assert solve(few, EXACTLY).status == "infeasible"


def test_kinds_on_the_same_machines_share_what_they_cost() -> None:
    with pytest.raises(ValueError, match="same machines"):
        Problem((Kind("a", 1.0, 1.0, 3, of="x"), Kind("b", 1.0, 2.0, 3, of="x")), (1.0,), 1.0)
