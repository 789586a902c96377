"""What of a model's weights one GPU holds: parts of its matrices, so that what two GPUs have in common can be
counted.

A **matrix** is what a checkpoint stores under one name, or several that are always divided alike; a **share**
of it is what one GPU holds, [low, high) of its rows or columns. How matrices are divided is said in
`planner/cost/weights.py`, whose bytes these are:

    even      matrices of a layer that tp divides: rank t of tp has [t/tp, (t+1)/tp)
    heads     K and V, of which more ranks than there are KV heads hold the same
    whole     latents, routers, norms: all of them on every rank
    expert    a routed expert: on the ep rank that has it, moe_tp divides it
    ends      embedding, LM head, MTP layers, vision tower: on the first and last stage
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from model_zoo.derive import embedding_params, lm_head_params, mtp_layer
from model_zoo.matrices import expert_gemms, ffn_gemms, mixer_gemms
from model_zoo.schema import Layer, ModelCard, MoeFfn
from planner.cost.weights import BF16_BYTES, repeated_outputs
from planner.designs.precision import MatrixPrecision
from planner.designs.shape import Precisions

Matrix = tuple[object, ...]
"""Name of a matrix: checkpoint, precision, layer and which one of it."""


class Share(NamedTuple):
    """[low, high) of a matrix of so many bytes."""

    matrix: Matrix
    low: float
    high: float
    bytes: float


@dataclass(frozen=True)
class Rank:
    """A GPU's place in a stage: rank `t` of `tp`, rank `e` of `ep`, rank `m` of `moe_tp`."""

    layers: tuple[int, int]
    t: int
    tp: int
    e: int
    ep: int
    m: int
    moe_tp: int

    @classmethod
    def of(cls, layers: tuple[int, int], gpu: int, gpus: int, tp: int, ep: int) -> Rank:
        """The place of the `gpu`-th of a stage's GPUs: tp ranks, and those of one expert, are neighbours.

        >>> Rank.of((0, 8), 5, 8, tp=2, ep=4)
        Rank(layers=(0, 8), t=1, tp=2, e=2, ep=4, m=1, moe_tp=2)
        """
        moe_tp = max(gpus // ep, 1)
        return cls(layers, gpu % tp, tp, gpu // moe_tp, ep, gpu % moe_tp, moe_tp)


@dataclass(frozen=True)
class Copies:
    """Experts in the slots of each ep rank by layer with experts, where a plan says so (`map`); else in
    order, with `redundant` copies of the first behind the last."""

    redundant: int = 0
    map: Sequence[Sequence[Sequence[int]]] = ()

    def of(self, experts: int, rank: Rank, nth: int) -> set[int]:
        """Experts of the `nth` layer with experts on a rank."""
        if self.map:
            return set(self.map[nth][rank.e])
        all_slots = experts + self.redundant
        size = -(-all_slots // rank.ep)
        return {slot % experts for slot in range(rank.e * size, min((rank.e + 1) * size, all_slots))}


class Checkpoint:
    """The weights of a model in the precisions that a replica holds them in."""

    def __init__(self, card: ModelCard, used: Precisions) -> None:
        self.card, self.used, self.matrix = card, used, MatrixPrecision(card, used)
        self.norms = card.extra_params * BF16_BYTES / len(card.stack)

    def held(self, rank: Rank, copies: Copies) -> Iterator[Share]:
        """Shares of all matrices on one GPU."""
        card, (first, last) = self.card, rank.layers
        nth = sum(isinstance(layer.ffn, MoeFfn) for layer in card.stack[:first])
        for i in range(first, last):
            layer = card.stack[i]
            yield from self._layer(i, layer, rank)
            yield Share(self._named(i, "norms"), 0.0, 1.0, self.norms)
            if isinstance(layer.ffn, MoeFfn):
                yield from self._experts(i, layer, rank, copies.of(layer.ffn.experts, rank, nth))
                nth += 1
        yield from self._ends(rank, copies, first == 0, last == len(card.stack))

    def _named(self, *name: object) -> Matrix:
        return (self.card.name, self.used.gemm, *name)

    def _layer(self, at: object, layer: Layer, rank: Rank) -> Iterator[Share]:
        """All of a layer but its routed experts."""
        sizes = {"even": 0.0, "heads": 0.0, "whole": 0.0}
        shards, matrix, hidden = 1, self.matrix, self.card.hidden
        mixer = [(g, matrix.attention(layer, g), layer) for g in mixer_gemms(layer.mixer, hidden)]
        ffn = [(g, matrix.dense(layer, g), None) for g in ffn_gemms(layer.ffn, hidden)]
        for gemm, precision, of in [*mixer, *ffn]:
            each = matrix.bytes(precision)
            repeated, among = repeated_outputs(gemm, of)
            if repeated:
                shards = among
            sizes["heads"] += repeated * gemm.k * each
            sizes["whole" if gemm.split == "none" else "even"] += (gemm.params - repeated * gemm.k) * each
        parts = min(rank.tp, shards)
        head = rank.t * parts // rank.tp
        yield Share(self._named(at, "even"), *_part(rank.t, rank.tp), sizes["even"])
        yield Share(self._named(at, "heads"), *_part(head, parts), sizes["heads"])
        yield Share(self._named(at, "whole"), 0.0, 1.0, sizes["whole"])

    def _experts(self, at: object, layer: Layer, rank: Rank, held: set[int]) -> Iterator[Share]:
        gemms = expert_gemms(layer.ffn, self.card.hidden)
        each = sum(g.params * self.matrix.bytes(self.matrix.expert(layer, g)) for g in gemms)
        for expert in sorted(held):
            name = (self.card.name, self.used.experts, at, "expert", expert)
            yield Share(name, *_part(rank.m, rank.moe_tp), each)

    def _ends(self, rank: Rank, copies: Copies, first: bool, last: bool) -> Iterator[Share]:
        """Embedding, LM head, MTP layers and vision tower."""
        card, matrix, name = self.card, self.matrix, (self.card.name, self.used.embedding)
        part = _part(rank.t, rank.tp)
        copied = last and (card.tied_embeddings or card.mtp_layers > 0)
        if first or copied:
            size = embedding_params(card) * matrix.bytes(matrix.used.embedding)
            yield Share((*name, "embedding"), *part, size)
        if last:
            yield Share((*name, "head"), *part, lm_head_params(card) * matrix.bytes(matrix.lm_head))
            for k in range(card.mtp_layers):
                layer = mtp_layer(card)
                yield from self._layer(("mtp", k), layer, rank)
                yield Share(self._named("mtp", k, "joins"), 0.0, 1.0, BF16_BYTES * 2 * card.hidden**2)
                if isinstance(layer.ffn, MoeFfn):
                    plain = Copies(copies.redundant).of(layer.ffn.experts, rank, 0)
                    yield from self._experts(("mtp", k), layer, rank, plain)
        if first:
            yield Share(self._named("vision"), 0.0, 1.0, card.vision_params * BF16_BYTES)


def _part(i: int, of: int) -> tuple[float, float]:
    return i / of, (i + 1) / of


class Pieces:
    """All that any of some holdings has, cut so fine that each holding has a piece whole or not at all, and
    pieces that the same holdings have counted as one."""

    def __init__(self, holdings: Sequence[Sequence[Share]]) -> None:
        by_matrix: dict[Matrix, tuple[float, list[tuple[int, float, float]]]] = {}
        for h, shares in enumerate(holdings):
            for share in shares:
                if share.bytes > 0:
                    _, own = by_matrix.setdefault(share.matrix, (share.bytes, []))
                    own.append((h, share.low, share.high))
        sizes: dict[tuple[int, ...], float] = {}
        for size, own in by_matrix.values():
            for (low, high), holders in _cut(own):
                sizes[holders] = sizes.get(holders, 0.0) + size * (high - low)
        self.holders = list(sizes)
        """Of each piece, the holdings that have it."""
        self.bytes = list(sizes.values())


def _cut(own: Sequence[tuple[int, float, float]]) -> Iterator[tuple[tuple[float, float], tuple[int, ...]]]:
    """Parts of one matrix between neighbouring edges, and who has each; those that nobody has are left
    out."""
    edges = sorted({edge for _, low, high in own for edge in (low, high)})
    for low, high in pairwise(edges):
        holders = tuple(dict.fromkeys(h for h, a, b in own if a <= low and high <= b))
        if holders:
            yield (low, high), holders
