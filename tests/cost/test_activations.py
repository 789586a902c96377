"""Activations alive at once: the widest layer's, by hand for each way to divide it, and the sampler's."""

import numpy as np
import pytest

from model_zoo.schema import DenseFfn, MoeFfn
from planner.cost.activations import FUSED_MOE_TOKENS, activation_bytes, sampling_bytes
from planner.designs.shape import Designs
from planner.designs.stages import stages_of
from planner.engines import named
from tests.cost.samples import GQA, card

TOKENS, HIDDEN = 1000, 4096
NONE = np.zeros(1)


def held(of, tokens=TOKENS, sampling=NONE, **sizes):
    """Bytes on a GPU of each stage of one design."""
    names = ("tp", "pp", "attn_dp", "moe_tp", "ep", "redundant", "cp")
    known = dict.fromkeys(names, 1) | {"redundant": 0, "moe_tp": sizes.get("tp", 1)} | sizes
    one = Designs(**{name: np.array([known[name]]) for name in names})
    return activation_bytes(of, one, stages_of(of, one), tokens, sampling)[0].tolist()


WIDE = card(GQA, DenseFfn(inner=14336))
NARROW = card(GQA, DenseFfn(inner=256))
MOE = card(GQA, MoeFfn(experts=8, top_k=2, inner=512))


@pytest.mark.parametrize(
    ("tp", "cp", "width"),
    [
        # the residual and its norm; gate and up 2 x 14336; down 14336 in and 4096 out, whole on every rank
        (1, 1, 2 * HIDDEN + 2 * 14336 + 14336 + HIDDEN),
        (4, 1, 2 * HIDDEN + (2 * 14336 + 14336) / 4 + HIDDEN),
        (1, 2, (2 * HIDDEN + 2 * 14336 + 14336 + HIDDEN) / 2),  # half of the tokens
    ],
)
def test_a_wide_ffn_by_hand(tp, cp, width):
    assert held(WIDE, tp=tp, cp=cp) == pytest.approx([2 * TOKENS * width])


def test_beside_a_narrow_ffn_attention_is_the_widest():
    """Q, K and V: 32 + 8 + 8 heads of 128; the output's 4096 in and 4096 out."""
    width = 2 * HIDDEN + 48 * 128 + 2 * 4096

    assert held(NARROW) == pytest.approx([2 * TOKENS * width])


def test_every_chosen_expert_has_its_input_and_its_outputs():
    """Two of eight: 4096 in, 2 x 512, 512 in and 4096 out each; the router's 8 outputs."""
    width = 2 * HIDDEN + 8 + 2 * (HIDDEN + 2 * 512 + 512 + HIDDEN)

    assert held(MOE) == pytest.approx([2 * TOKENS * width])


@pytest.mark.parametrize(("attn_dp", "ep", "times"), [(4, 4, 1), (4, 2, 2), (4, 1, 4), (1, 4, 1)])
def test_experts_see_the_tokens_of_all_ranks_that_share_them(attn_dp, ep, times):
    width = 2 * HIDDEN + 8 + times * 2 * (HIDDEN + 2 * 512 + 512 + HIDDEN)

    assert held(MOE, attn_dp=attn_dp, ep=ep) == pytest.approx([2 * TOKENS * width])


def test_more_tokens_than_a_fused_kernel_takes_are_chunked():
    tokens = FUSED_MOE_TOKENS // 2
    gathered, twice = (held(MOE, tokens, attn_dp=n)[0] for n in (2, 8))

    assert gathered == pytest.approx(twice)  # 8 ranks bring four times what fits
    assert held(MOE, 4 * FUSED_MOE_TOKENS)[0] == pytest.approx(4 * held(MOE, FUSED_MOE_TOKENS)[0])


def test_the_sampler_counts_on_the_last_stage_alone_and_not_beside_the_layers():
    plain = held(WIDE, pp=3)
    much, little = (held(WIDE, pp=3, sampling=np.array([x])) for x in (1e12, 1.0))

    assert much == [*plain[:2], 1e12]
    assert little == plain


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_logits_are_as_many_as_sequences_times_words(engine):
    each = WIDE.vocab * named(engine).logit_bytes

    assert sampling_bytes(WIDE, engine, 256).tolist() == [256 * each]
    assert sampling_bytes(WIDE, engine, np.array([1, 3])).tolist() == [each, 3 * each]
