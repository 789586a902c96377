"""SGLang.

Memory: 0.5.23 arg_groups/memory_hook.py (share computed from memory, chunk, graphs, GPUs), model_runner
(requests: 2048 at least, 4096 at most, by its cache). Devices and precisions: server documentation; sparse
latents: 0.5, basic_usage/deepseek_v32 (H200, B200, MI300, MI350). On AMD its kernels build for gfx942 and
gfx950 alone (issues 27519 and 30599, pull 26867 closed). Prompts first: managers/scheduler.py,
get_next_batch_to_run, with `--enable-mixed-chunk` off as by default. Windows: a pool for layers with a window
holds 0.8 of the tokens of the other's, `--swa-full-tokens-ratio` in server_args.py. Where a table names no
Blackwell column, the kernels that the measured efficiencies cover were taken.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.designs.shape import Floats
from planner.engines.engine import CONTEXT_BYTES, FIRST, GIB, MIB, Engine, Offloads, Replaying, Reserving
from planner.engines.generations import (
    BLACKWELL,
    FROM_ADA,
    FROM_AMPERE,
    FROM_HOPPER,
    FROM_TURING,
    INT8,
    MI300,
)

GENERATIONS: Final = FROM_TURING | MI300


def _tokens_per_step(gib: float, device: str) -> int:
    """`--chunked-prefill-size`."""
    return 2048 if gib < 20 else 4096 if gib < 60 else 8192 if gib < 160 else 16384


def _share(m: Reserving) -> Floats:
    """`--mem-fraction-static` when it is unset, shape (n,): total less 512 MiB, 1.5 MiB a chunk token, 2 MiB
    a sequence of the largest decode graph and 1024 MiB x GPUs / 8; at least 10 GiB kept on devices above 60
    GiB."""
    if m.share:
        return np.full(len(m.designs), m.share)
    gib, gpus = m.device_bytes / GIB, m.designs.gpus
    small, large = (8, 8) if gib < 20 else (48, 160) if gib < 60 else (256, 512)
    graph = np.where(gpus < 4, small, large)
    kept = MIB * (512 + 1.5 * max(m.tokens_per_step, 2048) + 2 * graph + 1024 * gpus / 8)
    kept = np.maximum(kept, 10 * GIB) if gib > 60 else kept
    return 1 - np.minimum(kept / m.device_bytes, 0.9)


def _reserve_bytes(m: Reserving) -> Floats:
    """Activations live outside its pool."""
    free = m.visible - CONTEXT_BYTES - m.buffers
    pool = np.minimum(free * _share(m)[:, None], free - m.graphs - m.activations)
    return m.device_bytes - pool - m.activations


def _graph_tokens(asked: Replaying) -> float:
    """Since 0.5.10 on NVIDIA's GPUs, of models without a vision tower; up to 2,048 tokens with latent
    attention (documentation, "Piecewise CUDA Graph")."""
    if asked.generation.startswith("cdna") or asked.sees:
        return 0.0
    return 2048.0 if asked.latent else np.inf


RANK_WAITS: Final = {"hopper": 1.28, "cdna4": 1.28}
"""Steps of attention-dp ranks against those of the calibration, in whose fit SGLang has none. Measured over
predicted TPOT of DeepSeek-R1's decode workers of 8 ranks, in the median: 1.28 on H200 (6 runs of InferenceX
and aiconfigurator) and 1.31 on MI355X (14 runs with MoRI, `--deepep-mode normal`), of which the former is
taken for both. On GB200 it is 0.94 with SGLang 0.5.8.post1 and weights in 8 bits, 1.13 over all versions."""

SGLANG: Final = Engine(
    name="sglang",
    generations=GENERATIONS,
    weights={
        "fp8": FROM_AMPERE | MI300,
        "fp8_block": FROM_ADA | MI300,
        "nvfp4": BLACKWELL,
        "mxfp4": FROM_HOPPER | MI300,
        "int4_wo": FROM_TURING,
        "int8": INT8,
    },
    cache={"fp8": FROM_AMPERE | MI300},
    sparse=frozenset({"hopper", "blackwell_dc"}) | MI300,
    prompts_first=True,
    rank_waits=RANK_WAITS,
    graph_tokens=_graph_tokens,
    graphs_alone=True,
    past_windows=0.8,  # --swa-full-tokens-ratio
    balanced=dict.fromkeys(("bf16", "fp8", "fp8_block", "nvfp4"), GENERATIONS),
    tokens_per_step=_tokens_per_step,
    reserve_bytes=_reserve_bytes,
    block_tokens=1,  # --page-size
    logit_bytes=12.0,  # fp32 logits, probabilities and a copy
    # with KTransformers' kernels: --kt-num-gpu-experts of every layer on the GPU, all others in host memory
    # (kt-kernel 0.5, with --kt-method, --kt-cpuinfer, --kt-weight-path)
    offloads=Offloads("tp", layers=False, popular=True),
    keeps_idle=frozenset({"Attention", "Mla"}),
    float_routers={
        "Glm4MoeForCausalLM": ((0, 5, 10), (0, 6, 0)),  # pull request 21660
        **dict.fromkeys(("MiMoV2FlashForCausalLM", "MiniMaxM2ForCausalLM"), (FIRST, (0, 6, 0))),
        "Step3p5ForCausalLM": (FIRST, (0, 6, 0)),
    },
    # 0.5, advanced_features/speculative_decoding; n-grams: CUDA alone, no attention-dp
    sends_wide=frozenset({"hopper", "blackwell_dc"}),  # DeepEP
    drafts={
        "mtp": "--speculative-algorithm EAGLE --speculative-num-steps {k} --speculative-eagle-topk 1",
        "eagle": "--speculative-algorithm EAGLE3 --speculative-draft-model-path HEAD "
        "--speculative-num-steps {k} --speculative-eagle-topk 1",
        "ngram": "--speculative-algorithm NGRAM --speculative-num-draft-tokens {k}",
        "draft": "--speculative-algorithm STANDALONE --speculative-draft-model-path {name} "
        "--speculative-num-steps {k} --speculative-eagle-topk 1",
    },
)
