"""`meshwright export`: a plan as files that start it, for an engine or an orchestrator.

An exporter is a function from a `Deployed` plan to files by name, and how these are started; its line is in
`EXPORTERS`. It sees the Plan only, and what it writes can be read back without it (`planner/imports`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from planner.errors import InputError, nearest
from planner.exporters import compose, dynamo, kserve, kubernetes, llm_d, ray_serve, scripts, slurm
from planner.exporters.deployed import Deployed
from planner.launch import launched
from planner.plans.schema import Plan

Files = dict[str, str]


@dataclass(frozen=True)
class Exporter:
    """What writes the files of a plan by name, and the steps by which they are started."""

    files: Callable[[Deployed], Files]
    start: Sequence[str]


EXPORTERS: Final[Mapping[str, Exporter]] = {
    "vllm": Exporter(scripts.of("vllm"), scripts.START),
    "sglang": Exporter(scripts.of("sglang"), scripts.START),
    "tensorrt-llm": Exporter(scripts.of("trtllm"), scripts.START),
    "llama.cpp": Exporter(scripts.of("llama.cpp"), scripts.START),
    "dynamo": Exporter(dynamo.files, dynamo.START),
    "llm-d": Exporter(llm_d.files, llm_d.START),
    "kserve": Exporter(kserve.files, kserve.START),
    "ray-serve": Exporter(ray_serve.files, ray_serve.START),
    "slurm": Exporter(slurm.files, slurm.START),
    "compose": Exporter(compose.files, compose.START),
    "k8s": Exporter(kubernetes.files, kubernetes.START),
}


def target(to: str) -> Exporter:
    """The exporter of a name. Raises InputError for one that there is not."""
    if to not in EXPORTERS:
        near = ", ".join(f"`{name}`" for name in nearest(to, list(EXPORTERS), 3))
        raise InputError(f"`{to}` is no target", "--to", f"nearest: {near}; all: {', '.join(EXPORTERS)}")
    return EXPORTERS[to]


def export(plan: Plan, to: str, label: str | None = None) -> Files:
    """The files that start a plan, README included; `label`: its name in Kubernetes, in place of the model's.
    Raises InputError for a target that is unknown or cannot say what the plan says."""
    exporter = target(to)
    deployed = Deployed(launched(plan), to, label=label)
    for r in deployed.plan.replicas:
        if r.launch is None or not r.launch.argv:
            why = "; ".join(r.launch.notes) if r.launch else "no engine starts it"
            raise InputError(f"{r.id} cannot be exported: {why}", "--to")
    found = exporter.files(deployed)
    return {"README.md": deployed.readme(found, exporter.start), **found}
