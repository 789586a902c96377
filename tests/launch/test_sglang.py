"""What SGLang's command line says of a replica beside its sizes."""

from __future__ import annotations

import pytest

from model_zoo.catalog import find
from planner.launch.sglang import line
from tests.exporters.samples import KEPT
from tests.launch.servers import after, on_device, server


def test_prompt_tokens_of_a_step_are_those_of_all_attention_ranks():
    """SGLang's own default on 141 GB is 8,192 tokens, on 24 GB 4,096."""
    large = server("sglang", problem=on_device("h200-sxm", 141), attn_dp=4, tp=2, ep=8)
    small = server("sglang", problem=on_device("rtx-4090", 24), tp=8)

    assert after(line(large).argv, "--chunked-prefill-size") == str(4 * 8192)
    assert after(line(small).argv, "--chunked-prefill-size") == "4096"
    asked = server("sglang", told={"max_batched_tokens": 1000}, attn_dp=2, tp=4)
    assert after(line(asked).argv, "--chunked-prefill-size") == "2000"


def test_attention_ranks_are_named_where_there_are_several_and_need_a_newer_version():
    one, two = line(server("sglang", tp=8)), line(server("sglang", tp=4, attn_dp=2))
    context = line(server("sglang", tp=4, cp=2))

    assert "--attn-dp-size" not in one.argv
    assert (after(two.argv, "--attn-dp-size"), after(two.argv, "--tp-size")) == ("2", "8")
    assert after(context.argv, "--attn-cp-size") == "2"
    assert [launch.engine_versions for launch in (one, two, context)] == [
        ">=0.5.13,<0.6",
        ">=0.5.23,<0.6",
        ">=0.5.23,<0.6",
    ]


def test_routers_in_32_bits_are_multiplied_as_the_plan_counts_them():
    model = find("minimax-m2.5")[0].model_dump(mode="json")
    launch = line(server("sglang", problem={"model": model}, tp=8))

    assert "--enable-tf32-matmul" in launch.argv
    assert launch.engine_versions == ">=0.5.23,<0.6"
    assert "--enable-tf32-matmul" not in line(server("sglang", tp=8)).argv
    other = find("nemotron-3-nano-30b-a3b")[0].model_dump(mode="json")  # held in 16 bits there
    assert "--enable-tf32-matmul" not in line(server("sglang", problem={"model": other}, tp=8)).argv


def test_running_requests_are_those_of_all_ranks_and_at_least_one_each():
    assert (
        after(line(server("sglang", told={"max_batch": 3}, attn_dp=8)).argv, "--max-running-requests") == "8"
    )
    assert (
        after(line(server("sglang", told={"max_batch": 30}, attn_dp=8)).argv, "--max-running-requests")
        == "30"
    )


@pytest.mark.parametrize(("share", "said"), [(0.3, "0.50"), (0.9, "0.97")])
def test_memory_is_weights_and_cache_of_the_fullest_stage_and_never_all_of_it(share, said):
    s = server("sglang", tp=8)
    part = s.replica.memory[0]
    full = part.model_copy(
        update={"weights_bytes": 0.2 * part.capacity_bytes, "kv_bytes": share * part.capacity_bytes}
    )

    assert after(line(server("sglang", told={"memory": [full]}, tp=8)).argv, "--mem-fraction-static") == said


def test_cache_precisions_have_its_own_names():
    s = server("sglang", tp=8)
    for kv, said in (("bf16", "auto"), ("fp8", "fp8_e4m3"), ("nvfp4", "nvfp4")):
        used = s.replica.precision.model_copy(update={"kv": kv})
        assert after(line(server("sglang", told={"precision": used}, tp=8)).argv, "--kv-cache-dtype") == said


def test_a_drafters_option_is_split_as_a_shell_does():
    argv = line(server("sglang", draft="--speculative-algorithm EAGLE --note 'a b'", tp=8)).argv

    assert argv[-4:] == ["--speculative-algorithm", "EAGLE", "--note", "a b"]


def test_experts_beside_the_gpus_leave_the_others_on_them():
    """256 experts, of which three quarters lie in host memory: 64 stay."""
    launch = line(server("sglang", tiers=[{"what": "experts", "layers": [(3, 61)], "share": 0.75}], tp=8))

    assert after(launch.argv, "--kt-num-gpu-experts") == "64"
    assert any("kt-kernel" in note for note in launch.notes)
    other = line(server("sglang", tiers=[{"what": "weights", "layers": [(0, 8)], "share": 0.75}], tp=8))
    assert after(other.argv, "--kt-num-gpu-experts") == "256"
    assert "--kt-num-gpu-experts" not in line(server("sglang", tp=8)).argv


def test_experts_are_divided_only_where_a_model_has_any():
    s = server("sglang", tp=8)
    dense = s.plan.problem.model | {"ffns": {"f": {"kind": "dense", "inner": 8}}}

    assert after(line(s).argv, "--ep-size") == "1"
    dense["layers"] = [{"times": 61, "of": [f"{next(iter(dense['mixers']))}/f"]}]
    assert "--ep-size" not in line(server("sglang", problem={"model": dense}, tp=8)).argv


def test_copies_of_experts_without_a_map_are_moved_by_the_balancer():
    argv = line(server("sglang", tp=8, ep=8, redundant_experts=16)).argv

    assert after(argv, "--ep-num-redundant-experts") == "16"
    assert "--enable-eplb" in argv


def test_each_node_has_the_command_with_its_rank():
    launch = line(server("sglang", tp=24))

    assert [after(argv, "--node-rank") for argv in (launch.argv, *launch.ranks)] == ["0", "1", "2"]
    assert after(launch.argv, "--nnodes") == "3"
    assert any(note.startswith("one command on each of 3 nodes") for note in launch.notes)
    single = line(server("sglang", tp=8))
    assert (single.ranks, "--nnodes" in single.argv) == ([], False)
    assert not any("HEAD_ADDR" in note for note in single.notes)


def test_host_memory_for_idle_cache_is_more_than_a_gpus_own_cache():
    """100 GB in all are 12.5 GB a GPU, less than a GPU's own 40: so 44."""
    s = server("sglang", tp=8)
    small = s.replica.memory[0].model_copy(update={"kv_bytes": 40e9})
    kept = KEPT.model_copy(update={"bytes": 100e9})
    argv = line(server("sglang", told={"memory": [small], "kept": kept}, tp=8)).argv

    assert after(argv, "--hicache-size") == "44"
    assert "--disable-radix-cache" not in argv


@pytest.mark.parametrize(("role", "port"), [("prefill", True), ("decode", False)])
def test_only_a_prefill_server_is_asked_for_its_cache(role, port):
    argv = line(server("sglang", role, tp=8)).argv

    assert after(argv, "--disaggregation-mode") == role
    assert ("--disaggregation-bootstrap-port" in argv) == port
