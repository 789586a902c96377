"""Which FFN every layer has: dense, or routed experts with or without shared ones."""

from __future__ import annotations

import re

from planner.errors import InputError

from ..schema import DenseFfn, MoeFfn
from .keys import Keys

Ffn = DenseFfn | MoeFfn

EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "experts_per_token",
    "moe_k",
    "moe_topk",
    "moe_top_k",
)
INNER = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim")

PLAIN_MLP = frozenset(
    (
        "gpt2",
        "gpt_neox",
        "gptj",
        "opt",
        "bloom",
        "falcon",
        "phi",
        "mpt",
        "gpt_bigcode",
        "starcoder2",
        "nemotron",
        "nemotron_h",
        "arcee",
    )
)
"""Families whose FFN has two matrices; all others gate it (three)."""


FLOAT_ROUTERS = frozenset(("glm4_moe", "mimo_v2_flash", "minimax_m2", "nemotron_h"))
"""Families whose router some engine holds in 32 bits (planner/cost/routers.py). Step 3.5's config asks for it
(`need_fp32_gate`)."""


def ffns(keys: Keys, hidden: int, layers: int) -> list[Ffn | None]:
    """The FFN of each of `layers` layers that have one mixer and one FFN."""
    sparse = moe_layers(keys, layers)
    moe_ffn = moe(keys) if any(sparse) else None
    dense_ffn = dense(keys, hidden) if not all(sparse) else None
    return [moe_ffn if is_moe else dense_ffn for is_moe in sparse]


def moe_layers(keys: Keys, layers: int) -> list[bool]:
    """Whether each layer has routed experts: lists first, then the families' rules, combined."""
    if keys.integer(*EXPERTS, default=0, low=0) <= 1 or not keys.flag("enable_moe_block", default=True):
        return [False] * layers
    if keys.has("mlp_layer_types"):
        return [name != "dense" for name in keys.items("mlp_layer_types", str, layers)[:layers]]
    found = keys.find("moe_layer_freq")
    if found is not None and isinstance(found[1], list):
        return [bool(flag) for flag in keys.items("moe_layer_freq", int, layers)[:layers]]
    if keys.has("moe_layers_enum"):  # Step 3.5: their numbers, as "3,4,5"
        listed = set(re.findall(r"\d+", keys.text("moe_layers_enum")))
        return [str(at) in listed for at in range(layers)]
    first = keys.integer("first_k_dense_replace", "moe_layer_start_index", default=0, low=0)
    last = keys.integer("moe_layer_end_index", default=-1, low=-1)  # -1: the last layer
    freq = keys.integer("moe_layer_freq", default=1)
    step = keys.integer("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval", default=1)
    dense_only = set(keys.items("mlp_only_layers", int))
    last = layers if last < 0 else last
    return [
        first <= at <= last and at % freq == 0 and (at + 1) % step == 0 and at not in dense_only
        for at in range(layers)
    ]


def dense(keys: Keys, hidden: int) -> DenseFfn:
    """Llama 4 and MiniMax-M3 have a key of its own for the width of dense layers."""
    plain = keys.text("model_type") in PLAIN_MLP
    default = {"default": 4 * hidden} if plain else {}
    inner = keys.integer("intermediate_size_mlp", "dense_intermediate_size", *INNER, **default)
    return DenseFfn(inner=inner, matrices=2 if plain else 3)


def moe(keys: Keys) -> MoeFfn:
    """Expert width is `moe_intermediate_size`, or the plain one (Mixtral, gpt-oss, MiniMax-M2, Llama 4)."""
    experts, top_k = keys.integer(*EXPERTS), keys.integer(*TOP_K)
    if top_k > experts:
        raise InputError(f"a token takes {top_k} of {experts} experts", keys.where(keys.path_of(*TOP_K)))
    inner = keys.integer("moe_intermediate_size", *INNER)
    return MoeFfn(
        experts=experts,
        top_k=top_k,
        inner=inner,
        matrices=2 if keys.text("model_type") in PLAIN_MLP else 3,
        shared_inner=shared_inner(keys, inner),
        latent=keys.integer("moe_latent_size", "routed_expert_hidden_size", default=None),
        float_router=keys.text("model_type") in FLOAT_ROUTERS or keys.flag("need_fp32_gate"),
    )


def shared_inner(keys: Keys, inner: int) -> int:
    """Summed width of all shared experts; Gemma 4's dense MLP runs beside the experts and counts as one."""
    family = keys.text("model_type")
    if family.startswith("gemma"):
        return int(keys.integer(*INNER))
    if family.startswith("llama4"):
        return inner
    total = keys.integer(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "share_expert_dim",
        default=None,
        low=0,
    )
    if total is not None:
        return int(total)
    count = keys.integer("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0, low=0)
    return int(count * keys.integer("shared_intermediate_size", default=inner, low=0))
