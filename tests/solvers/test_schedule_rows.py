"""Every row of a schedule against trying all counts: what the program calls feasible is what `keeps` says."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from solvers.linear import Limits
from solvers.schedule.rows import Stated
from solvers.schedule.types import Kind, Problem, reserve

A, B = Kind("a", 5.0, 3.0, 2), Kind("b", 2.0, 1.4, 3)
SMALL = Problem((A, B), (4.0, 7.0, 2.0), hours=1.0)
CASES = {
    "plain": SMALL,
    "cold": replace(SMALL, kinds=(replace(A, cold_hours=0.7), replace(B, cold_hours=0.3))),
    "stays": replace(
        SMALL, kinds=(replace(A, up_slots=3), replace(B, up_slots=2)), demand=(0.0, 6.0, 1.0, 1.0)
    ),
    "stays long": replace(SMALL, kinds=(replace(B, up_slots=3),), demand=(2.0, 5.0, 0.0, 1.0, 0.0)),
    "reserved": replace(SMALL, kinds=(replace(A, reserved=0.4), replace(B, reserved=0.6))),
    "one reserved": replace(SMALL, kinds=(A, replace(B, reserved=0.6, cold_hours=0.5))),
    "half hours": replace(SMALL, kinds=(replace(A, cold_hours=0.7), replace(B, cold_hours=0.3)), hours=0.5),
    "seldom": replace(SMALL, kinds=(A, replace(B, reserved=0.6)), demand=(0.0, 2.0, 0.0), hours=0.5),
    "risky": replace(SMALL, kinds=(replace(A, risky=True), B), safe=0.6),
    "shared": replace(
        SMALL,
        kinds=(
            Kind("prefill", np.array([[5.0], [0.0]]), 3.0, 3, of="node"),
            Kind("decode", np.array([[0.0], [2.0]]), 3.0, 3, of="node", up_slots=2),
        ),
        demand=np.array([[4.0, 5.0, 2.0], [2.0, 1.0, 4.0]]),
    ),
}


def every(p: Problem):
    """All counts (k, t)."""
    ranges = [range(k.most + 1) for k in p.kinds for _ in range(p.slots)]
    return (np.array(n).reshape(len(p.kinds), p.slots) for n in product(*ranges))


def cheapest(p: Problem) -> float:
    """Dollars of the cheapest counts that keep every row, by trying all."""
    return min(p.cost(n, reserve(p, n)) for n in every(p) if p.keeps(n))


@pytest.mark.parametrize("name", CASES)
def test_the_program_finds_what_trying_all_counts_finds(name):
    p = CASES[name]
    stated = Stated(p, range(p.slots))
    found = stated.m.solve(Limits(gap=0.0))
    n = stated.counts(found.values)

    assert found.value == pytest.approx(cheapest(p))
    assert p.keeps(n)
    assert p.cost(n, reserve(p, n)) == pytest.approx(found.value)


@pytest.mark.parametrize("name", ["plain", "cold", "stays", "stays long", "one reserved"])
def test_a_window_between_counts_that_stay_finds_the_best_of_all_that_differ_there_alone(name):
    p = CASES[name]
    sound = [n for n in every(p) if p.keeps(n)]
    outside = [t for t in range(p.slots) if t != 1]
    for start in sound[:: max(len(sound) // 25, 1)]:
        kept = reserve(p, start)
        inside = [n for n in sound if (n[:, outside] == start[:, outside]).all()]
        stated = Stated(p, range(1, 2), start, kept)
        stated.after(start)
        found = stated.m.solve(Limits(gap=0.0))
        whole = start.copy()
        whole[:, 1:2] = stated.counts(found.values)

        assert p.keeps(whole)
        assert p.cost(whole, kept) == pytest.approx(min(p.cost(n, kept) for n in inside))


def test_what_stands_after_a_window_is_less_those_who_start_later():
    """Of three at its end two stop within five slots and one more starts: the third alone may be new. Two new
    ones, and the one that starts later, would be one more than stand in the last slot."""
    p = Problem((Kind("a", 1.0, 1.0, 3, up_slots=5),), (3.0,) * 5 + (0.0, 3.0, 2.0, 3.0, 2.0), hours=1.0)
    n = np.array([[3, 3, 3, 3, 3, 3, 3, 2, 3, 2]])
    stated = Stated(p, range(5, 6), n)
    stated.after(n)
    found = stated.counts(stated.m.solve(Limits(gap=0.0)).values)

    assert found.tolist() == [[2]]
    assert p.keeps(np.hstack([n[:, :5], found, n[:, 6:]]))
    assert not p.keeps(np.hstack([n[:, :5], found - 1, n[:, 6:]]))


def test_cuts_raise_the_bound_and_leave_every_schedule():
    p = replace(SMALL, demand=(4.0, 8.0, 3.0))
    stated = Stated(p, range(p.slots))
    before = stated.m.relax(Limits()).value
    after = stated.cut(until=float("inf")).value
    found = [(t, cut) for t, cuts in enumerate(stated.cuts) for cut in cuts]

    assert found
    assert before < after <= cheapest(p) + 1e-9
    for n in (n for n in every(p) if p.keeps(n)):
        assert all(float(a @ n[:, t]) >= 1 - 1e-9 for t, (_, a) in found)


def test_cuts_are_taken_over_by_another_program_of_the_same_problem():
    p = replace(SMALL, demand=(4.0, 8.0, 3.0))
    one, two = Stated(p, range(p.slots)), Stated(p, range(p.slots))
    bound = one.cut(until=float("inf")).value
    two.take(one.cuts)

    assert two.m.relax(Limits()).value == pytest.approx(bound)


def test_no_time_is_no_cut():
    stated = Stated(SMALL, range(SMALL.slots))
    stated.cut(until=0.0)

    assert stated.cuts == [[], [], []]


def test_families_of_rows_are_those_that_the_docstring_of_the_formulation_has():
    from solvers import schedule

    families = set()
    for p in CASES.values():
        stated = Stated(p, range(p.slots))
        stated.cut(until=float("inf"))
        families |= {family for family, _ in stated.m.rows}

    assert families == {"carry", "safe", "stock", "beyond", "start", "stay", "hull"}
    assert all(f"\n{family}[" in schedule.__doc__ for family in families)
