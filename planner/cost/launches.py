"""How many kernels a layer has the host launch: what a step with prompts takes of the host's time where it
runs without captured graphs, and which steps have these.

Counted in the models' forward passes of vLLM and SGLang (2026) with fused norms and quantised GEMMs, as far
as they are the same in both: a softmax mixer has two norms, the GEMM of Q, K and V, rotary embedding, cache
write, attention, the output's GEMM and one quantisation; a latent one (MLA) two GEMMs into low ranks, their
norms, two out of them, two concatenations and their quantisations more; an indexer scores, picks and
quantises for itself; a recurrent mixer has two GEMMs in and one out, a convolution, gates, eight kernels of
the chunked scan, norms, and copies of states in and out. Experts have a router, top-k, a quantisation and one
call, which sorts, multiplies and sums by itself (TensorRT-LLM's `fused_moe`, FlashInfer's and vLLM's
`fused_experts`); a dense FFN, or the shared experts, three. Norms over the heads of all ranks are a sum, an
all-reduce and the norm.

vLLM's compiler and TensorRT-LLM join small kernels; SGLang launches prompts as its modules are written. There
each GEMM of quantised inputs has a kernel more that quantises them, and one in 16 bits has none; a recurrent
mixer copies Q, K, V, gates and decays into place (`fix_query_key_value_ordering`; one kernel in captured
graphs); Triton's experts (`fused_experts_impl`) sort in two kernels, multiply and quantise before and after
the activation, then sum; and an all-reduce whose norm stands apart (fused.py) is one more, counted whatever
tp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from model_zoo.schema import Attention, Layer, Mla, ModelCard, MoeFfn
from planner.cost.eras import engine_of
from planner.cost.tuning import Tuning
from planner.designs.shape import Floats, Precisions
from planner.engines import named
from planner.engines.engine import Replaying

INDEXER: Final = 11
JOINT: Final = 3

BLUNT: Final = 2.5
"""How blunt the corner is where launching and kernels take as long: the exponent of a norm, infinite for the
longer of the two and 1 for their sum. Runs are as probable at 3, less at 2 and 4."""

AROUND_S: Final = 50e-6
"""What a host that computes prompts first does for a decoding sequence around a step of these: it hands out
the tokens of the step before and makes up the next one, behind neither of which the GPU has work (SGLang's
`event_loop_overlap`). Each leaves it idle for 6 ms where 240 decode (its pull request 22332)."""

INTO_BITS: Final = frozenset({"fp8", "fp8_block", "int8", "mxfp4", "nvfp4"})
"""Precisions of weights for which inputs are quantised, too."""


@dataclass(frozen=True)
class Kernels:
    """How many an engine's host launches of each part of a layer; `norms`: one more for each all-reduce where
    the norm after it stands apart."""

    softmax: int = 8
    latent: int = 16
    recurrent: int = 23
    routed: int = 4
    dense: int = 3
    norms: int = 0

    @classmethod
    def of(cls, norms: bool, engine: str, generation: str, used: Precisions) -> Kernels:
        """As the engine does on a generation. SGLang has Triton's experts where its launch line names them;
        by itself, on NVIDIA's GPUs, everywhere but in 8 and 4 bits on data-centre Blackwell."""
        if engine != "sglang":
            return cls(norms=int(norms))
        others = generation.startswith("cdna") or (generation == "blackwell_dc" and used.experts != "bf16")
        triton = used.kernels == "triton" or (not used.kernels and not others)
        gemm, experts = int(used.gemm in INTO_BITS), int(used.experts in INTO_BITS)
        return cls(
            softmax=7 + 2 * gemm,
            latent=14 + 3 * gemm,
            recurrent=30 + 2 * gemm,
            routed=8 + 2 * experts if triton else 3 + experts,
            dense=3 + 2 * gemm,
            norms=int(norms),
        )


USUAL: Final = Kernels()


def launches(layer: Layer, by: Kernels = USUAL) -> int:
    """Kernels of a layer."""
    mixer, ffn = layer.mixer, layer.ffn
    found = by.norms * ((mixer is not None) + (ffn is not None))
    if mixer is not None:
        kinds = ((Attention, by.softmax), (Mla, by.latent))
        found += next((n for kind, n in kinds if isinstance(mixer, kind)), by.recurrent)
        found += INDEXER if getattr(mixer, "indexer", None) else 0
        found += JOINT if getattr(mixer, "joint_norm", False) else 0
    if isinstance(ffn, MoeFfn):
        found += by.routed + (by.dense if ffn.shared_inner else 0)
    elif ffn is not None:
        found += by.dense
    return found


def dense_layers(card: ModelCard, by: Kernels = USUAL) -> float:
    """The model's layers, each by its kernels over those of a dense layer with softmax attention.

    >>> from model_zoo.catalog import find
    >>> dense_layers(find("llama-3.1-70b")[0]), round(dense_layers(find("deepseek-v3")[0]), 1)
    (80.0, 126.5)
    >>> round(dense_layers(find("qwen3-30b-a3b")[0]), 1)
    52.4
    """
    return sum(launches(layer, by) for layer in card.stack) / (USUAL.softmax + USUAL.dense)


def latent_layers(card: ModelCard) -> int:
    """Layers with latent attention (MLA)."""
    return sum(isinstance(layer.mixer, Mla) for layer in card.stack)


def launching_s(card: ModelCard, tuning: Tuning, by: Kernels = USUAL) -> float:
    """Seconds of the host to launch a step with prompts. Latent attention takes more than its kernels say:
    one prompt of 1,024 tokens of DeepSeek-R1 takes 150 to 190 ms on TensorRT-LLM and on SGLang 0.5.9 alike,
    whatever tp and precision, where it is not captured, and 70 to 90 where it is (InferenceX's runs)."""
    return tuning.prompt_layer_s * dense_layers(card, by) + tuning.latent_layer_s * latent_layers(card)


def hidden(kernels_s: Floats, launching_s: Floats | float) -> Floats:
    """Seconds of `kernels_s` on the GPU that the host launches in `launching_s`, both at once: the longer of
    the two, and more where they are alike, as each now and then waits for the other.

    TensorRT-LLM 1.0 shows it: prompts of 1,024 and 2,048 tokens of Llama-3.1-8B on eight H100 hold up the
    others in flight for 16 and 17 ms, those of 4,096 for 23.

    >>> hidden(np.array([0.0, 0.03, 0.3]), 0.03).round(3).tolist()
    [0.03, 0.04, 0.3]
    """
    longer = np.maximum(np.maximum(kernels_s, launching_s), 1e-12)
    both = (kernels_s / longer) ** BLUNT + (launching_s / longer) ** BLUNT
    return np.asarray(longer * both ** (1 / BLUNT))


def graph_tokens(card: ModelCard, generation: str, engine: str) -> float:
    """Tokens up to which steps with prompts are replayed from graphs that were captured in pieces where the
    engine is told nothing, 0 where none are. `engine`: with its era, as those before today's had none."""
    if engine != engine_of(engine):
        return 0.0
    asked = Replaying(card.name, latent_layers(card) > 0, card.vision_params > 0, generation)
    return named(engine).graph_tokens(asked)
