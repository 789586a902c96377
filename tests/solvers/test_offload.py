"""Layers over GPUs with parts outside: by hand, by trying everything, and by impossibility."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import offload
from solvers.offload import OffloadProblem

SMALL = OffloadProblem(
    kind=np.array([0, 1, 1, 1]),
    held=np.array([4.0, 10.0]),
    freed=np.array([0.0, 8.0]),
    cost=np.array([0.0, 1.0]),
    room=np.array([20.0]),
)
"""A dense layer of 4 bytes and three of 10, of which 8 are experts, on a GPU of 20."""


def test_as_few_experts_leave_as_must():
    """By hand: 34 bytes, 14 too many: two layers' experts, of 8 each."""
    s = offload.solve(SMALL)

    assert (s.cost, s.bound, s.away, s.stages) == (2.0, 2.0, ((0, 2),), ((0, 4),))


def test_two_gpus_share_so_that_none_leaves():
    s = offload.solve(replace(SMALL, room=np.array([14.0, 20.0])))

    assert (s.cost, s.stages) == (0.0, ((0, 2), (2, 4)))


def test_what_never_fits_is_said_so():
    s = offload.solve(replace(SMALL, room=np.array([9.0])))

    assert s.cost is None
    assert s.stages == ()


def test_each_gpu_holds_a_layer():
    assert offload.solve(replace(SMALL, room=np.full(4, 50.0))).stages == ((0, 1), (1, 2), (2, 3), (3, 4))
    assert offload.solve(replace(SMALL, room=np.full(5, 50.0))).cost is None


@st.composite
def problems(draw: st.DrawFn) -> OffloadProblem:
    kinds, layers, gpus = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(1, 3))
    held = draw(st.lists(st.integers(1, 9), min_size=kinds, max_size=kinds))
    freed = [draw(st.integers(0, h)) for h in held]
    return OffloadProblem(
        kind=np.array(draw(st.lists(st.integers(0, kinds - 1), min_size=layers, max_size=layers))),
        held=np.array(held, dtype=float),
        freed=np.array(freed, dtype=float),
        cost=np.array(draw(st.lists(st.integers(0, 5), min_size=kinds, max_size=kinds)), dtype=float),
        room=np.array(draw(st.lists(st.integers(0, 30), min_size=gpus, max_size=gpus)), dtype=float),
    )


def by_trying_all(p: OffloadProblem) -> float | None:
    """Every cut and every set of layers."""
    layers, gpus = len(p.kind), len(p.room)
    best = None
    for cuts in combinations(range(1, layers), gpus - 1):
        ends = [0, *cuts, layers]
        for away in product((0, 1), repeat=layers):
            used = p.held[p.kind] - p.freed[p.kind] * np.array(away)
            if all(used[a:b].sum() <= r for a, b, r in zip(ends, ends[1:], p.room, strict=False)):
                cost = float(p.cost[p.kind] @ np.array(away))
                best = cost if best is None else min(best, cost)
    return best


@settings(max_examples=200, deadline=None)
@given(problems())
def test_agrees_with_trying_everything(p):
    s, best = offload.solve(p), by_trying_all(p)

    assert s.cost == (None if best is None else pytest.approx(best))


@settings(max_examples=100, deadline=None)
@given(problems())
def test_what_is_placed_fits(p):
    s = offload.solve(p)
    if s.cost is None:
        return
    cost = 0.0
    for (a, b), away, room in zip(s.stages, s.away, p.room, strict=True):
        n = np.bincount(p.kind[a:b], minlength=len(p.held))
        assert (np.array(away) <= n).all()
        assert n @ p.held - np.array(away) @ p.freed <= room + 1e-6
        cost += float(np.array(away) @ p.cost)
    assert cost == pytest.approx(s.cost)
    assert s.stages[0][0] == 0
    assert s.stages[-1][1] == len(p.kind)


def test_every_row_of_the_docstring_is_the_rule_kept():
    assert "\nroom[s]" in (offload.__doc__ or "")
