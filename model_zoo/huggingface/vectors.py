"""Text parameters that are no weight matrix of a layer: norms, biases, convolutions, sinks, residual mixers.
Under 0.2 % of any model, counted so that totals agree with the checkpoints.

And the size of a vision tower, estimated from `vision_config`: plain ViT, its tables, its projector.
"""

from __future__ import annotations

from ..matrices import mixer_gemms
from ..schema import Attention, Layer, LinearAttention, Mamba2, Mla, MoeFfn
from .keys import Keys

QKV_BIAS = ("qwen2", "qwen2_moe", "mimo")
"""Families that have biases on Q, K and V whatever `attention_bias` says."""


def extra_params(keys: Keys, layers: list[Layer], hidden: int) -> int:
    """All vectors of the text model."""
    family = keys.text("model_type")
    total = hidden  # final norm
    for layer in layers:
        parts = (layer.mixer is not None) + (layer.ffn is not None)
        norms = 2 * parts if family.startswith("gemma") else parts  # Gemma: before and after
        total += (
            norms * hidden + _mixer_vectors(keys, layer.mixer, hidden) + _ffn_vectors(keys, layer.ffn, hidden)
        )
    return total + len(layers) * _hyper_connections(keys, hidden)


def _mixer_vectors(keys: Keys, mixer: object, hidden: int) -> int:
    if isinstance(mixer, LinearAttention):
        keyed = mixer.key_heads * mixer.key_dim
        channels = 2 * keyed + mixer.value_heads * mixer.value_dim
        decays = mixer.value_heads + (mixer.value_heads if mixer.decay_rank is None else keyed)
        return mixer.conv * channels + decays + mixer.value_dim
    if isinstance(mixer, Mamba2):
        inner = mixer.heads * mixer.head_dim
        channels = inner + 2 * mixer.groups * mixer.state
        return (mixer.conv + 1) * channels + 3 * mixer.heads + inner
    if isinstance(mixer, Mla):
        return (
            (mixer.q_lora_rank or 0)
            + mixer.kv_lora_rank
            + (2 * mixer.indexer.head_dim if mixer.indexer else 0)
        )
    if isinstance(mixer, Attention):
        return _attention_vectors(keys, mixer, hidden)
    return 0


def _attention_vectors(keys: Keys, mixer: Attention, hidden: int) -> int:
    family = keys.text("model_type")
    total = 0
    if keys.flag("attention_bias") or family in QKV_BIAS:
        total += sum(g.n for g in mixer_gemms(mixer, hidden) if g.name == "qkv")
    if family == "gpt_oss":  # output bias, sinks
        total += hidden + mixer.heads
    if family.startswith(("qwen3", "gemma3", "gemma4")) or keys.flag("use_qk_norm"):
        total += 2 * mixer.head_dim
    if (
        mixer.shared_kv
    ):  # DeepSeek-V4: norms of Q's latent and of KV, sinks, positions and norm of the compressor
        pooled = (mixer.compress or 0) * mixer.head_dim * (2 if mixer.compress == 4 else 1)
        total += (mixer.q_lora_rank or 0) + mixer.head_dim + mixer.heads + pooled
        total += mixer.head_dim if mixer.compress else 0
    return total


def _ffn_vectors(keys: Keys, ffn: object, hidden: int) -> int:
    if not isinstance(ffn, MoeFfn):
        return 0
    total = 0
    if (
        keys.text("topk_method") == "noaux_tc"
        or keys.flag("use_routing_bias")
        or keys.flag("use_moe_router_bias")
    ):
        total += ffn.experts
    if keys.text("model_type") == "gpt_oss":  # router and expert biases
        total += ffn.experts * (1 + 2 * ffn.inner + hidden)
    if keys.has("shared_expert_intermediate_size"):
        total += hidden  # gate of the shared expert
    return total


def _hyper_connections(keys: Keys, hidden: int) -> int:
    """DeepSeek-V4 mixes `hc_mult` residual streams before attention and FFN of every layer."""
    streams = keys.integer("hc_mult", default=0, low=0)
    mixes = (2 + streams) * streams
    return int(2 * (mixes * streams * hidden + mixes + 3)) if streams else 0


GATED = ("qwen2_5_vl", "pixtral", "glm4v")
CHANNELS = 3


def vision_params(keys: Keys, hidden: int) -> int:
    """Parameters of tower and projector into a text model of width `hidden`; 0 without a `vision_config`.

    Exact for Qwen3-VL but for norms and biases; other projectors differ by some per cent of the tower.
    """
    tower = keys.section("vision_config")
    if tower is None:
        return 0
    width = tower.integer("hidden_size", "vt_hidden_size", "embed_dim", "width", default=None)
    depth = tower.integer("depth", "vt_num_hidden_layers", "num_hidden_layers", "layers", default=None)
    if width is None or depth is None:
        return 0
    inner = tower.integer("intermediate_size", "vt_intermediate_size", default=4 * width)
    attention = 4 * width * tower.integer("qkv_hidden_size", default=width)
    matrices = 3 if tower.text("model_type") in GATED else 2
    block = attention + matrices * width * inner
    return int(depth * block + _tables(tower, width) + _projectors(tower, width, hidden))


def _tables(tower: Keys, width: int) -> int:
    """Patch embedding and learned positions."""
    pixels = tower.integer("patch_size", default=14) ** 2 * tower.integer("temporal_patch_size", default=1)
    positions = tower.integer("num_position_embeddings", "position_embedding_size", default=0, low=0)
    positions = positions or _positions_of_grid(tower)
    return int(CHANNELS * pixels * width + positions * width)


def _positions_of_grid(tower: Keys) -> int:
    return int(
        tower.integer("init_pos_emb_height", default=0, low=0)
        * tower.integer("init_pos_emb_width", default=0, low=0)
    )


def _projectors(tower: Keys, width: int, hidden: int) -> int:
    """Two layers on merged patches; deepstack adds one such projector a tapped layer."""
    merge = tower.integer("spatial_merge_size", default=2)
    merged = merge * merge * width
    out = tower.integer("out_hidden_size", "text_hidden_size", "projection_dim", default=hidden)
    count = 1 + len(tower.items("deepstack_visual_indexes", int))
    if tower.text("model_type").startswith("gemma"):  # one matrix, after pooling
        return int(width * hidden)
    return int(count * (merged * merged + merged * out))
