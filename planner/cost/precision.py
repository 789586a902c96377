"""In which precision each matrix of a model is held: the checkpoint's, or another that was asked for."""

from __future__ import annotations

from collections.abc import Mapping

from model_zoo.derive import precision_bytes
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Gemm, Layer, ModelCard
from planner.cost.shape import Precisions
from planner.errors import InputError


def precisions(card: ModelCard, weights: str | None = None, kv: str | None = None) -> Precisions:
    """The checkpoint's precisions, or `weights` for all matrices but embedding and LM head, and `kv` for the
    cache.

    Raises InputError for a precision that does not exist.
    """
    for asked, known, option in ((weights, WEIGHT_BYTES, "--precision"), (kv, KV_BYTES, "--kv-precision")):
        if asked is not None and asked not in known:
            raise InputError(f"unknown precision `{asked}`", where=option, hint=f"one of: {', '.join(known)}")
    stored = card.weights
    return Precisions(
        gemm=weights or stored.attention,
        experts=weights or stored.experts,
        embedding=stored.embedding,
        kv=kv or stored.kv,
    )


class MatrixBytes:
    """Bytes a weight, by matrix. Where `Precisions` names what the checkpoint stores, its exceptions hold
    too: other precisions of single matrices, of dense layers beside attention, of the LM head. Routers stay
    in 16 bits."""

    def __init__(self, card: ModelCard, used: Precisions) -> None:
        self.card, self.used = card, used
        self.gemms_as_stored = used.gemm == card.weights.attention
        self.experts_as_stored = used.experts == card.weights.experts

    def attention(self, layer: Layer, gemm: Gemm) -> float:
        """Of a matrix of the layer's mixer."""
        own = layer.mixer.precision if layer.mixer else {}
        return self._bytes(gemm, own, self.card.weights.attention, self.used.gemm, self.gemms_as_stored)

    def dense(self, layer: Layer, gemm: Gemm) -> float:
        """Of a matrix of the layer's FFN that every token passes."""
        own = layer.ffn.precision if layer.ffn else {}
        return self._bytes(gemm, own, self.card.weights.dense, self.used.gemm, self.gemms_as_stored)

    def expert(self, layer: Layer, gemm: Gemm) -> float:
        """Of a matrix of a routed expert."""
        own = layer.ffn.precision if layer.ffn else {}
        return self._bytes(gemm, own, self.card.weights.experts, self.used.experts, self.experts_as_stored)

    @property
    def embedding(self) -> float:
        """Of the input embedding."""
        return precision_bytes(self.used.embedding, self.card.weights)

    @property
    def lm_head(self) -> float:
        """Of the output projection."""
        stored = self.card.weights
        own = stored.lm_head if self.used.embedding == stored.embedding else None
        return precision_bytes(own or self.used.embedding, stored)

    def _bytes(self, gemm: Gemm, own: Mapping[str, str], stored: str, used: str, as_stored: bool) -> float:
        kept = own.get(gemm.name, stored) if as_stored else used
        return precision_bytes("bf16" if gemm.name == "router" else kept, self.card.weights)
