"""Dynamo, KServe, llm-d and Ray Serve: what each sets by itself, and what it has a field for."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from ruamel.yaml import YAML

from planner.errors import InputError
from planner.exporters import EXPORTERS, export
from planner.exporters.deployed import Deployed
from planner.exporters.dynamo import DROPPED
from planner.exporters.kserve import files as kserve
from planner.exporters.llm_d import files as llm_d
from planner.exporters.ray_serve import files as ray_serve
from planner.exporters.ray_serve import kwargs
from tests.exporters.samples import made, replica

PAIR = (replica("p1", "vllm", "prefill", tp=4), replica("d1", "vllm", "decode", tp=4))
SEVERAL = (
    replica("p1", "vllm", "prefill", tp=4),
    *(replica(f"d{k}", "vllm", "decode", tp=4) for k in (1, 2)),
)


def documents(to: str, *replicas: Any, file: str | None = None) -> list[dict[str, Any]]:
    files = export(made(*replicas), to)
    name = file or next(n for n in files if n.endswith(".yaml"))
    return list(YAML(typ="safe").load_all(files[name]))


def worker(*replicas: Any) -> dict[str, Any]:
    """Dynamo's first worker."""
    return documents("dynamo", *replicas)[0]["spec"]["components"][1]


def arguments(component: dict[str, Any]) -> list[str]:
    return component["podTemplate"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_dynamos_workers_have_the_engines_arguments_less_what_it_sets(engine: str):
    found = worker(replica("r1", engine, "decode", tp=8, pp=2))
    words = arguments(found)

    assert not {*DROPPED} & {*words}
    assert words[words.index("--disaggregation-mode") + 1] == "decode"
    assert words.count("--disaggregation-mode") == 1
    assert "deepseek-ai/DeepSeek-V3" in words
    assert found["multinode"] == {"nodeCount": 2}
    command = found["podTemplate"]["spec"]["containers"][0]["command"]
    assert command == ["python3", "-m", f"dynamo.{engine}"]


def test_dynamo_reads_tensorrt_llms_file_as_extra_arguments_from_where_it_is_mounted():
    found = worker(replica("r1", "trtllm", tp=8))
    spec = found["podTemplate"]["spec"]

    assert arguments(found)[arguments(found).index("--extra-engine-args") + 1] == "r1.yaml"
    assert any("configMap" in volume for volume in spec["volumes"])
    assert "multinode" not in found


def test_dynamo_routes_to_one_engine():
    with pytest.raises(InputError, match="workers of one engine"):
        export(made(replica("r1", "vllm", tp=8), replica("r2", "sglang", tp=8)), "dynamo")
    with pytest.raises(InputError, match=r"r1 runs on llama\.cpp"):
        export(made(replica("r1", "llama.cpp")), "dynamo")


def test_a_plan_of_several_engines_is_sent_to_the_targets_that_start_it():
    both = made(replica("r1", "vllm"), replica("r2", "trtllm"))
    for to in ("vllm", "llm-d", "dynamo"):
        with pytest.raises(InputError) as told:
            export(both, to)
        named = [name for name in EXPORTERS if name in (told.value.hint or "")]
        assert named
        assert all(export(both, name) for name in named)


@pytest.mark.parametrize("files", [kserve, llm_d, ray_serve])
def test_a_pair_has_one_kind_of_server_a_role(files: Any):
    assert files(Deployed(made(*PAIR), "it"))
    with pytest.raises(InputError, match="the plan has several"):
        files(Deployed(made(*SEVERAL), "it"))


def test_kserve_says_degrees_in_fields_and_the_rest_as_arguments():
    (doc,) = documents("kserve", replica("r1", "vllm", attn_dp=16, ep=16, count=2))
    spec = doc["spec"]
    env = {e["name"]: e.get("value") for e in spec["template"]["containers"][0]["env"]}
    words = shlex.split(env["VLLM_ADDITIONAL_ARGS"] or "")

    assert spec["replicas"] == 2
    assert spec["parallelism"] == {"tensor": 1, "pipeline": 1, "data": 16, "dataLocal": 8, "expert": True}
    assert spec["worker"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "8"}}
    assert not any(word.startswith(("--tensor", "--data-parallel-size", "--port")) for word in words)
    assert "--enable-expert-parallel" not in words
    assert "--max-model-len" in words


def test_a_pod_of_kserve_has_a_stage_or_the_ranks_of_a_node():
    (stages,) = documents("kserve", replica("r1", "vllm", tp=8, pp=2))
    (alone,) = documents("kserve", replica("r1", "vllm", tp=2, pp=2))

    def gpus(doc: dict[str, Any]) -> str:
        return doc["spec"]["template"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]

    assert (gpus(stages), gpus(alone)) == ("8", "4")
    assert "worker" not in alone["spec"]
    with pytest.raises(InputError, match="not for both"):
        export(made(replica("r1", "vllm", tp=16, pp=2)), "kserve")


def test_llm_ds_values_say_ranks_of_a_node_and_room_for_the_weights():
    (one,) = documents("llm-d", replica("r1", "vllm", attn_dp=16, ep=16))
    (pair,) = documents("llm-d", *PAIR)

    assert one["multinode"] is True
    assert one["prefill"] == {"create": False}
    assert one["decode"]["parallelism"] == {"tensor": 1, "data": 16, "dataLocal": 8, "workers": 2}
    assert pair["multinode"] is False
    assert pair["prefill"]["create"] is pair["decode"]["create"] is True
    held = 4 * made(*PAIR).replicas[0].memory[0].weights_bytes
    assert pair["modelArtifacts"]["size"] == f"{round(1.25 * held / 2**30)}Gi"


def test_ray_has_a_bundle_a_gpu_and_names_that_tell_several_groups_apart():
    config = documents("ray-serve", replica("r1", "vllm", tp=4, count=3), replica("r2", "vllm", tp=16))[0]
    first, second = config["applications"][0]["args"]["llm_configs"]

    assert [c["model_loading_config"]["model_id"] for c in (first, second)] == [
        "deepseek-v3-r1",
        "deepseek-v3-r2",
    ]
    assert first["accelerator_type"] == "H200"
    assert first["deployment_config"] == {"num_replicas": 3}
    assert first["placement_group_config"] == {"bundles": [{"GPU": 1}] * 4, "strategy": "STRICT_PACK"}
    assert second["placement_group_config"]["strategy"] == "PACK"
    assert "runtime_env" not in first
    alone = documents("ray-serve", replica("r1", "vllm", tp=4))[0]["applications"][0]["args"]["llm_configs"]
    assert alone[0]["model_loading_config"]["model_id"] == "deepseek-v3"


def test_ray_finds_addresses_itself_and_is_told_the_rest():
    args = documents("ray-serve", *PAIR)[0]["applications"][0]["args"]
    env = args["prefill_config"]["runtime_env"]["env_vars"]

    assert env == {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}
    assert args["decode_config"]["engine_kwargs"]["kv_transfer_config"]["kv_role"] == "kv_consumer"


def test_flags_become_arguments_of_their_own_kinds():
    told = kwargs(
        [
            "--nnodes",
            "2",
            "--headless",
            "--enable-x",
            "--no-enable-y",
            "--n",
            "3",
            "--s",
            "auto",
            "--f",
            "0.92",
        ]
    )

    assert told == {"enable_x": True, "enable_y": False, "n": 3, "s": "auto", "f": 0.92}


@pytest.mark.parametrize("to", ["kserve", "llm-d", "dynamo"])
def test_ranks_of_several_nodes_find_each_other_by_what_the_orchestrator_sets(to):
    """No variable is left in what nothing fills in, and no worker is told that it is the first node."""
    text = "".join(export(made(replica("r1", "vllm", attn_dp=16, ep=16)), to).values())

    assert "HEAD_ADDR" not in text.replace("HEAD_ADDR is the address", "")
    assert "--node-rank" not in text


def test_a_pod_of_llm_d_holds_whole_ranks():
    with pytest.raises(InputError, match="rank on several nodes"):
        export(made(replica("r1", "vllm", tp=16)), "llm-d")


def test_workers_of_a_pair_say_by_what_they_hand_their_cache_over():
    """Dynamo has no connector of its own since 1.0, and refuses to prefill without one."""
    workers = documents("dynamo", *PAIR)[0]["spec"]["components"][1:]

    for worker in workers:
        (own,) = worker["podTemplate"]["spec"]["containers"]
        assert "NixlConnector" in own["args"][own["args"].index("--kv-transfer-config") + 1]
