"""Mixed pipelines: by hand, by trying every pipeline and every set of them, and by impossibility."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.formulations import pipeline_master, pipeline_pricing
from solvers.linear import Limits
from solvers.pipeline.types import LAST, Kind, Nodes, PipelineProblem, Point
from tests.solvers.pipelines import best_by_trying_all, best_rates, random_problem, rate_of

seeds = st.integers(0, 2**32 - 1)


def point(stages: int, sequences: float, layer_s: list[float], **changes: object) -> Point:
    """Of one kind a class, without hops and without anything beside layers."""
    n = len(layer_s)
    none = np.zeros(n)
    p = Point(stages, sequences, np.array(layer_s), np.zeros((n, 4)), none, np.zeros((n, n)), none)
    return replace(p, **changes)  # type: ignore[arg-type]


SMALL = PipelineProblem(
    layers=6,
    kinds=[Kind("slow", 1), Kind("fast", 1)],
    nodes={"slow": Nodes(1, 1, 1.0), "fast": Nodes(1, 1, 3.0)},
    points=[point(1, 1.0, [2.0, 1.0]), point(2, 2.0, [2.0, 1.0])],
    free_bytes=np.full((2, 4), 50.0),
    layer_bytes=np.full(2, 10.0),
    cache_bytes=np.zeros(2),
)
"""Six layers of 10 bytes: no device of 50 holds them all."""


def test_the_fast_device_takes_two_thirds_of_the_layers():
    """By hand: 4 layers of 1 s and 2 of 2 s are 4 s a stage; a round of two micro-batches takes 8 s."""
    s = pipeline_master.solve(SMALL, Limits())

    assert s.objective == pytest.approx(2 / 8) == s.bound
    assert sorted(s.pipelines[0].stages) == [(0, 2), (1, 4)]
    assert s.status == "optimal"


def test_equal_stages_wait_for_the_slow_device():
    s = pipeline_master.solve(replace(SMALL, even=True), Limits())

    assert s.objective == pytest.approx(2 / 12) == s.bound


def test_memory_of_the_fast_device_leaves_the_slow_one_more_layers():
    free = np.array([[50.0] * 4, [35.0] * 4])
    s = pipeline_master.solve(replace(SMALL, free_bytes=free), Limits())

    assert sorted(s.pipelines[0].stages) == [(0, 3), (1, 3)]


def test_the_head_moves_a_layer_away_from_the_last_stage():
    """By hand: with 2 s more on the last stage the fast device last has 3 + 2 or 4 + 2 s, the slow one has
    6 or 4 s; the slow one last would have 2 + 4 s beside 5 layers, 6 s beside 4."""
    head = np.zeros((2, 4))
    head[:, LAST] = 2.0
    p = replace(SMALL, points=[replace(SMALL.points[1], extra_s=head)])

    s = pipeline_master.solve(p, Limits())

    assert s.objective == pytest.approx(2 / 10) == s.bound
    assert s.pipelines[0].stages == ((1, 5), (0, 1))


def test_cache_of_more_sequences_than_fit_leaves_the_smaller_batch():
    p = replace(SMALL, cache_bytes=np.full(2, 2.0), points=[point(2, b, [2.0, 1.0]) for b in (2.0, 20.0)])

    assert p.points[pipeline_master.solve(p, Limits()).pipelines[0].point].sequences == 2.0


def test_a_limit_on_the_round_rules_the_pipeline_out():
    s = pipeline_master.solve(replace(SMALL, most_round_s=7.9), Limits())

    assert (s.objective, s.bound, s.pipelines) == (0.0, 0.0, ())


def test_a_demand_that_both_devices_are_needed_for_costs_both():
    assert pipeline_master.solve(replace(SMALL, objective="cost", demand=0.2), Limits()).objective == 4.0


def test_a_demand_beyond_all_devices_is_infeasible():
    p = replace(SMALL, objective="cost", demand=0.3)

    assert pipeline_master.solve(p, Limits()).status == "infeasible"
    assert pipeline_master.solve(p, Limits(), most_columns=0).status == "infeasible"


@settings(max_examples=200, derandomize=True)
@given(seed=seeds, even=st.booleans(), alike=st.booleans(), most_groups=st.integers(1, 3))
def test_agrees_with_trying_every_set_of_pipelines(seed, even, alike, most_groups):
    p = random_problem(np.random.default_rng(seed), even=even, alike=alike, most_groups=most_groups)
    s = pipeline_master.solve(p, Limits())

    assert s.objective == pytest.approx(best_by_trying_all(p))
    assert s.bound == pytest.approx(s.objective)


@settings(max_examples=100, derandomize=True)
@given(seed=seeds, cost=st.booleans())
def test_columns_that_no_optimum_can_afford_may_go(seed, cost):
    p = random_problem(np.random.default_rng(seed))
    p = replace(p, objective="cost", demand=0.8 * best_by_trying_all(p)) if cost else p
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline_master, "FEW", 2)
        s = pipeline_master.solve(p, Limits())

    assert s.objective == pytest.approx(best_by_trying_all(p)) == s.bound


@settings(max_examples=100, derandomize=True)
@given(seed=seeds, share=st.sampled_from([0.3, 0.7, 1.0, 1.01]))
def test_the_cheapest_agrees_with_trying_every_set_of_pipelines(seed, share):
    p = random_problem(np.random.default_rng(seed))
    p = replace(p, objective="cost", demand=share * best_by_trying_all(p))
    s, best = pipeline_master.solve(p, Limits()), best_by_trying_all(p)

    assert s.objective == (None if best is None else pytest.approx(best))
    assert s.bound == (None if best is None else pytest.approx(best))


@settings(max_examples=80, derandomize=True)
@given(seed=seeds, alike=st.booleans(), most_groups=st.integers(1, 3))
def test_what_is_stated_has_the_rate_and_fits(seed, alike, most_groups):
    p = random_problem(np.random.default_rng(seed), alike=alike, most_groups=most_groups)
    s = pipeline_master.solve(p, Limits())

    for x in s.pipelines:
        kinds, layers = zip(*x.stages, strict=True)
        assert sum(layers) == p.layers
        assert rate_of(p, p.points[x.point], kinds, layers) == pytest.approx(x.rate)
    assert sum(x.rate for x in s.pipelines) == pytest.approx(s.objective)


@settings(max_examples=50, derandomize=True)
@given(seed=seeds, even=st.booleans(), alike=st.booleans(), cost=st.booleans())
def test_bounds_of_generated_columns_are_true(seed, even, alike, cost):
    p = random_problem(np.random.default_rng(seed), even=even, alike=alike)
    best = best_by_trying_all(p)
    if cost:
        p = replace(p, objective="cost", demand=0.7 * best)
        best = best_by_trying_all(p)
    s = pipeline_master.solve(p, Limits(), most_columns=0)

    sign = -1 if cost else 1
    assert sign * s.bound >= sign * best - 1e-7
    if s.objective is not None:
        assert sign * s.objective <= sign * best + 1e-7


@settings(max_examples=50, derandomize=True)
@given(seed=seeds, even=st.booleans())
def test_no_pipeline_is_worth_more_than_pricing_says(seed, even):
    r = np.random.default_rng(seed)
    p = random_problem(r, even=even)
    pays = r.uniform(0.1, 2.0, len(p.kinds))

    priced = pipeline_pricing.price(p, pays, 10.0)
    worth = [10.0 * rate / (pays @ use) for use, rate in best_rates(p).items()]

    assert max(worth, default=0.0) <= priced.theta * (1 + 1e-9)
