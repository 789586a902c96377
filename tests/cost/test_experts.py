"""Distinct experts and the fullest rank: by hand and against drawing them."""

from dataclasses import replace

import numpy as np
import pytest

from model_zoo.schema import MoeFfn
from planner.cost.efficiency.reading import Chip, Fit, tuned
from planner.cost.experts import (
    RankWork,
    Routed,
    distinct_experts,
    expert_work,
    fullest_share,
    most_touched,
    rank_s,
)
from planner.cost.popularity import Popularity
from planner.cost.tuning import Tuning
from tests.cost.samples import designs


def test_two_tokens_with_two_of_four_experts_touch_three_on_average():
    """By hand: an expert is missed by both with (1/2)^2, so 4 * (1 - 1/4) = 3."""
    assert distinct_experts(4, 2, np.array([2.0]), spread=0.0)[0] == pytest.approx(3.0)


@pytest.mark.parametrize("spread", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(
    ("count", "top_k", "tokens"), [(128, 8, 1), (128, 8, 16), (256, 8, 100), (32, 4, 64)]
)
def test_distinct_experts_agree_with_drawing_them(count, top_k, tokens, spread):
    """Popularity drawn from a Gamma distribution, then experts without replacement (Gumbel's trick)."""
    rng = np.random.default_rng(3)
    shape = 1 / max(spread, 1e-3) ** 2
    drawn = []
    for _ in range(100):
        popularity = np.log(rng.gamma(shape, 1 / shape, count) + 1e-12)
        chosen = np.argsort(-popularity - rng.gumbel(size=(tokens, count)), axis=1)[:, :top_k]
        drawn.append(len(np.unique(chosen)))

    assert distinct_experts(count, top_k, np.array([float(tokens)]), spread)[0] == pytest.approx(
        np.mean(drawn), rel=0.07
    )


def test_a_token_takes_its_experts_and_many_take_all():
    few = distinct_experts(128, 8, np.array([0.0, 1.0, 1e9]))

    assert few == pytest.approx([0, 8, 128], rel=1e-3)


@pytest.mark.parametrize(("ep", "tokens"), [(4, 64), (8, 32), (8, 512), (32, 256)])
def test_the_fullest_rank_agrees_with_drawing_pairs(ep, tokens):
    """Experts equally popular: the closed form is a bound on the mean of the maximum, at most a quarter above
    it."""
    rng = np.random.default_rng(4)
    per_rank = 128 // ep
    fullest = []
    for _ in range(60):
        chosen = np.concatenate([rng.choice(128, 8, replace=False) for _ in range(tokens)])
        fullest.append(np.bincount(chosen // per_rank, minlength=ep).max() / (tokens * 8 / ep))
    share = fullest_share(128, 8, np.array([float(tokens)]), np.array([ep]), np.ones(1))[0]

    assert np.mean(fullest) <= share <= 1.25 * np.mean(fullest)


@pytest.mark.parametrize(("ep", "tokens"), [(2, 16), (4, 8), (4, 64), (8, 64), (16, 512)])
def test_the_rank_that_touches_most_experts_agrees_with_drawing_them(ep, tokens):
    """128 experts as popular as a gamma of spread 1.25 says, of which each token meets 8 on average."""
    rng = np.random.default_rng(5)
    rates = rng.gamma(1.25**-2, 1.0, (400, 128))
    met = rng.random((400, 128)) < -np.expm1(-tokens * 8 * rates / rates.sum(axis=1, keepdims=True))
    most = met.reshape(400, ep, -1).sum(axis=2).max(axis=1).mean()

    assert most_touched(np.array([128 / ep]), met.mean(keepdims=True)[0], np.array([ep]))[0] == pytest.approx(
        most, rel=0.04
    )


def test_popular_experts_fill_a_rank_further():
    """With 8 ranks of 16 experts the fullest gets about 1.3 times the mean even of very many tokens."""
    hottest = Popularity().of(128, designs((1, 1, 8, 1, 8)))
    share = fullest_share(128, 8, np.array([1e6]), np.array([8]), hottest)[0]

    assert share == pytest.approx(1 + np.sqrt(2 * np.log(8) * 0.6**2 * 7 / 128), rel=1e-3)


def test_no_rank_gets_more_than_all_pairs():
    share = fullest_share(8, 2, np.array([1.0]), np.array([8]), np.array([2.0]))[0]

    assert share <= 8 / 2  # of one token's two pairs at most one falls on a rank with a single expert


def test_a_rank_reads_only_the_experts_it_holds():
    ffn = MoeFfn(experts=64, top_k=4, inner=1024)
    some = designs((1, 1, 1, 1, 1), (4, 1, 1, 1, 4), (4, 1, 1, 4, 1))
    work = expert_work(Routed(ffn, 2048, np.full(3, 1e9), some, 2.0))

    assert work.weights == pytest.approx(64 * 3 * 2048 * 1024 * 2.0 / np.array([1, 4, 4]), rel=1e-3)
    assert work.touched == pytest.approx([64, 16, 64], rel=1e-3)
    assert work.held.tolist() == [64, 16, 64]
    assert work.split.tolist() == [0, 1, 0]
    assert work.flops[0] == pytest.approx(2 * 3 * 4e9 * 2048 * 1024)
    assert work.flops[2] == pytest.approx(work.flops[0] / 4)


def test_the_seconds_of_a_rank_are_its_terms():
    """By hand, at 1 TB/s and 100 TFLOP/s: weights 2 us; beside them 8 experts held at 0.1 us, 5 us because of
    other ranks, 3 touched at 1 us, rows and permuted tokens 1 us each at half of the bandwidth."""
    one = np.ones(1)
    work = RankWork(1e-9 * one, 2e6 * one, 5e5 * one, 3 * one, 8 * one, 5e5 * one, one)
    fit = Fit(1, 1, 10e-6, 1.0, tau_s=1e-6, held_s=1e-7, ep_s=5e-6, rows=0.5, tokens=0.5)
    chip = Chip(1e12, {"bf16": 1e14})

    assert rank_s(fit, chip, work)[0] == pytest.approx(10e-6 + 2e-6 + 0.8e-6 + 5e-6 + 3e-6 + 2e-6)
    assert rank_s(replace(fit, rows=0.0), chip, work)[0] == pytest.approx(10e-6 + 2.5e-6 + 8.8e-6 + 1e-6)
    assert (
        rank_s(
            fit,
            chip,
            replace(work, flops=0 * one, weights=0 * one, rows=0 * one, touched=0 * one, permuted=0 * one),
        )[0]
        == 0
    )


def test_an_engines_factor_is_on_all_that_grows_with_the_experts_tokens():
    """FLOPs, rows and sorting (3 us in all) take twice as long, weights and experts as before."""
    one, none = np.ones(1), np.zeros(1)
    fit = Fit(1, 1, 0.0, 1.0, tau_s=1e-6, rows=0.5, tokens=0.5)
    chip = Chip(1e12, {"bf16": 1e14})
    tokens = RankWork(1e8 * one, none, 5e5 * one, none, none, 5e5 * one, none)
    weights = RankWork(1e-9 * one, 2e6 * one, none, 3 * one, none, none, none)
    twice = tuned(fit, "moe", Tuning(expert_flops=2.0))

    assert rank_s(fit, chip, tokens)[0] == pytest.approx(3e-6)
    assert rank_s(twice, chip, tokens)[0] == pytest.approx(6e-6)
    assert rank_s(twice, chip, weights)[0] == rank_s(fit, chip, weights)[0] == pytest.approx(5e-6)
