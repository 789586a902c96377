"""What one command line of an engine starts: its parallelism, limits, memory share and role.

GPUs, by engine (rules as read in vllm 0.33.0 config/parallel.py, sglang 0.5.23 server_args.py and
arg_groups/parallel_hook.py, TensorRT-LLM's exported configurations, llama.cpp's server README):

    vLLM           pp x tp x prefill cp x dp; decode cp adds none; experts over all of tp x cp x dp, a switch
    SGLang         dp x tp x pp; attention dp lies inside tp and adds none
    TensorRT-LLM   tp x pp x cp; attention dp is all of tp; moe_tp x moe_ep = tp
    llama.cpp      the devices that are named, or that the layers are split over
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from planner.errors import InputError
from planner.imports.deployment import KV_ROLES, NODE_GPUS, TRANSCEIVER, Role, Server
from planner.imports.flags import Line, parsed, whole
from planner.imports.yaml import named


def server(
    engine: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    files: Mapping[str, str] | None = None,
    beside: str = "",
) -> Server:
    """The server that `argv` (without the program) starts. Raises InputError for a configuration file or a
    JSON value that cannot be read."""
    line = parsed(argv, engine, beside)
    made = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm, "llama.cpp": _llama_cpp}[engine]
    return made(line, env, files or {})


def _vllm(line: Line, env: Mapping[str, str], files: Mapping[str, str]) -> Server:
    _from_yaml(line, line.get("--config"), files, "--")
    tp, pp = line.number("--tensor-parallel-size") or 1, line.number("--pipeline-parallel-size") or 1
    dp, pcp = line.number("--data-parallel-size") or 1, line.number("--prefill-context-parallel-size") or 1
    dcp, local = line.number("--decode-context-parallel-size"), line.number("--data-parallel-size-local")
    gpus, rank = tp * pp * pcp * dp, line.number("--data-parallel-rank")
    start = line.number("--data-parallel-start-rank")
    headless = line.on("--headless")
    nodes = line.number("--nnodes") or (math.ceil(dp / local) if local else math.ceil(gpus / NODE_GPUS))
    transfer = _json(line, "--kv-transfer-config")
    role = _role(transfer, line.get("--disaggregation-mode"))
    several = 1 if rank is not None else (local or dp)
    here = tp * pp * pcp * several // (1 if rank is not None else line.number("--nnodes") or 1)
    hybrid = line.on("--data-parallel-hybrid-lb") or (start is not None and not headless)
    ray = line.get("--distributed-executor-backend")
    spec, caching = _json(line, "--speculative-config"), "--enable-prefix-caching"
    facts = {
        "model": line.get("--model") or next(iter(line.words), None),
        **{"tp": tp, "pp": pp, "dp": dp},
        "ep": tp * pcp * dp if line.on("--enable-expert-parallel") else None,
        "max_model_len": line.number("--max-model-len"),
        **{"gpus": gpus, "nodes": nodes, "dcp": dcp, "cp": pcp if pcp > 1 else None},
        "kv_cache_dtype": line.get("--kv-cache-dtype"),
        "quantization": line.get("--quantization"),
        "max_num_seqs": line.number("--max-num-seqs"),
        "max_num_batched_tokens": line.number("--max-num-batched-tokens"),
        "gpu_memory_utilization": _share(line.get("--gpu-memory-utilization")),
        "port": line.number("--port"),
        "dp_local": local,
        "dp_rank": rank,
        "lb": "external" if rank is not None or line.on("--data-parallel-external-lb") else "hybrid" * hybrid,
        "backend": ray or ("mp" if line.number("--nnodes") else None),
        "cpu_offload_gb_per_gpu": _share(line.get("--cpu-offload-gb")),
        "prefix_cache": line.on(caching) if line.get(caching) is not None else None,
        "spec": _spec(spec.get("method"), spec.get("num_speculative_tokens")),
        **_transferred(transfer),
        **_placed(env, tp, pp, env.get("VLLM_PP_LAYER_PARTITION"), line.get("--device-ids")),
    }
    return _made("vllm", line, facts, role, env, here, headless or bool(line.number("--node-rank")))


def _sglang(line: Line, env: Mapping[str, str], files: Mapping[str, str]) -> Server:
    _from_yaml(line, line.get("--config"), files, "--")
    tp, pp = line.number("--tp-size") or 1, line.number("--pp-size") or 1
    plain, attn = line.number("--dp-size") or 1, line.number("--attn-dp-size")
    if line.on("--enable-dp-attention"):
        attn = attn or plain
    dp = attn or plain
    nodes = line.number("--nnodes") or 1
    gpus = tp * pp * (1 if attn else plain)
    spanning = (line.get("--moe-a2a-backend") or "none") not in ("none", "flashinfer")
    ep = line.number("--ep-size") or (tp if spanning or "--enable-deepep-moe" in line.unknown else None)
    mode = line.get("--disaggregation-mode")
    role: Role = "prefill" if mode == "prefill" else "decode" if mode == "decode" else "mixed"
    facts = {
        "model": line.get("--model-path") or next(iter(line.words), None),
        **{"tp": tp, "pp": pp, "dp": dp, "ep": ep, "max_model_len": line.number("--context-length")},
        **{"gpus": gpus, "nodes": max(nodes, math.ceil(gpus / NODE_GPUS))},
        "attn_dp": attn,
        "attn_tp": tp // attn if attn else None,
        "mem_fraction_static": _share(line.get("--mem-fraction-static")),
        "max_running_requests": line.number("--max-running-requests"),
        "chunked_prefill_size": line.number("--chunked-prefill-size"),
        "kv_cache_dtype": line.get("--kv-cache-dtype"),
        "quantization": line.get("--quantization"),
        "port": line.number("--port"),
        "prefix_cache": False if line.on("--disable-radix-cache") else None,
        "transfer": line.get("--disaggregation-transfer-backend"),
        "spec": _spec(line.get("--speculative-algorithm"), line.number("--speculative-num-draft-tokens")),
        "expert_map": line.get("--init-expert-location"),
        **_placed(env, tp, pp, env.get("SGLANG_PP_LAYER_PARTITION"), None),
    }
    return _made("sglang", line, facts, role, env, gpus // nodes, bool(line.number("--node-rank")))


YAML_NAMES = {
    "tensor_parallel_size": "--tensor_parallel_size",
    "pipeline_parallel_size": "--pipeline_parallel_size",
    "context_parallel_size": "--context_parallel_size",
    "moe_expert_parallel_size": "--moe_expert_parallel_size",
    "max_batch_size": "--max_batch_size",
    "max_num_tokens": "--max_num_tokens",
    "max_seq_len": "--max_seq_len",
    "enable_attention_dp": "--enable_attention_dp",
}
"""Keys of the LLM arguments that are options of `trtllm-serve`, too."""


def _trtllm(line: Line, env: Mapping[str, str], files: Mapping[str, str]) -> Server:
    path = line.get("--config", "--extra-engine-args")
    told = named(path, files) if path else {}
    for key, flag in YAML_NAMES.items():  # the YAML wins over the command line
        if key in told:
            line.values[flag] = str(told[key])
    cache: dict[str, Any] = told.get("kv_cache_config") or {}
    tp, pp = line.number("--tensor_parallel_size") or 1, line.number("--pipeline_parallel_size") or 1
    cp, ep = line.number("--context_parallel_size") or 1, line.number("--moe_expert_parallel_size")
    dtype = cache.get("dtype") or line.get("--kv_cache_dtype")
    part = cache.get("free_gpu_memory_fraction") or line.get("--free_gpu_memory_fraction")
    partition = told.get("pp_partition")
    facts = {
        "kv_connector": TRANSCEIVER if told.get("cache_transceiver_config") else None,
        "model": next((w for w in line.words if w != "serve"), None)
        or line.get("--model")
        or told.get("model"),
        **{"tp": tp, "pp": pp, "dp": 1, "ep": ep, "max_model_len": line.number("--max_seq_len")},
        **{"gpus": tp * pp * cp, "nodes": whole(env.get("SLURM_NNODES")) or 1, "cp": cp if cp > 1 else None},
        "attn_dp": tp if line.on("--enable_attention_dp") else None,
        "kv_cache_dtype": dtype if dtype != "auto" else None,
        "free_gpu_memory_fraction": _share(part),
        "max_batch_size": line.number("--max_batch_size"),
        "max_num_tokens": line.number("--max_num_tokens"),
        "moe_tp": told.get("moe_tensor_parallel_size"),
        "port": line.number("--port"),
        "prefix_cache": cache.get("enable_block_reuse"),
        **_placed(env, tp, pp, ",".join(map(str, partition)) if partition else None, None),
    }
    roles: dict[str, Role] = {"context": "prefill", "generation": "decode"}
    role = roles.get(str(line.get("--server_role") or "").lower(), "mixed")
    return _made("trtllm", line, facts, role, env, tp * pp * cp, False)


def _llama_cpp(line: Line, env: Mapping[str, str], files: Mapping[str, str]) -> Server:
    context, split = line.number("--ctx-size"), line.get("--tensor-split")
    ratios = _ratios(split) if split else []
    listed = [x for x in (line.get("--device") or "").split(",") if x and x != "none"]
    placed = _placed(env, 1, 1, None, None)
    gpus = len(listed) or len(ratios) or len(placed.get("gpu_ids") or []) or 1
    facts = {
        "model": line.get("--hf-repo") or line.get("--model"),
        **{"tp": 1, "pp": 1, "dp": 1, "ep": None},
        "max_model_len": "from model" if context == 0 else context,
        **{"gpus": gpus, "nodes": 1},
        "n_gpu_layers": line.number("--n-gpu-layers", "--gpu-layers"),
        "n_cpu_moe": line.number("--n-cpu-moe"),
        "tensor_split": [int(x) if x == int(x) else x for x in ratios] or None,
        "parallel": line.number("--parallel"),
        "batch": line.number("--batch-size"),
        "ubatch": line.number("--ubatch-size"),
        "split_mode": line.get("--split-mode"),
        "kv_cache_dtype": line.get("--cache-type-k"),
        "port": line.number("--port"),
        "rpc": line.get("--rpc"),
        **placed,
    }
    return _made("llama.cpp", line, facts, "mixed", env, gpus, False)


def _ratios(split: str) -> list[float]:
    """The parts of llama.cpp's devices, by commas or slashes. Raises InputError.

    >>> _ratios("3,1"), _ratios("1/2")
    ([3.0, 1.0], [1.0, 2.0])
    """
    try:
        found = [float(x) for x in re.split("[,/]", split)]
    except ValueError:
        found = []
    if not found or not all(0 <= x < math.inf for x in found):
        raise InputError(f"`{split[:40]}` is no list of ratios", "--tensor-split", "numbers, as in 3,1")
    return found


def _made(
    engine: str,
    line: Line,
    facts: Mapping[str, Any],
    role: Role,
    env: Mapping[str, str],
    here: int,
    secondary: bool,
) -> Server:
    """With the facts that are known; sizes that nobody gave stand as None."""
    always = ("model", "tp", "pp", "dp", "ep", "max_model_len", "gpus", "nodes")
    left = {k: v for k, v in facts.items() if k in always or v not in (None, "", [], {})}
    return Server(engine, line, left, role, env, max(here, 1), secondary, tuple(line.notes))


def _share(text: object) -> float | int | None:
    """A number as it is written."""
    try:
        value = float(str(text))
    except ValueError:
        return None
    whole = math.isfinite(value) and value == int(value) and "." not in str(text)
    return int(value) if whole else value


def _spec(method: object, tokens: object) -> str | None:
    """How tokens are drafted, and how many: "EAGLE:4"."""
    return None if not method else f"{method}:{tokens}" if tokens else str(method)


def _json(line: Line, flag: str) -> dict[str, Any]:
    """A flag's JSON, with the keys that were given by dots."""
    text, told = line.get(flag), dict[str, Any]()
    if text:
        try:
            told = json.loads(text)
        except (ValueError, RecursionError) as error:
            said = getattr(error, "msg", error)
            raise InputError(f"the value is no JSON: {said}", flag, "quote it with '…'") from None
        if not isinstance(told, dict):
            raise InputError("the value is no JSON object", flag)
    for name, value in line.values.items():
        if name.startswith(f"{flag}."):
            told[name.removeprefix(f"{flag}.")] = value
    return told


def _role(transfer: Mapping[str, Any], mode: str | None) -> Role:
    """Prefill or decode by the roles of the connectors, or by Dynamo's mode."""
    if mode in ("prefill", "decode"):
        return mode  # type: ignore[return-value]
    return next((KV_ROLES[r] for r in _kv_roles(transfer) if r in KV_ROLES), "mixed")


def _kv_roles(transfer: Mapping[str, Any]) -> list[str]:
    """Roles of a connector and of those inside it."""
    inner = (transfer.get("kv_connector_extra_config") or {}).get("connectors") or []
    return [str(transfer.get("kv_role", "")), *(r for x in inner for r in _kv_roles(x))]


def _transferred(transfer: Mapping[str, Any]) -> dict[str, Any]:
    """The connector with those inside it, its role, and host memory for cache."""
    if not transfer:
        return {}
    extra = transfer.get("kv_connector_extra_config") or {}
    inner = [str(x.get("kv_connector", "")).removesuffix("Connector") for x in extra.get("connectors") or []]
    name = str(transfer.get("kv_connector", ""))
    roles = [r for r in _kv_roles(transfer) if r in KV_ROLES] or [str(transfer.get("kv_role", ""))]
    return {
        "kv_connector": f"{name}({','.join(inner)})" if inner else name,
        "kv_role": roles[0],
        "cpu_kv_bytes_per_rank": extra.get("cpu_bytes_to_use_per_rank"),
    }


VISIBLE = (
    *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
    *("HABANA_VISIBLE_MODULES", "TPU_VISIBLE_CHIPS"),
)
"""Variables that name a server's GPUs by number."""


def _placed(
    env: Mapping[str, str], tp: int, pp: int, partition: str | None, ids: str | None
) -> dict[str, Any]:
    """GPUs by number, those of each stage, and layers of the stages, where they are told."""
    said = ids or next((env[name] for name in VISIBLE if env.get(name)), "")
    gpus = [int(x) for x in said.split(",")] if all(x.strip().isdigit() for x in said.split(",")) else []
    stages = [gpus[i : i + tp] for i in range(0, len(gpus), tp)] if pp > 1 and len(gpus) == tp * pp else None
    known = partition and partition.replace(",", "").isdigit()
    layers = [int(x) for x in partition.split(",")] if partition and known else None
    return {"gpu_ids": gpus or None, "stage_gpus": stages, "layer_partition": layers}


def _from_yaml(line: Line, path: str | None, files: Mapping[str, str], lead: str) -> None:
    """Flags of a configuration file; those of the command line win."""
    for key, value in (named(path, files) if path else {}).items():
        text = json.dumps(value) if isinstance(value, dict | list) else str(value)
        line.values.setdefault(lead + str(key).replace("_", "-"), text)
