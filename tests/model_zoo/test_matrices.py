"""Weight matrices by layer kind: parameters worked by hand, and which side tensor parallelism divides."""

from __future__ import annotations

import pytest

from model_zoo.matrices import expert_gemms, expert_params, ffn_gemms, mixer_gemms, v_dim
from model_zoo.schema import Attention, DenseFfn, Indexer, LinearAttention, Mamba2, Mla, MoeFfn

H = 64


def sizes(gemms):
    return {g.name: (g.n, g.k, g.split) for g in gemms}


def test_grouped_queries_have_fewer_keys_and_values():
    told = sizes(mixer_gemms(Attention(heads=8, kv_heads=2, head_dim=16), H))

    assert told == {"qkv": ((8 + 2 * 2) * 16, H, "out"), "o": (H, 8 * 16, "in")}


def test_values_may_be_wider_than_keys_and_queries_have_a_gate():
    wide = Attention(heads=8, kv_heads=2, head_dim=16, v_head_dim=32)
    gated = Attention(heads=8, kv_heads=2, head_dim=16, output_gate=True)

    assert v_dim(wide) == 32
    assert sizes(mixer_gemms(wide, H)) == {"qkv": (8 * 16 + 2 * 48, H, "out"), "o": (H, 8 * 32, "in")}
    assert sizes(mixer_gemms(gated, H))["qkv"][0] == 2 * 8 * 16 + 2 * 2 * 16


@pytest.mark.parametrize("one", [{"k_is_v": True}, {"shared_kv": True}])
def test_keys_that_are_values_are_projected_once(one):
    told = sizes(mixer_gemms(Attention(heads=8, kv_heads=2, head_dim=16, **one), H))

    assert told["qkv"][0] == 8 * 16 + 2 * 16


def test_low_rank_queries_and_outputs_are_divided_at_their_wide_sides():
    low = Attention(heads=8, kv_heads=1, head_dim=16, q_lora_rank=4, o_lora_rank=2, o_groups=4)
    told = sizes(mixer_gemms(low, H))

    assert told["q_a"] == (4, H, "none")
    assert told["q_b"] == (128, 4, "out")
    assert told["kv"] == (32, H, "none")
    assert told["o_a"] == (4 * 2, 128 // 4, "out")
    assert told["o_b"] == (H, 8, "in")


@pytest.mark.parametrize(("compress", "projections"), [(4, 4), (128, 2)])
def test_the_finest_compression_projects_overlapping_windows_twice(compress, projections):
    told = sizes(mixer_gemms(Attention(heads=8, kv_heads=1, head_dim=16, compress=compress), H))

    assert told["compress"][0] == projections * 16


def test_a_latent_is_whole_on_every_rank_and_its_halves_are_divided():
    mla = Mla(heads=4, q_lora_rank=8, kv_lora_rank=16, qk_nope=12, qk_rope=4, v_head_dim=10)
    told = sizes(mixer_gemms(mla, H))

    assert told == {
        "q_a": (8, H, "none"),
        "q_b": (4 * 16, 8, "out"),
        "kv_a": (16 + 4, H, "none"),
        "kv_b": (4 * (12 + 10), 16, "out"),
        "o": (H, 40, "in"),
    }


def test_an_indexer_scores_from_the_latent_of_queries_unless_another_layers_is_used():
    own = Indexer(heads=2, head_dim=8, top_k=4)
    mla = Mla(heads=4, q_lora_rank=8, kv_lora_rank=16, qk_nope=12, qk_rope=4, v_head_dim=10, indexer=own)
    told = sizes(mixer_gemms(mla, H))
    other = mla.model_copy(update={"indexer": own.model_copy(update={"shared": True})})

    assert (told["index_q"], told["index_k"], told["index_weights"]) == (
        (16, 8, "none"),
        (8, H, "none"),
        (2, H, "none"),
    )
    assert "index_q" not in sizes(mixer_gemms(other, H))


def test_a_delta_rule_has_queries_keys_values_gate_strength_and_decay():
    gdn = LinearAttention(key_heads=2, value_heads=4, key_dim=8, value_dim=8, conv=4)
    told = sizes(mixer_gemms(gdn, H))

    assert told["qkv"] == (2 * 16 + 32, H, "out")
    assert (told["gate"][0], told["beta"][0], told["decay"][0]) == (32, 4, 4)
    assert told["o"] == (H, 32, "in")


def test_mamba_2_has_one_projection_in():
    told = sizes(mixer_gemms(Mamba2(heads=4, head_dim=8, state=16, groups=2, conv=4), H))

    assert told == {"in": (2 * 32 + 2 * 2 * 16 + 4, H, "out"), "o": (H, 32, "in")}


def test_gate_and_up_are_one_matrix_and_experts_are_listed_apart():
    moe = MoeFfn(experts=8, top_k=2, inner=32, shared_inner=16, latent=24)

    assert sizes(ffn_gemms(DenseFfn(inner=32), H)) == {"up": (64, H, "out"), "down": (H, 32, "in")}
    assert list(sizes(ffn_gemms(moe, H))) == ["router", "shared_up", "shared_down", "latent_in", "latent_out"]
    assert sizes(expert_gemms(moe, H)) == {"expert_up": (64, 24, "out"), "expert_down": (24, 32, "in")}
    assert expert_params(moe, H) == 3 * 24 * 32
    assert expert_gemms(DenseFfn(inner=32), H) == []


def test_a_layer_without_mixer_or_ffn_has_no_matrices_and_nothing_else_is_one():
    assert mixer_gemms(None, H) == ffn_gemms(None, H) == []
    for gemms, kind in ((mixer_gemms, "mixer"), (ffn_gemms, "FFN")):
        with pytest.raises(TypeError, match=kind):
            gemms("x", H)
