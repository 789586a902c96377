"""Times to live for idle cache: by hand, against brute force, prices between the derivatives."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import idle_cache as keeping
from solvers.idle_cache import KeepingProblem
from solvers.linear import Limits, Linear

INF = np.inf


def problem(**given: object) -> KeepingProblem:
    """Two kinds, both 1 GB/s, two classes of 10 s: half of `quick` returns in the first, of `slow` in the
    second."""
    back = np.array([[0.5, 0.0], [0.0, 0.5]])
    small = KeepingProblem(
        born=np.ones(2),
        save=np.array([1.0, 1.0]),
        waits=np.array([[7.5, 5.0], [10.0, 7.5]]),
        start=np.array([[1.0, 0.5], [1.0, 1.0]]),
        back=back,
        above=(-1, -1),
        load=np.zeros(1),
        room=np.array([7.5]),
        read=np.array([INF]),
        write=np.array([INF]),
    )
    return replace(small, **given)  # type: ignore[arg-type]


def test_the_quick_kind_is_kept_as_long_as_it_returns():
    """7.5 GB hold all of `quick` for 10 s; half of its 1 GB/s returns."""
    s = keeping.solve(problem(), Limits())

    assert (s.saved, s.bound, s.status) == (pytest.approx(0.5), pytest.approx(0.5), "optimal")
    assert s.kept[:, 0].round(6).tolist() == [[1, 0], [0, 0]]


def test_one_more_gb_keeps_some_of_the_slow_kind():
    """17.5 GB hold all of `slow` and save 0.5: 1/35 a GB."""
    s = keeping.solve(problem(room=np.array([10.0])), Limits())

    assert s.price[0] == pytest.approx(1 / 35)
    assert keeping.worth(problem(), keeping.solve(problem(), Limits()), 0, 1.0, Limits()) == pytest.approx(
        1 / 35
    )


def test_what_costs_more_to_load_than_to_compute_is_not_kept():
    assert keeping.solve(problem(load=np.array([2.0])), Limits()).saved == 0


def test_a_slow_link_limits_what_is_used_again():
    s = keeping.solve(problem(read=np.array([0.1])), Limits())

    assert s.saved == pytest.approx(0.1)


def test_a_block_is_not_kept_without_what_it_builds_on():
    """The second builds on the first, which never returns by itself: both must be kept."""
    p = problem(above=(-1, 0), back=np.array([[0.0, 0.0], [0.5, 0.0]]), room=np.array([8.0]))
    s = keeping.solve(p, Limits())

    assert s.kept[1, 0, 0] <= s.kept[0, 0, 0] + 1e-9
    assert s.saved == pytest.approx(0.5 * 8 / 17.5)


def test_old_blocks_lie_in_the_slow_tier():
    """HBM takes the first 10 s, host memory the next; what goes down at 10 s is the half that still waits."""
    p = problem(
        back=np.array([[0.5, 0.3], [0.0, 0.0]]),
        load=np.array([0.0, 0.1]),
        room=np.array([7.5, 100.0]),
        read=np.array([INF, 10.0]),
        write=np.array([INF, 0.5]),
    )
    s, slower = (keeping.solve(replace(p, write=np.array([INF, w])), Limits()) for w in (0.5, 0.25))

    assert s.kept[0].round(6).tolist() == [[1, 0], [0, 1]]
    assert s.saved == pytest.approx(0.5 + 0.3 * 0.9)
    assert 0.5 < slower.saved < s.saved
    assert slower.kept[0, 1, 1] + slower.kept[0, 1, 0] <= 0.5 + 1e-6


def test_no_room_keeps_nothing_and_says_what_a_gb_is_worth():
    s = keeping.solve(problem(room=np.zeros(1)), Limits())

    assert s.saved == 0
    assert s.price[0] == pytest.approx(0.5 / 7.5)


def test_a_search_that_proves_nothing_has_no_bound(monkeypatch):
    relax = Linear.relax
    monkeypatch.setattr(Linear, "relax", lambda m, limits: replace(relax(m, limits), bound=None))
    s = keeping.solve(problem(), Limits())

    assert (s.saved, s.bound) == (pytest.approx(0.5), INF)


def test_every_row_of_the_docstring_is_in_the_model():
    two = problem(load=np.zeros(2), room=np.ones(2), read=np.ones(2), write=np.ones(2), above=(-1, 0))
    families = {family for family, _ in keeping.build(two)[0].rows}

    assert families == {"room", "read", "write", "age", "down", "under"}
    assert all(f"\n{family}[" in str(keeping.__doc__) for family in families)


@st.composite
def problems(draw: st.DrawFn) -> KeepingProblem:
    kinds, ages = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    whole = st.integers(0, 4)
    back = np.array([[draw(whole) / 16 for _ in range(ages)] for _ in range(kinds)])
    start = 1 - np.cumsum(back, axis=1) + back
    width = np.array([draw(st.integers(1, 5)) for _ in range(ages)], dtype=float)
    return KeepingProblem(
        born=np.array([1.0 + draw(whole) for _ in range(kinds)]),
        save=np.array([1.0 + draw(whole) for _ in range(kinds)]),
        waits=(start - back / 2) * width,
        start=start,
        back=back,
        above=tuple(draw(st.sampled_from([-1, k - 1])) if k else -1 for k in range(kinds)),
        load=np.array([0.0]),
        room=np.array([float(draw(st.integers(0, 40)))]),
        read=np.array([INF]),
        write=np.array([INF]),
    )


def held(p: KeepingProblem, kept: np.ndarray) -> np.ndarray:
    """GB in each tier, by Little's law."""
    return np.einsum("k,ki,kti->t", p.born, p.waits, kept)


def best_whole(p: KeepingProblem) -> float:
    """The best of all times to live that end at a class, by trying each."""
    kinds, ages = p.back.shape
    best = 0.0
    for ends in product(range(ages + 1), repeat=kinds):
        kept = np.array([[[float(i < end) for i in range(ages)]] for end in ends])
        built = all(a < 0 or ends[k] <= ends[a] for k, a in enumerate(p.above))
        if built and (held(p, kept) <= p.room + 1e-9).all():
            best = max(best, keeping.saved(p, kept))
    return best


@settings(max_examples=100)
@given(problems())
def test_it_is_no_worse_than_any_times_to_live_and_close_to_the_best_of_them(p: KeepingProblem):
    """A share of one class of each kind at most is what whole times to live lack."""
    s, whole = keeping.solve(p, Limits()), best_whole(p)
    class_s = float((p.born[:, None] * p.back * p.save[:, None]).sum())

    assert whole - 1e-6 <= s.saved <= whole + class_s + 1e-6
    assert (held(p, s.kept) <= p.room + 1e-6).all()
    assert s.bound == pytest.approx(s.saved, abs=1e-6)


@settings(max_examples=100)
@given(problems())
def test_with_room_for_all_everything_that_returns_is_found(p: KeepingProblem):
    roomy = replace(p, room=np.array([1e6]))

    assert keeping.solve(roomy, Limits()).saved == pytest.approx(best_whole(roomy))


@settings(max_examples=100)
@given(problems())
def test_the_price_of_a_gb_lies_between_the_derivatives(p: KeepingProblem):
    s, step = keeping.solve(p, Limits()), 1e-3

    def at(gb: float) -> float:
        return keeping.solve(replace(p, room=np.array([gb])), Limits()).saved

    right = (at(p.room[0] + step) - s.saved) / step
    left = (s.saved - at(p.room[0] - step)) / step if p.room[0] else INF
    assert right - 1e-4 <= s.price[0] <= left + 1e-4
    assert keeping.worth(p, s, 0, 1.0, Limits()) <= s.price[0] + 1e-6  # ever less, the more there is
