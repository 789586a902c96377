"""What TensorRT-LLM's YAML says of a replica."""

from __future__ import annotations

from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from planner.launch.trtllm import line, written
from tests.exporters.samples import KEPT
from tests.launch.servers import on_device, server


def args(**told: Any) -> dict[str, Any]:
    files = line(server("trtllm", **told)).files
    return YAML(typ="safe").load(StringIO(files["r1.yaml"]))  # type: ignore[no-any-return]


def test_gpus_of_a_stage_are_one_number_and_experts_divide_them():
    found = args(attn_dp=8, ep=4, moe_tp=2, pp=2)

    assert (found["tensor_parallel_size"], found["pipeline_parallel_size"]) == (8, 2)
    assert (found["moe_expert_parallel_size"], found["moe_tensor_parallel_size"]) == (4, 2)
    assert found["enable_attention_dp"] is True
    assert sum(found["pp_partition"]) == 61


def test_one_stage_and_one_rank_need_neither_partition_nor_attention_dp():
    found = args(tp=8)

    assert found["enable_attention_dp"] is False
    assert "pp_partition" not in found
    assert "cache_transceiver_config" not in found


def test_tokens_of_a_step_are_the_plans_or_its_default_and_prompts_are_cut():
    assert args(tp=8)["max_num_tokens"] == 8192
    found = args(tp=8, told={"max_batched_tokens": 1234})
    assert (found["max_num_tokens"], found["enable_chunked_prefill"]) == (1234, True)


def test_cache_is_kept_by_gpu_in_its_precision():
    s = server("trtllm", tp=8)
    fp8 = s.replica.precision.model_copy(update={"kv": "fp8"})
    kept = KEPT.model_copy(update={"bytes": 8e9 + 1})

    assert args(tp=8)["kv_cache_config"] == {
        "free_gpu_memory_fraction": 0.9,
        "dtype": "auto",
        "enable_block_reuse": False,
    }
    found = args(tp=8, told={"precision": fp8, "kept": kept})["kv_cache_config"]
    assert (found["dtype"], found["enable_block_reuse"], found["host_cache_size"]) == ("fp8", True, 1e9 + 1)


def test_copies_of_experts_are_slots_that_its_balancer_fills():
    assert args(tp=8, ep=8, redundant_experts=32)["moe_config"]["load_balancer"] == {
        "num_slots": 288,
        "layer_updates_per_iter": 2,
    }
    assert "moe_config" not in args(tp=8, ep=8)


def test_experts_kernels_are_those_whose_times_the_plan_counts():
    """On Blackwell in FP8 by blocks TRTLLM, of attention-dp ranks DEEPGEMM."""
    problem = on_device("b200-sxm", 192)
    problem["devices"]["h200-sxm"]["generation"] = "blackwell_dc"

    def backend(experts: str, **sizes: int) -> object:
        own = server("trtllm", **sizes).replica.precision.model_copy(update={"experts": experts})
        return args(problem=problem, told={"precision": own}, **sizes).get("moe_config")

    assert backend("fp8_block", tp=8) == {"backend": "TRTLLM"}
    assert backend("fp8_block", attn_dp=8, ep=8) == {"backend": "DEEPGEMM"}
    assert backend("bf16", tp=8) is None


def test_sides_of_a_pair_hand_their_cache_over():
    assert args(role="decode", tp=8)["cache_transceiver_config"] == {"backend": "DEFAULT"}


def test_a_drafters_lines_stand_below_the_others():
    found = args(tp=8, draft="speculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: 3")

    assert found["speculative_config"] == {"decoding_type": "MTP", "num_nextn_predict_layers": 3}


def test_a_replica_over_nodes_is_started_by_mpi_with_a_rank_a_gpu():
    one, three = line(server("trtllm", tp=8)), line(server("trtllm", tp=8, pp=3))

    assert one.argv[0] == "trtllm-serve"
    assert three.argv[:2] == ["trtllm-llmapi-launch", "trtllm-serve"]
    assert any("srun -N 3 -n 24" in note for note in three.notes)
    assert not any("srun" in note for note in one.notes)


def test_what_is_written_reads_back():
    told = {"a": True, "b": 1, "c": {"d": [1, 2], "e": {"f": 0.9, "g": "auto"}}, "h": False}

    assert YAML(typ="safe").load(StringIO(written(told))) == told
