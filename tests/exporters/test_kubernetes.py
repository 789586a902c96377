"""Plain Kubernetes: Deployments, and groups of pods where a server stands on several nodes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from planner.exporters import export
from planner.exporters.deployed import model_labels
from planner.exporters.schedules import autoscaled, scaled_objects
from planner.reading.names import as_labels
from tests.exporters.samples import made, replica


def documents(*replicas: Any, name: str = "r1.yaml") -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(export(made(*replicas), "k8s")[name]))


def group(*replicas: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Containers of the leader and of a worker."""
    template = documents(*replicas)[0]["spec"]["leaderWorkerTemplate"]
    leader, worker = (template[f"{part}Template"]["spec"]["containers"][0] for part in ("leader", "worker"))
    return leader, worker


def started(container: dict[str, Any], index: int) -> list[str]:
    """What a worker of that index runs: `$(NAME)` is filled in, `$$` read as `$`, then the shell reads it."""
    env = {"LWS_WORKER_INDEX": str(index), "LWS_LEADER_ADDRESS": "leader"}

    def filled(word: str) -> str:
        return re.sub(r"\$\$|\$\((\w+)\)", lambda m: env.get(m[1], m[0]) if m[1] else "$", word)

    words = [filled(w) for w in (*container["command"], *container["args"])]
    if words[0] != "sh":
        return words
    line = words[2].replace("exec ", "printf '%s\\n' ", 1)
    done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_a_server_of_one_node_is_a_deployment_with_an_address():
    pods, address = documents(replica("r1", "vllm", tp=4, count=3))
    container = pods["spec"]["template"]["spec"]["containers"][0]

    assert (pods["kind"], pods["spec"]["replicas"]) == ("Deployment", 3)
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert address["spec"]["ports"] == [{"port": 8000, "targetPort": 8000}]
    assert address["spec"]["selector"] == pods["spec"]["selector"]["matchLabels"]


def test_of_several_nodes_the_leader_answers():
    pods, address = documents(replica("r1", "sglang", tp=24))

    assert pods["spec"]["leaderWorkerTemplate"]["size"] == 3
    assert address["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"


def test_every_worker_has_the_rank_of_its_index():
    leader, worker = group(replica("r1", "sglang", tp=24))

    assert after(started(leader, 0), "--node-rank") == "0"
    assert [after(started(worker, k), "--node-rank") for k in (1, 2)] == ["1", "2"]
    assert after(started(worker, 2), "--dist-init-addr") == "leader:5000"


def test_data_parallel_workers_begin_at_a_multiple_of_their_index():
    """24 ranks on three nodes: eight each; quotes of JSON survive the shell."""
    leader, worker = group(replica("r1", "vllm", attn_dp=24, ep=24, redundant_experts=24))

    assert "--data-parallel-start-rank" not in started(leader, 0)
    assert [after(started(worker, k), "--data-parallel-start-rank") for k in (1, 2)] == ["8", "16"]
    words = started(worker, 1)
    assert after(words, "--eplb-config") == '{"num_redundant_experts":24}'
    assert after(words, "--data-parallel-address") == "leader"
    assert words[:3] == ["vllm", "serve", "deepseek-ai/DeepSeek-V3"]


def test_a_side_of_a_pair_tells_its_pods_own_address():
    pair = replica("p1", "vllm", "prefill", tp=4), replica("d1", "vllm", "decode", tp=4)
    container = documents(*pair, name="p1.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    env = {e["name"]: e for e in container["env"]}

    address = env["VLLM_NIXL_SIDE_CHANNEL_HOST"]["valueFrom"]
    assert address == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert env["VLLM_NIXL_SIDE_CHANNEL_PORT"]["value"] == "5600"


def test_files_are_mounted_from_a_config_map():
    pods, _ = documents(replica("r1", "trtllm", tp=8))
    spec = pods["spec"]["template"]["spec"]
    (config,) = documents(replica("r1", "trtllm", tp=8), name="r1-config.yaml")

    assert {"name": "config", "configMap": {"name": config["metadata"]["name"]}} in spec["volumes"]
    assert "r1.yaml" in config["data"]
    assert spec["containers"][0]["workingDir"] == "/app"


LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""RFC 1123, and begun with a letter as names of Services are (RFC 1035)."""

ORCHESTRATORS = ("k8s", "dynamo", "llm-d", "kserve")
FOLDERS = (
    "9b-model",
    "\u65e5\u672c 9B",
    "\u6a21\u578b",
    "Qwen2.5_7B",
    "x" * 200,
    "-.-",
    "/models/Llama-3 8b (v2)/",
)


def names_of(part: Any) -> Iterator[str]:
    """Names of objects and of what they refer to, however deep."""
    if isinstance(part, dict):
        for key in ("metadata", "configMap", "scaleTargetRef", "roleRef"):
            if isinstance(part.get(key), dict) and "name" in part[key]:
                yield part[key]["name"]
        for key in ("serviceAccountName", "app"):
            yield from [part[key]] if isinstance(part.get(key), str) else []
        yield from (each["name"] for each in part.get("backendRefs", ()))
        yield from (each["name"] for each in part.get("components", ()) if each["type"] != "frontend")
        for each in part.values():
            yield from names_of(each)
    elif isinstance(part, list):
        for each in part:
            yield from names_of(each)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("to", ORCHESTRATORS)
def test_names_in_kubernetes_are_labels_whatever_the_models_folder_is_called(folder: str, to: str) -> None:
    pair = [replica("P_1", "vllm", "prefill", tp=8), replica("9.d" * 21, "vllm", "decode", tp=8)]
    for groups in (pair, [replica("r1", "vllm", tp=4)]):
        plan = made(*groups)
        model = plan.problem.model | {"name": folder}
        plan = plan.model_copy(update={"problem": plan.problem.model_copy(update={"model": model})})
        texts = [text for name, text in export(plan, to).items() if name.endswith(".yaml")]
        names = [name for text in texts for name in names_of(list(YAML(typ="safe").load_all(text)))]

        assert names or to == "llm-d"
        assert all(LABEL.fullmatch(name) and len(name) <= 52 for name in names), names


def test_groups_whose_names_would_be_one_when_cut_have_one_each() -> None:
    """Ids alike in their first 60 characters, in small letters or in signs; one is called like the router."""
    ids = ["a" * 60 + "-1", "a" * 60 + "-2", "b.c", "b_c", "B-C", "router", "1"]
    files = export(made(*(replica(each, "vllm", tp=1) for each in ids)), "k8s")
    deployed = [
        next(iter(YAML(typ="safe").load_all(files[f"{each}.yaml"])))["metadata"]["name"] for each in ids
    ]
    backends = YAML(typ="safe").load(files["route.yaml"])["spec"]["rules"][0]["backendRefs"]

    assert len(set(deployed)) == len(ids)
    assert [each["name"] for each in backends] == deployed
    assert not any(name.endswith("-router") for name in deployed)


def test_models_whose_names_would_be_one_have_one_each() -> None:
    labels = model_labels(["\u65e5\u672c 9B", "\u97d3\u56fd 9B", "m" * 40 + "1", "m" * 40 + "2"])

    assert len(set(labels)) == 4
    assert all(LABEL.fullmatch(each) and len(each) <= 30 for each in labels)
    one = YAML(typ="safe").load(export(made(replica("r1", "vllm")), "kserve", labels[1])["r1.yaml"])
    assert one["metadata"]["name"].startswith(labels[1])


@pytest.mark.parametrize("write", [autoscaled, scaled_objects])
def test_autoscalers_of_a_schedule_have_labels_for_names(write: Any) -> None:
    units = as_labels(["H100 SXM (spot)", "h100_sxm.spot", "x" * 80])
    names = [m["metadata"]["name"] for m in write(units, [[1, 2] * 84] * 3, 3600.0)]

    assert all(LABEL.fullmatch(name) and len(name) <= 54 for name in names)
    assert len({(m["kind"], m["metadata"]["name"]) for m in write(units, [[1, 2] * 84] * 3, 3600.0)}) == len(
        names
    )
