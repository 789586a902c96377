"""What vLLM's command line says of a replica beside its sizes."""

from __future__ import annotations

import json

import pytest

from model_zoo.catalog import find
from planner.launch.server import Server
from planner.launch.vllm import line
from planner.plans.schema.replica import PrecisionUsed
from tests.exporters.samples import KEPT
from tests.launch.servers import after, on_device, paired, server


@pytest.mark.parametrize(
    ("told", "device", "tokens"),
    [
        ({}, ("h200-sxm", 141), 8192),  # vLLM's default from 70 GiB on
        ({}, ("rtx-4090", 24), 2048),
        ({"max_batched_tokens": 4096}, ("h200-sxm", 141), 4096),
        ({"max_batch": 3000}, ("rtx-4090", 24), 3000),  # a step holds a token of every sequence
    ],
)
def test_tokens_of_a_step_are_the_plans_or_the_engines_and_never_fewer_than_sequences(told, device, tokens):
    argv = line(server("vllm", problem=on_device(*device), told={"max_batch": 8, **told}, tp=8)).argv

    assert after(argv, "--max-num-batched-tokens") == str(tokens)


@pytest.mark.parametrize(
    ("precision", "kv", "quantised", "cache"),
    [(None, "bf16", False, "auto"), ("fp8", "fp8", True, "fp8"), ("nvfp4", "nvfp4", False, "nvfp4")],
)
def test_only_fp8_is_asked_of_the_engine_and_cache_by_its_own_names(precision, kv, quantised, cache):
    s = server("vllm", tp=8)
    used = s.replica.precision.model_copy(update={"weights": precision or "bf16", "kv": kv})
    options = s.plan.problem.options | {"precision": precision}
    argv = line(server("vllm", problem={"options": options}, told={"precision": used}, tp=8)).argv

    assert ("--quantization" in argv) == quantised
    assert after(argv, "--kv-cache-dtype") == cache


def test_a_drafter_is_asked_for_by_an_option_and_its_json():
    argv = line(server("vllm", draft='--speculative-config {"model": "HEAD", "n": 3}', tp=8)).argv

    assert after(argv, "--speculative-config") == '{"model": "$DRAFT_HEAD", "n": 3}'


def test_layers_in_host_memory_are_the_last_of_every_group():
    """Of every 8 layers two: those from 6 on."""
    argv = line(server("vllm", tiers=[{"what": "weights", "layers": [(6, 8), (14, 16)]}], tp=8)).argv

    assert after(argv, "--offload-group-size") == "8"
    assert after(argv, "--offload-num-in-group") == "2"
    assert after(argv, "--offload-prefetch-step") == "2"


def test_idle_cache_is_told_in_gib_of_one_rank_and_at_least_one():
    for gib, ranks, said in ((400, 8, "50"), (401, 8, "51"), (0.5, 1, "1")):
        kept = KEPT.model_copy(update={"bytes": gib * 2**30})
        argv = line(server("vllm", told={"kept": kept}, attn_dp=ranks, ep=ranks)).argv
        assert after(argv, "--kv-offloading-size") == said


def test_attention_ranks_are_dealt_to_nodes_and_the_first_has_the_head():
    """24 ranks over three nodes: eight each, from 0, 8 and 16 on."""
    launch = line(server("vllm", attn_dp=24, ep=24))
    starts = [after(argv, "--data-parallel-start-rank") for argv in launch.ranks]

    assert starts == ["8", "16"]
    assert all("--headless" in argv for argv in launch.ranks)
    assert "--headless" not in launch.argv
    assert {after(argv, "--data-parallel-size-local") for argv in [launch.argv, *launch.ranks]} == {"8"}
    assert any(note.startswith("one command on each of 3 nodes") for note in launch.notes)


def test_ranks_that_nodes_do_not_divide_are_joined_as_one_engine():
    """Three attention ranks of eight GPUs each on three nodes are dealt; of six GPUs each on three are not
    whole nodes."""
    whole, broken = line(server("vllm", tp=8, attn_dp=3)), line(server("vllm", tp=5, attn_dp=4))

    assert after(whole.argv, "--data-parallel-size-local") == "1"
    assert [after(a, "--node-rank") for a in (broken.argv, *broken.ranks)] == ["0", "1", "2"]
    assert ["--headless" in a for a in (broken.argv, *broken.ranks)] == [False, True, True]


def test_context_parallel_ranks_are_those_of_prefill():
    assert "--prefill-context-parallel-size" not in line(server("vllm", tp=8)).argv
    assert after(line(server("vllm", tp=4, cp=2)).argv, "--prefill-context-parallel-size") == "2"


def test_copies_of_experts_need_the_balancer_and_no_map_is_read():
    argv = line(server("vllm", tp=8, ep=8, redundant_experts=16)).argv

    assert json.loads(after(argv, "--eplb-config")) == {"num_redundant_experts": 16}
    assert "--enable-eplb" in argv
    assert "--enable-eplb" not in line(server("vllm", tp=8, ep=8)).argv


@pytest.mark.parametrize(("stages", "connector"), [(1, "NixlConnector"), (2, "NixlPushConnector")])
def test_a_prefill_in_a_pipeline_pushes_its_cache(stages, connector):
    launch = line(paired(server("vllm", "decode", tp=8), tp=8, pp=stages))

    assert json.loads(after(launch.argv, "--kv-transfer-config"))["kv_connector"] == connector
    assert any("NixlPushConnector" in note for note in launch.notes) == (stages > 1)
    assert "HOST_ADDR is the address of the node itself" in launch.notes
    assert launch.env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "$HOST_ADDR"


@pytest.mark.parametrize(("told", "connector"), [(None, "NixlConnector"), (True, "NixlPushConnector")])
def test_caches_are_pushed_to_peers_over_pcie(told, connector):
    node = {"name": "h", "device": "l40s", "gpus_per_node": 8, "peer_to_peer": told}
    devices = {"l40s": {"name": "l40s", "memory_gb": 48.0, "vendor": "nvidia", "intra_link": "pcie"}}
    s = server("vllm", "decode", problem={"cluster": {"nodes": [node]}}, tp=1)
    stage = s.replica.stages[0].model_copy(update={"node_class": "h", "device": "l40s"})
    own = s.replica.model_copy(update={"stages": [stage]})
    problem = s.plan.problem.model_copy(update={"devices": {**s.plan.problem.devices, **devices}})
    launch = line(Server(s.plan.model_copy(update={"replicas": [own], "problem": problem}), own))

    assert json.loads(after(launch.argv, "--kv-transfer-config"))["kv_connector"] == connector
    assert any("NixlPushConnector" in note for note in launch.notes) == bool(told)


def test_a_server_for_both_phases_hands_nothing_over():
    launch = line(server("vllm", tp=8))

    assert "--kv-transfer-config" not in launch.argv
    assert launch.env == {}
    assert not any("HOST_ADDR" in note for note in launch.notes)
    assert launch.notes[-1].startswith("--gpu-memory-utilization is a share of all memory")


def test_routers_in_32_bits_are_multiplied_as_the_plan_counts_them():
    model = find("minimax-m2.5")[0].model_dump(mode="json")

    assert line(server("vllm", problem={"model": model}, tp=8)).env["VLLM_FLOAT32_MATMUL_PRECISION"] == "high"
    assert "VLLM_FLOAT32_MATMUL_PRECISION" not in line(server("vllm", tp=8)).env


@pytest.mark.parametrize(
    ("generation", "experts", "told"),
    [("blackwell_dc", "mxfp4", "1"), ("blackwell_dc", "nvfp4", None), ("hopper", "mxfp4", None)],
)
def test_experts_in_mxfp4_take_inputs_in_8_bits_on_blackwell_as_the_plan_counts_them(
    generation, experts, told
):
    problem = on_device("b200-sxm", 180.0)
    problem["devices"]["h200-sxm"]["generation"] = generation
    problem["model"] = find("gpt-oss-120b")[0].model_dump(mode="json")
    used = PrecisionUsed(weights="bf16", experts=experts, kv="bf16")
    s = server("vllm", problem=problem, tp=8, told={"precision": used})

    assert line(s).env.get("VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8") == told
