"""A plan as it is deployed: its servers on their GPUs, and the page that says how to start them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from planner.errors import InputError
from planner.launch.instances import Instance, instances
from planner.launch.server import node_sizes, vendor_of
from planner.launch.words import ASKED_FOR
from planner.plans.schema import Plan, Replica
from planner.reading.names import as_labels

IMAGES = {
    "vllm": "vllm/vllm-openai:v0.33.0",
    "sglang": "lmsysorg/sglang:v0.5.23",
    "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0",
    "llama.cpp": "ghcr.io/ggml-org/llama.cpp:server-cuda",
}
"""Containers in which every flag that is written was looked up, all for NVIDIA GPUs; llama.cpp's is the
newest."""

GPU_KEYS = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}

JOINING: Final = (
    "--nnodes",
    "--node-rank",
    "--master-addr",
    "--data-parallel-address",
    "--data-parallel-rpc-port",
)
"""By which vLLM's commands of one server's nodes find each other: orchestrators that place ranks set them."""

OTHERS: Final = "slurm, compose and k8s start servers of any engine, and of several"

Files = dict[str, str]


LONGEST_MODEL = 30
"""Characters of a model in names of objects in Kubernetes: the rest is for groups."""


def model_labels(models: Sequence[str]) -> list[str]:
    """The names of models in Kubernetes, each once."""
    return as_labels(models, LONGEST_MODEL)


@dataclass(frozen=True)
class Deployed:
    """`to`: what it is exported for; `assumed`: what is to be known beside the plan; `label`: the name of its
    objects in Kubernetes, in place of the model's."""

    plan: Plan
    to: str
    assumed: list[str] = field(default_factory=list)
    label: str | None = None

    @cached_property
    def instances(self) -> list[Instance]:
        return instances(self.plan)

    @cached_property
    def node_sizes(self) -> dict[str, int]:
        """GPUs of a node by class."""
        return node_sizes(self.plan)

    def of(self, r: Replica) -> list[Instance]:
        """The servers of a group."""
        return [i for i in self.instances if i.replica.id == r.id]

    def gpus(self, r: Replica) -> int:
        """GPUs of one replica."""
        return sum(stage.gpus for stage in r.stages)

    def nodes(self, r: Replica) -> int:
        """Nodes of one replica."""
        return max(len(i.gpus) for i in self.of(r))

    def gpu_key(self, r: Replica) -> str:
        """What Kubernetes calls the GPUs."""
        return GPU_KEYS.get(vendor_of(self.plan, r.stages[0]), "nvidia.com/gpu")

    @property
    def name(self) -> str:
        """The name of what Kubernetes runs."""
        return self.label or model_labels([str(self.plan.problem.model["name"])])[0]

    @cached_property
    def group_labels(self) -> dict[str, str]:
        """The name in Kubernetes of each group of replicas, by id; `NAME-router` is the router's."""
        ids = [r.id for r in self.plan.replicas]
        router, *labels = as_labels([f"{self.name}-router", *(f"{self.name}-{each}" for each in ids)])
        assert router == f"{self.name}-router"
        return dict(zip(ids, labels, strict=True))

    def label_of(self, r: Replica) -> str:
        """The name of a group in Kubernetes."""
        return self.group_labels[r.id]

    def words(self, r: Replica, rank: int = 0) -> list[str]:
        """The command of a group's server, or of its further node `rank`."""
        assert r.launch is not None
        return [r.launch.argv, *r.launch.ranks][rank]

    def alike(self, *engines: str) -> None:
        """Refuses plans with servers of other engines. Raises InputError."""
        other = next((r for r in self.plan.replicas if r.engine not in engines), None)
        if other is not None:
            said = " or ".join(engines)
            raise InputError(f"{self.to} starts {said}, {other.id} runs on {other.engine}", "--to", OTHERS)

    def one_device(self, r: Replica) -> None:
        """Refuses replicas over several classes, which one kind of pod cannot say. Raises InputError."""
        if len({stage.node_class for stage in r.stages}) > 1:
            raise InputError(f"{r.id} stands on several classes of nodes: {self.to} cannot say that", "--to")

    def no_mpi(self, r: Replica) -> None:
        """Refuses servers of several nodes whose addresses or MPI launcher the target lacks. Raises
        InputError."""
        if r.engine == "trtllm" and self.nodes(r) > 1:
            raise InputError(
                f"{r.id} stands on {self.nodes(r)} nodes, and {self.to} has no MPI launcher for TensorRT-LLM",
                "--to",
                "slurm or dynamo",
            )
        if r.engine == "llama.cpp" and self.nodes(r) > 1 and self.to == "k8s":
            raise InputError(
                f"{r.id} stands on {self.nodes(r)} nodes: in {self.to} nothing tells llama.cpp where",
                "--to",
                "llama.cpp or slurm",
            )

    def readme(self, files: Mapping[str, str], start: Sequence[str]) -> str:
        """How to start it, step by step, and what was assumed."""
        p, plan = self.plan.predicted, self.plan
        lines = [f"# {plan.problem.model['name']} for {self.to}", ""]
        lines += [
            f"{p.rps.value:.4g} requests/s, {p.out_tok_per_s.value:,.0f} output tokens/s predicted.",
            "",
        ]
        lines += ["## What runs", ""]
        lines += [
            f"- {r.count} x {r.id}: {r.role}, {r.engine} {r.launch.engine_versions if r.launch else ''}, "
            f"{self.gpus(r)} x {r.stages[0].device} each"
            for r in plan.replicas
        ]
        lines += ["", "## How to start it", "", *(f"1. {text}" for text in start)]
        shares = [_way(route.model_dump(exclude_none=True)) for route in plan.routing]
        lines += ["", "## Traffic", "", *(f"- {text}" for text in shares)]
        vendors = {vendor_of(plan, r.stages[0]) for r in plan.replicas} - {"nvidia"}
        built = ["images are built for NVIDIA GPUs: name ones that are built for yours"]
        built *= bool(vendors) and any("image:" in text for text in files.values())
        told = [note for r in plan.replicas for note in (r.launch.notes if r.launch else [])]
        notes = dict.fromkeys([*self.assumed, *built, *told])
        lines += ["", "## Assumed", "", *(f"- {note}" for note in notes)]
        lines += ["", "## Files", "", *(f"- `{name}`" for name in files), ""]
        return "\n".join(lines)


def _way(route: Mapping[str, Any]) -> str:
    """Where a share of a bucket's requests goes."""
    to = (
        f"{route['prefill']} then {route['decode']}"
        if "prefill" in route
        else str(route.get("replica", "the chains"))
    )
    return f"requests of bucket {route['bucket']}: {100 * route['share']:.4g} % to {to}"


def yaml(*documents: object) -> str:
    """YAML documents; mappings in their order."""
    from io import StringIO

    from ruamel.yaml import YAML

    writer, out = YAML(), StringIO()
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.width = 10_000
    writer.dump_all([json.loads(json.dumps(x)) for x in documents], out)
    return out.getvalue()


def without(words: list[str], flags: Collection[str]) -> list[str]:
    """A command line less some flags, each with its one value."""
    left, rest = list[str](), iter(words)
    for word in rest:
        if word in flags:
            next(rest, None)
        else:
            left.append(word)
    return left


def script(words: str, about: str) -> str:
    """A script that ends with the command, and says first which variables it lacks."""
    used = [f': "${{{name}:?}}"' for name in ASKED_FOR if f"${name}" in words]
    return "\n".join(["#!/usr/bin/env bash", f"# {about}", "set -euo pipefail", *used, words, ""])


RBAC = "rbac.authorization.k8s.io"


def made(api: str, kind: str, name: str, **parts: Any) -> dict[str, Any]:
    """An object of Kubernetes."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **parts}


def deployment(name: str, labels: Mapping[str, str], count: int, spec: Mapping[str, Any]) -> dict[str, Any]:
    """`count` pods of one spec, found by their labels."""
    pods = {"metadata": {"labels": dict(labels)}, "spec": dict(spec)}
    whole = {"replicas": count, "selector": {"matchLabels": dict(labels)}, "template": pods}
    return made("apps/v1", "Deployment", name, spec=whole) | {
        "metadata": {"name": name, "labels": dict(labels)}
    }


def service(name: str, selector: Mapping[str, str], port: int) -> dict[str, Any]:
    """One address for the pods that have these labels."""
    spec = {"selector": dict(selector), "ports": [{"port": port, "targetPort": port}]}
    return made("v1", "Service", name, spec=spec)


def account(name: str, rule: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An account that may do what a rule says, and nothing else."""
    role = {"apiGroup": RBAC, "kind": "Role", "name": name}
    whom = [{"kind": "ServiceAccount", "name": name}]
    return [
        made("v1", "ServiceAccount", name),
        made(f"{RBAC}/v1", "Role", name, rules=[dict(rule)]),
        made(f"{RBAC}/v1", "RoleBinding", name, roleRef=role, subjects=whom),
    ]
