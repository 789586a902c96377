"""Experts along layers: by hand, by trying all, by bounds that hold, and on the peers' cases."""

import json
from dataclasses import replace
from itertools import pairwise, permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import affinity
from solvers.affinity import bound as affinity_bound
from solvers.affinity import exact as affinity_exact
from solvers.affinity import paths as affinity_paths
from solvers.affinity.search import Search
from solvers.affinity.types import AffinityProblem, shortest
from solvers.linear import Limits

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "exflow"
QUICK = Limits(seconds=20.0, work=4)
SMALL = AffinityProblem(np.array([[[0.0, 9, 1, 0], [8, 0, 0, 2], [1, 0, 0, 7], [0, 1, 6, 0]]]), 4, 2)


def deals(p: AffinityProblem) -> list[np.ndarray]:
    """Every way to place one layer."""
    slots = np.repeat(np.arange(p.gpus), p.per_gpu)
    return [np.array(way) for way in sorted(set(permutations(slots.tolist())))]


def least(p: AffinityProblem) -> float:
    """Over all placements of all layers: a shortest path through all deals with their names."""
    ways, d = deals(p), p.distance
    reach = np.zeros(len(ways))
    for m in p.tokens:
        cost = np.array([[(m * d[np.ix_(a, b)]).sum() for b in ways] for a in ways])
        reach = (reach[:, None] + cost).min(0)
    return float(reach.min())


def fair(p: AffinityProblem, place: np.ndarray) -> bool:
    return all((np.bincount(row, minlength=p.gpus) == p.per_gpu).all() for row in place)


def sampled(seed: int, layers: int, experts: int, gpus: int, per_node: int) -> AffinityProblem:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 30, (layers - 1, experts, experts)) * (
        rng.random((layers - 1, experts, experts)) < 0.5
    )
    return AffinityProblem(tokens.astype(float), gpus, per_node)


def test_partners_stay_together_by_hand() -> None:
    """9, 8, 7 and 6 stay on their GPU; the other 5 go to the GPU beside it."""
    s = affinity.solve(SMALL)

    assert s.objective == 5
    assert s.status == "optimal"
    assert fair(SMALL, s.place)


@settings(max_examples=120)
@given(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.sampled_from([(4, 2, 2), (4, 2, 1), (4, 4, 2), (4, 4, 4), (6, 2, 2), (4, 4, 1), (3, 3, 3), (4, 1, 1)]),
    st.sampled_from([(1.0, 2.0), (0.0, 1.0), (1.0, 1.0), (1.0, 8.0)]),
)
def test_agrees_with_trying_every_place(
    seed: int, layers: int, shape: tuple[int, int, int], costs: tuple[float, float]
) -> None:
    p = replace(sampled(seed, layers, *shape), intra_cost=costs[0], inter_cost=costs[1])
    s, search = affinity.solve(p), Search(p, seed)
    best = least(p)
    search.begin()

    assert affinity_exact.solvable(p)
    assert s.objective == pytest.approx(best) == pytest.approx(p.cost(s.place))
    assert fair(p, s.place)
    assert fair(p, search.best)
    assert search.cost >= best - 1e-9
    if seed % 4 == 0:
        assert affinity_bound.bound(p, 5.0) <= best + 1e-6
        assert p.nodes > 1 or affinity_paths.bound(p, 5.0) <= best + 1e-6


@pytest.mark.parametrize("shape", [(8, 4, 4), (8, 4, 2), (8, 8, 4), (8, 2, 2)])
def test_search_reaches_what_is_exact_and_the_bound_is_below(shape: tuple[int, int, int]) -> None:
    for seed in range(2):
        p = sampled(seed, 6, *shape)
        assert affinity_exact.solvable(p)
        exact = p.cost(affinity_exact.solve(p))
        search = Search(p, seed)
        for _ in range(4):
            search.begin()
        for _ in range(6):
            search.disturb()
            search.recombine()

        assert exact <= search.cost <= 1.005 * exact
        assert affinity_bound.bound(p, 5.0) <= exact


@pytest.mark.parametrize("shape", [(24, 4, 4), (24, 8, 4), (12, 12, 6), (24, 2, 1)])
def test_too_many_layouts_are_searched_with_a_bound(shape: tuple[int, int, int]) -> None:
    p = sampled(3, 5, *shape)
    s, again = affinity.solve(p, QUICK), affinity.solve(p, QUICK)
    in_order = np.tile(np.repeat(np.arange(p.gpus), p.per_gpu), (p.layers, 1))

    assert not affinity_exact.solvable(p)
    assert fair(p, s.place)
    assert s.objective == pytest.approx(p.cost(s.place))
    assert 0 < s.bound <= s.objective < p.cost(in_order)
    assert (again.place == s.place).all()


@pytest.mark.parametrize("shape", [(12, 12, 6), (12, 3, 3)])
def test_a_bound_is_made_whole_only_where_every_cost_is(shape: tuple[int, int, int]) -> None:
    """In other units it is the same bound, but for what it was rounded up by."""
    p = sampled(3, 3, *shape)
    for intra, inter in ((1.0, 2.0), (0.5, 1.0), (1.0, 1.5)):
        own = replace(p, intra_cost=intra, inter_cost=inter)
        whole, small = (affinity.solve(replace(own, tokens=own.tokens / k), QUICK) for k in (1.0, 1024.0))
        rounded_up = whole.bound - 1024 * small.bound

        assert small.objective == pytest.approx(whole.objective / 1024)
        assert whole.bound < whole.objective
        if inter == 2 * intra == 2.0:
            assert whole.bound.is_integer()
            assert -1e-6 <= rounded_up < 1
        else:
            assert rounded_up == pytest.approx(0.0, abs=1e-6)


def test_paths_of_gpus_bound_the_whole_chain_closely() -> None:
    """Eight experts, two a GPU: within 1 % of the optimum, and above each boundary by itself."""
    p = sampled(4, 8, 8, 4, 4)
    exact, bound = p.cost(affinity_exact.solve(p)), affinity_paths.bound(p, 20.0)

    assert 0.99 * exact <= bound <= exact + 1e-6
    assert affinity_bound.bound(p, 20.0) <= bound


def test_gpus_taken_together_lose_nothing() -> None:
    """Recombining placements is no worse than the best of them."""
    search = Search(sampled(1, 8, 24, 4, 2))
    for _ in range(4):
        search.begin()
    before = search.cost
    search.recombine()

    assert search.cost <= before


BAD = {
    "one square table": replace(SMALL, tokens=np.zeros((1, 4, 3))),
    "layer 0: a count of tokens": replace(SMALL, tokens=-SMALL.tokens),
    "do not divide into nodes of 3": replace(SMALL, gpus_per_node=3),
    "4 experts do not divide among 3 GPUs": replace(SMALL, gpus=3, gpus_per_node=3),
    "costs: want 0 <=": replace(SMALL, inter_cost=0.5),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        affinity.solve(BAD[message])


def case(name: str) -> dict:
    if not (CASES / f"{name}.json").exists():
        pytest.skip("the peers' cases are not here")
    return json.loads((CASES / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["tiny_8e_4gpu", "tiny_8e_8gpu_2node", "mixtral_8gpu", "mixtral_8gpu_2node"])
def test_peers_cases_are_solved_to_the_proven_optimum(name: str) -> None:
    from benchmarks.peers import exflow

    data = case(name)
    answer = exflow.solve(data, "hops", 30.0)

    assert answer.objective == answer.bound == data["known"]["best_known"]
    assert answer.status == "optimal"


@pytest.mark.parametrize("seed", range(5))
def test_the_shortest_chain_is_that_of_trying_all(seed):
    r = np.random.default_rng(seed)
    first, between = r.integers(0, 9, 3).astype(float), r.integers(0, 9, (3, 3, 3)).astype(float)

    cost, chain = shortest(first, between)

    def length(c):
        return first[c[0]] + sum(between[at, a, b] for at, (a, b) in enumerate(pairwise(c)))

    assert cost == length(chain) == min(length(c) for c in product(range(3), repeat=4))
