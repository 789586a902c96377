"""Ulysses in place of the ring: what a prompt takes where context-parallel groups trade tokens for heads.

Before attention each of cp groups of tp ranks gives its tokens' queries, keys and values of all but its own
heads to the others and gets those of its heads for their tokens; the outputs come back. Nothing passes a
ring, and the work of attention is what it was. Offered while each KV head is kept once: tp * cp <= KV heads.

Bytes of a rank, both ways: tokens / cp * 2 * (heads + KV heads) / tp * head size * 2 bytes * (1 - 1/cp).

Source: DeepSpeed-Ulysses (arXiv:2309.14509). No serving engine starts it as it comes; the vLLM plugin Arctic
Inference does (`--ulysses-sequence-parallel-size`). With a ring where heads don't suffice (USP,
arXiv:2405.07719) neither does.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np
from numpy.typing import NDArray

from model_zoo.matrices import v_dim
from model_zoo.schema import Attention, Mla, ModelCard
from planner.beside.lone_prompts import line, quickest
from planner.beside.planned import Planned
from planner.cost.attention import Load
from planner.cost.layers import ACTIVATION_BYTES, Layers
from planner.cost.model import CostModel
from planner.designs.shape import Designs, Floats
from planner.plans.schema import LongPrompt


def traded(planned: Planned) -> Iterator[LongPrompt]:
    """The quickest with heads traded for tokens."""
    found = []
    for made in planned.found.pool.bare:
        s = made.setup
        if made.key.engine == "vllm" and not s.model.stagings:
            index = np.flatnonzero(tradable(s.model.card, s.designs)).astype(np.int64)
            found += quickest(s, index, made.key.where, with_ulysses(s.model))
    if found:
        first = min(found, key=lambda lone: lone.seconds)
        yield line("Ulysses", first, None, "a vLLM plugin, Arctic Inference, does")


def tradable(card: ModelCard, designs: Designs) -> NDArray[np.bool_]:
    """Which designs divide a prompt, keep every KV head once and divide the query heads, (n,)."""
    ranks, fits = designs.tp * designs.cp, designs.cp > 1
    for mixer in card.mixers.values():
        if not isinstance(mixer, Attention):
            return np.zeros(len(designs), dtype=bool)
        fits = fits & (ranks <= mixer.kv_heads) & (mixer.heads % ranks == 0)
    return fits


class UlyssesLayers(Layers):
    """Layers whose context-parallel groups trade heads."""

    def _context_s(self, mixer: Attention | Mla, load: Load, designs: Designs) -> Floats:
        """Seconds of both all-to-alls."""
        assert isinstance(mixer, Attention)
        wide = (mixer.heads + mixer.kv_heads) * v_dim(mixer) / designs.tp
        away = ACTIVATION_BYTES * load.rows * wide * (1 - 1 / designs.cp)
        return 2 * self.links.hop_s(away, designs.tp * designs.cp)


def with_ulysses(model: CostModel) -> CostModel:
    """The model with heads traded in every context-parallel design."""
    other, own = copy(model), model.layers
    parts = (own.card, own.chip, own.fits, own.links, own.used, own.popularity, own.norm_apart_s)
    other.layers = UlyssesLayers(*parts)
    return other
