"""Good files of every kind: values of YAML and JSON, texts that tools print, arrays of experts' loads."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from typing import Any

import numpy as np

CLUSTER = {
    "name": "lab",
    "nodes": [
        {"name": "h", "count": 2, "device": "h100-sxm", "gpus_per_node": 2, "price_usd_per_hour": 24.0,
         "power_cap_watts": 9000, "zone": "a", "scale_up_gpus": 2, "intra_gb_per_s": 450, "nic_gb_per_s": 50,
         "nic": "infiniband", "spot": False, "availability": 0.999,
         "host": {"memory_gb": 256, "gb_per_s": 300, "tflops": 4, "pcie_gb_per_s": 55,
         "gpus_per_pcie_root": 2},
         "tiers": [{"kind": "nvme", "gb": 7000, "read_gb_per_s": 12, "write_gb_per_s": 6,
         "shared_by": "node"}]},
        {"name": "l", "device": "l4", "gpus_per_node": 1, "zone": "b"},
    ],
    "links": [{"between": ["a", "b"], "gb_per_s": 1.25, "latency_ms": 4}],
    "device_overrides": {"h100-sxm": {"memory_gb": 94}},
    "power_caps_watts": {"a": 2400, "l": 100},
}  # fmt: skip
WORKLOAD = {
    "name": "chat",
    "buckets": [{"isl": 512, "osl": 128, "share": 0.6}, {"isl": 4096, "osl": 512, "share": 0.4}],
    "rate_rps": 2,
    "slo": {"ttft_ms": 2000, "tpot_ms": 50, "percentile": "mean"},
    "prefix_hit": 0.3,
    "max_osl": 2048,
}
AGENTS = {
    "name": "agents",
    "isl": 1200,
    "osl": 300,
    "reuse": [
        {"name": "system prompt", "tokens": 200, "share": 0.8, "distinct": 10},
        {"name": "tools", "share": 0.6, "gap_s": 4, "gap_cv": 2, "again": 0.95, "part": 0.95},
    ],
    "slo": {"ttft_ms": 4000, "tpot_ms": 60},
}
SWEEP = {"base": {"workload": "chat", "engine": "vllm", "time_limit": 2},
         "vary": {"gpus": ["1xL4", "2xT4"], "model": ["qwen3-0.6b"], "isl": {"from": 512, "to": 1024,
         "times": 2}}, "where": ["isl * 2 <= 2048 or not gpus == '2xT4'",
         "model in ['qwen3-0.6b']"]}  # fmt: skip
WHERE = {
    "base": {"gpus": "1xL4", "workload": "chat", "engine": "vllm", "time_limit": 2},
    "vary": {"model": ["qwen3-0.6b", "qwen3-1.7b"], "isl": [512, 1024, 2048], "rate": [1, 2.5, None]},
    "where": ["isl + 256 <= 1024 and not (model == 'qwen3-1.7b')", "rate == null or 1 <= rate < 2 * 1.2",
              "isl / 512 in [1, 2] or isl - 512 > 1e9", "model not in ['qwen3-1.7b']", "isl == 512"],
}  # fmt: skip
FED = {
    "name": "racks",
    "nodes": [
        {"name": "r1", "count": 2, "device": "l4", "gpus_per_node": 2, "zone": "west",
         "power_cap_watts": 120},
        {"name": "r2", "device": "l40s", "gpus_per_node": 2, "zone": "east"},
        {"name": "r3", "device": "t4", "gpus_per_node": 1, "zone": "east", "price_usd_per_hour": 0.4},
    ],
    "power_caps_watts": {"west": 260, "east": 640, "r2": 560.5},
    "energy": {"west": {"usd_per_kwh": 0.1, "gco2_per_kwh": 350, "overhead": 1.5},
               "east": {"usd_per_kwh": 0.2, "gco2_per_kwh": 50}},
}  # fmt: skip
OFFERS = {
    "name": "offers",
    "nodes": [
        {"name": "l4", "device": "l4", "gpus_per_node": 1, "price_usd_per_hour": 0.8, "price_usd": 9000},
        {"name": "server", "device": "l40s", "gpus_per_node": 2, "price_usd": 31000, "count": 2, "zone": "a"},
        {"name": "old", "device": "t4", "gpus_per_node": 1, "price_usd_per_hour": 0.4, "count": 1,
         "power_cap_watts": 60},
    ],
    "links": [{"between": ["a", "default"], "gb_per_s": 1.25, "latency_ms": 4}],
}  # fmt: skip
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "sliding_window": None, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
MOE = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 1024,
    "intermediate_size": 2048, "moe_intermediate_size": 512, "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 16, "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4,
    "n_group": 4,
    "topk_group": 2, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": 768,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 32000, "max_position_embeddings": 32768,
    "num_nextn_predict_layers": 1, "torch_dtype": "bfloat16",
}  # fmt: skip
PODS = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"},
    "spec": {"replicas": 2, "template": {"spec": {"containers": [{
        "name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "command": ["vllm", "serve"],
        "args": ["Qwen/Qwen3-8B", "--tensor-parallel-size", "2", "--max-num-seqs", "64"],
        "env": [{"name": "HF_HOME", "value": "/models"}],
        "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}}},
}  # fmt: skip
MODELS = {
    "name": "two",
    "models": [
        {"model": "qwen3-0.6b", "workload": "chat", "rate_rps": 1},
        {"model": "qwen3-8b", "buckets": [{"isl": 2048, "osl": 128, "share": 0.7},
         {"isl": 512, "osl": 256, "share": 0.3}], "rate_rps": 0.2,
         "slo": {"ttft_ms": 4000, "tpot_ms": 90}, "engine": "vllm"},
    ],
}  # fmt: skip
COMPOSE = {
    "services": {
        "chat": {"image": "vllm/vllm-openai:v0.11.0", "command": "--model Qwen/Qwen3-8B -tp 2 --port 8001",
                 "environment": {"VLLM_USE_V1": "1"}, "ports": ["8001:8001"],
                 "deploy": {"replicas": 1, "resources": {"reservations": {"devices": [
                     {"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}]}}}},
        "web": {"image": "nginx"},
    },
}  # fmt: skip
SERVE = """#!/bin/bash
MODEL=${MODEL:-Qwen/Qwen3-8B}
EXTRA="--max-num-seqs 64 --max-num-batched-tokens=8192"
for gpu in 0 1; do
  CUDA_VISIBLE_DEVICES=$gpu vllm serve "$MODEL" --port $((8000 + gpu)) $EXTRA \\
    --gpu-memory-utilization 0.9 --kv-cache-dtype fp8 &
done
python -m sglang.launch_server --model-path $MODEL --tp 2 --dp 2 --enable-dp-attention
wait
"""
JOB = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
export HF_HOME=/models
srun --ntasks=1 vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 4 \\
  --data-parallel-size 2 --speculative-config '{"method": "ngram", "num_speculative_tokens": 4}'
"""
NODES = {"items": [{
    "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
                 "nvidia.com/gpu.count": "8", "topology.kubernetes.io/zone": "a"}},
    "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
    "status": {"capacity": {"nvidia.com/gpu": "8", "memory": "1056Gi"},
    "allocatable": {"nvidia.com/gpu": "8"},
               "conditions": [{"type": "Ready", "status": "True"}]}}]}  # fmt: skip
SMI = """index, name, memory.total [MiB], memory.used [MiB], power.limit [W]
0, NVIDIA L40S, 46068 MiB, 12 MiB, 350.00 W
1, NVIDIA L40S, 46068 MiB, 30000 MiB, 350.00 W
"""
WIRES = """        GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity
GPU0     X   NV4  SYS  SYS  0-15  0
GPU1    NV4   X   SYS  SYS  0-15  0
GPU2    SYS  SYS   X   NV4  16-31 1
GPU3    SYS  SYS  NV4   X   16-31 1
GPU 0: NVIDIA RTX A6000 (UUID: a)
GPU 1: NVIDIA RTX A6000 (UUID: b)
GPU 2: NVIDIA RTX A6000 (UUID: c)
GPU 3: NVIDIA RTX A6000 (UUID: d)
"""
QUERIED = """==============NVSMI LOG==============
Driver Version                            : 550.54.15
Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    MIG Mode
        Current                           : Disabled
    FB Memory Usage
        Total                             : 81920 MiB
        Used                              : 4 MiB
    GPU Power Readings
        Current Power Limit               : 400.00 W
"""
SLURM = """NodeName=gpu[01-04] Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUTot=64 CPULoad=0.01
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=gpu01 RealMemory=1031000 State=IDLE ThreadsPerCore=1
   CfgTRES=cpu=64,mem=1031000M,gres/gpu=8
"""
SINFO = "NODELIST STATE GRES\ngpu01 idle gpu:a100:8\ngpu02 mixed gpu:a100:8(S:0-1)\nold01 down* gpu:v100:4\n"
RAY = """======== Autoscaler status: 2026-01-01 00:00:00 ========
Active:
 1 node_a
 1 node_b
Pending:
 (no pending nodes)

Total Usage:
 0.0/64.0 CPU
 0.0/16.0 GPU
 0.0/1.0 accelerator_type:H100
"""
SKY = """Kubernetes GPUs
GPU   REQUESTABLE_QTY_PER_NODE  UTILIZATION
H100  1, 2, 4, 8                16 of 16 free
L40S  1, 2, 4                   4 of 8 free
"""


def npy() -> bytes:
    """Loads of experts: [steps, layers, experts]."""
    buffer = io.BytesIO()
    np.save(buffer, np.arange(64, dtype=np.int64).reshape(2, 4, 8) % 17 + 1)
    return buffer.getvalue()


def parquet() -> bytes:
    """A trace in Parquet, where pyarrow is there."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]

    columns = {
        "arrival_s": [0.5 * i for i in range(60)],
        "prompt_tokens": [600 + i for i in range(60)],
        "output_tokens": [40 + i for i in range(60)],
        "prefix_blocks": [[i // 3, i] for i in range(60)],
    }
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def npz() -> bytes:
    """The same with a name."""
    buffer = io.BytesIO()
    np.savez(buffer, tokens=np.arange(64, dtype=np.float32).reshape(2, 4, 8) % 17 + 1)
    return buffer.getvalue()


class _Opcodes(
    pickle._Pickler
):  # the pickler in Python: it alone lets names be written that do not exist here
    """Writes a tensor as torch.save does, without torch."""

    dispatch: Any = dict(pickle._Pickler.dispatch)  # noqa: RUF012 - as the class that it overrides has it

    def named(self, module: str, name: str) -> None:
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())


class _Tensor:
    """What `_Opcodes` writes as a tensor of float32 of this shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def _save_tensor(pickler: _Opcodes, tensor: _Tensor) -> None:
    size = int(np.prod(tensor.shape))
    strides = tuple(int(np.prod(tensor.shape[i + 1 :])) for i in range(len(tensor.shape)))
    pickler.named("torch._utils", "_rebuild_tensor_v2")
    pickler.write(pickle.MARK + pickle.MARK)
    pickler.save("storage")
    pickler.named("torch", "FloatStorage")
    for part in ("0", "cpu", size):
        pickler.save(part)
    pickler.write(pickle.TUPLE + pickle.BINPERSID)
    for part in (0, tensor.shape, strides, False):
        pickler.save(part)
    pickler.named("collections", "OrderedDict")
    pickler.write(pickle.EMPTY_TUPLE + pickle.REDUCE + pickle.TUPLE + pickle.REDUCE)


_Opcodes.dispatch[_Tensor] = _save_tensor


def dump_of_sglang() -> bytes:
    """SGLang's dump of how often experts were chosen: a dict with a tensor [steps, layers, experts]."""
    buffer = io.BytesIO()
    _Opcodes(buffer, protocol=2).dump({"logical_count": _Tensor((2, 4, 8)), "rank": 0})
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        file.writestr("dump/data.pkl", buffer.getvalue())
        file.writestr("dump/data/0", (np.arange(64, dtype=np.float32) % 17 + 1).tobytes())
        file.writestr("dump/version", "3\n")
    return whole.getvalue()


def trace_lines() -> str:
    """A trace of requests in JSON Lines, as Mooncake publishes them."""
    return "".join(
        json.dumps({"timestamp": 500 * i, "input_length": 700 + 90 * i, "output_length": 40 + i,
                    "hash_ids": list(range(i // 3, i // 3 + 2))}) + "\n"
        for i in range(30)
    )  # fmt: skip


DAY = {
    "name": "day", "isl": 900, "osl": 120, "rate_rps": 9, "slo": {"ttft_ms": 2000, "tpot_ms": 60},
    "traffic": {"slot_s": 3600, "rate_rps": [2, 0.5, 0, 6, 9, 4], "peak_rps": [3, 1, 0, 9, 12, 5],
                "dispersion": [{"window_s": 1, "index": 1.2}, {"window_s": 60, "index": 3}]},
}  # fmt: skip
CLOUD = {
    "name": "cloud",
    "nodes": [
        {"name": "l", "count": 4, "device": "l4", "gpus_per_node": 1, "price_usd_per_hour": 0.8},
        {"name": "h", "count": 2, "device": "h100-sxm", "gpus_per_node": 2, "price_usd_per_hour": 3.0,
         "spot": True, "availability": 0.9},
    ],
}  # fmt: skip
