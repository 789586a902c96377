"""Parameter counts by hand: each sum is written out once, from the shapes in the papers."""

import pytest

from model_zoo import derive, matrices
from model_zoo.schema import Attention, DenseFfn, Layer, ModelCard, MoeFfn, Run

from .configs import DEEPSEEK_V3, LLAMA_8B, NEMOTRON, read

TINY = ModelCard(
    name="tiny",
    source="made up",
    hidden=8,
    vocab=100,
    max_context=64,
    mixers={"attn": Attention(heads=2, kv_heads=1, head_dim=4)},
    ffns={"dense": DenseFfn(inner=16), "moe": MoeFfn(experts=4, top_k=2, inner=3, shared_inner=5)},
    layers=[Run(times=1, of=["attn/dense"]), Run(times=2, of=["attn/moe"])],
)
ATTENTION = 8 * 8 + 2 * 4 * 8 + 8 * 8  # q, k and v, o
DENSE = 3 * 8 * 16
EXPERT = 3 * 8 * 3
COMMON = 8 * 4 + 3 * 8 * 5  # router, shared expert


def test_total_is_the_sum_of_all_matrices():
    expected = 3 * ATTENTION + DENSE + 2 * (COMMON + 4 * EXPERT) + 2 * 8 * 100

    assert derive.total_params(TINY) == expected


def test_active_counts_only_the_experts_that_a_token_takes():
    expected = 3 * ATTENTION + DENSE + 2 * (COMMON + 2 * EXPERT) + 2 * 8 * 100

    assert derive.active_params(TINY) == expected
    assert derive.active_params(TINY, embedding=False) == expected - 800


def test_tied_embedding_is_counted_once_and_stays_a_product():
    tied = TINY.model_copy(update={"tied_embeddings": True})

    assert derive.total_params(TINY) - derive.total_params(tied) == 800
    assert derive.active_params(tied, embedding=False) == derive.active_params(tied)


def test_parts_add_up_to_the_total():
    parts = derive.params_by_part(TINY)

    assert sum(parts.values()) == derive.total_params(TINY)


def test_llama_3_1_8b_has_8_03_billion_parameters(tmp_path):
    assert derive.total_params(read(tmp_path, LLAMA_8B)) == 8_030_261_248


def test_deepseek_v3_has_671_billion_and_37_5_active(tmp_path):
    card = read(tmp_path, DEEPSEEK_V3)

    assert derive.total_params(card) == 671_026_419_200
    assert derive.active_params(card) / 1e9 == pytest.approx(37.55, abs=0.01)


def test_mtp_adds_a_layer_and_a_projection_of_two_hidden_states(tmp_path):
    card = read(tmp_path, DEEPSEEK_V3)
    last = derive.layer_params(card.stack[-1], card.hidden)

    assert derive.mtp_params(card) == last + 2 * 7168**2
    assert derive.mtp_params(TINY) == 0


@pytest.mark.parametrize(("family", "layers"), [("minimax_m3", 3), ("minimax_m2", 0)])
def test_mtp_layers_that_no_checkpoint_of_a_family_has_are_not_counted(tmp_path, family, layers):
    assert read(tmp_path, LLAMA_8B, model_type=family, num_mtp_modules=3).mtp_layers == layers


def test_an_mtp_layer_may_be_shaped_unlike_the_last_layer(tmp_path):
    card = read(tmp_path, NEMOTRON)
    layer = derive.mtp_layer(card)

    assert card.stack[-1].mixer is None
    assert isinstance(layer.mixer, Attention)
    assert isinstance(layer.ffn, MoeFfn)


def test_a_layer_without_mixer_or_ffn_has_only_the_other(tmp_path):
    dense = DenseFfn(inner=16)

    assert derive.layer_params(Layer(None, dense), 8) == DENSE
    assert derive.layer_params(Layer(None, None), 8) == 0


def test_experts_in_a_latent_are_smaller(tmp_path):
    ffn = MoeFfn(experts=16, top_k=2, inner=1856, matrices=2, latent=1024)

    assert matrices.expert_params(ffn, 4096) == 2 * 1856 * 1024
    assert {g.name: g.params for g in matrices.ffn_gemms(ffn, 4096)} == {
        "router": 16 * 4096,
        "latent_in": 1024 * 4096,
        "latent_out": 1024 * 4096,
    }


def test_layers_that_name_no_part_are_refused():
    with pytest.raises(ValueError, match="attn/nothing"):
        ModelCard.model_validate({**TINY.model_dump(), "layers": [{"times": 1, "of": ["attn/nothing"]}]})
