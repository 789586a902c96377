"""`meshwright export`: a plan as files that start it, for an engine or an orchestrator.

An exporter is a function from a `Deployed` plan to files by name; its line is in `EXPORTERS`. It sees the
Plan only, and what it writes can be read back without it (`planner/imports`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from planner.errors import InputError, nearest
from planner.exporters import compose, dynamo, kserve, kubernetes, llm_d, ray_serve, scripts, slurm
from planner.exporters.deployed import Deployed
from planner.launch import launched
from planner.plans.schema import Plan

Files = dict[str, str]
Exporter = Callable[[Deployed], Files]

EXPORTERS: Final[Mapping[str, Exporter]] = {
    "vllm": scripts.of("vllm"),
    "sglang": scripts.of("sglang"),
    "tensorrt-llm": scripts.of("trtllm"),
    "llama.cpp": scripts.of("llama.cpp"),
    "dynamo": dynamo.files,
    "llm-d": llm_d.files,
    "kserve": kserve.files,
    "ray-serve": ray_serve.files,
    "slurm": slurm.files,
    "compose": compose.files,
    "k8s": kubernetes.files,
}


def export(plan: Plan, to: str) -> Files:
    """The files that start a plan, README included. Raises InputError for a target that is unknown or cannot
    say what the plan says."""
    if to not in EXPORTERS:
        near = ", ".join(f"`{name}`" for name in nearest(to, list(EXPORTERS), 3))
        raise InputError(f"`{to}` is no target", "--to", f"nearest: {near}; all: {', '.join(EXPORTERS)}")
    deployed = Deployed(launched(plan), to)
    for r in deployed.plan.replicas:
        if r.launch is None or not r.launch.argv:
            why = "; ".join(r.launch.notes) if r.launch else "no engine starts it"
            raise InputError(f"{r.id} cannot be exported: {why}", "--to")
    found = EXPORTERS[to](deployed)
    return {"README.md": deployed.readme(found), **found}
