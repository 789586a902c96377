"""Small kernels that another one takes in, or that stay of their own.

*Norms after all-reduces.* SGLang joins them in one kernel for models with experts on NVIDIA's GPUs (the
architectures that its server_args.py lists: DeepSeek's, GPT-OSS, GLM's, Qwen3's, Kimi's), for Qwen3.5's since
0.5.10, for dense ones not; in steps of up to so many tokens as its workspace holds. On B200 the one takes
10.4 microseconds where the two took 21.5 (sglang pull request 19889). Other engines do alike for all models,
as far as is known: what it costs stands in their own factors.

*Quantisation before GEMMs.* The kernel tables time GEMMs in FP8 with a kernel before them that quantises
their inputs. Where a tensor has one scale, vLLM's compiler lets the norm or the activation before do so by
itself (its design/fusions: `fuse_norm_quant`, `fuse_act_quant`, both usual); what attention writes still
takes one of its own.
"""

from __future__ import annotations

from typing import Final

from model_zoo.schema import Attention, Mla, ModelCard
from planner.cost.eras import engine_of

APART_S: Final = 11e-6
"""Seconds that the norm's own kernel adds to an all-reduce."""

FUSING: Final = ("hopper", "blackwell_dc")
"""Generations on which it does."""

MOST_TOKENS: Final = 2048
"""Tokens of a step up to which all-reduces are fused."""

BEFORE_RECURRENT: Final = ("sglang-0.5.3", "sglang-0.5.9")
"""Eras in which this is not yet so for models with recurrent layers."""


QUANTISED: Final = frozenset({"qkv", "up", "down"})
"""GEMMs whose inputs a norm or an activation writes."""


def quantised_before(gemm: str, precision: str, engine: str) -> bool:
    """Whether the kernel before a GEMM quantises its inputs, at no cost of its own; `engine` with its era.

    >>> [quantised_before(gemm, "fp8", "vllm") for gemm in ("qkv", "o", "up", "down")]
    [True, False, True, True]
    """
    return engine == "vllm" and precision == "fp8" and gemm in QUANTISED


def norm_apart_s(card: ModelCard, generation: str, engine: str) -> float:
    """Seconds that an all-reduce over the hidden state takes longer than a fused one; `engine` with its era.

    >>> from model_zoo.catalog import find
    >>> [norm_apart_s(find(m)[0], "hopper", "sglang") for m in ("deepseek-r1", "qwen3-32b")]
    [0.0, 1.1e-05]
    >>> norm_apart_s(find("qwen3-32b")[0], "hopper", "vllm")
    0.0
    """
    if engine_of(engine) != "sglang" or generation.startswith("cdna"):
        return 0.0
    recurrent = any(not isinstance(layer.mixer, Attention | Mla | None) for layer in card.stack)
    fused = generation in FUSING and card.moe and not (recurrent and engine in BEFORE_RECURRENT)
    return 0.0 if fused else APART_S
