"""vLLM.

Memory: 0.33 config/cache.py and v1/worker/utils.py (share of total memory, default 0.92),
engine/arg_utils.py (tokens a step, sequences). Devices and precisions: "Quantization: supported hardware"
and "FP8 W8A8" (0.32: weight-only FP8 and FP4 by Marlin from Turing on; W8A8 from Ada on, AMD from MI300 on;
AWQ, GPTQ and INT8 not on AMD), "Installation: GPU" (compute capability 7.0 and higher, gfx90a, gfx942,
gfx950, RX 7900 and Ryzen AI Max (gfx11: 16 bit alone), Intel GPUs but Alchemist since 0.10 (issue 24817,
vllm-xpu-kernels issue 92), plugins for Gaudi and TPU). Sparse latents: 0.33 `FLASHMLA_SPARSE` and
`FLASHINFER_MLA_SPARSE` from Hopper on (sm120 by pull 43477), ROCm, XPU, vllm-gaudi's deepseek_sparse_hpu;
issues 31480 and 43172 (L40), 40851 (A800). Its balancer refuses mxfp4, and says nothing of int4.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.designs.shape import Floats
from planner.engines.engine import FIRST, NEVER, Engine, Offloads, Replaying, Reserving
from planner.engines.generations import FROM_AMPERE, FROM_HOPPER, FROM_TURING, GAUDI, INT8, MI300

SHARE: Final = 0.92
"""`--gpu-memory-utilization`: weights, activations, graphs and KV as a share of total memory (0.90 until
0.11)."""

SMALL_STEPS: Final = ("a100", "gb10")
"""Devices with 70 GiB and more to which it gives the defaults of smaller ones, by a part of their names."""

GENERATIONS: Final = frozenset({"volta", "xe2", "cdna2", "rdna3", "tpu"}) | FROM_TURING | MI300 | GAUDI


def _small(gib: float, device: str) -> bool:
    """Whether it takes its defaults for small devices."""
    return gib < 70 or any(name in device for name in SMALL_STEPS)


def _tokens_per_step(gib: float, device: str) -> int:
    """`--max-num-batched-tokens`."""
    return 2048 if _small(gib, device) else 16384 if gib >= 160 else 8192


def _reserve_bytes(m: Reserving) -> Floats:
    """The context lies outside its share: what it measures starts after it."""
    return np.broadcast_to(
        m.device_bytes - (m.share or SHARE) * m.visible + m.buffers + m.graphs, m.used.shape
    )


def _graph_tokens(asked: Replaying) -> float:
    """`max_cudagraph_capture_size` where nothing is told, with the mode "full and piecewise" (0.11 to 0.33,
    config/compilation.py; of gpt-oss model_executor/models/config.py)."""
    return 1024.0 if asked.model.startswith("gpt-oss") else 512.0


VLLM: Final = Engine(
    name="vllm",
    generations=GENERATIONS,
    weights={
        "fp8": FROM_TURING | MI300 | {"xe2"} | GAUDI,
        "fp8_block": FROM_TURING | MI300 | GAUDI,
        "nvfp4": FROM_TURING,
        "mxfp4": FROM_AMPERE | MI300,
        "int4_wo": FROM_TURING | {"volta", "xe2"},
        "int8": INT8,
    },
    cache={"fp8": FROM_AMPERE | MI300 | GAUDI | {"tpu"}},
    sparse=FROM_HOPPER | MI300 | {"xe2"} | GAUDI,
    balanced=dict.fromkeys(("bf16", "fp8", "fp8_block", "nvfp4"), GENERATIONS),
    tokens_per_step=_tokens_per_step,
    reserve_bytes=_reserve_bytes,
    graph_tokens=_graph_tokens,
    block_tokens=16,  # --block-size
    shares_hops=True,  # distributed/parallel_state.py: `send_tensor_dict` with an `all_gather_group`
    logit_bytes=41.0,
    # prefetch (0.23 to 0.33): of every --offload-group-size layers the last --offload-num-in-group, copied
    # --offload-prefetch-step layers ahead
    offloads=Offloads("tp", layers=True, popular=False, streams=True),
    keeps_idle=frozenset({"Attention"}),
    float_routers={
        "MiniMaxM2ForCausalLM": (FIRST, (0, 26, 0)),
        **dict.fromkeys(("Glm4MoeForCausalLM", "MiMoV2FlashForCausalLM"), (FIRST, NEVER)),
        **dict.fromkeys(("NemotronHForCausalLM", "Step3p5ForCausalLM"), (FIRST, NEVER)),
    },
    # docs/features/spec_decode.md, 0.10 and later; not with pipelines
    sends_wide=frozenset({"hopper", "blackwell_dc"}),  # DeepEP
    drafts={
        "mtp": '--speculative-config {{"method":"mtp","num_speculative_tokens":{k}}}',
        "eagle": '--speculative-config {{"method":"eagle3","model":"HEAD","num_speculative_tokens":{k}}}',
        "ngram": '--speculative-config {{"method":"ngram","num_speculative_tokens":{k}}}',
        "draft": '--speculative-config {{"method":"draft_model","model":"{name}",'
        '"num_speculative_tokens":{k}}}',
    },
)
"""`logit_bytes`: it profiles top-k and top-p at once, which sorts in fp32 with 64-bit indices: 1.26 GiB at
256 sequences x 128,256, the same at tp 1 and 2 (pull 10511), and the 6 GiB at 1024 x 151,936 that issue
21348 misses."""
