"""One placement for several steps: by hand, by trying every placement, and above its bound."""

from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import experts
from solvers.experts import robust as experts_robust
from solvers.experts.bound import balance_bound
from solvers.experts.robust import RobustProblem
from solvers.experts.types import ExpertsProblem, Place
from solvers.linear import Limits


def steps_of(load: np.ndarray, place: Place, speed: np.ndarray) -> np.ndarray:
    """Balance of each step (steps,), from the definition."""
    flat = [e for gpu in place for e in gpu]
    time = [
        [sum(w[e] / flat.count(e) for e in gpu) / v for gpu, v in zip(place, speed, strict=True)]
        for w in load
    ]
    return np.max(time, axis=1) / (load.sum(1) / speed.sum())


def _swapped(expert: np.ndarray, i: int, j: int) -> np.ndarray:
    other = expert.copy()
    other[[i, j]] = expert[[j, i]]
    return other


def test_two_steps_that_want_different_places_by_hand() -> None:
    """Experts 0 and 1 are hot together in one step, 0 and 2 in the other: 0 and 3 share a GPU."""
    load = np.array([[4.0, 4.0, 1.0, 1.0], [4.0, 1.0, 4.0, 1.0]])[:, None]
    p = RobustProblem(load, np.array([2, 2]), np.ones(2), "worst")
    s = experts_robust.solve(p)

    assert sorted(map(sorted, s.place[0])) == [[0, 3], [1, 2]]
    assert s.steps[:, 0] == pytest.approx([1.0, 1.0])
    assert s.status == "optimal"


@settings(max_examples=40)
@given(st.data())
def test_agrees_with_trying_every_placement(data: st.DataObject) -> None:
    gpus = data.draw(st.integers(2, 3))
    slots = np.array(data.draw(st.lists(st.integers(1, 3), min_size=gpus, max_size=gpus)))
    n = data.draw(st.integers(2, max(2, min(4, int(slots.sum())))))
    slots[0] += max(0, n - int(slots.sum()))
    rows = st.lists(st.integers(1, 30), min_size=n, max_size=n)
    load = np.array(data.draw(st.lists(rows, min_size=2, max_size=3)), dtype=float)
    speed = np.array(data.draw(st.lists(st.sampled_from([1.0, 0.5]), min_size=gpus, max_size=gpus)))
    over = data.draw(st.sampled_from(["mean", "worst"]))
    s = experts_robust.solve(RobustProblem(load[:, None], slots, speed, over))
    each = [list(map(list, combinations_with_replacement(range(n), k))) for k in slots.tolist()]
    every = [
        steps_of(load, list(place), speed)
        for place in product(*each)
        if {e for gpu in place for e in gpu} == set(range(n))
    ]
    best = min(float(b.mean() if over == "mean" else b.max()) for b in every)

    assert s.steps[:, 0] == pytest.approx(steps_of(load, s.place[0], speed))
    assert s.objective == pytest.approx(best, rel=1e-4)
    assert s.objective * (1 - 1e-4) <= s.bound <= best * (1 + 1e-9)


@settings(max_examples=25, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(["mean", "worst"]))
def test_the_quick_bound_holds_and_every_move_helps_as_much_as_it_says(
    seed: int, over: experts_robust.Over
) -> None:
    r = np.random.default_rng(seed)
    slots, speed = r.integers(1, 4, 2), r.choice([1.0, 0.5], 2)
    n = int(min(4, slots.sum()))
    part = r.uniform(0, 9, (3, n)) ** 2
    part *= speed.sum() / part.sum(1, keepdims=True)
    each = [combinations_with_replacement(range(n), k) for k in slots.tolist()]
    every = [np.array([*a, *b]) for a, b in product(*each) if {*a, *b} == set(range(n))]
    least = float(balance_bound(part.mean(0)[None], slots, speed)[0])
    p = RobustProblem(part[:, None], slots, speed, over)
    search = experts_robust.Search(part, slots, speed, over, seed)

    def value(expert: np.ndarray) -> float:
        place = [expert[search.gpu == g].tolist() for g in (0, 1)]
        steps = steps_of(part, place, speed)
        return float(steps.mean() if over == "mean" else steps.max() + 1e-5 * steps.mean())

    assert experts_robust._bound(part, least, p) <= min(map(value, every)) * (1 + 1e-9)
    for expert in every[:: len(every) // 4 + 1]:
        for move in (lambda e: search._exchange(e, 3), search._change):
            before, now = expert.copy(), expert.copy()
            helped = move(now)
            assert helped == (value(now) < value(before) * (1 - 1e-10)) == (now != before).any()
        swapped = [value(_swapped(expert, i, j)) for i, j in combinations(range(len(expert)), 2)]
        best = expert.copy()
        search._exchange(best, 3)
        assert value(best) == pytest.approx(min([value(expert), *swapped]))


@settings(max_examples=8)
@given(st.integers(0, 1000), st.sampled_from(["mean", "worst"]))
def test_no_worse_than_the_map_of_the_sum(seed: int, over: str) -> None:
    rng = np.random.default_rng(seed)
    load = rng.lognormal(0, 0.7, (1, 2, 24)) * np.exp(rng.normal(0, 0.3, (3, 2, 24)))
    load /= load.sum(2, keepdims=True)
    slots = np.full(4, 8)
    summed = experts.solve(ExpertsProblem(load.sum(0), slots, np.zeros(4, np.int64)))
    s = experts_robust.solve(RobustProblem(load, slots, np.ones(4), over), Limits(seconds=4))  # type: ignore[arg-type]
    for layer in range(2):
        steps = steps_of(load[:, layer], summed.place[layer], np.ones(4))
        plain = steps.mean() if over == "mean" else steps.max()

        assert s.balance_bound[layer] <= s.balance[layer] <= plain * (1 + 2e-3)
        assert {e for gpu in s.place[layer] for e in gpu} == set(range(24))


def test_the_same_seed_gives_the_same_places() -> None:
    load = np.random.default_rng(1).lognormal(0, 1, (2, 1, 16))
    p = RobustProblem(load, np.full(3, 8), np.ones(3), "mean")

    assert experts_robust.solve(p).place == experts_robust.solve(p).place
