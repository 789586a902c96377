"""What two searches of a schedule have found together, and the plans that they begin from, by hand."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers import schedule
from solvers.linear import Limits
from solvers.schedule import Kind, Problem, Stated, solve, static
from solvers.schedule.race import Ends, Race

ONE = Problem((Kind("a", 1.0, 2.0, 9),), (1.0, 3.0), hours=1.0)
"""1 and 3 servers at $2: the best is $8; the fleet that never changes $12."""
BEST, STATIC = np.array([[1, 3]]), np.array([[3, 3]])


def race(gap: float = 0.0) -> Race:
    return Race(ONE, Limits(gap=gap), Ends(math.inf))


def test_a_race_keeps_the_cheapest_schedule_that_keeps_all_rows():
    own = race()
    for n in (None, 0 * BEST, STATIC, BEST, STATIC):  # nothing; one that carries nothing; dear, cheap, dear
        assert not own.offer(n)

    assert own.value == pytest.approx(8.0)
    assert own.best.tolist() == BEST.tolist()


def test_a_schedule_that_is_changed_afterwards_is_kept_as_it_was():
    own, n = race(), BEST.copy()
    own.offer(n)
    n[:] = 0

    assert own.best.tolist() == BEST.tolist()


@given(st.lists(st.one_of(st.none(), st.floats(0.0, 7.9)), max_size=5))
def test_the_bound_of_a_race_is_the_highest_that_was_proven(bounds):
    own = race()
    for bound in bounds:
        own.bounded(bound)
    known = [b for b in bounds if b is not None]

    assert own.bound == (max(known) if known else None)
    assert not own.ends.stopped  # without a schedule there is nothing to be near


@pytest.mark.parametrize(("gap", "bound", "stops"), [(0.0, 7.9, False), (0.0, 8.0, True), (0.02, 7.9, True)])
@pytest.mark.parametrize("first", ["bound", "schedule"])
def test_a_race_is_over_once_schedule_and_bound_are_near_whoever_is_first(gap, bound, stops, first):
    """7.9 of 8 is a gap of 1.25 %."""
    own = race(gap)
    steps = [lambda: own.bounded(bound), lambda: own.offer(BEST)]
    for step in steps if first == "bound" else steps[::-1]:
        step()

    assert own.ends.over() is stops
    assert own.offer(STATIC) is stops


@pytest.mark.parametrize(
    ("offered", "bound", "infeasible", "status", "value", "proven"),
    [
        (None, 3.0, False, "interrupted", None, 3.0),
        (None, None, True, "infeasible", None, None),
        (BEST, 6.0, True, "interrupted", 8.0, 6.0),  # there is one: "infeasible" is not believed
        (BEST, 8.0, False, "optimal", 8.0, 8.0),
        (BEST, 8.5, False, "optimal", 8.0, 8.0),  # a bound above the value says no more than the value
    ],
)
def test_what_a_race_says_at_its_end(offered, bound, infeasible, status, value, proven):
    own = race()
    own.bounded(bound)
    own.offer(offered)
    own.infeasible = infeasible
    found = own.solution("interrupted")

    assert (found.status, found.value, found.bound) == (status, value, proven)
    assert found.reserved == (() if value is None else (0,))


def test_a_share_of_the_time_left_is_never_nothing():
    now = time.perf_counter()

    assert Ends(now + 100.0).share(4) == pytest.approx(25.0, abs=1.0)
    assert Ends(now + 100.0).share(0) == pytest.approx(100.0, abs=1.0)
    assert Ends(now - 5.0).share(1) == 0.05
    assert Ends(now - 5.0).over()
    assert not Ends(now + 100.0).over()
    assert Ends(math.inf, stopped=True).over()


def test_counts_of_a_relaxation_are_rounded_up_but_for_what_is_rounding():
    p = Problem((Kind("a", 1.0, 2.0, 9),), (1.2, 3.0, 0.0), hours=1.0)
    stated = Stated(p, range(3))
    values = np.zeros(len(stated.m.lower))
    for t, x in enumerate((1.2, 3.0 + 1e-8, 0.0)):
        values[stated.n[0, t].column] = x

    assert schedule._rounded(p, stated, values).tolist() == [[2, 3, 0]]


def test_rounded_up_servers_stay_as_long_as_they_must():
    """Each slot has the most of itself and the two before it."""
    p = Problem((Kind("a", 1.0, 2.0, 9, up_slots=3),), (0.0, 4.0, 1.0, 0.0, 0.0, 2.0), hours=1.0)
    stated = Stated(p, range(6))
    values = np.zeros(len(stated.m.lower))
    for t, x in enumerate((0.0, 3.5, 1.0, 0.0, 0.0, 2.0)):
        values[stated.n[0, t].column] = x
    n = schedule._rounded(p, stated, values)

    assert n.tolist() == [[0, 4, 4, 4, 1, 2]]
    assert p.keeps(n)


def test_of_slots_with_the_same_servers_the_hardest_is_enough():
    varying = Kind("a", np.array([[1.0, 1.0, 2.0, 1.0]]), 1.0, 9)
    p = Problem((varying,), (1.0, 3.0, 2.0, 2.0), hours=1.0)

    assert schedule._hardest(p) == [(0, 1), (0, 2)]  # slot 2: other servers, as twice as able


def test_each_need_has_its_own_hardest_slot():
    assert schedule._hardest(Problem(ONE.kinds, np.array([[1.0, 3.0], [4.0, 2.0]]), 1.0)) == [(0, 1), (1, 0)]


def test_a_fleet_that_never_changes_takes_what_any_need_of_any_slot_asks_for():
    """2 prefill (4 / 2) and 5 decode at 1 each: the hardest slots of the two needs are not the same."""
    prefill = Kind("p", np.array([[2.0, 2.0], [0.0, 0.0]]), 1.0, 9, of="node")
    decode = Kind("d", np.array([[0.0, 0.0], [1.0, 1.0]]), 1.0, 9, of="node")
    p = Problem((prefill, decode), np.array([[4.0, 1.0], [2.0, 5.0]]), hours=0.5)
    found = static(p)

    assert found.counts.tolist() == [[2, 2], [5, 5]]
    assert found.value == pytest.approx(7 * 1.0 * 0.5 * 2)
    assert static(replace(p, kinds=tuple(replace(k, most=6) for k in p.kinds))).status == "infeasible"


def test_a_fleet_that_never_changes_is_safe_without_the_machines_that_may_go():
    """Of 4 that are asked for 2 must be carried by what stays: 2 at $2 and 2 at $1, not 4 at $1."""
    kinds = Kind("spot", 1.0, 1.0, 9, risky=True), Kind("sure", 1.0, 2.0, 9)

    assert static(Problem(kinds, (4.0,), 1.0, safe=0.5)).counts.tolist() == [[2], [2]]
    assert static(Problem(kinds, (4.0,), 1.0)).counts.tolist() == [[4], [0]]


@pytest.mark.parametrize("work", [None, 50])
@pytest.mark.parametrize("reserved", [None, 0.6])
def test_a_search_with_machines_reserved_ends_with_what_it_proved(work, reserved):
    """By hand, two kinds of 3 and 2 at $3 and $2.2: 7 asks for 3 + 2 + 2 ($7.4), 3 for one of 3 ($3), 2 for
    one of 2 ($2.2)."""
    kinds = Kind("a", 3.0, 3.0, 3, reserved=reserved), Kind("b", 2.0, 2.2, 3, reserved=reserved)
    p = Problem(kinds, (7.0, 3.0, 2.0), hours=1.0)
    found = solve(p, Limits(gap=0.0, seconds=20.0, work=work))

    assert found.status == "optimal"
    assert p.keeps(found.counts)
    assert found.value == pytest.approx(p.cost(found.counts, found.reserved))
    if reserved is None:
        assert found.value == pytest.approx(7.4 + 3.0 + 2.2)
    else:  # one a reserved, which carries 3 in every slot: 0.6 * 3 * $3; the 4 left in the first take two b
        assert found.value == pytest.approx(0.6 * 3 * 3.0 + 2 * 2.2)


def test_a_small_schedule_is_proven_before_any_race(monkeypatch):
    """Two searches side by side end with one schedule of several within the gap, now this one, now that."""
    kinds = (Kind("a", 2.0, 1.0, 9, cold_hours=0.5), Kind("b", 3.1, 1.45, 9, cold_hours=0.4, up_slots=2))
    p = Problem(kinds, (12.0, 10.9, 6.5, 4.4, 7.6, 6.3, 11.2, 4.9), hours=1.0)
    monkeypatch.setattr(schedule, "_bounds", lambda *_: pytest.fail("a race"))
    monkeypatch.setattr(schedule, "_first", lambda *_: pytest.fail("a race"))
    found = solve(p, Limits(gap=1e-6))

    assert found.status == "optimal"
    assert found.value == pytest.approx(found.bound)
