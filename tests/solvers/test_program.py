"""A program as it is stated: rows and columns as arrays, what moves to the left, what an outcome claims."""

import math
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.linear import (
    EXACT,
    INF,
    Expr,
    Limits,
    Linear,
    Outcome,
    StatedTooLate,
    Term,
    Var,
    gap,
    judge,
    total,
)
from solvers.linear.program import ENDLESS_S, Program

COEFFICIENTS = st.floats(-5, 5)
X, Y, Z = Var(0), Var(1), Var(2)


def summed(row: Expr) -> dict[int, float]:
    """Coefficients by column, repeated ones added."""
    found: Counter[int] = Counter()
    for column, coefficient in row.terms:
        found[column] += coefficient
    return {column: c for column, c in found.items() if c}


@pytest.mark.parametrize(
    ("row", "terms", "limits"),
    [
        (total([X, Y * 2.0]) <= 7, {0: 1, 1: 2}, (-INF, 7)),
        (total([X]) >= 3, {0: 1}, (3, INF)),
        (total([X]) <= Y, {0: 1, 1: -1}, (-INF, 0)),
        (total([X]) >= 2.0 * Y, {0: 1, 1: -2}, (0, INF)),
        (X * 3.0 <= total([Y, Z * 4.0]), {0: 3, 1: -1, 2: -4}, (-INF, 0)),  # noqa: SIM300
        (X * 3.0 >= 5, {0: 3}, (5, INF)),
        (total([X, Y]).equals(Z * 2.0), {0: 1, 1: 1, 2: -2}, (0, 0)),
        (total([X]).equals(4), {0: 1}, (4, 4)),
        (total([]) <= 1, {}, (-INF, 1)),
        (total([X, X * 2.0]) <= total([X]), {0: 2}, (-INF, 0)),
    ],
)
def test_a_comparison_has_variables_on_its_left_and_a_number_on_its_right(row, terms, limits):
    assert summed(row) == terms
    assert (row.lower, row.upper) == limits


@given(
    st.lists(st.tuples(st.integers(0, 3), COEFFICIENTS), max_size=6),
    st.lists(COEFFICIENTS, min_size=4, max_size=4),
)
def test_rows_as_arrays_say_what_they_said_as_sums(terms, values):
    """Whatever is repeated, and in whatever order."""
    m = Linear("rows")
    m.reals("v", range(4))
    m.add("first", 0, total([]) <= 2.0)
    m.add("second", 0, Expr([Term(*term) for term in terms], -1.0, 9.0))
    starts, index, data, lower, upper = m.matrix()
    own = slice(starts[1], starts[2])

    assert len(set(index[own])) == len(index[own])
    assert sum(c * values[i] for i, c in zip(index[own], data[own], strict=True)) == pytest.approx(
        sum(c * values[i] for i, c in terms), abs=1e-9
    )
    assert (starts[0], starts[1]) == (0, 0)
    assert (lower.tolist(), upper.tolist()) == ([-INF, -1.0], [2.0, 9.0])


def test_columns_are_in_the_order_in_which_they_were_made():
    """Costs of a variable that is named twice add up."""
    m = Program("columns")
    whole = m.integers("n", "ab", {"a": 3.0, "b": INF})
    real = m.reals("x", "c", 0.5)
    m.minimise([whole["a"] * 2.0, real["c"] * -1.0, whole["a"] * 0.5])
    m.fix(whole["b"], 7.0)
    cost, lower, upper, integer = m.columns()

    assert cost.tolist() == [2.5, 0.0, -1.0]
    assert lower.tolist() == [0.0, 7.0, 0.0]
    assert upper.tolist() == [3.0, 7.0, 0.5]
    assert integer.tolist() == [True, True, False]
    assert m.families == {"n", "x"}


def test_values_are_read_by_their_family_without_zeros():
    found = Outcome("optimal", 1.0, 1.0, np.array([2.0, 0.0, 0.4, -1.0000001]), "any")
    of = {"a": Var(0), "b": Var(1), "c": Var(2), "d": Var(3)}

    assert found.of(of) == {"a": 2.0, "c": 0.4, "d": -1.0000001}
    assert found.counts(of) == {"a": 2, "d": -1}
    assert found.has_values
    assert not Outcome("infeasible", None, None, None, "any").has_values


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_the_gap_is_the_distance_over_the_value(value, bound):
    found = gap(value, bound)

    assert found >= 0
    assert (found == 0) == (value == bound) or abs(value - bound) < 1e-300 * abs(value)
    if value not in (0.0, bound) and abs(value) > 1e-6:
        assert found * abs(value) == pytest.approx(abs(value - bound), abs=1e-9)


def test_without_a_value_to_compare_with_a_gap_is_endless():
    assert gap(0.0, 1.0) == math.inf
    assert gap(0.0, 0.0) == 0.0


@given(st.floats(0.01, 1e6), st.floats(0, 0.5), st.floats(0, 0.5), st.booleans())
def test_no_status_claims_more_than_bound_and_value_prove(value, away, asked, maximised):
    sign = -1.0 if maximised else 1.0
    status = judge(sign * value, sign * value * (1 - away), Limits(gap=asked), "time_limit")

    if status == "optimal":
        assert away <= 2 * EXACT or value * away <= 2e-9
    elif status == "within_gap":
        assert away <= asked * (1 + 1e-9)
    else:
        assert away > asked * (1 - 1e-9) or away > EXACT
        assert status == "time_limit"


@pytest.mark.parametrize(
    ("value", "bound", "status"),
    [
        (None, 1.0, "interrupted"),
        (1.0, None, "interrupted"),
        (1e-12, 0.0, "optimal"),  # nearer than anything that is counted
        (1.0, 1.0 - 0.9e-6, "optimal"),
        (1.0, 1.0 - 2e-6, "within_gap"),
        (1.0, 0.94, "interrupted"),
    ],
)
def test_a_status_is_why_the_search_stopped_where_nothing_better_is_proven(value, bound, status):
    assert judge(value, bound, Limits(gap=0.05), "interrupted") == status


def test_where_work_is_limited_the_clock_decides_nothing():
    assert Limits(seconds=3.0, work=50).seconds == ENDLESS_S
    assert Limits(seconds=3.0).seconds == 3.0


@given(st.data())
def test_a_small_program_is_solved_as_by_trying_all(data):
    """Three whole numbers up to 3, two rows, a goal: HiGHS against all 64 answers."""
    draw = data.draw
    whole = st.integers(-3, 3)
    cost = [draw(whole) for _ in range(3)]
    rows = [([draw(whole) for _ in range(3)], draw(st.integers(-4, 6))) for _ in range(2)]
    m = Linear("small")
    v = m.integers("v", range(3), 3.0)
    m.minimise([v[i] * float(c) for i, c in enumerate(cost)])
    for k, (row, most) in enumerate(rows):
        m.add("row", k, total([v[i] * float(c) for i, c in enumerate(row)]) <= float(most))
    every = [
        sum(c * x for c, x in zip(cost, answer, strict=True))
        for answer in np.ndindex(4, 4, 4)
        if all(sum(c * x for c, x in zip(row, answer, strict=True)) <= most for row, most in rows)
    ]
    found, relaxed = m.solve(Limits()), m.relax(Limits())

    assert (found.status == "infeasible") == (not every)
    if every:
        assert found.value == pytest.approx(min(every))
        assert found.bound == pytest.approx(min(every))
        assert relaxed.value <= min(every) + 1e-9


def test_rows_that_come_too_late_are_not_stated():
    m = Program("late", until=time.perf_counter() - 1.0)
    n = m.integers("n", ["a"])
    with pytest.raises(StatedTooLate, match="late"):
        m.add("stock", "a", total([n["a"]]) <= 1.0)
    assert not m.rows
