"""What one command line starts: sizes, roles, shares and places, engine by engine."""

from __future__ import annotations

import pytest

from planner.errors import InputError
from planner.imports.servers import server


def facts(engine, text, env=None, files=None):
    return server(engine, text.split(), env or {}, files).facts


@pytest.mark.parametrize(
    ("engine", "text", "gpus"),
    [
        ("vllm", "m -tp 2 -pp 3 -dp 4", 24),
        (
            "vllm",
            "m -tp 2 --prefill-context-parallel-size 2 --decode-context-parallel-size 2",
            4,
        ),  # dcp adds none
        ("sglang", "--model-path m --tp-size 8 --pp-size 2 --attn-dp-size 8", 16),  # inside tp
        ("sglang", "--model-path m --tp-size 8 --dp-size 2", 16),  # whole servers
        ("sglang", "--model-path m --tp-size 8 --dp-size 8 --enable-dp-attention", 8),
        ("trtllm", "m --tp_size 4 --pp_size 2 --context_parallel_size 2", 16),
        ("llama.cpp", "--model m --device CUDA0,CUDA1,none", 2),
        ("llama.cpp", "--model m --tensor-split 3,1,1", 3),
    ],
)
def test_gpus_are_counted_by_each_engines_own_rule(engine, text, gpus):
    assert facts(engine, text)["gpus"] == gpus


def test_vllms_experts_stand_on_all_ranks_of_a_stage_or_are_sharded():
    assert facts("vllm", "m -tp 2 -pp 2 -dp 4 --enable-expert-parallel")["ep"] == 8
    assert facts("vllm", "m -tp 2 -dp 4")["ep"] is None


def test_of_one_rank_of_several_commands_only_its_own_gpus_are_here():
    one = server("vllm", ["m", "-tp", "2", "-dp", "8", "--data-parallel-rank", "3"], {})
    node = server("vllm", ["m", "-dp", "16", "--data-parallel-size-local", "8", "--headless"], {})

    assert (one.gpus, one.gpus_here, one.facts["lb"]) == (16, 2, "external")
    assert (node.gpus, node.gpus_here, node.secondary) == (16, 8, True)


def test_sglangs_attention_tp_is_what_attention_dp_leaves():
    told = facts("sglang", "--model-path m --tp-size 16 --attn-dp-size 4")

    assert (told["attn_dp"], told["attn_tp"], told["dp"]) == (4, 4, 4)


def test_an_all_to_all_that_spans_all_ranks_puts_whole_experts_on_them():
    assert facts("sglang", "--model-path m --tp-size 8 --moe-a2a-backend deepep")["ep"] == 8
    assert facts("sglang", "--model-path m --tp-size 8 --moe-a2a-backend none").get("ep") is None


@pytest.mark.parametrize(
    ("transfer", "role", "connector"),
    [
        ('{"kv_connector":"NixlConnector","kv_role":"kv_producer"}', "prefill", "NixlConnector"),
        ('{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}', "decode", "NixlConnector"),
        ('{"kv_connector":"NixlConnector","kv_role":"kv_both"}', "mixed", "NixlConnector"),
        (
            '{"kv_connector":"MultiConnector","kv_role":"kv_both","kv_connector_extra_config":{"connectors":'
            '[{"kv_connector":"NixlConnector","kv_role":"kv_producer"},{"kv_connector":"OffloadingConnector"}]}}',
            "prefill",
            "MultiConnector(Nixl,Offloading)",
        ),
    ],
)
def test_vllms_role_is_that_of_its_connector_or_of_one_inside_it(transfer, role, connector):
    read = server("vllm", ["m", "--kv-transfer-config", transfer], {})

    assert (read.role, read.facts["kv_connector"]) == (role, connector)


def test_roles_of_the_other_engines_are_their_modes():
    prefill = server("sglang", ["--model-path", "m", "--disaggregation-mode", "prefill"], {})
    decode = server("trtllm", ["m", "--server_role", "GENERATION"], {})

    assert (prefill.role, decode.role) == ("prefill", "decode")


def test_tensorrt_llms_yaml_wins_over_its_command_line():
    args = "tensor_parallel_size: 8\nenable_attention_dp: true\n"
    args += "kv_cache_config: {free_gpu_memory_fraction: 0.7}\n"
    told = facts("trtllm", "m --tp_size 2 --config dir/a.yaml", files={"a.yaml": args})

    assert (told["tp"], told["attn_dp"], told["free_gpu_memory_fraction"]) == (8, 8, 0.7)


def test_vllms_command_line_wins_over_its_yaml():
    told = facts(
        "vllm", "m -tp 2 --config c.yaml", files={"c.yaml": "tensor-parallel-size: 8\nmax-num-seqs: 9\n"}
    )

    assert (told["tp"], told["max_num_seqs"]) == (2, 9)


def test_layers_and_gpus_of_stages_are_read_where_they_are_told():
    env = {"CUDA_VISIBLE_DEVICES": "4,5,6,7", "VLLM_PP_LAYER_PARTITION": "20,12"}
    told = facts("vllm", "m -tp 2 -pp 2", env)

    assert told["layer_partition"] == [20, 12]
    assert told["stage_gpus"] == [[4, 5], [6, 7]]


def test_what_nobody_gave_is_left_out_but_sizes_are_told():
    told = facts("vllm", "m")

    assert told == {
        "model": "m",
        "tp": 1,
        "pp": 1,
        "dp": 1,
        "ep": None,
        "max_model_len": None,
        "gpus": 1,
        "nodes": 1,
    }


@pytest.mark.parametrize("text", ["{not json", "[1]", "[" * 100_000])
def test_a_value_that_should_be_json_is_named(text):
    with pytest.raises(InputError, match="no JSON") as caught:
        server("vllm", ["m", "--kv-transfer-config", text], {})
    assert caught.value.where == "--kv-transfer-config"


@pytest.mark.parametrize("split", ["[", "1,x", "nan,1", "-1,2", "1e999"])
def test_parts_of_devices_that_are_no_numbers_are_bad_input(split):
    with pytest.raises(InputError, match="no list of ratios"):
        server("llama.cpp", ["--model", "m.gguf", "--tensor-split", split], {})
