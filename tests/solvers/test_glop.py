"""GLOP's answers, which are not taken over: bounds from any duals, and what counts as a solution."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.linear.glop import TALL, Arrays, relaxed

CASE = settings(max_examples=200)


def around(r, columns, rows, endless=0.5):
    """A program that a random point x keeps, with its limits around that; each of a row's limits is missing
    by the chance `endless`."""
    x, matrix = r.uniform(-5, 5, columns), r.normal(size=(rows, columns)).round(1)
    low, high = (matrix @ x - r.exponential(2, rows), matrix @ x + r.exponential(2, rows))
    low[r.random(rows) < endless], high[r.random(rows) < endless] = -np.inf, np.inf
    limits = (x - r.exponential(2, columns), x + r.exponential(2, columns))
    cost, integer = r.normal(size=columns), np.zeros(columns, dtype=bool)
    return Arrays(cost, *limits, integer, matrix, low, high), x


@CASE
@given(st.integers(0, 10**6))
def test_any_duals_bound_what_a_feasible_point_costs(seed):
    """Weak duality: whatever their signs, on rows that lack the limit that they stand for, too."""
    r = np.random.default_rng(seed)
    a, x = around(r, int(r.integers(1, 6)), int(r.integers(1, 6)))
    bound, _ = a.reduced(r.normal(size=len(a.row_lower)) * 3)

    assert a.kept_by(x)
    assert bound is not None
    assert bound <= a.cost @ x + 1e-9


@CASE
@given(st.integers(0, 10**6))
def test_its_own_duals_bound_just_what_it_finds(seed):
    r = np.random.default_rng(seed)
    a, _ = around(r, int(r.integers(1, 6)), int(r.integers(1, 6)), endless=0.3)
    solver = relaxed(a, 10.0)
    value = float(a.cost @ np.array(solver.variable_values()))

    assert a.proven(np.array(solver.dual_values())) == pytest.approx(value, abs=1e-6)


def test_nothing_is_proven_of_a_column_without_the_limit_that_its_cost_leads_to():
    a = Arrays(*map(np.array, ([1.0], [-np.inf], [4.0], [False], [[0.0]], [0.0], [1.0])))

    assert a.proven(np.array([0.0])) is None
    assert replace(a, lower=np.array([-2.0])).proven(np.array([0.0])) == -2.0


def test_tall_programs_are_solved_as_well():
    """By the dual simplex: a column's largest of many lower limits."""
    rows = TALL + 2
    low, every = np.arange(rows) / 2, np.ones((rows, 1))
    one = (np.array([x]) for x in (1.0, 0.0, 10.0))
    a = Arrays(*one, np.array([False]), every, low, np.full(rows, np.inf))

    assert np.array(relaxed(a, 10.0).variable_values()) == pytest.approx([(rows - 1) / 2])
