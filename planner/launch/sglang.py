"""SGLang's command line for a replica. Flags and their meaning: sglang 0.5.13 to 0.5.23 (server_args.py,
arg_groups/parallel_hook.py, memory_hook.py, fields/disagg.py, distributed/utils.py)."""

from __future__ import annotations

import math
import shlex
from typing import Final

from planner.launch import expert_maps
from planner.launch.server import DEEPEP, Server
from planner.plans.schema import Launch

PORT: Final = 30000
HEAD: Final = "$HEAD_ADDR"
BOOTSTRAP: Final = 8998
"""At which a prefill server is asked for its cache."""

CACHE: Final = {"bf16": "auto", "fp8": "fp8_e4m3"}
LATEST: Final = ">=0.5.23,<0.6"
"""Versions with `--attn-dp-size`, attention dp inside tp (`--dp-size` with `--enable-dp-attention` said the
same before), and with `--enable-tf32-matmul`."""


def line(s: Server) -> Launch:
    """`--tp-size` is all GPUs of a stage: attention dp lies inside it and adds none; the running requests are
    those of all its ranks together."""
    r = s.replica
    tp = r.tp * r.attn_dp * r.cp
    words = ["python", "-m", "sglang.launch_server", "--model-path", s.model, "--port", str(PORT)]
    words += ["--tp-size", str(tp), "--pp-size", str(r.pp)]
    if r.attn_dp > 1:
        words += ["--attn-dp-size", str(r.attn_dp)]
    if s.moe:
        words += ["--ep-size", str(r.ep)]
    if s.sends_wide:
        mode = {"prefill": "normal", "decode": "low_latency"}.get(r.role, "auto")
        words += ["--moe-a2a-backend", "deepep", "--deepep-mode", mode, "--enable-two-batch-overlap"]
    if r.cp > 1:
        words += ["--enable-prefill-cp", "--cp-strategy", "zigzag", "--attn-cp-size", str(r.cp)]
    rows, files = expert_maps.rows_of(s), dict[str, str]()
    if r.redundant_experts:
        words += ["--ep-num-redundant-experts", str(r.redundant_experts)]
        words += [] if rows else ["--enable-eplb"]
    if rows:
        files[f"{r.id}-experts.json"] = expert_maps.sglang(rows, s.experts, len(s.card.stack))
        words += ["--init-expert-location", f"{r.id}-experts.json"]
    words += ["--context-length", str(s.max_len), "--max-running-requests", str(max(r.max_batch, r.attn_dp))]
    tokens = (r.max_batched_tokens or s.default_tokens) * r.attn_dp  # SGLang divides it: parallel_hook.py
    words += ["--chunked-prefill-size", str(tokens)]
    words += ["--mem-fraction-static", f"{min(s.pool_share, 0.97):.2f}"]
    words += ["--kv-cache-dtype", CACHE.get(s.kv, s.kv)]
    if not s.prefix_cache:
        words += ["--disable-radix-cache"]
    if s.kept_bytes:
        words += _kept(s)
    if s.lowered == "fp8":
        words += ["--quantization", "fp8"]
    if s.float_router:
        words += ["--enable-tf32-matmul"]
    words += shlex.split(s.draft_option)
    if r.role != "mixed":
        words += ["--disaggregation-mode", r.role, "--disaggregation-transfer-backend", "nixl"]
        words += ["--disaggregation-bootstrap-port", str(BOOTSTRAP)] * (r.role == "prefill")
    notes = [*s.quantised, "--mem-fraction-static is weights and cache as a share of all memory of a GPU"]
    if s.sends_wide:
        notes.append(DEEPEP)
    if s.beside:
        kept = round(s.experts * (1 - sum(part.share for part in s.beside if part.what == "experts")))
        words += [
            "--kt-num-gpu-experts",
            str(kept),
            "--kt-weight-path",
            "$KT_WEIGHTS",
            "--kt-method",
            "$KT_METHOD",
        ]
        notes.append(
            "with kt-kernel: KT_WEIGHTS and KT_METHOD are the experts for its CPU kernels, and which"
        )
    env = {"SGLANG_PP_LAYER_PARTITION": ",".join(map(str, s.layers))} if r.pp > 1 else {}
    ranks = [words]
    if s.nodes > 1:
        join = ["--dist-init-addr", f"{HEAD}:5000", "--nnodes", str(s.nodes), "--node-rank"]
        ranks = [[*words, *join, str(i)] for i in range(s.nodes)]
        notes.append(f"one command on each of {s.nodes} nodes; HEAD_ADDR is the address of the first")
    latest = r.attn_dp > 1 or r.cp > 1 or s.float_router
    versions = LATEST if latest else ">=0.5.13,<0.6"
    return Launch(argv=ranks[0], env=env, engine_versions=versions, notes=notes, ranks=ranks[1:], files=files)


def _kept(s: Server) -> list[str]:
    """HiCache: GB for each GPU in host memory, more than the GPU's own cache; files where disks hold it."""
    words = ["--enable-hierarchical-cache", "--hicache-write-policy", "write_through"]
    if s.replica.kept and s.replica.kept.place != "host":
        return [*words, "--hicache-ratio", "2", "--hicache-storage-backend", "file"]
    own = max(part.kv_bytes for part in s.replica.memory)
    return [*words, "--hicache-size", str(math.ceil(max(s.kept_bytes / s.gpus, 1.1 * own) / 1e9))]
