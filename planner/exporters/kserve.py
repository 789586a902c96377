"""KServe: LLMInferenceService v1alpha2. `spec.parallelism` has tensor, pipeline, data, dataLocal and expert
(a switch); a pair's prefill side is `spec.prefill`; all other flags go through VLLM_ADDITIONAL_ARGS."""

from __future__ import annotations

import shlex
from typing import Any

from planner.errors import InputError
from planner.exporters.deployed import IMAGES, JOINING, Deployed, Files, made, without, yaml
from planner.exporters.kubernetes import environment
from planner.plans.schema import Replica

START = ("`kubectl apply -f` every file, with KServe's LLMInferenceService installed.",)
SIZES = (
    "--port",
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--data-parallel-size",
    "--data-parallel-size-local",
    *JOINING,
)


def files(d: Deployed) -> Files:
    """A service for mixed servers each, or one for a pair. Raises InputError where it cannot be said."""
    d.alike("vllm")
    mixed = [r for r in d.plan.replicas if r.role == "mixed"]
    found = {f"{r.id}.yaml": yaml(_service(d, r, None)) for r in mixed}
    firsts, seconds = ([r for r in d.plan.replicas if r.role == role] for role in ("prefill", "decode"))
    if len(firsts) > 1 or len(seconds) > 1:
        raise InputError(
            "a KServe service has one kind of server a role, the plan has several", "--to", "k8s or dynamo"
        )
    if firsts and seconds:
        found["pair.yaml"] = yaml(_service(d, seconds[0], firsts[0]))
    return found


def _service(d: Deployed, r: Replica, prefill: Replica | None) -> dict[str, Any]:
    model = d.plan.problem.model_id or str(d.plan.problem.model["name"])
    spec: dict[str, Any] = {"model": {"uri": f"hf://{model}", "name": model}, **_part(d, r)}
    spec["router"] = {"route": {}, "gateway": {}, "scheduler": {}}
    if prefill is not None:
        spec["prefill"] = _part(d, prefill)
    return made("serving.kserve.io/v1alpha2", "LLMInferenceService", d.label_of(r), spec=spec)


def _part(d: Deployed, r: Replica) -> dict[str, Any]:
    d.one_device(r)
    launch = r.launch
    assert launch is not None
    words = [
        w
        for w in without(launch.argv[3:], SIZES)
        if w not in ("--enable-expert-parallel", "--no-enable-expert-parallel")
    ]
    sizes: dict[str, Any] = {"tensor": r.tp, "pipeline": r.pp, "data": r.attn_dp}
    if r.attn_dp > 1 and d.nodes(r) > 1:
        sizes["dataLocal"] = r.attn_dp // d.nodes(r)
    if r.ep > 1:
        sizes["expert"] = True
    env = [*environment(launch), {"name": "VLLM_ADDITIONAL_ARGS", "value": shlex.join(words)}]
    limit = {"limits": {d.gpu_key(r): str(_pod_gpus(d, r))}}
    main = {"name": "main", "image": IMAGES["vllm"], "env": env, "resources": limit}
    part: dict[str, Any] = {"replicas": r.count, "parallelism": sizes, "template": {"containers": [main]}}
    if d.nodes(r) > 1:
        part["worker"] = {"containers": [main]}
    return part


def _pod_gpus(d: Deployed, r: Replica) -> int:
    """GPUs of a pod: of several nodes one has the data-parallel ranks of a node, or one stage of a pipeline.
    Raises InputError where it would be both, or where a stage is larger than a node."""
    nodes = d.nodes(r)
    if nodes == 1:
        return d.gpus(r)
    if r.pp > 1 and (r.attn_dp > 1 or r.stages[0].gpus > d.node_sizes[r.stages[0].node_class]):
        raise InputError(
            f"{r.id}: KServe has pods for stages of a pipeline or for ranks, not for both", "--to"
        )
    return r.stages[0].gpus if r.pp > 1 else d.gpus(r) // nodes
