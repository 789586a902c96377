"""llama.cpp's server.

Memory: server README (margin of 1024 MiB a device, micro-batch of 512) and server.cpp (slots). In host
memory: `--n-cpu-moe`, `--override-tensor`, `--n-gpu-layers`, `--tensor-split`, weights mapped from their
file. Devices: CUDA (Pascal's fp16 is computed in fp32), HIP, SYCL and Metal of docs/build.md. Its q8_0 cache
is another format than FP8. Idle cache: whole prompts, whatever they are of.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.designs.shape import Floats
from planner.engines.engine import CONTEXT_BYTES, GIB, Engine, Offloads, Reserving
from planner.engines.generations import FROM_TURING, MI300

MARGIN_BYTES: Final = 1.0 * GIB
"""`--fit-target`: left free on every device."""

GENERATIONS: Final = (
    frozenset({"pascal", "volta", "xe", "xe2", "rdna3", "cdna2", "apple"}) | FROM_TURING | MI300
)


def _tokens_per_step(gib: float, device: str) -> int:
    """`--ubatch-size`."""
    return 512


def _reserve_bytes(m: Reserving) -> Floats:
    return np.full(m.used.shape, m.device_bytes - m.visible + CONTEXT_BYTES + MARGIN_BYTES)


LLAMA_CPP: Final = Engine(
    name="llama.cpp",
    generations=GENERATIONS,
    weights=dict.fromkeys(("mxfp4", "int4_wo", "int8"), GENERATIONS),
    cache={},
    tokens_per_step=_tokens_per_step,
    reserve_bytes=_reserve_bytes,
    block_tokens=1,  # cells
    hop_s=2e-4,  # medians of public runs on 4 GPUs: 0.25 and 0.29 ms, on 8: 0.11 and 0.12 (XiongjieDai)
    decodes_whole=True,  # `llama_decode` cuts a batch into micro-batches of 512 (pull 6017)
    logit_bytes=4.0,  # fp32
    offloads=Offloads("pp", layers=True, popular=False),
    # docs/speculative.md, common/speculative.cpp (draft-mtp and draft-eagle3 since 2026)
    drafts={
        "mtp": "--spec-type draft-mtp --spec-draft-n-max {k}",
        "eagle": "--spec-type draft-eagle3 --model-draft HEAD --spec-draft-n-max {k}",
        "ngram": "--spec-type ngram-simple --spec-ngram-simple-size-m {k}",
        "draft": "--spec-type draft-simple --model-draft {name} --spec-draft-n-max {k}",
    },
)
