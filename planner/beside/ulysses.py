"""Ulysses beside the ring: what a prompt takes where context-parallel groups trade tokens for heads.

cp = ulysses * ring groups of tp ranks. Before attention each rank gives its tokens' queries, keys and values
of all but its own heads to the other `ulysses` - 1 groups and gets those of its heads for their tokens; the
outputs come back. Keys and values then pass `ring` groups instead of cp, in messages 1/ulysses as long. The
work of attention is what it was. Offered while each KV head is kept once: tp * ulysses <= KV heads.

Bytes of a rank: tokens/cp * (2 * query + 2 * KV heads / tp) * head size * 2 bytes * (1 - 1/ulysses), through
its scale-up links where the groups that trade stand inside a domain, else through its NIC.

Source: DeepSpeed-Ulysses (arXiv:2309.14509), with a ring: USP (arXiv:2405.07719). No serving engine starts it
as it comes; the vLLM plugin Arctic Inference does, without a ring (`--ulysses-sequence-parallel-size`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from model_zoo.derive import kv_elements_per_token, kv_shards
from model_zoo.matrices import v_dim
from model_zoo.schema import KV_BYTES, Attention, Mla, ModelCard
from planner.beside.lone_prompts import line, quickest
from planner.beside.planned import Planned
from planner.cost import attention
from planner.cost.attention import Load
from planner.cost.layers import ACTIVATION_BYTES, Layers
from planner.cost.model import CostModel
from planner.designs.shape import Designs, Floats
from planner.plans.schema import LongPrompt


def traded(planned: Planned) -> Iterator[LongPrompt]:
    """The quickest with heads traded for tokens."""
    found = []
    for made in planned.found.pool.bare:
        s, where = made.setup, made.key.where
        d, divided = s.designs, np.flatnonzero(s.designs.cp > 1)
        if made.key.engine != "vllm" or s.model.stagings:
            continue
        of: dict[int, list[int]] = {}
        for i in divided.tolist():
            for u in degrees(s.model.card, int(d.tp[i]), int(d.cp[i])):
                of.setdefault(u, []).append(i)
        for u, own in of.items():
            index = np.array(own, dtype=np.int64)
            for ring in np.unique(d.cp[index]) // u:
                words = [f"heads over {u} groups"] + [f"a ring of {ring}"] * bool(ring > 1)
                same = index[d.cp[index] == ring * u]
                found += quickest(s, same, where, with_ulysses(s.model, u), tuple(words))
    if found:
        why = "a vLLM plugin, Arctic Inference, does, without a ring"
        yield line("Ulysses", min(found, key=lambda lone: lone.seconds), None, why)


class UlyssesLayers(Layers):
    """Layers whose context-parallel groups trade heads in groups of `degree`."""

    degree: int = 1

    def _context_s(self, mixer: Attention | Mla, load: Load, designs: Designs) -> Floats:
        each = KV_BYTES[self.used.kv] * kv_elements_per_token(mixer)
        cached = np.where(load.tokens > 0, attention.entries(mixer, 2 * load.keys) * each, 0.0)
        heads, ring = designs.tp * self.degree, designs.cp // self.degree
        kept = cached / np.minimum(heads, kv_shards(mixer))
        passed = self.links.ring_s(kept, heads, ring)
        return passed + (self.traded_s(mixer, load, designs) if isinstance(mixer, Attention) else 0.0)

    def traded_s(self, mixer: Attention, load: Load, designs: Designs) -> Floats:
        """Seconds of both all-to-alls."""
        wide = 2 * (mixer.heads + mixer.kv_heads) * v_dim(mixer)
        moved = ACTIVATION_BYTES * load.rows * wide / designs.tp * (1 - 1 / self.degree)
        inside = designs.tp * self.degree <= self.links.domain
        near, far = self.links.flat["hop"], self.links.flat["network"]
        over = np.where(inside, near["share"] * self.links.intra, far["share"] * self.links.nic)
        return np.asarray(2e-6 * np.where(inside, near["t0_us"], far["t0_us"]) + moved / over)


def with_ulysses(model: CostModel, degree: int) -> CostModel:
    """The model with `degree` groups trading heads in every context-parallel design."""
    other = CostModel(model.card, model.node_class, model.engine, model.precisions, model.calibration)
    own = other.layers
    parts = (own.card, own.chip, own.fits, own.links, own.used, own.popularity, own.norm_apart_s)
    other.layers = UlyssesLayers(*parts)
    other.layers.degree = degree
    return other


def degrees(card: ModelCard, tp: int, cp: int) -> list[int]:
    """Divisors of cp above 1 at which every KV head is kept once and query heads divide."""
    mixers = [m for m in card.mixers.values() if isinstance(m, Attention)]
    if len(mixers) < len(card.mixers):
        return []
    most = min(m.kv_heads for m in mixers)
    fits = (u for u in range(2, cp + 1) if cp % u == 0)
    return [u for u in fits if tp * u <= most and all(m.heads % (tp * u) == 0 for m in mixers)]
