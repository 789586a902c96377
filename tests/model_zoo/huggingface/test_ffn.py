"""Which FFN every layer of a Hugging Face config has, by hand."""

from __future__ import annotations

import pytest

from model_zoo.huggingface.ffn import dense, ffns, moe, moe_layers
from model_zoo.huggingface.keys import Keys
from model_zoo.schema import DenseFfn, MoeFfn
from planner.errors import InputError
from planner.reading.documents import Document

EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2}
SMALL = EXPERTS | {"intermediate_size": 64, "moe_intermediate_size": 16}


def keys(**told):
    return Keys(Document(told, "config.json"))


def sparse(layers, **told):
    """Layers with experts, one letter each."""
    return "".join("e" if flag else "-" for flag in moe_layers(keys(**EXPERTS | told), layers))


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({}, "eeeeee"),
        ({"num_experts": 1}, "------"),  # one expert is a dense layer
        ({"num_experts": 2}, "eeeeee"),
        ({"enable_moe_block": False}, "------"),
        ({"mlp_layer_types": ["dense", "sparse", "dense", "sparse", "sparse", "dense", "mtp"]}, "-e-ee-"),
        ({"moe_layer_freq": [0, 1, 1, 0, 1, 1, 1]}, "-ee-ee"),
        ({"moe_layer_freq": 2}, "e-e-e-"),  # from the first layer on
        ({"decoder_sparse_step": 3}, "--e--e"),  # every third, the last of each three
        ({"first_k_dense_replace": 2}, "--eeee"),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 3}, "---e--"),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": 4}, "-eeee-"),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": -1}, "-eeeee"),  # ERNIE 4.5: up to the last
        ({"moe_layers_enum": "1,3,12"}, "-e-e--"),  # Step 3.5
        ({"mlp_only_layers": [0, 5]}, "-eeee-"),
        ({"mlp_only_layers": [1], "decoder_sparse_step": 2}, "---e-e"),
    ],
)
def test_layers_with_experts_are_found_by_lists_first_and_then_by_all_rules_together(told, found):
    assert sparse(6, **told) == found


def test_layers_without_experts_are_dense_and_parts_are_shared_between_equal_layers():
    found = ffns(keys(**SMALL, first_k_dense_replace=1), 32, 3)

    assert found[0] == DenseFfn(inner=64, matrices=3)
    assert found[1] == found[2] == MoeFfn(experts=8, top_k=2, inner=16, matrices=3, shared_inner=0)


def test_a_router_is_in_32_bits_for_families_and_configs_that_ask_for_it():
    routers = [
        moe(keys(**SMALL, **told)).float_router
        for told in ({}, {"model_type": "minimax_m2"}, {"need_fp32_gate": True}, {"need_fp32_gate": False})
    ]

    assert routers == [False, True, True, False]


def test_a_width_that_no_layer_needs_may_be_absent():
    """All layers have experts, so nothing asks for the width of dense ones, and the other way round."""
    assert len(ffns(keys(**EXPERTS, moe_intermediate_size=16), 32, 2)) == 2
    assert len(ffns(keys(intermediate_size=64), 32, 2)) == 2
    with pytest.raises(InputError, match="missing `intermediate_size_mlp`"):
        ffns(keys(), 32, 1)


def test_old_families_have_two_matrices_of_four_times_the_width_unless_told():
    assert dense(keys(model_type="gpt2"), 32) == DenseFfn(inner=128, matrices=2)
    assert dense(keys(model_type="gpt2", n_inner=96), 32) == DenseFfn(inner=96, matrices=2)


def test_dense_layers_between_experts_may_have_a_width_of_their_own():
    """Llama 4: `intermediate_size` is that of an expert."""
    told = keys(intermediate_size=8192, intermediate_size_mlp=16384)

    assert dense(told, 32).inner == 16384
    assert moe(keys(**EXPERTS, intermediate_size=8192)).inner == 8192


@pytest.mark.parametrize(
    ("told", "shared"),
    [
        ({}, 0),
        ({"n_shared_experts": 2}, 2 * 16),
        ({"num_shared_experts": 2, "shared_intermediate_size": 24}, 2 * 24),
        ({"n_shared_experts": 2, "shared_expert_intermediate_size": 40}, 40),  # already of all of them
        ({"n_shared_experts": 2, "shared_expert_intermediate_size": 0}, 0),
        ({"model_type": "gemma4"}, 64),  # the dense MLP beside the experts
        ({"model_type": "llama4_text"}, 16),
    ],
)
def test_shared_experts_count_with_their_summed_width(told, shared):
    assert moe(keys(**SMALL | told)).shared_inner == shared


def test_a_router_is_in_32_bits_where_engines_hold_the_familys_so():
    assert moe(keys(**SMALL, model_type="minimax_m2")).float_router
    assert not moe(keys(**SMALL, model_type="qwen3_moe")).float_router


def test_a_token_cannot_take_more_experts_than_there_are():
    assert moe(keys(**SMALL | {"num_experts_per_tok": 8})).top_k == 8
    with pytest.raises(InputError, match="a token takes 9 of 8 experts") as caught:
        moe(keys(**SMALL | {"num_experts_per_tok": 9}))
    assert caught.value.where == "config.json, num_experts_per_tok"


def test_experts_behind_a_latent_projection_and_without_gates():
    found = moe(keys(**SMALL, moe_latent_size=8, model_type="nemotron_h"))

    assert (found.latent, found.matrices) == (8, 2)
