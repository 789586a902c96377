"""Layers over GPUs with parts outside: by hand, by trying everything, and by impossibility."""

from dataclasses import replace
from itertools import combinations_with_replacement, pairwise, product

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

    assert (s.cost, s.away, s.stages) == (2.0, ((0, 2),), ((0, 4),))


def test_two_gpus_share_so_that_none_leaves():
    s = offload.solve(replace(SMALL, room=np.array([14.0, 20.0])))

    assert (s.cost, s.stages) == (0.0, ((0, 2), (2, 4)))


def test_what_never_fits_is_said_so():
    s = offload.solve(replace(SMALL, room=np.array([9.0])))

    assert s.cost is None
    assert s.stages == ()


def test_a_slow_device_holds_what_the_quick_one_cannot():
    """By hand: of three layers of 10 bytes two fit the quick device; the slow one is opened for the last."""
    p = OffloadProblem(
        kind=np.zeros(3, dtype=np.int64),
        held=np.array([10.0]),
        freed=np.array([0.0]),
        cost=np.array([0.0]),
        room=np.array([20.0, 100.0]),
        place=np.array([[1.0], [5.0]]),
        opened=np.array([0.0, 2.0]),
        spare=np.array([False, True]),
    )
    s = offload.solve(p)

    assert (s.cost, s.stages) == (1 + 1 + 5 + 2, ((0, 2), (2, 3)))
    assert offload.solve(replace(p, room=np.array([30.0, 100.0]))).stages == ((0, 3), (3, 3))


def test_each_gpu_holds_a_layer():
    assert offload.solve(replace(SMALL, room=np.full(4, 50.0))).stages == ((0, 1), (1, 2), (2, 3), (3, 4))
    assert offload.solve(replace(SMALL, room=np.full(5, 50.0))).cost is None


@st.composite
def problems(draw: st.DrawFn) -> OffloadProblem:
    kinds, layers, gpus = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(1, 3))
    held = draw(st.lists(st.integers(1, 9), min_size=kinds, max_size=kinds))
    freed = [draw(st.integers(0, h)) for h in held]
    p = OffloadProblem(
        kind=np.array(draw(st.lists(st.integers(0, kinds - 1), min_size=layers, max_size=layers))),
        held=np.array(held, dtype=float),
        freed=np.array(freed, dtype=float),
        cost=np.array(draw(st.lists(st.integers(0, 5), min_size=kinds, max_size=kinds)), dtype=float),
        room=np.array(draw(st.lists(st.integers(0, 30), min_size=gpus, max_size=gpus)), dtype=float),
    )
    if draw(st.booleans()):
        return p

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=gpus, max_size=gpus))

    return replace(
        p,
        place=np.array([each(0, 4) for _ in range(kinds)], dtype=float).T,
        opened=np.array(each(0, 5), dtype=float),
        outside=np.array(each(0, 20), dtype=float),
        spare=np.array(each(0, 1), dtype=bool),
    )


def by_trying_all(p: OffloadProblem) -> float | None:
    """Every cut and every set of layers."""
    layers, gpus = len(p.kind), len(p.room)
    place = np.zeros((gpus, len(p.held))) if p.place is None else p.place
    opened = np.zeros(gpus) if p.opened is None else p.opened
    outside = np.full(gpus, np.inf) if p.outside is None else p.outside
    spare = np.zeros(gpus, dtype=bool) if p.spare is None else p.spare
    best = None
    for cuts in combinations_with_replacement(range(layers + 1), gpus - 1):
        ranges = list(pairwise([0, *cuts, layers]))
        if any(a == b and not spare[s] for s, (a, b) in enumerate(ranges)):
            continue
        there = sum(opened[s] + place[s, p.kind[a:b]].sum() for s, (a, b) in enumerate(ranges) if a < b)
        for away in map(np.array, product((0, 1), repeat=layers)):
            out = p.freed[p.kind] * away
            used = p.held[p.kind] - out
            if all(
                used[a:b].sum() <= r and out[a:b].sum() <= o
                for (a, b), r, o in zip(ranges, p.room, outside, strict=True)
                if a < b
            ):
                cost = float(p.cost[p.kind] @ away) + float(there)
                best = cost if best is None else min(best, cost)
    return best


@settings(max_examples=200)
@given(problems())
def test_agrees_with_trying_everything(p):
    s, best = offload.solve(p), by_trying_all(p)

    assert s.cost == (None if best is None else pytest.approx(best))


@settings(max_examples=100)
@given(problems())
def test_what_is_placed_fits(p):
    s = offload.solve(p)
    if s.cost is None:
        return
    cost = 0.0
    for i, ((a, b), away, room) in enumerate(zip(s.stages, s.away, p.room, strict=True)):
        n = np.bincount(p.kind[a:b], minlength=len(p.held))
        if p.place is not None and p.opened is not None and p.outside is not None:
            cost += float(n @ p.place[i]) + float(p.opened[i] * (a < b))
            assert np.array(away) @ p.freed <= p.outside[i] + 1e-6
        if a == b:
            continue
        assert (np.array(away) <= n).all()
        assert n @ p.held - np.array(away) @ p.freed <= room + 1e-6
        cost += float(np.array(away) @ p.cost)
    assert cost == pytest.approx(s.cost)
    assert s.stages[0][0] == 0
    assert s.stages[-1][1] == len(p.kind)


def test_every_row_of_the_docstring_is_the_rule_kept():
    assert all(f"\n{row}[s]" in (offload.__doc__ or "") for row in ("room", "outside", "spare"))
