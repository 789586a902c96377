"""Layers over stages, and the order of classes, against trying all of them."""

from __future__ import annotations

from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.pipeline.layers import best_ways, fewest_nodes, paths, spread_layers
from solvers.pipeline.types import FIRST, LAST, MIDDLE, Kind, Nodes, PipelineProblem, Point
from tests.solvers.pipelines import best_rates, random_problem


@pytest.mark.parametrize(("groups", "most"), [(1, 3), (3, 2), (4, 3), (4, 4)])
def test_the_way_through_classes_is_the_cheapest_of_all_orders(groups: int, most: int):
    hop_s = np.random.default_rng(groups).uniform(1, 9, (groups, groups))

    found = paths(hop_s, most)

    assert {bin(whole).count("1") for whole, _, _ in found} == set(range(1, min(groups, most) + 1))
    for (whole, first, last), (seconds, way) in found.items():
        members = [g for g in range(groups) if whole >> g & 1]
        ways = [w for w in permutations(members) if (w[0], w[-1]) == (first, last)]
        each = [sum(hop_s[a, b] for a, b in pairwise(w)) for w in ways]
        assert seconds == pytest.approx(min(each)) == each[ways.index(way)]


@settings(max_examples=30, derandomize=True)
@given(seed=st.integers(0, 10**6), even=st.booleans())
def test_layers_are_spread_so_that_the_slowest_stage_is_soonest_done(seed: int, even: bool):
    p = random_problem(np.random.default_rng(seed), even=even)
    point = next(point for point in p.points if point.stages == 3)
    kinds, roles = [0, len(p.kinds) - 1, 0], [FIRST, MIDDLE, LAST]
    low, high = p.limits(3)
    most = np.minimum(p.most_layers(point)[kinds, roles], high)

    def slowest(layers: tuple[int, ...]) -> float:
        return float((point.extra_s[kinds, roles] + np.array(layers) * point.layer_s[kinds]).max())

    able = [n for n in product(*(range(low, m + 1) for m in most)) if sum(n) == p.layers]
    if able:
        layers = spread_layers(p, point, kinds, roles)
        assert tuple(layers) in able
        assert slowest(tuple(layers)) == pytest.approx(min(slowest(n) for n in able))


@pytest.mark.parametrize("seed", range(8))
def test_every_pipeline_of_one_class_too_is_run_the_best_way(seed: int):
    p = random_problem(np.random.default_rng(seed))
    rates = best_rates(p)

    assert best_ways(p, np.array(list(rates))).rate == pytest.approx(list(rates.values()))


def test_a_pipeline_that_no_point_has_stages_for_is_never_run():
    p = random_problem(np.random.default_rng(1))
    use = np.full((1, len(p.kinds)), 9, dtype=np.int64)

    ways = best_ways(p, use)

    assert (ways.rate[0], ways.point[0]) == (0.0, -1)


def two_nodes_of_four(near: float, far: float) -> PipelineProblem:
    """Stages of one GPU or two, 8 layers of a second each, no time beside them but hops."""
    kinds = [Kind("g", 1), Kind("g", 2)]
    none, one = np.zeros(2), np.ones(2)
    points = [
        Point(s, 1.0, one, np.zeros((2, 4)), none, np.array([[near]]), np.array([far])) for s in (2, 4, 8)
    ]
    return PipelineProblem(8, kinds, {"g": Nodes(2, 4)}, points, np.full((2, 4), 99.0), one, 0.01 * one)


def test_only_the_boundary_of_two_nodes_is_far():
    """Eight stages of a GPU over two nodes of four: six hops of 0.1 s inside them and one of 5; four stages
    of two GPUs: two and one; four of one GPU stand in one node."""
    ways = best_ways(two_nodes_of_four(0.1, 5.0), np.array([[8, 0], [0, 4], [4, 0]]))

    assert 1 / ways.rate == pytest.approx([8 + 0.6 + 5, 8 + 0.2 + 5, 8 + 0.3])


def test_a_stage_of_two_gpus_does_not_straddle_nodes_of_three():
    p = two_nodes_of_four(0.0, 0.0)
    three = PipelineProblem(
        8, p.kinds, {"g": Nodes(4, 3)}, p.points, p.free_bytes, p.layer_bytes, p.cache_bytes
    )

    assert fewest_nodes(three, np.array([[0, 3], [3, 0], [1, 1], [0, 0]])).ravel().tolist() == [3, 1, 1, 0]
