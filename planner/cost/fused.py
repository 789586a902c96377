"""Small kernels that another one takes in, or that stay of their own.

*Norms after all-reduces.* SGLang joins them in one kernel on NVIDIA's data-centre GPUs for the architectures
that it lists, a list that grew with its versions (server_args.py, later arg_groups/overrides.py; its pull
requests 14764 of December 2025, 19889 and 22664), never where there are attention-dp ranks, in steps of up
to so many tokens as its workspace holds. On B200 the one takes 10.4 microseconds where the two took 21.5
(19889). On AMD's GPUs a flag would (13747), which is off; other engines do alike for all models, as far as is
known: in both what it costs stands in their own factors.

*Norms over the heads of all ranks* (MiniMax-M2's of Q and K) are sums of squares, an all-reduce of these and
the norm. SGLang has a kernel each for the first and the last (`MiniMaxM2RMSNormTP.forward_qk`), vLLM's
compiler joins them with what is around.

*Products in the latent form.* Decoding with latent attention multiplies queries and outputs with the halves
of one matrix. With block scales TensorRT-LLM quantises what goes into each and copies what comes out on
Hopper, and copies on Blackwell, where it multiplies in 16 bits (`fp8_block_scaling_bmm_out` in its
attention.py).

*Quantisation before GEMMs.* The kernel tables time GEMMs in FP8 with a kernel before them that quantises
their inputs. Where a tensor has one scale, vLLM's compiler lets the norm or the activation before do so by
itself (its design/fusions: `fuse_norm_quant`, `fuse_act_quant`, both usual); what attention writes still
takes one of its own.
"""

from __future__ import annotations

from typing import Final

from model_zoo.schema import ModelCard
from planner.cost.eras import engine_of

APART_S: Final = 11e-6
"""Seconds that the norm's own kernel adds to an all-reduce."""

MOST_TOKENS: Final = 2048
"""Tokens of a step up to which all-reduces are fused."""

_FIRST: Final = frozenset({"DeepseekV3ForCausalLM", "GptOssForCausalLM"})
_WINTER: Final = _FIRST | {
    "Glm4MoeForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "KimiK25ForConditionalGeneration",
    "Qwen3MoeForCausalLM",
}
_TODAY: Final = _WINTER | {
    "DeepseekV32ForCausalLM",
    "GlmMoeDsaForCausalLM",
    "InternS2PreviewForConditionalGeneration",
    "MistralLarge3ForCausalLM",
    "NemotronHForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
}
LISTED: Final = {
    "sglang-0.5.3": _FIRST,
    "sglang-0.5.6": _FIRST,
    "sglang-0.5.9": _WINTER,
    "sglang": _TODAY,
}
"""Era of SGLang → the architectures on its list."""

ON_HOPPER: Final = ("sglang-0.5.9", "sglang")
"""Eras in which it does so on Hopper as on data-centre Blackwell."""

QUANTISED: Final = frozenset({"qkv", "up", "down"})
"""GEMMs whose inputs a norm or an activation writes."""


def quantised_before(gemm: str, precision: str, engine: str) -> bool:
    """Whether the kernel before a GEMM quantises its inputs, at no cost of its own; `engine` with its era.

    >>> [quantised_before(gemm, "fp8", "vllm") for gemm in ("qkv", "o", "up", "down")]
    [True, False, True, True]
    """
    return engine == "vllm" and precision == "fp8" and gemm in QUANTISED


ABSORBING: Final = {"hopper": 4, "blackwell_dc": 2}
"""Small kernels around the two products in the latent form of TensorRT-LLM with block scales."""


def absorbing_kernels(engine: str, generation: str, precision: str) -> int:
    """Small kernels around the products in the latent form with a matrix in that precision; `engine` with its
    era.

    >>> [absorbing_kernels("trtllm-1.1", "hopper", name) for name in ("fp8_block", "bf16")]
    [4, 0]
    """
    trtllm = engine_of(engine) == "trtllm"
    return ABSORBING.get(generation, 0) if trtllm and precision == "fp8_block" else 0


def joint_norms_apart(engine: str) -> bool:
    """Whether norms over the heads of all ranks have kernels of their own; `engine` with its era."""
    return engine_of(engine) == "sglang"


def norm_apart_s(card: ModelCard, generation: str, engine: str) -> tuple[float, float]:
    """Seconds that an all-reduce over the hidden state takes longer than a fused one, alone and among
    attention-dp ranks; `engine` with its era. A card of no architecture is as the models of its kind on
    today's list: those with experts.

    >>> from model_zoo.catalog import find
    >>> models = [find(name)[0] for name in ("deepseek-r1", "qwen3-235b-a22b", "minimax-m2.5", "qwen3-32b")]
    >>> [norm_apart_s(model, "blackwell_dc", "sglang-0.5.6")[0] for model in models]
    [0.0, 1.1e-05, 1.1e-05, 1.1e-05]
    >>> [norm_apart_s(model, "hopper", "sglang")[0] for model in models]
    [0.0, 0.0, 1.1e-05, 1.1e-05]
    >>> norm_apart_s(models[0], "hopper", "sglang"), norm_apart_s(models[3], "hopper", "vllm")
    ((0.0, 1.1e-05), (0.0, 0.0))
    """
    if engine_of(engine) != "sglang" or generation.startswith("cdna"):
        return 0.0, 0.0
    there = generation == "blackwell_dc" or (generation == "hopper" and engine in ON_HOPPER)
    return 0.0 if there and _listed(card, engine) else APART_S, APART_S


def _listed(card: ModelCard, engine: str) -> bool:
    if card.architecture is None:
        return card.moe
    return card.architecture in LISTED[engine]
