"""What attention and its recurrent kin do on one rank, beside their GEMMs: FLOPs and bytes by kind.

Decoding reads the cache of every sequence; a prompt's tokens meet `pairs` (query, key) pairs. Kinds: MHA/GQA,
MLA in its absorbed form (one latent of all heads), sliding windows, compressed and indexed (top-k) entries,
linear attention and Mamba-2 (a state instead of a cache). Sequences, tokens and contexts are arrays of shape
(n,).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from model_zoo.derive import kv_elements_per_token, kv_shards, state_bytes_per_seq
from model_zoo.matrices import v_dim
from model_zoo.schema import KV_BYTES, Attention, Indexer, LinearAttention, Mamba2, Mla
from planner.cost.compute import Work
from planner.designs.shape import Floats, Ints

Cached = Attention | Mla
Recurrent = LinearAttention | Mamba2
SCAN_CHUNK = 64
"""Tokens a chunk in the chunked scan of recurrent mixers (flash-linear-attention's default)."""


@dataclass(frozen=True)
class Load:
    """What one step, or one micro-batch of it, has to compute on one server: `sequences` decoding at mean
    `context`, each by so many `queries` at once (more than one where drafted tokens are verified), and
    `tokens` of prompts that attend to `keys` tokens each on average (half of a whole prompt in one step).
    Shape (n,) each."""

    sequences: Floats
    context: Floats
    tokens: Floats
    keys: Floats
    queries: float = 1.0

    @classmethod
    def of(
        cls,
        sequences: Floats | float = 0.0,
        context: Floats | float = 0.0,
        tokens: Floats | float = 0.0,
        keys: Floats | float = 0.0,
    ) -> Load:
        """From arrays (n,) and numbers that are alike for all; of numbers alone, for as many designs as are
        asked."""
        parts = (np.asarray(x, dtype=np.float64) for x in (sequences, context, tokens, keys))
        b, ctx, new, met = np.broadcast_arrays(*parts)
        return cls(b, ctx, new, met)

    def over(self, n: int, queries: float) -> Load:
        """The same load on each of `n` servers, each sequence with so many queries."""
        parts = (self.sequences, self.context, self.tokens, self.keys)
        b, ctx, new, met = (x if x.shape == (n,) else np.broadcast_to(x, (n,)) for x in parts)
        return Load(b, ctx, new, met, queries)

    def divided(self, micro_batches: Ints | float, groups: Ints | int = 1) -> Load:
        """The load of one of so many micro-batches on one of `groups` context-parallel groups, which share
        the tokens of prompts and of every cache; all decoding sequences are in each."""
        tokens, context = self.tokens / (micro_batches * groups), self.context / groups
        return Load(self.sequences / micro_batches, context, tokens, self.keys, self.queries)

    def take(self, index: Ints) -> Load:
        """The micro-batches at `index`."""
        tokens, keys = self.tokens[index], self.keys[index]
        return Load(self.sequences[index], self.context[index], tokens, keys, self.queries)

    def in_turn(self, apart: NDArray[np.bool_]) -> tuple[Load, Ints, Load]:
        """The load without the prompts of servers that decode as well and have both `apart` (n,), which
        servers these are, and their prompts alone."""
        at = np.flatnonzero((self.tokens > 0) & (self.sequences > 0) & apart)
        if not len(at):
            return self, at, self.take(at)
        tokens, alone = self.tokens.copy(), self.take(at)
        tokens[at] = 0.0
        return replace(self, tokens=tokens), at, replace(alone, sequences=0.0 * alone.sequences)

    @cached_property
    def decoded(self) -> Floats:
        """Tokens that decoding sequences compute."""
        return self.sequences * self.queries

    @cached_property
    def sampled(self) -> Floats:
        """Tokens that pass the LM head: those of decoding sequences, and where there is none the next one
        of a prompt."""
        return np.maximum(self.decoded, np.minimum(self.tokens, 1.0))

    @cached_property
    def rows(self) -> Floats:
        """Tokens in the GEMMs."""
        return self.decoded + self.tokens


def entries(mixer: Cached, context: Floats) -> Floats:
    """Cached entries that one query attends to: all, a window, and of compressed or indexed ones at most
    top_k.

    >>> entries(Attention(heads=8, kv_heads=8, head_dim=64, window=128), np.array([50.0, 5000.0]))
    array([ 50., 128.])
    """
    compress = mixer.compress if isinstance(mixer, Attention) else None
    if mixer.window is None and compress is None and mixer.indexer is None:
        return context
    inside = np.minimum(context, mixer.window) if mixer.window is not None else np.zeros_like(context)
    if mixer.window is not None and compress is None:
        return inside
    outside = context / (compress or 1)
    return inside + (np.minimum(outside, mixer.indexer.top_k) if mixer.indexer else outside)


def decode_work(mixer: Cached, load: Load, tp: Ints, kv: str) -> Work:
    """The new tokens of every sequence against its cache, which is read once: bytes are the cache's, items
    are (sequence, KV head) pairs.

    MLA: every head meets the latent itself, 2*heads*(2*rank + rope) FLOPs an entry, and no rank holds less
    than all.
    """
    heads = mixer.heads / tp
    read = load.sequences * entries(mixer, load.context)
    cache = read * kv_elements_per_token(mixer) / np.minimum(tp, kv_shards(mixer)) * KV_BYTES[kv]
    pairs = read * load.queries
    if isinstance(mixer, Mla):
        wide = 2 * mixer.kv_lora_rank + mixer.qk_rope
        return Work(2 * heads * wide * pairs, cache + 2 * load.decoded * heads * wide, load.sequences)
    wide = mixer.head_dim + v_dim(mixer)
    kv_heads = np.maximum(mixer.kv_heads / tp, 1.0)
    return Work(2 * heads * wide * pairs, cache + 2 * load.decoded * heads * wide, load.sequences * kv_heads)


def prefill_work(mixer: Cached, load: Load, tp: Ints) -> Work:
    """Prompt tokens against `keys` cached or new tokens each: 2*heads*(key + value width) FLOPs a pair.

    Bytes: queries, keys, values and outputs of the new tokens in 16 bits. Items: (head, 128 tokens) tiles.
    """
    heads = mixer.heads / tp
    if isinstance(mixer, Attention):
        wide, kv_wide = float(mixer.head_dim + v_dim(mixer)), kv_elements_per_token(mixer) / mixer.kv_heads
        kv_heads = np.maximum(mixer.kv_heads / tp, 1.0)
    else:
        wide = float(mixer.qk_nope + mixer.qk_rope + mixer.v_head_dim)
        kv_heads, kv_wide = heads, wide  # the latent is expanded to full heads
        if mixer.indexer:  # each query has its own keys: the absorbed form
            wide = 2.0 * mixer.kv_lora_rank + mixer.qk_rope
    pairs = load.tokens * entries(mixer, load.keys)
    moved = 2 * load.tokens * (heads * wide + kv_heads * kv_wide)
    return Work(2 * heads * wide * pairs, moved, heads * load.tokens / 128)


def index_work(mixer: Cached, indexer: Indexer, load: Load, kv: str) -> Work:
    """Scoring of all index keys by every query, whole on each rank; keys of prompts are read once a 128-query
    tile."""
    compress = (mixer.compress if isinstance(mixer, Attention) else None) or 1
    pairs = (load.decoded * load.context + load.tokens * load.keys) / compress
    read = (load.sequences * load.context + load.tokens * load.keys / 128) / compress
    element_bytes = KV_BYTES[kv] * indexer.head_dim
    return Work(2.0 * indexer.heads * indexer.head_dim * pairs, read * element_bytes, load.rows)


def recurrent_kind(mixer: Recurrent) -> str:
    """Whose fits a recurrent mixer takes. Mamba-2 goes by the gated delta rule: no scan of its own is
    measured."""
    return "kda" if isinstance(mixer, LinearAttention) and mixer.decay_rank is not None else "gdn"


def recurrent_decode_work(mixer: Recurrent, load: Load, tp: Ints) -> Work:
    """State read once and written a decoded token (each is kept until it is known which are accepted), by
    convolution and state update together; the context does not count."""
    cells, channels, out, _ = _recurrent_sizes(mixer)
    shards = np.minimum(tp, kv_shards(mixer))
    moved = (1 + load.queries) * state_bytes_per_seq(mixer) + 2.0 * (3 * channels + out) * load.queries
    return Work(6.0 * cells * load.decoded / shards, moved * load.sequences / shards, load.sequences * 0.0)


def recurrent_prefill_work(mixer: Recurrent, load: Load, tp: Ints) -> Work:
    """The chunked scan of prompts, convolution included: the state's update a token and in a chunk a small
    attention; bytes of inputs and outputs.

    Items: tokens of one prompt, whose chunks follow each other whatever else is idle (`keys` of a prompt
    without a cached prefix are half its length).
    """
    cells, channels, out, wide = _recurrent_sizes(mixer)
    shards = np.minimum(tp, kv_shards(mixer))
    flops = (6.0 * cells + 2.0 * wide * SCAN_CHUNK) * load.tokens
    moved = 2.0 * (3 * channels + out) * load.tokens
    return Work(flops / shards, moved / shards, np.minimum(load.tokens, 2 * load.keys))


def _recurrent_sizes(mixer: Recurrent) -> tuple[int, int, int, int]:
    """Sizes of a recurrent mixer, all heads together: state cells, channels convolved, output channels, width
    of a key and a value."""
    if isinstance(mixer, LinearAttention):
        out = mixer.value_heads * mixer.value_dim
        channels = 2 * mixer.key_heads * mixer.key_dim + out
        return out * mixer.key_dim, channels, out, mixer.value_heads * (mixer.key_dim + mixer.value_dim)
    out = mixer.heads * mixer.head_dim
    return (
        out * mixer.state,
        out + 2 * mixer.groups * mixer.state,
        out,
        mixer.heads * (mixer.head_dim + mixer.state),
    )
