"""NVIDIA Dynamo: a DynamoGraphDeployment v1beta1, whose `spec.components` is a list (operator types). Its
GPUs are replicas x nodeCount x the limit of the main container; attention dp is in the command alone."""

from __future__ import annotations

from typing import Any

from planner.errors import InputError
from planner.exporters.deployed import JOINING, OTHERS, Deployed, Files, made, without, yaml
from planner.exporters.kubernetes import config_maps, container, volumes
from planner.plans.schema import Replica
from planner.reading.names import as_labels

START = ("`kubectl apply -f deployment.yaml`, with the Dynamo operator installed.",)
WORKERS = {"vllm": "dynamo.vllm", "sglang": "dynamo.sglang", "trtllm": "dynamo.trtllm"}
RUNTIMES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrtllm"}
IMAGES = {engine: f"nvcr.io/nvidia/ai-dynamo/{name}-runtime:1.6.1" for engine, name in RUNTIMES.items()}
LONGEST_COMPONENT = 30
"""Characters of a component's name: pods have the deployment's name before it, and a label has 63."""

DROPPED = ("--port", "--dist-init-addr", *JOINING)
"""What Dynamo sets by itself; no connector is set since 1.0: prefill workers without one do not start
(components/src/dynamo/vllm/args.py)."""


def files(d: Deployed) -> Files:
    """One deployment. Raises InputError for engines that Dynamo has no workers of."""
    d.alike(*WORKERS)
    engines = {r.engine for r in d.plan.replicas}
    if len(engines) > 1:
        raise InputError("Dynamo routes to workers of one engine, the plan has several", "--to", OTHERS)
    names = as_labels([f"{r.role}-{r.id}" for r in d.plan.replicas], LONGEST_COMPONENT)
    components = [
        _frontend(d.plan.replicas[0]),
        *(_worker(d, r, name) for r, name in zip(d.plan.replicas, names, strict=True)),
    ]
    whole = made("nvidia.com/v1beta1", "DynamoGraphDeployment", d.name, spec={"components": components})
    return {"deployment.yaml": yaml(whole)} | config_maps(d)


def _frontend(r: Replica) -> dict[str, Any]:
    own = {
        "name": "main",
        "image": IMAGES[r.engine],
        "command": ["python3"],
        "args": ["-m", "dynamo.frontend"],
    }
    return {
        "name": "Frontend",
        "type": "frontend",
        "replicas": 1,
        "podTemplate": {"spec": {"containers": [own]}},
    }


def _worker(d: Deployed, r: Replica, name: str) -> dict[str, Any]:
    d.one_device(r)
    own = container(d, r)
    own |= {
        "image": IMAGES[r.engine],
        "command": ["python3", "-m", WORKERS[r.engine]],
        "args": _arguments(d, r),
    }
    part: dict[str, Any] = {"name": name, "type": r.role if r.role != "mixed" else "worker"}
    part |= {"replicas": r.count}
    if d.nodes(r) > 1:
        part["multinode"] = {"nodeCount": d.nodes(r)}
    return {**part, "podTemplate": {"spec": {"containers": [own], "volumes": volumes(d, r)}}}


def _arguments(d: Deployed, r: Replica) -> list[str]:
    """The engine's own arguments, without what Dynamo sets: the model by name, ranks of nodes, and roles."""
    words = d.words(r)
    start = (
        words.index("serve") + 1
        if r.engine == "vllm"
        else words.index(next(w for w in words if w.startswith("-") and w != "-m"))
    )
    own = words[start:]
    if r.engine == "vllm":
        own = ["--model", *own]
    if r.engine == "trtllm":
        own = ["--model", d.plan.problem.model_id or str(d.plan.problem.model["name"]), *own]
        own = ["--extra-engine-args" if w == "--config" else w for w in own]
    own = without(own, DROPPED)
    if r.role != "mixed" and "--disaggregation-mode" not in own:
        own += ["--disaggregation-mode", r.role]
    return own
