"""llm-d: values of the ModelService chart 0.4.12. GPUs of a pod are tensor x dataLocal; the chart has no
field for pipelines, and experts are in the arguments."""

from __future__ import annotations

from typing import Any

from planner.errors import InputError
from planner.exporters.deployed import IMAGES, JOINING, Deployed, Files, without, yaml
from planner.exporters.kubernetes import environment
from planner.launch.server import vendor_of
from planner.plans.schema import Replica

START = ("`helm install` the ModelService chart 0.4.12 with each values file.",)
SIZES = (
    "--port",
    "--tensor-parallel-size",
    "--data-parallel-size",
    "--data-parallel-size-local",
    *JOINING,
)
"""Said by the chart's own fields, or set by it."""


def files(d: Deployed) -> Files:
    """One values file for mixed servers, or for one pair. Raises InputError where the chart cannot say it."""
    d.alike("vllm")
    roles: dict[str, list[Replica]] = {}
    for r in d.plan.replicas:
        d.one_device(r)
        if r.pp > 1:
            raise InputError(f"{r.id} has a pipeline: the chart has no field for it", "--to", "k8s or dynamo")
        roles.setdefault("prefill" if r.role == "prefill" else "decode", []).append(r)
    if any(len(own) > 1 for own in roles.values()) and len(roles) > 1:
        raise InputError(
            "llm-d's chart has one kind of server a role, the plan has several", "--to", "k8s or dynamo"
        )
    if len(roles) == 1:
        return {f"values-{r.id}.yaml": yaml(_values(d, {"decode": r})) for r in roles.get("decode", [])}
    return {"values.yaml": yaml(_values(d, {role: own[0] for role, own in roles.items()}))}


def _values(d: Deployed, roles: dict[str, Replica]) -> dict[str, Any]:
    model = d.plan.problem.model_id or str(d.plan.problem.model["name"])
    first = next(iter(roles.values()))
    return {
        "multinode": any(d.nodes(r) > 1 for r in roles.values()),
        "accelerator": {"type": vendor_of(d.plan, first.stages[0])},
        "modelArtifacts": {"name": model, "uri": f"hf://{model}", "size": _size(first)},
        "routing": {"servicePort": 8000, "proxy": {"secure": False}},
        **{
            role: _role(d, roles[role]) if role in roles else {"create": False}
            for role in ("decode", "prefill")
        },
    }


def _size(r: Replica) -> str:
    """Room for the weights, a quarter more, in Gi."""
    held = sum(m.weights_bytes * s.gpus for m, s in zip(r.memory, r.stages, strict=False)) / r.attn_dp
    return f"{max(round(1.25 * held / 2**30), 1)}Gi"


def _role(d: Deployed, r: Replica) -> dict[str, Any]:
    launch = r.launch
    assert launch is not None
    nodes = d.nodes(r)
    if r.attn_dp % nodes:
        raise InputError(
            f"{r.id} has a rank on several nodes: the chart has pods of whole ranks", "--to", "k8s or dynamo"
        )
    local = r.attn_dp // nodes
    env = environment(launch)
    return {
        "create": True,
        "replicas": r.count,
        "parallelism": {"tensor": r.tp, "data": r.attn_dp, "dataLocal": local, "workers": nodes},
        "containers": [
            {
                "name": "vllm",
                "image": IMAGES["vllm"],
                "modelCommand": "vllmServe",
                "args": without(launch.argv[3:], SIZES),
                **({"env": env} if env else {}),
                "mountModelVolume": True,
            }
        ],
    }
