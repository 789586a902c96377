"""How many kernels a layer has the host launch: what a step with prompts takes of the host's time where it
runs without captured graphs, and which steps have these.

Counted in the models' forward passes of vLLM and SGLang (2026) with fused norms and quantised GEMMs, as far
as they are the same in both: a softmax mixer has two norms, the GEMM of Q, K and V, rotary embedding, cache
write, attention, the output's GEMM and one quantisation; a latent one (MLA) two GEMMs into low ranks, their
norms, two out of them, two concatenations and their quantisations more; an indexer scores, picks and
quantises for itself; a recurrent mixer has two GEMMs in and one out, a convolution, gates, eight kernels of
the chunked scan, norms, and copies of states in and out. Experts have a router, top-k, a quantisation and one
call, which sorts, multiplies and sums by itself (TensorRT-LLM's `fused_moe`, FlashInfer's and vLLM's
`fused_experts`); a dense FFN, or the shared experts, three. More are where the host launches in pieces what
others do at once: norms over the heads of all ranks are a sum, an all-reduce and the norm; an all-reduce
whose norm stands apart (fused.py) is one more, counted whatever tp; and Triton's experts in SGLang
(`fused_experts_impl`) sort in two kernels, and quantise and multiply before and after the activation, then
sum.
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

SOFTMAX: Final = 8
LATENT: Final = 16
RECURRENT: Final = 23
INDEXER: Final = 11
ROUTED: Final = 4
DENSE: Final = 3
JOINT: Final = 3
PIECES: Final = 6
"""Of Triton's experts, for one call and its quantisation: two to sort, two to quantise, two to multiply, the
activation, and the sum."""

BLUNT: Final = 2.5
"""How blunt the corner is where launching and kernels take as long: the exponent of a norm, infinite for the
longer of the two and 1 for their sum. Runs are as probable at 3, less at 2 and 4."""


@dataclass(frozen=True)
class Apart:
    """What a model's host launches in pieces: all-reduces and the norms after them, its experts."""

    norms: bool = False
    experts: bool = False

    @classmethod
    def of(cls, norms: bool, engine: str, generation: str, used: Precisions) -> Apart:
        """As the engine does on a generation. SGLang has Triton's experts where its launch line names them;
        by itself, on NVIDIA's GPUs, everywhere but in 8 and 4 bits on data-centre Blackwell."""
        others = generation.startswith("cdna") or (generation == "blackwell_dc" and used.experts != "bf16")
        triton = used.kernels == "triton" or (not used.kernels and not others)
        return cls(norms, engine == "sglang" and triton)


def launches(layer: Layer, apart: Apart = Apart()) -> int:
    """Kernels of a layer."""
    mixer, ffn = layer.mixer, layer.ffn
    found = apart.norms * ((mixer is not None) + (ffn is not None))
    if mixer is not None:
        found += SOFTMAX if isinstance(mixer, Attention) else LATENT if isinstance(mixer, Mla) else RECURRENT
        found += INDEXER if getattr(mixer, "indexer", None) else 0
        found += JOINT if getattr(mixer, "joint_norm", False) else 0
    if isinstance(ffn, MoeFfn):
        found += ROUTED + PIECES * apart.experts + (DENSE if ffn.shared_inner else 0)
    elif ffn is not None:
        found += DENSE
    return found


def dense_layers(card: ModelCard, apart: Apart = Apart()) -> float:
    """The model's layers, each by its kernels over those of a dense layer with softmax attention.

    >>> from model_zoo.catalog import find
    >>> dense_layers(find("llama-3.1-70b")[0]), round(dense_layers(find("deepseek-v3")[0]), 1)
    (80.0, 126.5)
    >>> [round(dense_layers(find("qwen3-30b-a3b")[0], each), 1) for each in (Apart(), Apart(True, True))]
    [52.4, 87.3]
    """
    return sum(launches(layer, apart) for layer in card.stack) / (SOFTMAX + DENSE)


def latent_layers(card: ModelCard) -> int:
    """Layers with latent attention (MLA)."""
    return sum(isinstance(layer.mixer, Mla) for layer in card.stack)


def launching_s(card: ModelCard, tuning: Tuning, apart: Apart = Apart()) -> float:
    """Seconds of the host to launch a step with prompts. Latent attention takes more than its kernels say:
    one prompt of 1,024 tokens of DeepSeek-R1 takes 150 to 190 ms on TensorRT-LLM and on SGLang 0.5.9 alike,
    whatever tp and precision, where it is not captured, and 70 to 90 where it is (InferenceX's runs)."""
    return tuning.prompt_layer_s * dense_layers(card, apart) + tuning.latent_layer_s * latent_layers(card)


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
