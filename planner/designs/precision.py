"""In which precision each matrix of a model is held: the checkpoint's, or another that was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from model_zoo.derive import precision_bytes
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Gemm, Layer, ModelCard
from planner.designs.shape import Precisions
from planner.errors import InputError, nearest, squash

ALSO: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("q4km", "q4ks", "q40", "q41", "iq4nl", "awq", "gptq", "int4", "w4a16", "awqint4"), "int4_wo"
    ),
    **dict.fromkeys(("q80", "w8a8", "int8w8a8"), "int8"),
    **dict.fromkeys(("fp4", "nvfp4", "modeloptfp4"), "nvfp4"),
    **dict.fromkeys(("fp8e4m3", "e4m3", "f8", "float8"), "fp8"),
    **dict.fromkeys(("fp8block", "blockfp8", "fp8w8a8block"), "fp8_block"),
    **dict.fromkeys(("float16", "fp16", "f16", "half", "bfloat16", "16bit"), "bf16"),
}
"""What people call precisions, squashed; of GGUF's and others' the nearest of ours, by bits of a weight."""


def precision_named(asked: str | None, known: Collection[str] = tuple(WEIGHT_BYTES)) -> str | None:
    """A precision in our own name, however it is spelt; as it was where it is none of `known`.

    >>> precision_named("Q4_K_M"), precision_named("FP8"), precision_named("awq"), precision_named("x")
    ('int4_wo', 'fp8', 'int4_wo', 'x')
    """
    if asked is None or asked in known:
        return asked
    own = {squash(name): name for name in known}.get(squash(asked)) or ALSO.get(squash(asked))
    return own if own in known else asked


def precisions(card: ModelCard, weights: str | None = None, kv: str | None = None) -> Precisions:
    """The checkpoint's precisions, or `weights` for all matrices but embedding and LM head, `kv` for the
    cache.

    Raises InputError for a precision that does not exist.
    """
    weights, kv = precision_named(weights), precision_named(kv, tuple(KV_BYTES))
    for asked, known, option in ((weights, WEIGHT_BYTES, "--precision"), (kv, KV_BYTES, "--kv-precision")):
        if asked is not None and asked not in known:
            near = nearest(asked[:60], list(known), 1)[0]
            listed = f"did you mean `{near}`? one of: {', '.join(known)}"
            raise InputError(f"unknown precision `{asked[:60]}`", where=option, hint=listed)
    stored = card.weights
    return served(card, weights or stored.attention, weights or stored.experts, kv or stored.kv)


def served(card: ModelCard, weights: str, experts: str, kv: str) -> Precisions:
    """What a server computes in that holds its matrices and its cache so. Engines of today multiply routers
    that they hold in 32 bits on tensor cores (`planner/cost/routers.py`), as launch lines ask of them."""
    router = "tf32" if card.float_router else "bf16"
    return Precisions(weights, experts, card.weights.embedding, kv, router)


EXPERT_KERNELS: Final = ("cutlass", "deepgemm", "marlin", "triton", "trtllm")
"""Families of kernels for experts: TensorRT-LLM's `moe_config.backend`, SGLang's `--moe-runner-backend`
(`flashinfer_` before them means the same), vLLM's `--moe-backend`."""

ROUTER_BYTES: Final[Mapping[str, float]] = {"bf16": 2.0, "tf32": 4.0, "fp32": 4.0}
"""What routers of experts are computed in, and the bytes of a weight: "tf32" reads 32 bits and multiplies 19
of them on tensor cores, "fp32" multiplies all without."""


class MatrixPrecision:
    """Precision of each matrix. Where `Precisions` names what the checkpoint stores, its exceptions hold too:
    of single matrices, of dense layers beside attention, of the LM head. Routers stay in 16 bits or more."""

    def __init__(self, card: ModelCard, used: Precisions) -> None:
        self.stored, self.used = card.weights, used

    def attention(self, layer: Layer, gemm: Gemm) -> str:
        """Precision of a matrix of the layer's mixer."""
        own = layer.mixer.precision if layer.mixer else {}
        as_stored = self.used.gemm == self.stored.attention
        return _kept(gemm, own, self.stored.attention) if as_stored else self.used.gemm

    def dense(self, layer: Layer, gemm: Gemm) -> str:
        """Precision of a matrix of the layer's FFN that every token passes."""
        if gemm.name == "router":
            return self.used.router
        own = layer.ffn.precision if layer.ffn else {}
        as_stored = self.used.gemm == self.stored.attention
        return _kept(gemm, own, self.stored.dense) if as_stored else self.used.gemm

    def expert(self, layer: Layer, gemm: Gemm) -> str:
        """Precision of a matrix of a routed expert."""
        own = layer.ffn.precision if layer.ffn else {}
        as_stored = self.used.experts == self.stored.experts
        return _kept(gemm, own, self.stored.experts) if as_stored else self.used.experts

    @property
    def lm_head(self) -> str:
        """Precision of the output projection."""
        own = self.stored.lm_head if self.used.embedding == self.stored.embedding else None
        return own or self.used.embedding

    def bytes(self, precision: str) -> float:
        """Bytes a weight held in `precision`, scales included."""
        return ROUTER_BYTES.get(precision) or precision_bytes(precision, self.stored)


def _kept(gemm: Gemm, own: Mapping[str, str], usual: str) -> str:
    return own.get(gemm.name, usual)
