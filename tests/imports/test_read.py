"""Commands and manifests read back: what they start, counted from the text alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError
from planner.imports.read import read, read_path

COMMANDS = Path(__file__).resolve().parents[3] / "shared" / "engines" / "commands"
INDEX = json.loads((COMMANDS / "index.json").read_text()) if COMMANDS.is_dir() else []
FROM_ELSEWHERE = {"device", "devices", "expect_launch", "layers_per_gpu", "est_vram_gb", "est_ram_gb"}
"""What the entries say beside their commands."""
UNTOLD = {"vllm_distill32b_tp4_pp2": {"nodes"}, "llamacpp_gptoss_ncmoe": {"gpus"}}
"""Facts of a command that its text does not say."""


def differs(stated: Any, found: Any) -> bool:
    if isinstance(stated, dict):
        return any(differs(v, (found or {}).get(k)) for k, v in stated.items() if k != "accelerator")
    return bool(stated != found)


@pytest.mark.skipif(not INDEX, reason="the collection of commands is not here")
@pytest.mark.parametrize("entry", INDEX, ids=lambda e: e["id"])
def test_every_command_of_the_collection_has_its_facts(entry):
    found = read((COMMANDS / entry["file"]).read_text(), entry["file"]).facts
    left = set(entry["facts"]) - FROM_ELSEWHERE - UNTOLD.get(entry["id"], set())

    assert {
        k: (entry["facts"][k], found.get(k)) for k in left if differs(entry["facts"][k], found.get(k))
    } == {}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "vllm serve m -tp 4 -pp=2 -dp 2 --enable_expert_parallel",
            {"tp": 4, "pp": 2, "dp": 2, "ep": 8, "gpus": 16},
        ),
        (
            "python -m vllm.entrypoints.openai.api_server --model m --tensor-parallel-size=2",
            {"tp": 2, "gpus": 2},
        ),
        ("docker run --gpus all vllm/vllm-openai:v0.11.0 --model org/m -tp 8", {"model": "org/m", "gpus": 8}),
        (
            "srun -N 2 --export=ALL trtllm-llmapi-launch trtllm-serve m --tp_size 16 --ep_size 16",
            {"ep": 16, "gpus": 16},
        ),
        ("bash -c 'vllm serve m -tp 2 && echo done'", {"tp": 2}),
        (
            "ARGS=(--tp-size 8\n --attn-dp-size 4)\nsglang serve --model-path m ${ARGS[@]}",
            {"attn_dp": 4, "gpus": 8},
        ),
        ('N=4\nexport M=org/m\nnohup vllm serve "$M" -tp ${N} > log 2>&1 &', {"model": "org/m", "tp": 4}),
        (
            "vllm serve m --max-model-len 32K --max-num-seqs ${X:-64}",
            {"max_model_len": 32768, "max_num_seqs": 64},
        ),
        ("sglang serve --model-path m --tp-size 8 --dp-size 2", {"dp": 2, "gpus": 16}),
        (
            "sglang serve --model-path m --tp-size 8 --dp-size 8 --enable-dp-attention",
            {"attn_dp": 8, "gpus": 8},
        ),
        (
            "llama-server -m m.gguf -ngl 99 -ts 3,1 -c 8192 --n-cpu-moe 4",
            {"gpus": 2, "n_cpu_moe": 4, "max_model_len": 8192},
        ),
        ("CUDA_VISIBLE_DEVICES=2,3 vllm serve m -tp 2", {"gpu_ids": [2, 3]}),
        ("ZE_AFFINITY_MASK=2,3 vllm serve m -tp 2", {"gpu_ids": [2, 3]}),
        ("TPU_PROCESS_BOUNDS=1,1,1 TPU_VISIBLE_CHIPS=2,3 vllm serve m -tp 2", {"gpu_ids": [2, 3]}),
        (
            "vllm serve m --kv-transfer-config.kv_connector X --kv-transfer-config.kv_role kv_consumer",
            {"role": "decode"},
        ),
        ("vllm serve m --no-enable-prefix-caching", {"prefix_cache": False}),
        (
            "python -m dynamo.sglang --model-path m --tp 4 --disaggregation-mode prefill",
            {"tp": 4, "role": "prefill"},
        ),
    ],
)
def test_a_command_is_read_as_its_engine_reads_it(text, facts):
    found = read(text).facts

    assert {k: found.get(k) for k in facts} == facts


def test_the_yaml_of_a_command_counts_and_wins_in_tensorrt_llm():
    told = "enable_attention_dp: true\nkv_cache_config: {dtype: fp8}\nmax_batch_size: 7"
    text = f"cat > x.yml <<EOF\n{told}\nEOF\n"
    found = read(text + "trtllm-serve m --tp_size 8 --max_batch_size 512 --config ./x.yml").facts

    assert (found["attn_dp"], found["kv_cache_dtype"], found["max_batch_size"]) == (8, "fp8", 7)


def test_commands_of_further_nodes_belong_to_one_server_and_equal_ones_are_replicas():
    nodes = "\n".join(
        f"vllm serve m -tp 16 --nnodes 2 --node-rank {i} {'--headless' * i} --master-addr h" for i in (0, 1)
    )
    twice = "CUDA_VISIBLE_DEVICES=0 vllm serve m &\nCUDA_VISIBLE_DEVICES=1 vllm serve m --port 8001"

    assert (read(nodes).facts["gpus"], read(nodes).facts["nodes"]) == (16, 2)
    assert (read(twice).gpus, read(twice).groups[0].replicas) == (2, 2)


DYNAMO = """
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
spec:
  services:
    Frontend: {componentType: main, replicas: 1}
    VllmPrefillWorker:
      replicas: 3
      resources: {limits: {gpu: "2"}}
      extraPodSpec:
        mainContainer: {image: x, command: [/bin/sh, -c], args: ["python3 -m dynamo.vllm --model m -tp 2"]}
    VllmDecodeWorker:
      replicas: 1
      multinode: {nodeCount: 2}
      resources: {limits: {gpu: "4"}}
      extraPodSpec:
        mainContainer: {image: x, command: [python3, -m, dynamo.vllm], args: [--model, m, -tp, "8"]}
"""

LWS = """
kind: LeaderWorkerSet
metadata: {name: m}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
        - image: lmsysorg/sglang
          command: [sglang, serve]
          args: [--model-path, m, --tp-size, "16", --nnodes, "2"]
          resources: {limits: {nvidia.com/gpu: "8"}}
"""

COMPOSE = """
services:
  decode-0:
    image: vllm/vllm-openai:v0.23.0
    command: --model m -tp 2
    deploy:
      resources: {reservations: {devices: [{driver: nvidia, device_ids: ["4", "5"], capabilities: [gpu]}]}}
  router: {image: nginx, command: nginx}
"""


def test_manifests_are_counted_as_their_orchestrators_count():
    dynamo, lws, compose = (read(text) for text in (DYNAMO, LWS, COMPOSE))

    assert dynamo.gpus == 3 * 2 + 2 * 4
    assert dynamo.facts["roles"]["prefill"]["replicas"] == 3
    assert lws.gpus == 2 * 16
    assert (compose.gpus, compose.groups[0].server.facts["gpu_ids"], compose.facts["role"]) == (
        2,
        [4, 5],
        "decode",
    )


def test_a_manifest_that_contradicts_its_command_is_warned_of():
    (warning,) = read(LWS.replace('"16"', '"8"')).warnings

    assert "16 GPUs, its command takes 8" in warning


@pytest.mark.parametrize("first", ['"services":', "'services' :", "x-common: &c {a: 1}\nservices:"])
def test_a_manifest_is_one_however_its_first_key_is_written(first):
    text = f"{first}\n  chat:\n    image: vllm/vllm-openai\n    command: --model Qwen/Qwen3-8B -tp 2\n"

    assert read(text).facts["tp"] == 2


@pytest.mark.parametrize(
    "text", ["", "echo hello", "a: [", "kind: Service\nspec: {}", "vllm serve m --kv-transfer-config '{'"]
)
def test_what_starts_no_server_is_one_clear_error(text):
    with pytest.raises(InputError):
        read(text, "x")


def test_a_folder_is_one_deployment(tmp_path):
    (tmp_path / "node0.sh").write_text("vllm serve m -dp 16 --data-parallel-size-local 8\n")
    (tmp_path / "node1.sh").write_text("vllm serve m -dp 16 --data-parallel-size-local 8 --headless\n")

    assert read_path(tmp_path).gpus == 16
