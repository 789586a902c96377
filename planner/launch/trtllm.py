"""TensorRT-LLM's command line for a replica: `trtllm-serve` with a YAML of LLM arguments, which win over the
command line. Meaning: llmapi/llm_args.py and commands/serve.py (2026); attention dp and moe_tp as in exported
configurations."""

from __future__ import annotations

import math
from typing import Any, Final

from planner.engines.trtllm import FREE_SHARE
from planner.launch import expert_maps
from planner.launch.server import Server
from planner.plans.schema import Launch

PORT: Final = 8000
UPDATED: Final = 2
"""Layers whose experts the balancer moves after a step, where it may (the example's own in
`examples/wide_ep`)."""


def line(s: Server) -> Launch:
    """tp is all GPUs of a stage; attention dp is all of it or none; batch limits are those of a rank."""
    r = s.replica
    tp, args = r.tp * r.attn_dp, dict[str, Any]()
    args |= {"tensor_parallel_size": tp, "pipeline_parallel_size": r.pp, "context_parallel_size": r.cp}
    if s.moe:
        args |= {"moe_tensor_parallel_size": r.moe_tp, "moe_expert_parallel_size": r.ep}
    args |= {"enable_attention_dp": r.attn_dp > 1, "max_batch_size": s.sequences}
    args |= {"max_num_tokens": r.max_batched_tokens or 8192, "max_seq_len": s.max_len}
    args["enable_chunked_prefill"] = True
    rows, files = expert_maps.rows_of(s), dict[str, str]()
    if rows:
        files[f"{r.id}-experts.yaml"] = expert_maps.trtllm(rows)
        args["moe_config"] = {"load_balancer": f"{r.id}-experts.yaml"}
    elif r.redundant_experts:
        slots = s.experts + r.redundant_experts
        args["moe_config"] = {"load_balancer": {"num_slots": slots, "layer_updates_per_iter": UPDATED}}
    elif s.expert_kernels:
        args["moe_config"] = {"backend": s.expert_kernels.upper()}
    args["kv_cache_config"] = {
        "free_gpu_memory_fraction": FREE_SHARE,
        "dtype": "auto" if s.kv == "bf16" else s.kv,
        "enable_block_reuse": s.prefix_cache,
    }
    if s.kept_bytes:
        args["kv_cache_config"]["host_cache_size"] = math.ceil(s.kept_bytes / s.gpus)
    if r.pp > 1:
        args["pp_partition"] = s.layers
    if r.role != "mixed":
        args["cache_transceiver_config"] = {"backend": "DEFAULT"}
    text = written(args) + (f"{s.draft_option}\n" if r.draft else "")
    words = ["trtllm-serve", s.model, "--port", str(PORT), "--config", f"{r.id}.yaml"]
    notes = [*s.quantised, f"free_gpu_memory_fraction {FREE_SHARE} is of what weights and buffers leave free"]
    if s.nodes > 1:
        words = ["trtllm-llmapi-launch", *words]
        notes.append(
            f"one MPI rank a GPU over {s.nodes} nodes: srun -N {s.nodes} -n {s.gpus} --mpi=pmix before it"
        )
    return Launch(
        argv=words, engine_versions=">=1.3,<1.5", notes=notes, files={f"{r.id}.yaml": text, **files}
    )


def written(args: dict[str, Any], indent: str = "") -> str:
    """Plain YAML of numbers, words, lists of numbers and mappings.

    >>> print(written({"a": True, "b": {"c": [1, 2]}}), end="")
    a: true
    b:
      c: [1, 2]
    """
    lines = []
    for key, value in args.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}:\n{written(value, indent + '  ')}")
        else:
            said = str(value).lower() if isinstance(value, bool) else str(value)
            lines.append(f"{indent}{key}: {said}\n")
    return "".join(lines)
