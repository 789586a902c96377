"""What routers of experts are computed in: in 16 bits, or in 32 with or without tensor cores.

Engines hold the routers of some models in 32 bits (`float_router` of the card, `float_routers` of the
engine). PyTorch multiplies 32 bits without tensor cores unless it is told that TF32 will do: vLLM by
`VLLM_FLOAT32_MATMUL_PRECISION=high`, SGLang by `--enable-tf32-matmul`. MiniMax-M2.5's then take 9 % instead
of 3 % of a step of 64 sequences (sgl-project/sglang pull request 22744). vLLM has kernels since that compute
the same on tensor cores from three 16-bit parts of each weight, for MiniMax's width alone
(vllm-project/vllm pull request 47973).
"""

from __future__ import annotations

from model_zoo.schema import ModelCard
from planner.cost.eras import number_of
from planner.engines import named


def without_tensor_cores(card: ModelCard, engine: str, version: str) -> bool:
    """Whether this version multiplies the model's routers so where its launch line does not say otherwise.

    >>> from model_zoo.catalog import find
    >>> [without_tensor_cores(find("minimax-m2.5")[0], "vllm", v) for v in ("0.19.0", "0.26.1", "")]
    [True, False, False]
    >>> [without_tensor_cores(find("glm-4.6")[0], "sglang", v) for v in ("0.5.9", "0.5.10")]
    [False, True]
    """
    number = number_of(engine, version)
    versions = named(engine).float_router(card.architecture)
    if not card.float_router or number is None or versions is None:
        return False
    first, after = versions
    return first <= number < after
