"""How many kernels a layer has the host launch: what a step with prompts takes of the host's time where it
runs without captured graphs, and which steps have these.

Counted in the models' forward passes of vLLM and SGLang (2026) with fused norms and quantised GEMMs, as far
as they are the same in both: a softmax mixer has two norms, the GEMM of Q, K and V, rotary embedding, cache
write, attention, the output's GEMM and one quantisation; a latent one (MLA) two GEMMs into low ranks, their
norms, two out of them, two concatenations and their quantisations more; an indexer scores, picks and
quantises for itself; a recurrent mixer has two GEMMs in and one out, a convolution, gates, eight kernels of
the chunked scan, norms, and copies of states in and out. Experts have a router, top-k, a quantisation and one
call, which sorts, multiplies and sums by itself (TensorRT-LLM's `fused_moe`, FlashInfer's and vLLM's
`fused_experts`); a dense FFN, or the shared experts, three.
"""

from __future__ import annotations

from typing import Final

from model_zoo.schema import Attention, Layer, Mla, ModelCard, MoeFfn
from planner.cost.eras import engine_of
from planner.cost.tuning import Tuning
from planner.engines import named
from planner.engines.engine import Replaying

SOFTMAX: Final = 8
LATENT: Final = 16
RECURRENT: Final = 23
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


def latent_layers(card: ModelCard) -> int:
    """Layers with latent attention (MLA)."""
    return sum(isinstance(layer.mixer, Mla) for layer in card.stack)


def launching_s(card: ModelCard, tuning: Tuning) -> float:
    """Seconds of the host to launch a step with prompts. Latent attention takes more than its kernels say:
    one prompt of 1,024 tokens of DeepSeek-R1 takes 150 to 190 ms on TensorRT-LLM and on SGLang 0.5.9 alike,
    whatever tp and precision, where it is not captured, and 70 to 90 where it is (InferenceX's runs)."""
    return tuning.prompt_layer_s * dense_layers(card) + tuning.latent_layer_s * latent_layers(card)


def graph_tokens(card: ModelCard, generation: str, engine: str) -> float:
    """Tokens up to which steps with prompts are replayed from graphs that were captured in pieces where the
    engine is told nothing, 0 where none are. `engine`: with its era, as those before today's had none."""
    if engine != engine_of(engine):
        return 0.0
    asked = Replaying(card.name, latent_layers(card) > 0, card.vision_params > 0, generation)
    return named(engine).graph_tokens(asked)
