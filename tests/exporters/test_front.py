"""What stands before exported servers: weights by share, routers that find pairs."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from ruamel.yaml import YAML

from planner.exporters import export
from planner.exporters.front import by_group
from planner.imports.read import read_path
from planner.plans.schema import Route
from tests.exporters.samples import gpus, made, replica


def uneven(engine="vllm", second="vllm"):
    """Two groups, of one server and of two; the first takes three quarters of the requests."""
    p = made(replica("r1", engine, tp=8), replica("r2", second, tp=4, count=2))
    routes = [Route(bucket=0, share=0.75, replica="r1"), Route(bucket=0, share=0.25, replica="r2")]
    return p.model_copy(update={"routing": routes})


def documents(text):
    return list(YAML(typ="safe").load_all(StringIO(text)))


def weights(text):
    return {name: int(n) for n, name in re.findall(r"weight=(\d+);  # (\S+)", text)}


@pytest.mark.parametrize("to", ["vllm", "slurm", "compose"])
def test_servers_of_unequal_shares_are_weighed_by_server(to):
    found = export(uneven(), to)

    assert weights(found["nginx.conf"]) == {"r1-0": 100, "r2-0": 17, "r2-1": 17}  # 0.75 to 0.125
    assert "router.sh" not in found


def test_servers_of_several_engines_have_weights_as_no_engines_router_takes_both():
    p = made(replica("r1", "vllm", tp=8), replica("r2", "sglang", tp=8))
    halves = [Route(bucket=0, share=0.5, replica=x) for x in ("r1", "r2")]
    found = export(p.model_copy(update={"routing": halves}), "compose")

    assert weights(found["nginx.conf"]) == {"r1-0": 100, "r2-0": 100}


def test_equal_servers_keep_the_engines_router():
    found = export(made(replica("r1", "sglang", tp=8, count=3)), "slurm")

    assert "sglang_router" in found["router.sh"]
    assert "${NODE_R1_2}" in found["router.sh"]
    assert "nginx.conf" not in found


def test_shares_of_groups_are_weighed_by_how_often_buckets_come():
    p = uneven()
    bucket = p.problem.workload["buckets"][0]
    mix = {**p.problem.workload, "buckets": [{**bucket, "share": 3.0}, {**bucket, "share": 1.0}]}
    routes = [Route(bucket=0, share=1.0, replica="r1"), Route(bucket=1, share=1.0, replica="r2")]
    problem = p.problem.model_copy(update={"workload": mix})

    assert by_group(p.model_copy(update={"routing": routes, "problem": problem})) == {"r1": 0.75, "r2": 0.25}


def test_kubernetes_routes_to_the_services_of_groups_by_weight():
    found = export(uneven(), "k8s")
    (route,) = documents(found["route.yaml"])
    backends = {b["name"]: (b["port"], b["weight"]) for b in route["spec"]["rules"][0]["backendRefs"]}
    services = {
        d["metadata"]["name"]: d["spec"]["ports"][0]["port"]
        for name in ("r1.yaml", "r2.yaml")
        for d in documents(found[name])
        if d["kind"] == "Service"
    }

    assert [weight for _, weight in backends.values()] == [100, 33]
    assert {name: port for name, (port, _) in backends.items()} == services


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_kubernetes_pairs_are_found_by_the_labels_of_their_pods(engine):
    p = made(replica("r1", engine, "prefill", tp=16), replica("r2", engine, "decode", tp=8, count=2))
    found = export(p, "k8s")
    deployed = next(d for d in documents(found["router.yaml"]) if d["kind"] == "Deployment")
    args = deployed["spec"]["template"]["spec"]["containers"][0]["args"]
    several = documents(found["r1.yaml"])[0]["spec"]["leaderWorkerTemplate"]
    pods = {
        "prefill": several["leaderTemplate"]["metadata"]["labels"],
        "decode": documents(found["r2.yaml"])[0]["spec"]["template"]["metadata"]["labels"],
    }
    for role, labels in pods.items():
        at = args.index(f"--{role}-selector")

        assert all(labels[key] == value for key, value in (x.split("=") for x in args[at + 1 : at + 3]))
    assert "labels" not in several["workerTemplate"].get("metadata", {})


@pytest.mark.parametrize("to", ["k8s", "compose", "slurm"])
def test_what_stands_before_the_servers_is_none_of_them(to, tmp_path):
    for p in (uneven(), made(replica("r1", "vllm", "prefill", tp=8), replica("r2", "vllm", "decode", tp=8))):
        folder = tmp_path / p.replicas[0].role
        folder.mkdir()
        for name, text in export(p, to).items():
            (folder / name).write_text(text)

        assert read_path(folder).gpus == gpus(p)
