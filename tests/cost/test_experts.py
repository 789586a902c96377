"""Distinct experts and the fullest rank: by hand and against drawing them."""

import numpy as np
import pytest

from model_zoo.schema import MoeFfn
from planner.cost import experts
from planner.cost.experts import distinct_experts, expert_work, fullest_share
from tests.cost.samples import designs


def test_two_tokens_with_two_of_four_experts_touch_three_on_average():
    """By hand: an expert is missed by both with (1/2)^2, so 4 * (1 - 1/4) = 3."""
    assert distinct_experts(4, 2, np.array([2.0]))[0] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("count", "top_k", "tokens"), [(128, 8, 1), (128, 8, 16), (256, 8, 100), (32, 4, 64)]
)
def test_distinct_experts_agree_with_drawing_them(count, top_k, tokens):
    rng = np.random.default_rng(3)
    drawn = [
        len({int(e) for _ in range(tokens) for e in rng.choice(count, top_k, replace=False)})
        for _ in range(100)
    ]

    assert distinct_experts(count, top_k, np.array([float(tokens)]))[0] == pytest.approx(
        np.mean(drawn), rel=0.03
    )


@pytest.mark.parametrize(("ep", "tokens"), [(4, 64), (8, 32), (8, 512), (32, 256)])
def test_the_fullest_rank_agrees_with_drawing_pairs(ep, tokens, monkeypatch):
    """Experts equally popular: the closed form is a bound on the mean of the maximum, at most a quarter above
    it."""
    monkeypatch.setattr(experts, "POPULARITY_SPREAD", 0.0)
    rng = np.random.default_rng(4)
    per_rank = 128 // ep
    fullest = []
    for _ in range(60):
        chosen = np.concatenate([rng.choice(128, 8, replace=False) for _ in range(tokens)])
        fullest.append(np.bincount(chosen // per_rank, minlength=ep).max() / (tokens * 8 / ep))
    share = fullest_share(128, 8, np.array([float(tokens)]), np.array([ep]))[0]

    assert np.mean(fullest) <= share <= 1.25 * np.mean(fullest)


def test_popular_experts_fill_a_rank_further():
    """With 8 ranks of 16 experts the fullest gets about 1.3 times the mean even of very many tokens."""
    share = fullest_share(128, 8, np.array([1e6]), np.array([8]))[0]

    assert share == pytest.approx(1 + np.sqrt(2 * np.log(8) * 0.6**2 * 7 / 128), rel=1e-3)


def test_no_rank_gets_more_than_all_pairs():
    share = fullest_share(8, 2, np.array([1.0]), np.array([8]))[0]

    assert share <= 8 / 2  # of one token's two pairs at most one falls on a rank with a single expert


def test_a_rank_reads_only_the_experts_it_holds():
    ffn = MoeFfn(experts=64, top_k=4, inner=1024)
    some = designs((1, 1, 1, 1, 1), (4, 1, 1, 1, 4), (4, 1, 1, 4, 1))
    work = expert_work(ffn, 2048, np.full(3, 1e5), some, 2.0, tile=1)
    whole = 64 * 3 * 2048 * 1024 * 2.0
    rows = work.bytes - whole / np.array([1, 4, 4])

    assert (rows > 0).all()
    assert work.items == pytest.approx([64, 16, 64])
    assert work.flops[0] == pytest.approx(2 * 3 * 4e5 * 2048 * 1024)
    assert work.flops[2] == pytest.approx(work.flops[0] / 4)
