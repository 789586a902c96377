"""Few copies near the best balance: by hand, by trying every placement, and above the bound."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import experts
from solvers.experts import moves as experts_moves
from solvers.experts.moves import MovesProblem, copied
from solvers.experts.moves_bound import fewest_copies
from solvers.experts.types import ExpertsProblem, Place
from solvers.linear import Limits


def placements(experts_: int, slots: list[int]) -> list[Place]:
    """All of them, every expert somewhere."""
    each = [[list(c) for c in combinations_with_replacement(range(experts_), s)] for s in slots]
    return [
        list(place)
        for place in product(*each)
        if {e for gpu in place for e in gpu} == set(range(experts_))
    ]  # fmt: skip


def hottest(load: np.ndarray, place: Place, speed: np.ndarray) -> float:
    flat = [e for gpu in place for e in gpu]
    return max(sum(load[e] / flat.count(e) for e in gpu) / v for gpu, v in zip(place, speed, strict=True))


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, list[int], np.ndarray, Place, float]:
    gpus = draw(st.integers(2, 3))
    slots = draw(st.lists(st.integers(1, 3), min_size=gpus, max_size=gpus))
    most = min(4, sum(slots))
    experts_ = draw(st.integers(min(2, most), most))
    load = np.array(draw(st.lists(st.integers(0, 40), min_size=experts_, max_size=experts_)), dtype=float)
    load[0] += 1
    speed = np.array(draw(st.lists(st.sampled_from([1.0, 0.5]), min_size=gpus, max_size=gpus)))
    place = draw(st.sampled_from(placements(experts_, slots)))
    return load, slots, speed, place, draw(st.sampled_from([0.0, 0.05, 0.3]))


def test_one_copy_mends_a_hot_expert_by_hand() -> None:
    """Expert 0 got 60 of 100 tokens: a second replica in place of one of expert 2's."""
    load, held = np.array([60.0, 20.0, 20.0]), [[0, 2], [1, 2]]
    best = experts.solve(ExpertsProblem(load[None], np.array([2, 2]), np.zeros(2, np.int64))).place
    p = MovesProblem(load[None], np.array([2, 2]), np.ones(2), [held], best)
    s = experts_moves.solve(p)

    assert s.balance[0] == pytest.approx(1.0)
    assert (s.objective, s.bound, s.status) == (1.0, 1.0, "optimal")


def test_a_map_that_is_good_enough_stays() -> None:
    load, held = np.array([10.0, 11.0]), [[1], [0]]
    s = experts_moves.solve(
        MovesProblem(load[None], np.array([1, 1]), np.ones(2), [held], [[[0], [1]]], within=0.0)
    )

    assert s.place == [held]
    assert s.objective == s.bound == 0


@settings(max_examples=75)
@given(cases())
def test_agrees_with_trying_every_placement(
    case: tuple[np.ndarray, list[int], np.ndarray, Place, float],
) -> None:
    load, slots, speed, held, within = case
    every = placements(len(load), slots)
    times = [hottest(load, place, speed) for place in every]
    limit = min(times) * (1 + within)
    fewest = min(
        copied(place, held) for place, t in zip(every, times, strict=True) if t <= limit * (1 + 1e-7)
    )
    best = every[int(np.argmin(times))]
    s = experts_moves.solve(MovesProblem(load[None], np.array(slots), speed, [held], [best], within))
    on = np.array([[e in gpu for gpu in held] for e in range(len(load))])

    assert [len(gpu) for gpu in s.place[0]] == slots
    assert hottest(load, s.place[0], speed) <= limit * (1 + 1e-6)
    assert copied(s.place[0], held) == s.copies[0] == fewest == s.bound
    assert fewest_copies(load, speed, on, limit, Limits()) <= fewest


@settings(max_examples=5)
@given(st.integers(0, 1000))
def test_larger_layers_keep_the_balance_and_copy_fewer_than_a_new_map(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = rng.lognormal(0, 0.8, (2, 48))
    after = before * np.exp(rng.normal(0, 0.1, before.shape))
    slots, node = np.full(8, 8), np.zeros(8, np.int64)
    old, new = (experts.solve(ExpertsProblem(w, slots, node)) for w in (before, after))
    s = experts_moves.solve(MovesProblem(after, slots, np.ones(8), old.place, new.place), Limits(seconds=4))

    assert (s.balance <= new.balance * (1.01 + 1e-6)).all()
    assert s.bound <= s.objective <= sum(copied(a, b) for a, b in zip(new.place, old.place, strict=True))
    for place, held, copies in zip(s.place, old.place, s.copies, strict=True):
        assert {e for gpu in place for e in gpu} == set(range(48))
        assert copied(place, held) == copies


def test_more_slots_and_fewer_slots_than_before_are_filled() -> None:
    load = np.array([[5.0, 3.0, 2.0, 2.0]])
    for room in (2, 4):
        slots = np.full(2, room)
        best = experts.solve(ExpertsProblem(load, slots, np.zeros(2, np.int64))).place
        s = experts_moves.solve(MovesProblem(load, slots, np.ones(2), [[[0, 1, 2], [0, 3, 2]]], best))

        assert [len(gpu) for gpu in s.place[0]] == [room, room]
        assert s.status == "optimal"


def test_an_exact_search_that_ends_early_takes_nothing_from_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither GPU holds expert 2, so one copy is proven, though two are needed."""
    p = MovesProblem(
        np.array([[26.0, 26.0, 24.0]]), np.array([2, 2]), np.ones(2), [[[0, 1], [0, 1]]], [[[2, 0], [1, 2]]]
    )
    assert experts_moves.solve(p).bound == 2
    monkeypatch.setattr(experts_moves, "moved", lambda *_: (None, 0))
    s = experts_moves.solve(p)

    assert (s.objective, s.bound, s.status) == (2, 1, "time_limit")
