"""Heads traded for tokens: bytes by hand, bounds of the degree, and against the ring."""

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from model_zoo import catalog
from planner.beside.ulysses import degrees, with_ulysses
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import Designs


def design(tp: int, cp: int) -> Designs:
    return Designs(*(np.array([size]) for size in (tp, 1, 1, tp * cp, 1, 0, cp)))


def model(gpus="8xh100", name="llama-3.1-8b") -> CostModel:
    card = catalog.find(name)[0]
    return CostModel(card, from_gpus(gpus).classes[0], "vllm", precisions(card))


def test_what_a_rank_trades_by_hand():
    """1,000 tokens a group; 32 query, 8 KV heads of 128, there and back: 2 x 40 x 128 x 2 bytes, 3/4 away."""
    m = with_ulysses(model(), 4)
    load = Load(np.zeros(1), np.ones(1), np.array([1000.0]), np.array([4000.0]))
    near = m.links.flat["hop"]
    seconds = m.layers.traded_s(m.card.stack[0].mixer, load, design(1, 4))[0]

    moved = 1000 * 2 * 40 * 128 * 2 * 0.75
    assert seconds == pytest.approx(2e-6 * near["t0_us"] + moved / (near["share"] * m.links.intra))


def test_heads_bound_the_degree():
    """Llama 8B has 8 KV heads; DeepSeek's latent has none to divide."""
    card = catalog.find("llama-3.1-8b")[0]

    assert degrees(card, 1, 16) == [2, 4, 8]
    assert degrees(card, 4, 8) == [2]
    assert degrees(card, 8, 4) == []
    assert degrees(catalog.find("deepseek-v3")[0], 1, 8) == []


def test_long_contexts_pass_less_than_in_a_ring_and_all_ways_do_the_same_attention():
    m, d = model(), design(1, 8)
    ring, both, heads = (
        x.step_s(d, Load.of(0.0, 0.0, 8192.0, 500_000.0))[0]
        for x in (m, with_ulysses(m, 4), with_ulysses(m, 8))
    )
    alone = m.step_s(design(1, 1), Load.of(0.0, 0.0, 1024.0, 500_000.0))[0]

    assert ring > both > heads > 0.95 * alone


def test_one_group_that_trades_is_the_ring():
    m, d = model(), design(2, 4)
    load = Load(np.zeros(1), np.ones(1), np.array([1000.0]), np.array([4000.0]))
    mixer = m.card.stack[0].mixer

    own = with_ulysses(m, 1).layers._context_s(mixer, load, d)[0]
    latency = 2e-6 * m.links.flat["hop"]["t0_us"]
    assert own - latency == pytest.approx(m.layers._context_s(mixer, load, d)[0], rel=1e-6)
