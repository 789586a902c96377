"""Manifests of orchestrators: servers, how many, and GPUs as the orchestrator counts them."""

from __future__ import annotations

import pytest

from planner.errors import InputError
from planner.imports.manifests import env_of, gpus_of, read, words_of
from planner.imports.read import read as text_read

VLLM = ["vllm", "serve", "org/m", "--tensor-parallel-size", "4"]


def container(words=VLLM, gpus=4, name="main", **more):
    return {"name": name, "command": words, "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}, **more}


def component(name, kind, replicas=1, nodes=1, **told):
    pod = {"podTemplate": {"spec": {"containers": [container(**told)]}}}
    return {"name": name, "type": kind, "replicas": replicas, "multinode": {"nodeCount": nodes}, **pod}


def counted(*documents, **files):
    found = read(documents, files=files)
    return [(g.server.role, g.replicas, g.each) for g in found.groups]


def test_words_are_split_as_a_shell_would_and_environments_are_lists_or_mappings():
    assert words_of({"command": "vllm serve 'a b'", "args": ["-tp", 2]}) == [
        "vllm",
        "serve",
        "a b",
        "-tp",
        "2",
    ]
    assert env_of({"env": [{"name": "A", "value": 1}, {"name": "B", "valueFrom": {}}]}) == {"A": "1"}
    assert env_of({"environment": ["A=1=2", "B="]}) == {"A": "1=2", "B": ""}
    assert env_of({"environment": {"A": True}}) == {"A": "True"}


def test_limits_count_before_requests_and_any_vendors_gpus_do():
    both = {"resources": {"limits": {"amd.com/gpu": "8"}, "requests": {"nvidia.com/gpu": 2}}}

    assert gpus_of(both) == 8
    assert gpus_of({"resources": {"requests": {"nvidia.com/gpu": 2}}}) == 2
    assert gpus_of({}) is None


def test_dynamo_counts_replicas_by_nodes_by_the_limit_of_the_main_container():
    doc = {
        "kind": "DynamoGraphDeployment",
        "spec": {
            "components": [
                {
                    "name": "Frontend",
                    "podTemplate": {"spec": {"containers": [{"args": ["-m", "dynamo.frontend"]}]}},
                },
                component(
                    "a", "prefill", 3, words=["python3", "-m", "dynamo.vllm", "--model", "m", "-tp", "4"]
                ),
                component(
                    "b", "decode", 2, 2, words=["python3", "-m", "dynamo.vllm", "--model", "m", "-tp", "8"]
                ),
            ]
        },
    }

    assert counted(doc) == [("prefill", 3, 4), ("decode", 2, 8)]


def test_a_command_that_takes_other_gpus_than_its_manifest_gives_is_doubted():
    (doubt,) = read([{"kind": "Pod", "spec": {"containers": [container(gpus=2)]}}]).warnings

    assert doubt == "the manifest gives a server 2 GPUs, its command takes 4"
    assert read([{"kind": "Pod", "spec": {"containers": [container()]}}]).warnings == ()


def test_kserve_says_sizes_in_fields_and_a_pair_in_one_document():
    def part(tensor, gpus, **more):
        main = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
        return {"parallelism": {"tensor": tensor}, "template": {"containers": [main]}, **more}

    spec = {"model": {"uri": "hf://org/m"}, "prefill": part(2, 2, replicas=3), **part(4, 4)}
    found = read([{"kind": "LLMInferenceService", "spec": spec}])

    assert [(g.server.role, g.replicas, g.each) for g in found.groups] == [
        ("decode", 1, 4),
        ("prefill", 3, 2),
    ]
    assert found.groups[0].server.facts["model"] == "org/m"


def test_kserves_pods_are_those_of_stages_or_of_ranks():
    main = container([], 8)
    sizes = {"tensor": 8, "pipeline": 2}
    spec = {"model": {"name": "m"}, "parallelism": sizes, "template": {"containers": [main]}, "worker": {}}
    ranks = spec | {"parallelism": {"tensor": 1, "data": 16, "dataLocal": 8, "expert": True}}
    (two,), (spread,) = (read([{"kind": "LLMInferenceService", "spec": s}]).groups for s in (spec, ranks))

    assert (two.each, two.server.facts["pp"]) == (16, 2)
    assert (spread.each, spread.server.facts["ep"]) == (16, 16)


def test_llm_ds_roles_are_a_pair_where_both_are_created():
    def values(created):
        own = {"modelCommand": "vllmServe", "args": []}
        prefill = {"create": created, "replicas": 2, "parallelism": {"tensor": 2}, "containers": [own]}
        decode = {"parallelism": {"tensor": 4, "data": 2}, "containers": [own]}
        return {"modelArtifacts": {"name": "m"}, "prefill": prefill, "decode": decode}

    assert counted(values(True)) == [("prefill", 2, 2), ("decode", 1, 8)]
    assert counted(values(False)) == [("mixed", 1, 8)]


def test_ray_may_grow_by_itself():
    config = {
        "model_loading_config": {"model_id": "m"},
        "accelerator_type": "H100",
        "engine_kwargs": {"tensor_parallel_size": 2, "enable_expert_parallel": True, "enforce_eager": False},
        "deployment_config": {"autoscaling_config": {"min_replicas": 1, "max_replicas": 4}},
    }
    found = read([{"applications": [{"args": {"llm_configs": [config]}}]}])

    assert (found.gpus, found.facts["gpus_max"], found.facts["replicas"]) == (2, 8, [1, 4])
    assert found.facts["ep"] == 2


def test_nodes_of_a_leaderworkerset_are_one_server():
    own = {"spec": {"containers": [container([*VLLM, "--pipeline-parallel-size", "2"])]}}
    spec = {"replicas": 3, "leaderWorkerTemplate": {"size": 2, "leaderTemplate": own, "workerTemplate": own}}

    assert counted({"kind": "LeaderWorkerSet", "metadata": {"name": "x"}, "spec": spec}) == [("mixed", 3, 8)]


@pytest.mark.parametrize(
    ("devices", "gpus"), [([{"device_ids": ["4", "5"]}], 2), ([{"count": 2}], 2), ([{"count": "all"}], 2)]
)
def test_compose_names_gpus_or_counts_them(devices, gpus):
    service = {
        "command": "vllm serve m -tp 2",
        "deploy": {"resources": {"reservations": {"devices": devices}}},
    }
    found = read([{"services": {"prefill-0": service}}])

    assert [(g.server.role, g.each) for g in found.groups] == [("prefill", gpus)]
    assert found.groups[0].server.facts.get("gpu_ids") == ([4, 5] if "device_ids" in devices[0] else None)


def test_what_a_config_map_holds_lies_beside_the_servers():
    args = {"kind": "ConfigMap", "data": {"a.yaml": "tensor_parallel_size: 8\n"}}
    pod = {"kind": "Pod", "spec": {"containers": [container(["trtllm-serve", "m", "--config", "a.yaml"], 8)]}}

    assert counted(args, pod) == [("mixed", 1, 8)]


def test_llm_arguments_by_themselves_are_a_server_and_beside_manifests_none():
    args = {"tensor_parallel_size": 4}

    assert counted(args) == [("mixed", 1, 4)]
    assert len(counted(args, {"kind": "Pod", "spec": {"containers": [container()]}})) == 1


@pytest.mark.parametrize(
    "text",
    [
        "kind: DynamoGraphDeployment\nspec: 3\n",
        "kind: LLMInferenceService\nspec: {model: [a]}\n",
        "modelArtifacts: {name: m}\ndecode: {containers: [text], parallelism: {tensor: many}}\n",
        "llm_configs: [3]\n",
        "services: {a: {deploy: {resources: {reservations: {devices: [text]}}}}}\n",
        "kind: Deployment\nspec: {template: {spec: {containers: [text]}}}\n",
        "kind: ConfigMap\ndata: 3\n",
    ],
)
def test_a_part_of_another_kind_than_its_form_has_is_bad_input(text):
    with pytest.raises(InputError) as caught:
        text_read(text, "d.yaml")
    assert caught.value.where == "d.yaml"
