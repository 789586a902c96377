"""What routers of experts are computed in: in 16 bits, or in 32 with or without tensor cores.

Engines hold the routers of some models in 32 bits (`float_router` of the card). PyTorch multiplies 32 bits
without tensor cores unless it is told that TF32 will do: vLLM by `VLLM_FLOAT32_MATMUL_PRECISION=high`, SGLang
by `--enable-tf32-matmul`. MiniMax-M2.5's then take 9 % instead of 3 % of a step of 64 sequences
(sgl-project/sglang pull request 22744). vLLM has kernels since that compute the same on tensor cores from
three 16-bit parts of each weight (vllm-project/vllm pull request 47973).
"""

from __future__ import annotations

from model_zoo.schema import ModelCard, MoeFfn
from planner.cost.eras import Version, number_of

MENDED: dict[str, Version] = {"vllm": (0, 26, 0), "sglang": (0, 6, 0)}
"""The first version of each engine that is not known to multiply 32-bit routers without tensor cores."""


def router_precision(card: ModelCard, engine: str, version: str) -> str:
    """What the model's routers are computed in where a launch line does not say: "fp32" on versions that are
    known to, else as if in 16 bits.

    >>> from model_zoo.catalog import find
    >>> [router_precision(find("minimax-m2.5")[0], "vllm", v) for v in ("0.19.0", "0.26.1", "")]
    ['fp32', 'bf16', 'bf16']
    """
    float_router = any(isinstance(layer.ffn, MoeFfn) and layer.ffn.float_router for layer in card.stack)
    number = number_of(version)
    known = number is not None and engine in MENDED and number < MENDED[engine]
    return "fp32" if float_router and known else "bf16"
