"""The order of layers: one (mixer, FFN) pair each, named and run-length encoded for the card."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TypeVar

from ..schema import Attention, DenseFfn, Layer, LinearAttention, Mamba2, Mla, MoeFfn, Run
from . import attention, ffn
from .keys import Keys

PATTERN = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
"""Nemotron-H pattern letters, as the words of `layers_block_type`."""

MAX_LAYERS = 1000
MAX_PERIOD = 16
NAS_MULTIPLE = 256  # DeciLM rounds FFN widths up to this

T = TypeVar("T", bound=Hashable)


def stack(keys: Keys, hidden: int) -> list[Layer]:
    """All layers in order."""
    if keys.has("block_configs"):
        return _searched(keys, hidden)
    parts = single_parts(keys, "hybrid_override_pattern", "layers_block_type")
    if parts:
        return [single_part(keys, name, at) for at, name in enumerate(parts)]
    layers = layer_count(keys)
    mixers, ffns = attention.mixers(keys, hidden, layers), ffn.ffns(keys, hidden, layers)
    return [Layer(m, f) for m, f in zip(mixers, ffns, strict=True)]


def layer_count(keys: Keys) -> int:
    """Number of layers, bounded so that a wrong figure cannot exhaust memory."""
    names = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    layers = keys.integer(*names)
    if layers > MAX_LAYERS:
        raise keys.error(keys.path_of(*names), f"at most {MAX_LAYERS} layers", layers)
    return int(layers)


def single_parts(keys: Keys, pattern: str, blocks: str) -> list[str]:
    """Words of a pattern in which a layer is a mixer *or* an FFN (Nemotron-H); empty for other models."""
    letters = keys.text(pattern)
    for at, letter in enumerate(letters):
        if letter not in PATTERN:
            raise keys.error(f"{pattern}[{at}]", f"one of {' '.join(PATTERN)}", letter)
    words = [PATTERN[letter] for letter in letters] or keys.items(blocks, str)
    for at, word in enumerate(words):
        if word not in PATTERN.values():
            raise keys.error(f"{blocks}[{at}]", f"one of {', '.join(PATTERN.values())}", word)
    if len(words) > MAX_LAYERS:
        raise keys.error(blocks, f"at most {MAX_LAYERS} layers", len(words))
    return words


def single_part(keys: Keys, word: str, at: int) -> Layer:
    """The layer that is only what `word` says."""
    hidden = keys.integer("hidden_size")
    if word == "mamba":
        return Layer(attention.mamba(keys, hidden, at), None)
    if word == "attention":
        return Layer(attention.full(keys, hidden, at), None)
    return Layer(None, ffn.moe(keys) if word == "moe" else ffn.dense(keys, hidden))


def _searched(keys: Keys, hidden: int) -> list[Layer]:
    """Nemotron-NAS: each block has its own attention (or none) and FFN width (or none)."""
    heads = keys.integer(*attention.HEADS)
    layers: list[Layer] = []
    for block in keys.sections("block_configs", layer_count(keys)):
        mixer, width = block.section("attention"), block.section("ffn")
        attends = mixer is not None and not mixer.flag("no_op")
        feeds = width is not None and not width.flag("no_op")
        layers.append(
            Layer(
                _grouped(mixer, heads, hidden) if mixer is not None and attends else None,
                DenseFfn(inner=_searched_inner(width, hidden)) if width is not None and feeds else None,
            )
        )
    return layers


def _grouped(block: Keys, heads: int, hidden: int) -> Attention:
    group = block.integer("n_heads_in_group")
    if heads % group or heads > hidden:
        raise block.error(f"{block.path}.n_heads_in_group", f"a divisor of {heads} heads", group)
    window = block.integer("window_length", default=None)
    return Attention(heads=heads, kv_heads=heads // group, head_dim=hidden // heads, window=window)


def _searched_inner(block: Keys, hidden: int) -> int:
    """Two thirds of ffn_mult * hidden (as the FFN is gated), rounded up.

    5.25 * 8192 * 2/3 = 28672 is Llama-70B's width.
    """
    return math.ceil(int(2 * block.number("ffn_mult") * hidden / 3) / NAS_MULTIPLE) * NAS_MULTIPLE


def mixer_name(mixer: object) -> str:
    """The short name that a card gives a mixer of this kind."""
    if isinstance(mixer, Mla):
        return "mla"
    if isinstance(mixer, Mamba2):
        return "mamba"
    if isinstance(mixer, LinearAttention):
        return "gdn" if mixer.decay_rank is None else "kda"
    assert isinstance(mixer, Attention)
    if mixer.compress is not None:
        return f"every{mixer.compress}"
    return "attn" if mixer.window is None else "window"


def ffn_name(part: object) -> str:
    """The short name that a card gives an FFN of this kind."""
    return "moe" if isinstance(part, MoeFfn) else "dense"


def named(parts: Sequence[T | None], base: dict[T, str]) -> dict[T, str]:
    """A unique name for every different part, in order of appearance: attn, attn_2, attn_3 …

    >>> named([1, 2, None, 1], {1: "attn", 2: "attn"})
    {1: 'attn', 2: 'attn_2'}
    """
    names: dict[T, str] = {}
    used: dict[str, int] = {}
    for part in parts:
        if part is not None and part not in names:
            used[base[part]] = used.get(base[part], 0) + 1
            names[part] = base[part] + (f"_{used[base[part]]}" if used[base[part]] > 1 else "")
    return names


def run_lengths(names: list[str]) -> list[Run]:
    """Shortest-looking run-length form, greedily: at each point the repeated block that covers most layers.

    >>> [(r.times, r.of) for r in run_lengths(["a", "b", "b", "c", "b", "b", "c"])]
    [(1, ['a']), (2, ['b', 'b', 'c'])]
    """
    runs: list[Run] = []
    at = 0
    while at < len(names):
        covered, period = 1, 1
        for length in range(1, MAX_PERIOD + 1):
            times = 1
            while names[at + times * length : at + (times + 1) * length] == names[at : at + length]:
                times += 1
            if times > 1 and times * length > covered:
                covered, period = times * length, length
        block = names[at : at + period]
        if covered == 1 and runs and runs[-1].times == 1:
            runs[-1] = Run(times=1, of=runs[-1].of + block)
        else:
            runs.append(Run(times=covered // period, of=block))
        at += covered
    return runs
