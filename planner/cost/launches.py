"""How many kernels a layer has the host launch: what a step with prompts, which runs without captured graphs,
takes of the host's time.

Counted in the models' forward passes of vLLM and SGLang (2026) with fused norms and quantised GEMMs, as far
as they are the same in both: a softmax mixer has two norms, the GEMM of Q, K and V, rotary embedding, cache
write, attention, the output's GEMM and one quantisation; a latent one (MLA) two GEMMs into low ranks, their
norms, two out of them, two concatenations and their quantisations more; an indexer scores, picks and
quantises for itself; a recurrent mixer has a convolution, gates and the chunked scan's kernels. Experts have
a router, top-k, a quantisation and one call, which sorts, multiplies and sums by itself (TensorRT-LLM's
`fused_moe`, FlashInfer's and vLLM's `fused_experts`); a dense FFN, or the shared experts, three.
"""

from __future__ import annotations

from typing import Final

from model_zoo.schema import Attention, Layer, Mla, ModelCard, MoeFfn

SOFTMAX: Final = 8
LATENT: Final = 16
RECURRENT: Final = 12
INDEXER: Final = 11
ROUTED: Final = 4
DENSE: Final = 3


def launches(layer: Layer) -> int:
    """Kernels of a layer."""
    mixer, ffn = layer.mixer, layer.ffn
    found = 0
    if mixer is not None:
        found += SOFTMAX if isinstance(mixer, Attention) else LATENT if isinstance(mixer, Mla) else RECURRENT
        found += INDEXER if getattr(mixer, "indexer", None) else 0
    if isinstance(ffn, MoeFfn):
        found += ROUTED + (DENSE if ffn.shared_inner else 0)
    elif ffn is not None:
        found += DENSE
    return found


def dense_layers(card: ModelCard) -> float:
    """The model's layers, each by its kernels over those of a dense layer with softmax attention.

    >>> from model_zoo.catalog import find
    >>> dense_layers(find("llama-3.1-70b")[0]), round(dense_layers(find("deepseek-v3")[0]), 1)
    (80.0, 126.5)
    """
    return sum(launches(layer) for layer in card.stack) / (SOFTMAX + DENSE)
