"""Which layers each pipeline stage holds, as counts of layer kinds that bytes and seconds multiply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from model_zoo.schema import Layer, ModelCard
from planner.designs.shape import Designs, Floats, distinct

Bounds = tuple[tuple[int, int], ...]
Ranges = Sequence[tuple[int, int]] | NDArray[np.int64]
"""Layer ranges of the stages of all designs, or (n, stages, 2) of each, (0, 0) beyond its last."""


@lru_cache(maxsize=1024)
def stage_layers(layers: int, pp: int) -> Bounds:
    """Half-open layer range of each of `pp` stages: vLLM's rule for every engine.

    Even, and what is left over goes one each to the stages before the last, from the back: the first stage
    has the embedding, the last the LM head. (SGLang would give it to the last stages; plans state ranges, so
    that exporters can name the partition.) Source: vLLM 0.33 distributed/utils.py.

    >>> [stop - start for start, stop in stage_layers(61, 4)]
    [15, 15, 16, 15]
    """
    sizes = [layers // pp] * pp
    for i in range(2, layers % pp + 2):
        sizes[-i] += 1
    stops = [sum(sizes[: i + 1]) for i in range(pp)]
    return tuple(zip([0, *stops[:-1]], stops, strict=True))


@dataclass(frozen=True)
class Stages:
    """The stages of `n` designs, `s` the most any has; `kinds` the distinct layers of the model.

    counts: layers of each kind, shape (n, s, kinds), zero where a design has fewer stages.
    exists, first, last: shape (n, s).
    """

    kinds: tuple[Layer, ...]
    counts: Floats
    exists: NDArray[np.bool_]
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]

    def total(self, per_layer: Floats) -> Floats:
        """Sum over the layers of each stage of a quantity by kind, shape (n, kinds) -> (n, s)."""
        return np.asarray(np.einsum("nsk,nk->ns", self.counts, per_layer))

    def widest(self, per_layer: Floats) -> Floats:
        """Largest over the layers of each stage of a quantity >= 0 by kind, shape (n, kinds) -> (n, s)."""
        return np.asarray(np.where(self.counts > 0, per_layer[:, None, :], 0.0).max(axis=2, initial=0.0))


def stages_of(card: ModelCard, designs: Designs, layers: Ranges | None = None) -> Stages:
    """The stages of each design: by `stage_layers`, or the ranges `layers`."""
    kinds, seen = card.kinds
    before = _before(tuple(seen), len(kinds))
    bounds = _bounds(len(seen), designs, layers)
    stage = np.arange(bounds.shape[1])[None, :]
    pp = designs.pp[:, None]
    counts = before[bounds[..., 1]] - before[bounds[..., 0]]
    return Stages(kinds, counts, stage < pp, (stage == 0) & (pp > 0), stage == pp - 1)


@lru_cache(maxsize=1024)
def _before(seen: tuple[int, ...], kinds: int) -> Floats:
    """Layers of each kind before each layer and after the last, shape (layers + 1, kinds)."""
    before = np.zeros((len(seen) + 1, kinds))
    np.cumsum(np.eye(kinds)[list(seen)], axis=0, out=before[1:])
    return before


def stage_counts(card: ModelCard, pp: int) -> Floats:
    """Layers of each kind in each of `pp` stages, shape (pp, kinds)."""
    kinds, seen = card.kinds
    return _counts(tuple(seen), len(kinds), pp)


@lru_cache(maxsize=1024)
def _counts(seen: tuple[int, ...], kinds: int, pp: int) -> Floats:
    of_kind, bounds = np.asarray(seen), stage_layers(len(seen), pp)
    counts = [np.bincount(of_kind[start:stop], minlength=kinds) for start, stop in bounds]
    return np.array(counts, dtype=np.float64)


def _bounds(total: int, designs: Designs, layers: Ranges | None) -> NDArray[np.int64]:
    """Start and stop layer of each stage, shape (n, stages, 2); (0, 0) beyond a design's pp."""
    if layers is not None:
        own = np.asarray(layers, dtype=np.int64)
        return np.broadcast_to(own, (len(designs), *own.shape[-2:]))
    deepest = int(designs.pp.max(initial=1))
    bounds = np.zeros((len(designs), deepest, 2), dtype=np.int64)
    for pp in distinct(designs.pp):
        bounds[designs.pp == pp, :pp] = stage_layers(total, pp)
    return bounds
