"""Parts of the placement of experts, on layers small enough to try every placement."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.experts import joint
from solvers.experts import moves_search as experts_moves_search
from solvers.experts import small as experts_small
from solvers.experts.grouped import Groups
from solvers.experts.joint import Layer
from solvers.experts.types import Aim, ExpertsProblem, counts, table
from solvers.linear import Limits

ONES = np.ones(4)
Placement = tuple[tuple[int, ...], ...]


def every(experts: int, slots: list[int]) -> Iterator[Placement]:
    """Every way to fill the GPUs' slots so that no expert is missing."""
    for place in product(*(combinations_with_replacement(range(experts), n) for n in slots)):
        if len({e for gpu in place for e in gpu}) == experts:
            yield place


def times(place: Placement, load: np.ndarray, speed: np.ndarray) -> np.ndarray:
    copies = np.bincount([e for gpu in place for e in gpu])
    return np.array([sum(load[e] / copies[e] for e in gpu) for gpu in place]) / speed


def copied(place: Placement, held: np.ndarray) -> int:
    return sum(not held[e, g] for g, gpu in enumerate(place) for e in set(gpu))


def layer(seed: int) -> tuple[np.ndarray, list[int], np.ndarray, np.ndarray]:
    """Loads of three or four experts, slots and speeds of two or three GPUs, and who holds what now."""
    r = np.random.default_rng(seed)
    experts, gpus = int(r.integers(3, 5)), int(r.integers(2, 4))
    slots = [int(n) for n in r.integers(2, 3, gpus)]
    return r.uniform(1, 9, experts), slots, r.choice([1.0, 2.0], gpus), r.random((experts, gpus)) < 0.4


@settings(max_examples=12, derandomize=True)
@given(seed=st.integers(0, 10**6), spare=st.sampled_from([0.02, 0.2, 0.6]))
def test_the_fewest_copies_within_a_time_are_those_of_all_placements(seed: int, spare: float):
    load, slots, speed, held = layer(seed)
    limit = (1 + spare) * min(times(place, load, speed).max() for place in every(len(load), slots))
    within = [p for p in every(len(load), slots) if times(p, load, speed).max() <= limit * (1 + 1e-9)]
    fewest = min(copied(place, held) for place in within)

    found, bound = experts_small.moved(load, np.array(slots), speed, held, limit, Limits())

    assert found is not None
    place = tuple(tuple(gpu) for gpu in np.split(found, np.cumsum(slots)[:-1]))
    assert bound == copied(place, held) == fewest
    assert times(place, load, speed).max() <= limit * (1 + 1e-6)
    assert experts_small.small(len(load), np.array(slots))


@settings(max_examples=12, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_a_search_for_few_copies_keeps_to_the_time_and_to_what_is_possible(seed: int):
    load, slots, speed, held = layer(seed)
    best = min(every(len(load), slots), key=lambda place: times(place, load, speed).max())
    limit = 1.2 * times(best, load, speed).max()
    fewest = min(copied(p, held) for p in every(len(load), slots) if times(p, load, speed).max() <= limit)
    begun = np.array([e for gpu in best for e in gpu])
    search = experts_moves_search.Search(load, speed, np.repeat(np.arange(len(slots)), slots), held, limit, 0)

    search.offer(search.trimmed(begun))
    search.oscillate(begun, 60)

    assert search.best is not None
    place = tuple(tuple(gpu) for gpu in np.split(search.best, np.cumsum(slots)[:-1]))
    assert times(place, load, speed).max() <= limit
    assert fewest <= search.copies == copied(place, held) <= fewest + 1


@pytest.mark.parametrize("seed", range(4))
def test_an_exchange_is_priced_at_what_it_brings(seed: int):
    """What is over the time, and copies: before and after each exchange of two slots."""
    load, slots, speed, held = layer(seed)
    begun = np.array([e for gpu in next(every(len(load), slots)) for e in gpu])
    gpu = np.repeat(np.arange(len(slots)), slots)
    limit = 0.8 * times(tuple(map(tuple, np.split(begun, np.cumsum(slots)[:-1]))), load, speed).max()
    search = experts_moves_search.Search(load, speed, gpu, held, float(limit), 0)

    def state(expert: np.ndarray) -> tuple[float, int]:
        place = tuple(tuple(int(e) for e in own) for own in np.split(expert, np.cumsum(slots)[:-1]))
        return np.maximum(times(place, load, speed) - limit, 0).sum(), copied(place, held)

    over, copies = state(begun)
    _, change, more = experts_moves_search.State(search, begun)._exchanges(np.arange(len(begun)))

    for p, q in combinations(range(len(begun)), 2):
        moved = begun.copy()
        moved[[p, q]] = moved[[q, p]]
        if np.isfinite(change[p, q]) and all(
            begun[gpu == gpu[x]].tolist().count(begun[x]) == 1 for x in (p, q)
        ):
            assert state(moved) == (pytest.approx(over + change[p, q]), copies + more[p, q])


@settings(max_examples=20, derandomize=True)
@given(seed=st.integers(0, 10**6), spare=st.sampled_from([0.0, 0.8, 1.0]))
def test_a_change_of_expert_is_priced_at_what_it_brings(seed: int, spare: float):
    """Exactly, but where GPUs elsewhere hold both experts and are near the time."""
    load, slots, speed, held = layer(seed)
    r, gpu = np.random.default_rng(seed), np.repeat(np.arange(len(slots)), slots)
    begun = r.permutation([*range(len(load)), *r.integers(0, len(load), len(gpu))][: len(gpu)])
    if len(set(begun)) < len(load):
        return

    def split(expert: np.ndarray) -> Placement:
        return tuple(tuple(int(e) for e in expert[gpu == g]) for g in range(len(slots)))

    limit = spare * float(times(split(begun), load, speed).max())
    search = experts_moves_search.Search(load, speed, gpu, held, limit, 0)

    def state(expert: np.ndarray) -> tuple[float, int]:
        return np.maximum(times(split(expert), load, speed) - limit, 0).sum(), copied(split(expert), held)

    over, copies = state(begun)
    spare_slots = np.flatnonzero(np.bincount(begun)[begun] > 1)
    _, change, more = experts_moves_search.State(search, begun)._changes(spare_slots)

    for at, f in product(range(len(spare_slots)), range(len(load))):
        p, e = spare_slots[at], begun[spare_slots[at]]
        moved = begun.copy()
        moved[p] = f
        both = {*gpu[begun == e]} & {*gpu[begun == f]} - {gpu[p]}
        if e == f:
            assert change[at, f] == np.inf
        elif not both or not limit:
            assert state(moved) == (pytest.approx(over + change[at, f]), copies + more[at, f])


def test_one_exchange_brings_a_hot_gpu_within_the_time():
    """By hand: 9 + 5 and 1 + 2 on two GPUs; 9 + 1 and 5 + 2 copy two weights, the fewest within 11."""
    held = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    search = experts_moves_search.Search(
        np.array([9.0, 5.0, 1.0, 2.0]), np.ones(2), np.array([0, 0, 1, 1]), held, 11.0, 0
    )

    search.offer(np.array([0, 1, 2, 3]))
    assert search.best is None
    search.offer(search.repaired(np.array([0, 1, 2, 3])))

    assert search.copies == 2
    assert 0 in search.best[:2]
    assert 1 in search.best[2:]


@settings(max_examples=12, derandomize=True)
@given(seed=st.integers(0, 10**6), worst=st.booleans())
def test_the_best_balance_over_steps_is_that_of_all_placements(seed: int, worst: bool):
    load, slots, speed, _ = layer(seed)
    part = np.stack([load, np.roll(load, 1), load[::-1]])
    over = np.max if worst else np.mean

    found, bound = experts_small.robust(part, np.array(slots), speed, worst, Limits())

    best = min(over([times(p, k, speed).max() for k in part]) for p in every(len(load), slots))
    assert found is not None
    place = tuple(tuple(gpu) for gpu in np.split(found, np.cumsum(slots)[:-1]))
    assert bound == pytest.approx(best) == over([times(place, k, speed).max() for k in part])


@settings(max_examples=12, derandomize=True)
@given(seed=st.integers(0, 10**6), groups=st.sampled_from([[0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 2, 3]]))
def test_whole_groups_on_nodes_are_dealt_as_well_as_can_be(seed: int, groups: list[int]):
    """Four experts in groups over two nodes of two GPUs, some with two slots."""
    r = np.random.default_rng(seed)
    load, speed = r.uniform(1, 9, 4), r.choice([1.0, 2.0], 4)
    slots, node, group = [1, 2, 2, 1], np.array([0, 0, 1, 1]), np.array(groups)
    kept = [
        place
        for place in every(4, slots)
        if all(len({node[g] for g in range(4) for e in place[g] if group[e] == h}) == 1 for h in groups)
    ]

    placed, reached, bound = Groups(load, group, np.array(slots), speed, node).solve(Limits())

    place = tuple(tuple(int(e) for e in gpu if e >= 0) for gpu in placed)
    assert tuple(tuple(sorted(gpu)) for gpu in place) in kept
    assert reached == pytest.approx(times(place, load, speed).max())
    assert bound == pytest.approx(min(times(p, load, speed).max() for p in kept)) == reached


def test_layers_of_a_hundred_cells_are_small():
    """Ten experts, up to five replicas of each, two GPUs; with a slot more it is six."""
    assert experts_small.small(10, np.array([7, 7]))
    assert not experts_small.small(10, np.array([7, 8]))


def test_groups_that_no_node_has_slots_for_are_refused():
    with pytest.raises(ValueError, match="whole groups"):
        Groups(ONES, np.zeros(4, int), ONES.astype(int), ONES, np.array([0, 0, 1, 1])).solve(Limits())


def test_a_search_begins_with_experts_that_meet_on_one_node():
    """Tokens take experts 0 and 1, or 2 and 3; with a slot more each node doubles its heavier one."""
    tokens = np.array([[0, 1], [1, 0], [2, 3], [3, 2]])
    load, slots, speed = np.array([4.0, 1.0, 1.0, 4.0]), np.array([3, 3]), np.ones(2)

    for group in (None, np.array([0, 0, 1, 1])):
        filled = joint.start(load, tokens, group, slots, speed)
        nodes = {tuple(sorted(filled[:3].tolist())), tuple(sorted(filled[3:].tolist()))}
        assert nodes == {(0, 0, 1), (2, 3, 3)}


@pytest.mark.parametrize("seed", range(4))
def test_balance_and_traffic_together_are_nearly_those_of_all_placements(seed: int):
    r = np.random.default_rng(seed)
    tokens = np.array([r.choice(4, 2, replace=False) for _ in range(12)])
    load = np.bincount(tokens.ravel(), minlength=4).astype(float)
    slots, node = np.array([1, 2, 1, 1]), np.array([0, 0, 1, 1])
    p = ExpertsProblem(load[None], slots, node, tokens=[tokens])

    def judged(place: Placement) -> float:
        held = [place[0] + place[1], place[2] + place[3]]
        on = np.array([[own.count(e) for own in held] for e in range(4)])
        share = on / on.sum(1)[:, None]
        visits = np.mean([sum(1 - np.prod(1 - share[t, n]) for n in (0, 1)) for t in tokens])
        return float(times(place, load, np.ones(4)).max() * 4 / load.sum() + 0.5 * visits)

    search = Layer(p, 0, Aim("combined", traffic_weight=0.5))
    search.offer(np.array([0, 1, 2, 3, 0]))
    begun = search.value
    search.regroup()
    for cap in (1.003, 1.0):
        search.first(cap)
    for _ in range(12):
        search.again()

    place = tuple(tuple(int(e) for e in gpu if e >= 0) for gpu in search.table())
    assert search.value[0] == pytest.approx(judged(place))
    best = min(judged(p) for p in every(4, slots.tolist()))
    assert best * (1 - 1e-9) <= search.value[0] <= min(begun[0], 1.03 * best)


def test_slots_are_told_by_gpu_and_counted_by_unit():
    expert, slots = np.array([2, 0, 1, 2, 2]), np.array([2, 1, 2])

    assert table(expert, slots).tolist() == [[2, 0], [1, -1], [2, 2]]
    on = counts(expert, np.repeat(np.arange(3), slots), (3, 3))
    assert on.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 2]]
