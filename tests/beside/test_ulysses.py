"""Heads traded for tokens: bytes by hand, bounds of the degree, and against the ring."""

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from model_zoo import catalog
from model_zoo.schema import Attention
from planner.beside.ulysses import tradable, with_ulysses
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
    m = with_ulysses(model())
    load = Load(np.zeros(1), np.ones(1), np.array([1000.0]), np.array([4000.0]))
    near = m.links.flat["hop"]
    seconds = m.layers._context_s(m.card.stack[0].mixer, load, design(1, 4))[0]

    moved = 1000 * 2 * 40 * 128 * 2 * 0.75
    assert seconds == pytest.approx(2e-6 * near["t0_us"] + moved / (near["share"] * m.links.intra))


def test_heads_bound_the_groups():
    """Llama 8B has 8 KV heads; 20 heads do not divide by 8; DeepSeek's latent has none to divide."""
    card = catalog.find("llama-3.1-8b")[0]
    sizes = [(1, 1), (1, 2), (1, 8), (1, 16), (4, 2), (8, 1), (4, 4)]
    every = Designs(*np.array([(tp, 1, 1, tp * cp, 1, 0, cp) for tp, cp in sizes]).T)
    odd = card.model_copy(update={"mixers": {"m": Attention(heads=20, kv_heads=20, head_dim=128)}})

    assert tradable(card, every).tolist() == [False, True, True, False, True, False, False]
    assert tradable(odd, every).tolist() == [False, True, False, False, False, False, False]
    assert not tradable(catalog.find("deepseek-v3")[0], every).any()


def test_long_contexts_pass_less_than_in_a_ring_and_both_ways_do_the_same_attention():
    m, d = model(), design(1, 8)
    load = Load.of(0.0, 0.0, 8192.0, 500_000.0)
    ring, heads = (x.step_s(d, load)[0] for x in (m, with_ulysses(m)))
    alone = m.step_s(design(1, 1), Load.of(0.0, 0.0, 1024.0, 500_000.0))[0]

    assert ring > heads > 0.95 * alone
