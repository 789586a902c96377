"""Which mixer every layer has: full, sliding, latent, sparse or compressed attention, linear, SSM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.errors import InputError

from ..schema import Attention, Indexer, LinearAttention, Mamba2, Mla
from .keys import Keys

Mixer = Attention | Mla | LinearAttention | Mamba2

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "num_attention_groups")
CHUNK_FULL_EVERY = 4  # Llama 4: every 4th layer attends to everything where the config does not list them

GATED = ("qwen3_next",)
"""Families whose attention output is gated though no key says so."""

LAYER_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "deepseek_sparse_attention": "full",  # the indexer is read from its own keys
    "linear_attention": "linear",
    "mamba": "mamba",
    "mamba2": "mamba",
}


def mixers(keys: Keys, hidden: int, layers: int) -> list[Mixer | None]:
    """The mixer of each of `layers` layers that have one mixer and one FFN."""
    if keys.has("compress_ratios"):
        return [compressed(keys, ratio) for ratio in keys.items("compress_ratios", int, layers)[:layers]]
    makers: dict[str, Callable[[Keys, int, int], Mixer]] = {
        "full": full,
        "window": _windowed,
        "linear": linear,
        "mamba": mamba,
    }
    return [makers[kind](keys, hidden, at) for at, kind in enumerate(layer_kinds(keys, layers))]


def layer_kinds(keys: Keys, layers: int) -> list[str]:
    """ "full", "window", "linear" or "mamba" for each layer, from whichever pattern key the family uses."""
    if keys.has("layer_types"):
        return [
            _named_kind(keys, at, name)
            for at, name in enumerate(keys.items("layer_types", str, layers)[:layers])
        ]
    if keys.has("hybrid_layer_pattern"):  # MiMo-V2: 1 = sliding
        return [
            "window" if flag else "full" for flag in keys.items("hybrid_layer_pattern", int, layers)[:layers]
        ]
    if (section := keys.section("linear_attn_config")) is not None:  # Kimi: layer numbers from 1
        full = set(section.items("full_attn_layers", int))
        return ["full" if at + 1 in full else "linear" for at in range(layers)]
    if keys.has("linear_num_value_heads"):  # Qwen3-Next without a list
        every = keys.integer("full_attention_interval", default=4)
        return ["linear" if (at + 1) % every else "full" for at in range(layers)]
    if not all(keys.items("attn_type_list", int)) or keys.has(
        "mamba_d_state", "ssm_cfg", "mamba_num_heads", "rwkv_version", "state_size"
    ):
        raise InputError(
            "a state-space or linear-attention model whose layer pattern is not known here",
            keys.where("architectures"),
            "write a model card instead; `layer_types` with one entry a layer is understood",
        )
    return _window_pattern(keys, layers)


def _named_kind(keys: Keys, at: int, name: str) -> str:
    if name not in LAYER_KINDS:
        raise keys.error(f"layer_types[{at}]", f"one of {', '.join(LAYER_KINDS)}", name)
    if LAYER_KINDS[name] == "window" and not keys.has("sliding_window", "attention_chunk_size"):
        return "full"
    return LAYER_KINDS[name]


def _window_pattern(keys: Keys, layers: int) -> list[str]:
    """Sliding or chunked layers that no list names. A false `use_sliding_window` makes the window inert."""
    if keys.has("attention_chunk_size"):
        listed = keys.items("no_rope_layers", int)  # 0 = no rotary embedding = attends to everything
        flags = [flag == 0 for flag in listed[:layers]] if len(listed) >= layers else None
        full = flags or [(at + 1) % CHUNK_FULL_EVERY == 0 for at in range(layers)]
        return ["full" if f else "window" for f in full]
    if not keys.has("sliding_window") or not keys.flag("use_sliding_window", default=True):
        return ["full"] * layers
    if keys.has("sliding_window_pattern"):  # Gemma 3: every n-th is full
        every = keys.integer("sliding_window_pattern")
        return ["window" if (at + 1) % every else "full" for at in range(layers)]
    if keys.text("model_type").startswith("gemma2"):
        return ["full" if at % 2 else "window" for at in range(layers)]
    if keys.has("use_sliding_window"):  # Qwen2: the layers above max_window_layers
        first = keys.integer("max_window_layers", default=0, low=0)
        return ["full" if at < first else "window" for at in range(layers)]
    return ["window"] * layers


def full(keys: Keys, hidden: int, at: int) -> Mixer:
    if keys.has("kv_lora_rank"):
        return mla(keys, at)
    heads = keys.integer(*HEADS)
    kv = keys.integer("num_global_key_value_heads", *KV_HEADS, default=_default_kv_heads(keys, heads))
    dim = keys.integer("global_head_dim", "head_dim", "attention_head_dim", default=max(hidden // heads, 1))
    return _attention(
        keys,
        heads=heads,
        kv_heads=kv,
        head_dim=dim,
        v_head_dim=keys.integer("v_head_dim", default=None),
        k_is_v=keys.flag("attention_k_eq_v"),
        indexer=indexer(keys, at),
    )


def _windowed(keys: Keys, hidden: int, at: int) -> Mixer:
    own = keys.section("attention_other_setting") or keys  # Step 3.5
    heads = own.integer("swa_num_attention_heads", *HEADS)
    kv = own.integer("swa_num_key_value_heads", *KV_HEADS, default=_default_kv_heads(keys, heads))
    return _attention(
        keys,
        heads=heads,
        kv_heads=kv,
        head_dim=keys.integer("swa_head_dim", "head_dim", default=max(hidden // heads, 1)),
        v_head_dim=keys.integer("swa_v_head_dim", "v_head_dim", default=None),
        window=keys.integer("sliding_window", "attention_chunk_size"),
    )


def _default_kv_heads(keys: Keys, heads: int) -> int:
    return 1 if keys.flag("multi_query") and not keys.flag("new_decoder_architecture") else heads


def _attention(keys: Keys, **sizes: Any) -> Attention:
    if sizes["heads"] % sizes["kv_heads"]:
        raise InputError(
            f"{sizes['heads']} attention heads do not divide into {sizes['kv_heads']} KV heads",
            keys.where("num_key_value_heads"),
        )
    if sizes["v_head_dim"] == sizes["head_dim"]:
        sizes["v_head_dim"] = None
    gated = keys.flag("attn_output_gate", "attention_output_gate", default=keys.text("model_type") in GATED)
    joint = keys.flag("use_qk_norm") and keys.text("qk_norm_type") == "per_layer"
    return Attention(output_gate=gated, joint_norm=joint, **sizes)


def mla(keys: Keys, at: int) -> Mla:
    """`head_dim` means other things in MLA configs: only the qk_* and v_* widths count."""
    return Mla(
        heads=keys.integer(*HEADS),
        q_lora_rank=keys.integer("q_lora_rank", default=None),
        kv_lora_rank=keys.integer("kv_lora_rank"),
        qk_nope=keys.integer("qk_nope_head_dim", low=0),
        qk_rope=keys.integer("qk_rope_head_dim", low=0),
        v_head_dim=keys.integer("v_head_dim"),
        output_gate=keys.flag("mla_use_output_gate"),
        indexer=indexer(keys, at),
    )


def indexer(keys: Keys, at: int) -> Indexer | None:
    """The scorer of layer `at`: `index_*` keys (DeepSeek, GLM) or `sparse_attention_config` (MiniMax)."""
    if keys.has("index_topk"):
        types = keys.items("indexer_types", str)
        return Indexer(
            heads=keys.integer("index_n_heads"),
            head_dim=keys.integer("index_head_dim"),
            top_k=keys.integer("index_topk"),
            shared=at < len(types) and types[at] == "shared",
        )
    section = keys.section("sparse_attention_config")
    if section is None or not section.flag("use_sparse_attention", default=True):
        return None
    freq = section.items("sparse_attention_freq", int)
    if at < len(freq) and not freq[at]:
        return None
    return Indexer(
        heads=section.integer("sparse_num_index_heads"),
        head_dim=section.integer("sparse_index_dim"),
        top_k=section.integer("sparse_topk_blocks") * section.integer("sparse_block_size"),
    )


def compressed(keys: Keys, ratio: int) -> Attention:
    """DeepSeek-V4: a window, and beside it one entry a `ratio` tokens (0: none); the finest is indexed."""
    if ratio < 0:
        raise keys.error("compress_ratios", "ratios of at least 0", ratio)
    return Attention(
        heads=keys.integer(*HEADS),
        kv_heads=keys.integer(*KV_HEADS, default=1),
        head_dim=keys.integer("head_dim"),
        window=keys.integer("sliding_window"),
        shared_kv=True,
        compress=ratio or None,
        q_lora_rank=keys.integer("q_lora_rank"),
        o_lora_rank=keys.integer("o_lora_rank"),
        o_groups=keys.integer("o_groups", default=1),
        indexer=indexer(keys, 0) if ratio == 4 else None,
    )


def linear(keys: Keys, hidden: int, at: int) -> LinearAttention:
    """Gated DeltaNet (`linear_*` keys) or Kimi Delta Attention (`linear_attn_config`)."""
    section = keys.section("linear_attn_config")
    if section is None:
        return LinearAttention(
            key_heads=keys.integer("linear_num_key_heads"),
            value_heads=keys.integer("linear_num_value_heads"),
            key_dim=keys.integer("linear_key_head_dim"),
            value_dim=keys.integer("linear_value_head_dim"),
            conv=keys.integer("linear_conv_kernel_dim", default=4),
        )
    heads, dim = section.integer("num_heads"), section.integer("head_dim")
    return LinearAttention(
        key_heads=heads,
        value_heads=heads,
        key_dim=dim,
        value_dim=dim,
        conv=section.integer("short_conv_kernel_size", default=4),
        decay_rank=dim,
        gate_rank=None if section.flag("use_full_rank_gate") else dim,
    )


def mamba(keys: Keys, hidden: int, at: int) -> Mamba2:
    """Mamba-2, in the key names of Nemotron-H or of Bamba and Granite."""
    return Mamba2(
        heads=keys.integer("mamba_num_heads", "mamba_n_heads"),
        head_dim=keys.integer("mamba_head_dim", "mamba_d_head"),
        groups=keys.integer("n_groups", "mamba_n_groups"),
        state=keys.integer("ssm_state_size", "mamba_d_state"),
        conv=keys.integer("conv_kernel", "mamba_d_conv", default=4),
    )
