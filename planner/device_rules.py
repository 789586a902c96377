"""Which engines serve which devices in which precision: natively, or as weights alone beside 16-bit
arithmetic.

Read in the vLLM documentation, "Quantization: supported hardware" and "FP8 W8A8" (0.32: weight-only FP8 and
FP4 by Marlin from Turing on; W8A8 from Ada on, AMD from MI300 on; AWQ and GPTQ not on AMD), "Installation:
GPU" (compute capability 7.0 and higher, gfx90a, gfx942, gfx950, Intel GPUs, plugins for Gaudi and TPU) and
"Attention backend feature support" (sparse latents); TensorRT-LLM, "Supported hardware" and "Quantization:
hardware support matrix" (1.0 to 1.3: FP8 in blocks on Hopper and sm100/103 alone, W4A16 until Hopper, FP8
caches from Ampere on, no INT8; issue 5581 for sm120), where MXFP4 on Hopper is measured though not listed;
SGLang and llama.cpp server documentation. 16-bit weights run as fp16 before Ampere. Where a table names no
Blackwell column, the kernels that the measured efficiencies cover were taken.
"""

from __future__ import annotations

from typing import Final

from cluster_configs.schema import Device
from model_zoo.schema import Attention, Mla, ModelCard
from planner.cost.reserve import known_engine
from planner.cost.shape import Precisions

BLACKWELL: Final = {"blackwell_dc", "blackwell_rtx"}
FROM_HOPPER: Final = {"hopper", *BLACKWELL}
FROM_ADA: Final = {"ada", *FROM_HOPPER}
FROM_AMPERE: Final = {"ampere", *FROM_ADA}
FROM_TURING: Final = {"turing", *FROM_AMPERE}
MI300: Final = {"cdna3", "cdna4"}
GAUDI: Final = {"gaudi2", "gaudi3"}

DEVICES: Final[dict[str, set[str]]] = {
    "vllm": {"volta", *FROM_TURING, "xe2", "cdna2", *MI300, *GAUDI, "tpu"},
    "sglang": {*FROM_TURING, *MI300},
    "trtllm": FROM_AMPERE,
    "llama.cpp": {"pascal", "volta", *FROM_TURING, "xe2", "rdna3", "cdna2", *MI300, "apple"},
}
"""Generations that each engine runs on."""

WEIGHTS: Final[dict[str, dict[str, set[str]]]] = {
    "vllm": {
        "fp8": {*FROM_TURING, *MI300, "xe2", *GAUDI},
        "fp8_block": {*FROM_TURING, *MI300, *GAUDI},
        "nvfp4": FROM_TURING,
        "mxfp4": {*FROM_AMPERE, *MI300},
        "int4_wo": {"volta", *FROM_TURING, "xe2"},
        "int8": {"turing", "ampere", "ada", "hopper"},
    },
    "sglang": {
        "fp8": {*FROM_AMPERE, *MI300},
        "fp8_block": {*FROM_ADA, *MI300},
        "nvfp4": BLACKWELL,
        "mxfp4": {*FROM_HOPPER, *MI300},
        "int4_wo": FROM_TURING,
        "int8": {"turing", "ampere", "ada", "hopper"},
    },
    "trtllm": {
        "fp8": FROM_ADA,
        "fp8_block": {"hopper", "blackwell_dc"},
        "nvfp4": BLACKWELL,
        "mxfp4": FROM_HOPPER,
        "int4_wo": {"ampere", "ada", "hopper"},
    },
    "llama.cpp": {
        "mxfp4": DEVICES["llama.cpp"],
        "int4_wo": DEVICES["llama.cpp"],
        "int8": DEVICES["llama.cpp"],
    },
}
"""Generations by engine and precision of the weights; 16 bit runs wherever the engine does."""

CACHE: Final[dict[str, dict[str, set[str]]]] = {
    "vllm": {"fp8": {*FROM_AMPERE, *MI300, *GAUDI, "tpu"}},
    "sglang": {"fp8": {*FROM_AMPERE, *MI300}},
    "trtllm": {"fp8": FROM_AMPERE, "nvfp4": {"blackwell_dc"}},
    "llama.cpp": {},  # its q8_0 cache is another format
}
"""Generations by engine and precision of the KV cache; 16 bit runs wherever the engine does."""


SPARSE: Final[dict[str, set[str]]] = {
    "vllm": {*FROM_HOPPER, *MI300, "xe2", *GAUDI},
    "sglang": {"hopper", "blackwell_dc", *MI300},
}
"""Generations with kernels for attention that picks entries of a latent (DeepSeek-V3.2 and V4, GLM-5), of
engines whose pages name them. vLLM 0.33: `FLASHMLA_SPARSE` and `FLASHINFER_MLA_SPARSE` from Hopper on (sm120
by pull 43477), ROCm, XPU, vllm-gaudi's deepseek_sparse_hpu; issues 31480 and 43172 (L40), 40851 (A800).
SGLang 0.5: basic_usage/deepseek_v32 (H200, B200, MI300, MI350)."""

BALANCED: Final[dict[str, dict[str, set[str]]]] = {
    "vllm": dict.fromkeys(("bf16", "fp8", "fp8_block", "nvfp4"), DEVICES["vllm"]),
    "sglang": dict.fromkeys(("bf16", "fp8", "fp8_block", "nvfp4"), DEVICES["sglang"]),
    "trtllm": {"bf16": FROM_HOPPER, "fp8": FROM_HOPPER, "fp8_block": {"hopper"}, "nvfp4": BLACKWELL},
}
"""Generations on which an engine's balancer keeps copies of experts of a precision. vLLM's refuses mxfp4, and
says nothing of int4. TensorRT-LLM 1.2: examples/wide_ep (GB200 and GB300 NVL72, H20, RTX 6000D: others of
their generations run the same kernels); deployment guide of DeepSeek-R1, "MoE backend support matrix": FP8 on
GB200 without EPLB."""


def balances(device: Device, engine: str, experts: str) -> bool:
    """Whether the engine keeps copies of experts of a precision on the device."""
    return device.generation in BALANCED.get(engine, {}).get(experts, set())


def picks_entries(card: ModelCard) -> bool:
    """Whether the model's attention picks entries of a latent, or of compressed caches."""
    mixers = card.mixers.values()
    return any(
        (isinstance(m, Mla) and m.indexer) or (isinstance(m, Attention) and m.compress) for m in mixers
    )


def supports(device: Device, engine: str, precision: str) -> str | None:
    """Why `engine` cannot serve weights in `precision` on `device`, or None.

    vLLM on Ampere and Turing holds fp8 and fp4 weights as they are and computes in 16 bit (Marlin): allowed.
    """
    return _why_not_device(device, engine) or _why_not(device, engine, precision, WEIGHTS, "weights")


def supports_cache(device: Device, engine: str, precision: str) -> str | None:
    """Why `engine` cannot keep its KV cache in `precision` on `device`, or None."""
    return _why_not_device(device, engine) or _why_not(device, engine, precision, CACHE, "KV cache")


def why_unsupported(
    device: Device, engine: str, used: Precisions, moe: bool, picks: bool = False
) -> str | None:
    """The first reason against any of `used` on `device`; `moe` False: the experts' precision does not
    matter; `picks`: see `picks_entries`."""
    if reason := _why_not_device(device, engine):
        return reason
    if picks and device.generation not in SPARSE.get(engine, {device.generation}):
        return f"{engine} has no sparse attention on {device.name} ({device.generation})"
    weights = {used.gemm, used.embedding} | ({used.experts} if moe else set())
    reasons = [supports(device, engine, precision) for precision in sorted(weights)]
    return next((r for r in reasons if r), None) or supports_cache(device, engine, used.kv)


def _why_not_device(device: Device, engine: str) -> str | None:
    served = device.generation in DEVICES[known_engine(engine)]
    return None if served else f"{engine} does not run on {device.name} ({device.generation})"


def _why_not(
    device: Device, engine: str, precision: str, table: dict[str, dict[str, set[str]]], what: str
) -> str | None:
    if precision == "bf16" or device.generation in table[engine].get(precision, set()):
        return None
    return f"{engine} has no {precision} {what} on {device.name} ({device.generation})"
