"""Tiers: by hand, by every point with another solver, by weak duality, by impossibility."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from solvers import tiers
from solvers.linear import Limits
from solvers.tiers.point import build, seconds
from solvers.tiers.types import Duals
from tests.solvers.tier_cases import SMALL, line, problems


def least_seconds(p, point):
    """The program of the docstring by scipy: seconds of the block, None where there is no room."""
    columns, phases = len(p.columns), list(p.times)
    left, right = [], []
    for row, (phase, _) in zip(point.work, p.busy, strict=True):
        left.append([*row[:-1], *(-1.0 if phase == other else 0.0 for other in phases)])
        right.append(-row[-1])
    for row, room in zip(point.bytes, p.rooms, strict=True):
        left.append([*row[:-1], *(0.0 for _ in phases)])
        right.append(room - row[-1])
    one = [[float(q == tensor) for q, _ in p.columns] + [0.0] * len(phases) for tensor in dict(p.columns)]
    cost = [0.0] * columns + list(p.times.values())
    found = linprog(cost, np.array(left), right, one, [1.0] * len(one), (0, None))
    return found.fun if found.status == 0 else None


def best_by_every_point(p):
    values = [0.0]
    for each in p.lines:
        for k in range(1, tiers.largest(p, each) + 1):
            least = least_seconds(p, tiers.at(each, k))
            values.append(0.0 if least is None else k * each.tokens / least)
    return max(values)


def test_four_batches_make_two_thirds_of_a_token_a_second():
    s = tiers.solve(SMALL, Limits())

    assert s.tokens_per_s == pytest.approx(2 / 3) == s.bound
    assert (s.status, s.point.batches) == ("optimal", 4)
    assert s.shares @ s.point.bytes[0, :-1] == pytest.approx(6.0)  # the GPU is full


def test_without_a_given_end_as_many_batches_as_both_tiers_hold():
    """By hand: 14 GB less 8 GB of weights leave 6 batches: 6 / (2 + 6)."""
    s = tiers.solve(replace(SMALL, lines=[line(most=None)]), Limits())

    assert tiers.largest(SMALL, line(most=None)) == 6
    assert s.tokens_per_s == pytest.approx(6 / 8)


def test_a_faster_link_makes_computing_the_limit():
    s = tiers.solve(replace(SMALL, lines=[line(), line(key="fast", link=3.0)]), Limits())

    assert (s.point.line.key, s.tokens_per_s) == ("fast", pytest.approx(1.0))


def test_where_nothing_fits_there_is_no_answer():
    s = tiers.solve(replace(SMALL, room={"gpu": 1.0, "cpu": 2.0}), Limits())

    assert (s.status, s.tokens_per_s, s.bound) == ("infeasible", None, None)
    assert tiers.solve(replace(SMALL, lines=[]), Limits()).status == "infeasible"


def test_a_line_without_end_is_refused():
    endless = line(most=None)
    endless.bytes[1] = 0.0

    with pytest.raises(ValueError, match="has no end"):
        tiers.solve(replace(SMALL, lines=[endless]), Limits())


def test_out_of_time_the_bound_still_covers_the_grid():
    p = replace(SMALL, lines=[line(most=None), line(key=2, most=None, link=1.1)])
    s = tiers.solve(p, Limits(seconds=0.0))

    assert s.bound >= best_by_every_point(p) - 1e-9


@settings(max_examples=80, derandomize=True)
@given(p=problems())
def test_agrees_with_solving_every_point(p):
    s, best = tiers.solve(p, Limits()), best_by_every_point(p)

    assert (s.tokens_per_s or 0.0) == pytest.approx(best, rel=1e-6)
    assert s.status == ("optimal" if best else "infeasible")
    if best:
        assert s.bound == pytest.approx(best, rel=1e-6)
        assert s.point.tokens / seconds(p, s.point, s.shares) == s.tokens_per_s
        assert (s.point.bytes[:, :-1] @ s.shares + s.point.bytes[:, -1] <= p.rooms * (1 + 1e-6)).all()


@settings(max_examples=60, derandomize=True)
@given(p=problems(), seed=st.integers(0, 2**32 - 1))
def test_any_prices_bound_every_point(p, seed):
    rng, grid = np.random.default_rng(seed), tiers.Grid(p)
    busy = rng.uniform(0, 1, len(p.busy))
    for rows, times in zip(p.of_phase, p.counts, strict=True):
        busy[rows] *= times / busy[rows].sum()
    grid.tighten(Duals(busy, rng.uniform(0, 2, len(p.fits))))

    for i in range(len(grid.batches)):
        least = least_seconds(p, grid.point(i))
        assert least is None or grid.tokens[i] / least <= grid.bound[i] * (1 + 1e-7)


def test_every_row_of_the_docstring_is_in_the_model():
    families = {family for family, _ in build(SMALL, tiers.at(SMALL.lines[0], 1)).model.rows}

    assert families == {"place", "busy", "fit"}
    assert all(f"\n{family}[" in tiers.__doc__ for family in families)
