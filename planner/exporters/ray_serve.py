"""Ray Serve LLM (ray 2.60.0): an LLMConfig a group of mixed servers, or the prefill and decode configs of one
pair. tp and pp are engine arguments, the bundles of a replica one GPU each."""

from __future__ import annotations

import json
from typing import Any

from planner.errors import InputError
from planner.exporters.deployed import Deployed, Files, yaml
from planner.plans.schema import Replica

ACCELERATORS = {
    "h100": "H100", "h200": "H200", "a100-sxm-40gb": "A100-40G", "a100": "A100-80G", "l40s": "L40S",
    "l4": "L4", "a10": "A10G", "t4": "T4", "b200": "B200", "v100": "V100",
    "mi300x": "AMD-Instinct-MI300X-OAM",
}  # fmt: skip
"""Names that Ray knows, by the beginning of ours."""


def files(d: Deployed) -> Files:
    """One application. Raises InputError where it cannot be said."""
    d.alike("vllm")
    roles = {role: [r for r in d.plan.replicas if r.role == role] for role in ("mixed", "prefill", "decode")}
    args: dict[str, Any]
    if roles["prefill"]:
        if any(len(roles[x]) > 1 for x in ("prefill", "decode")) or roles["mixed"]:
            raise InputError(
                "Ray's pair has one kind of server a role, the plan has several", "--to", "k8s or dynamo"
            )
        args = {f"{role}_config": _config(d, roles[role][0]) for role in ("prefill", "decode")}
        path = "ray.serve.llm:build_pd_openai_app"
    else:
        args = {"llm_configs": [_config(d, r) for r in roles["mixed"]]}
        path = "ray.serve.llm:build_openai_app"
    return {"serve.yaml": yaml({"applications": [{"name": d.name, "import_path": path, "args": args}]})}


def _config(d: Deployed, r: Replica) -> dict[str, Any]:
    d.one_device(r)
    launch = r.launch
    assert launch is not None
    model, device = d.plan.problem.model_id or str(d.plan.problem.model["name"]), r.stages[0].device
    kind = next((v for k, v in ACCELERATORS.items() if device.startswith(k)), None)
    name = str(d.plan.problem.model["name"]) + (
        f"-{r.id}" if r.role == "mixed" and len(d.plan.replicas) > 1 else ""
    )
    # plain values: the side channel's address Ray finds itself
    env = {k: v for k, v in launch.env.items() if not v.startswith("$")}
    return {
        "model_loading_config": {"model_id": name, "model_source": model},
        **({"accelerator_type": kind} if kind else {}),
        "deployment_config": {"num_replicas": r.count},
        "engine_kwargs": kwargs(launch.argv[3:]),
        "placement_group_config": {
            "bundles": [{"GPU": 1}] * d.gpus(r),
            "strategy": "STRICT_PACK" if d.nodes(r) == 1 else "PACK",
        },
        **({"runtime_env": {"env_vars": env}} if env else {}),
    }


def kwargs(words: list[str]) -> dict[str, Any]:
    """Flags as engine arguments.

    >>> kwargs(["--port", "1", "--tensor-parallel-size", "4", "--no-enable-eplb", "--a", '{"b": 1}'])
    {'tensor_parallel_size': 4, 'enable_eplb': False, 'a': {'b': 1}}
    """
    found: dict[str, Any] = {}
    k = 0
    while k < len(words):
        name, value = words[k].removeprefix("--").replace("-", "_"), None
        if k + 1 < len(words) and not words[k + 1].startswith("--"):
            value, k = words[k + 1], k + 1
        if name in (
            "port",
            "nnodes",
            "node_rank",
            "master_addr",
            "headless",
            "data_parallel_address",
            "data_parallel_rpc_port",
        ):
            pass
        elif value is None:
            found[name.removeprefix("no_")] = not name.startswith("no_")
        else:
            try:
                found[name] = json.loads(value)
            except json.JSONDecodeError:
                found[name] = value
        k += 1
    return found
