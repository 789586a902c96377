"""In which precision each matrix of a model is held: the checkpoint's, or another that was asked for."""

from __future__ import annotations

from collections.abc import Mapping

from model_zoo.derive import precision_bytes
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Gemm, Layer, ModelCard
from planner.cost.shape import Precisions
from planner.errors import InputError


def precisions(card: ModelCard, weights: str | None = None, kv: str | None = None) -> Precisions:
    """The checkpoint's precisions, or `weights` for all matrices but embedding and LM head, `kv` for the
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


class MatrixPrecision:
    """Precision of each matrix. Where `Precisions` names what the checkpoint stores, its exceptions hold too:
    of single matrices, of dense layers beside attention, of the LM head. Routers stay in 16 bits."""

    def __init__(self, card: ModelCard, used: Precisions) -> None:
        self.stored, self.used = card.weights, used

    def attention(self, layer: Layer, gemm: Gemm) -> str:
        """Of a matrix of the layer's mixer."""
        own = layer.mixer.precision if layer.mixer else {}
        as_stored = self.used.gemm == self.stored.attention
        return _kept(gemm, own, self.stored.attention) if as_stored else self.used.gemm

    def dense(self, layer: Layer, gemm: Gemm) -> str:
        """Of a matrix of the layer's FFN that every token passes."""
        own = layer.ffn.precision if layer.ffn else {}
        as_stored = self.used.gemm == self.stored.attention or gemm.name == "router"
        return _kept(gemm, own, self.stored.dense) if as_stored else self.used.gemm

    def expert(self, layer: Layer, gemm: Gemm) -> str:
        """Of a matrix of a routed expert."""
        own = layer.ffn.precision if layer.ffn else {}
        as_stored = self.used.experts == self.stored.experts
        return _kept(gemm, own, self.stored.experts) if as_stored else self.used.experts

    @property
    def lm_head(self) -> str:
        """Of the output projection."""
        own = self.stored.lm_head if self.used.embedding == self.stored.embedding else None
        return own or self.used.embedding

    def bytes(self, precision: str) -> float:
        """Bytes a weight held in `precision`, scales included."""
        return precision_bytes(precision, self.stored)


def _kept(gemm: Gemm, own: Mapping[str, str], usual: str) -> str:
    return "bf16" if gemm.name == "router" else own.get(gemm.name, usual)
