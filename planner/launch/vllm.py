"""vLLM's command line for a replica. Flags and their meaning: vllm 0.23.0 to 0.33.0 (engine/arg_utils.py,
config/parallel.py, config/cache.py, config/kv_transfer.py, distributed/utils.py)."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from planner.engines.vllm import SHARE
from planner.launch import expert_maps
from planner.launch.server import DEEPEP, Server
from planner.plans.schema import Launch

VERSIONS: Final = ">=0.23,<0.34"
PORT: Final = 8000
HEAD: Final = "$HEAD_ADDR"
"""The first node of a replica that stands on several: the shell fills it in."""

CACHE: Final = {"bf16": "auto", "fp8": "fp8"}


def line(s: Server) -> Launch:
    """One command for one node; of several nodes the same with its rank on each, or data-parallel ranks."""
    r = s.replica
    words = ["vllm", "serve", s.model, "--port", str(PORT)]
    words += ["--tensor-parallel-size", str(r.tp), "--pipeline-parallel-size", str(r.pp)]
    words += ["--data-parallel-size", str(r.attn_dp)]
    if r.cp > 1:
        words += ["--prefill-context-parallel-size", str(r.cp)]
    if s.moe:
        words += ["--enable-expert-parallel" if r.ep > 1 else "--no-enable-expert-parallel"]
    if s.sends_wide:
        mode = "high_throughput" if r.role == "prefill" else "low_latency"
        words += ["--all2all-backend", f"deepep_{mode}", "--enable-dbo"]
    if r.redundant_experts:
        told = json.dumps({"num_redundant_experts": r.redundant_experts}, separators=(",", ":"))
        words += ["--enable-eplb", "--eplb-config", told]
    words += ["--max-model-len", str(s.max_len), "--max-num-seqs", str(s.sequences)]
    tokens = max(r.max_batched_tokens or s.default_tokens, s.sequences)  # as was counted
    words += ["--max-num-batched-tokens", str(tokens), "--gpu-memory-utilization", str(SHARE)]
    words += ["--kv-cache-dtype", CACHE.get(s.kv, s.kv)]
    words += ["--enable-prefix-caching" if s.prefix_cache else "--no-enable-prefix-caching"]
    if s.lowered == "fp8":
        words += ["--quantization", "fp8"]
    if r.draft:
        words += s.draft_option.split(" ", 1)
    if r.role != "mixed":
        words += ["--kv-transfer-config", _transfer(s)]
    elif s.kept_bytes:
        gib = max(math.ceil(s.kept_bytes / r.attn_dp / 2**30), 1)
        words += ["--kv-offloading-backend", "native", "--kv-offloading-size", str(gib)]
    for part in s.beside[:1]:  # of every `group` layers the last ones
        start, group = part.layers[0]
        words += ["--offload-group-size", str(group), "--offload-num-in-group", str(group - start)]
        words += ["--offload-prefetch-step", "2"]
    env, notes = dict[str, str](), _notes(s)
    if s.float_router:
        env["VLLM_FLOAT32_MATMUL_PRECISION"] = "high"
    if s.moe and r.precision.experts == "mxfp4" and s.generation == "blackwell_dc":
        env["VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8"] = "1"  # inputs in 8 bits, as counted; else 16
    if r.pp > 1:
        env["VLLM_PP_LAYER_PARTITION"] = ",".join(map(str, s.layers))
    if r.role != "mixed":
        env |= {"VLLM_NIXL_SIDE_CHANNEL_HOST": "$HOST_ADDR", "VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}
    first, *ranks = _over_nodes(words, s)
    return Launch(argv=first, env=env, engine_versions=VERSIONS, notes=notes, ranks=ranks)


def _transfer(s: Server) -> str:
    """Prefill gives its cache through NIXL; a pipeline pushes it (pulls 45880, 50494), and over PCIe, where
    UCX reads by TCP and writes to peers at the link's rate (0.5 and 49 GB/s, vllm issue 52607). Idle cache
    goes to host memory through a second connector, as the offloading options would take the first one's
    place; its bytes are those of one engine, over its tp ranks."""
    role = {"prefill": "kv_producer", "decode": "kv_consumer"}[s.replica.role]
    name = "NixlPushConnector" if s.piped_prefill or s.peers_over_pcie else "NixlConnector"
    told: dict[str, Any] = {"kv_connector": name, "kv_role": role}
    if s.kept_bytes:
        room = {"cpu_bytes_to_use": math.ceil(s.kept_bytes / s.replica.attn_dp)}
        away = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": room,
        }
        several = {"connectors": [told, away]}
        told = {
            "kv_connector": "MultiConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": several,
        }
    return json.dumps(told, separators=(",", ":"))


def _over_nodes(words: list[str], s: Server) -> list[list[str]]:
    """A command a node: ranks of one engine by `--nnodes`, data-parallel ones by their start rank."""
    if s.nodes == 1:
        return [words]
    r, nodes = s.replica, s.nodes
    if r.attn_dp > 1 and r.attn_dp % nodes == 0:
        local = r.attn_dp // nodes
        own = ["--data-parallel-size-local", str(local), "--data-parallel-address", HEAD]
        return [
            [*words, *own, "--data-parallel-rpc-port", "13345"]
            + (["--headless", "--data-parallel-start-rank", str(i * local)] if i else [])
            for i in range(nodes)
        ]
    join = ["--nnodes", str(nodes), "--master-addr", HEAD, "--node-rank"]
    return [[*words, *join, str(i), *["--headless"] * bool(i)] for i in range(nodes)]


def _notes(s: Server) -> list[str]:
    notes = s.quantised
    if s.nodes > 1:
        notes.append(f"one command on each of {s.nodes} nodes; HEAD_ADDR is the address of the first")
    if s.sends_wide:
        notes.append(DEEPEP)
    if s.piped_prefill and s.replica.role != "mixed":
        notes.append("a pipelined prefill hands its cache over by NixlPushConnector: newer than 0.23")
    elif s.peers_over_pcie and s.replica.role != "mixed":
        notes.append("caches are pushed over PCIe by NixlPushConnector, newer than 0.23: reads go by TCP")
    if expert_maps.entry(s) and s.replica.redundant_experts:
        notes.append("vLLM takes no expert map at the start: its balancer finds one while it serves")
    elif expert_maps.entry(s):
        notes.append("vLLM takes no expert map at the start, and without copies has no balancer: in order")
    if s.replica.role != "mixed":
        notes.append("HOST_ADDR is the address of the node itself")
    notes.append("--gpu-memory-utilization is a share of all memory of a GPU: weights, cache and activations")
    return notes
