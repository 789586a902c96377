"""What a sequence keeps on the GPU: KV entries that grow, a window, index keys, recurrent states.

A layer's KV at context L is  growing * L + windowed * min(L, window)  elements, plus its index keys * L,
plus its state bytes. Elements count both K and V, whole model (before tp). Only DeepSeek-V4's layers have
both first terms.
"""

from __future__ import annotations

from .matrices import v_dim
from .schema import KV_BYTES, Attention, LinearAttention, Mamba2, Mla, ModelCard

STATE_BYTES = 4
"""Bytes of a recurrent state value: engines keep it in fp32."""

CONV_BYTES = 2
"""Bytes of a value that the short convolution still needs."""


def window(mixer: object) -> int | None:
    """Sliding window or attention chunk in tokens; None: all of the context (or no attention)."""
    return mixer.window if isinstance(mixer, Attention | Mla) else None


def kv_elements_per_token(mixer: object) -> int:
    """Elements that one token writes to the cache of one layer: growing, or windowed where `window(mixer)`
    is set.

    >>> kv_elements_per_token(Attention(heads=32, kv_heads=8, head_dim=128))
    2048
    >>> kv_elements_per_token(Mla(heads=128, kv_lora_rank=512, qk_nope=128, qk_rope=64, v_head_dim=128))
    576
    """
    if isinstance(mixer, Attention):
        return mixer.kv_heads * (mixer.head_dim + (0 if mixer.shared_kv else v_dim(mixer)))
    if isinstance(mixer, Mla):
        return mixer.kv_lora_rank + mixer.qk_rope
    return 0


def growing_elements_per_token(mixer: object) -> float:
    """Elements a token of context adds for good: all of full attention's, or 1/compress of them."""
    if isinstance(mixer, Attention) and mixer.compress is not None:
        return kv_elements_per_token(mixer) / mixer.compress
    return 0.0 if window(mixer) is not None else float(kv_elements_per_token(mixer))


def windowed_elements_per_token(mixer: object) -> int:
    """Elements a token adds as long as it is inside the window."""
    return kv_elements_per_token(mixer) if window(mixer) is not None else 0


def index_elements_per_token(mixer: object) -> float:
    """Cached index keys of sparse attention, in elements per token of context."""
    indexer = mixer.indexer if isinstance(mixer, Attention | Mla) else None
    if indexer is None or indexer.shared:
        return 0.0
    compress = mixer.compress if isinstance(mixer, Attention) else None
    return indexer.head_dim / (compress or 1)


def state_bytes_per_seq(mixer: object) -> int:
    """Recurrent state (fp32) and convolution state (16 bit) of one sequence in one layer."""
    if isinstance(mixer, LinearAttention):
        recurrent = mixer.value_heads * mixer.key_dim * mixer.value_dim
        channels = 2 * mixer.key_heads * mixer.key_dim + mixer.value_heads * mixer.value_dim
    elif isinstance(mixer, Mamba2):
        recurrent = mixer.heads * mixer.head_dim * mixer.state
        channels = mixer.heads * mixer.head_dim + 2 * mixer.groups * mixer.state
    else:
        return 0
    return STATE_BYTES * recurrent + CONV_BYTES * channels * (mixer.conv - 1)


def kv_shards(mixer: object) -> int:
    """How many tp ranks can hold distinct parts of the cache or state; beyond, it is repeated."""
    if isinstance(mixer, Attention):
        return mixer.kv_heads
    if isinstance(mixer, LinearAttention):
        return mixer.value_heads
    return mixer.heads if isinstance(mixer, Mamba2) else 1


def kv_bytes_per_token_full(card: ModelCard, kv_precision: str = "bf16") -> float:
    """Bytes that every token of context adds over all layers, index keys apart."""
    return KV_BYTES[kv_precision] * sum(growing_elements_per_token(layer.mixer) for layer in card.stack)


def kv_bytes_per_token_window(card: ModelCard, kv_precision: str = "bf16") -> float:
    """Bytes that a token adds over all layers while it is inside their windows."""
    return KV_BYTES[kv_precision] * sum(windowed_elements_per_token(layer.mixer) for layer in card.stack)


def index_bytes_per_token(card: ModelCard, kv_precision: str = "bf16") -> float:
    """Bytes of index keys that every token of context adds over all layers."""
    return KV_BYTES[kv_precision] * sum(index_elements_per_token(layer.mixer) for layer in card.stack)


def state_bytes(card: ModelCard) -> int:
    """Bytes of recurrent and convolution state of one sequence, over all layers."""
    return sum(state_bytes_per_seq(layer.mixer) for layer in card.stack)


def kv_bytes_per_seq(card: ModelCard, context: float, kv_precision: str = "bf16") -> float:
    """Bytes that one sequence of `context` tokens keeps, over all layers, before tp."""
    windowed = sum(
        windowed_elements_per_token(layer.mixer) * min(context, window(layer.mixer) or 0)
        for layer in card.stack
    )
    growing = kv_bytes_per_token_full(card, kv_precision) + index_bytes_per_token(card, kv_precision)
    return growing * context + KV_BYTES[kv_precision] * windowed + state_bytes(card)
