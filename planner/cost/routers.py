"""What routers of experts are computed in: in 16 bits, or in 32 with or without tensor cores.

Engines hold the routers of some models in 32 bits (`float_router` of the card). PyTorch multiplies 32 bits
without tensor cores unless it is told that TF32 will do: vLLM by `VLLM_FLOAT32_MATMUL_PRECISION=high`, SGLang
by `--enable-tf32-matmul`. MiniMax-M2.5's then take 9 % instead of 3 % of a step of 64 sequences
(sgl-project/sglang pull request 22744). vLLM has kernels since that compute the same on tensor cores from
three 16-bit parts of each weight (vllm-project/vllm pull request 47973).
"""

from __future__ import annotations

from model_zoo.schema import ModelCard
from planner.cost.eras import Version, number_of

MENDED: dict[str, Version] = {"vllm": (0, 26, 0), "sglang": (0, 6, 0)}
"""The first version of each engine that is not known to multiply 32-bit routers without tensor cores."""


def without_tensor_cores(card: ModelCard, engine: str, version: str) -> bool:
    """Whether this version multiplies the model's routers so where its launch line does not say otherwise.

    >>> from model_zoo.catalog import find
    >>> [without_tensor_cores(find("minimax-m2.5")[0], "vllm", v) for v in ("0.19.0", "0.26.1", "")]
    [True, False, False]
    """
    number = number_of(engine, version)
    known = number is not None and engine in MENDED and number < MENDED[engine]
    return known and card.float_router
