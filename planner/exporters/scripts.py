"""Shell scripts of one engine: one a server and node, and one for the router."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from planner.exporters.deployed import Deployed, Files, yaml
from planner.launch.instances import Instance
from planner.launch.words import command, quoted, router

NEEDED = ("HEAD_ADDR", "HOST_ADDR", "DRAFT_HEAD", "MODEL_GGUF", "KT_WEIGHTS", "KT_METHOD")
"""Variables that the scripts ask for where they use them."""


def of(engine: str) -> Callable[[Deployed], Files]:
    """Scripts for a plan of one engine."""

    def files(d: Deployed) -> Files:
        d.alike(engine)
        found: Files = {}
        for i in d.instances:
            ranks = 1 + len(i.replica.launch.ranks if i.replica.launch else [])
            for rank in range(ranks):
                node = i.gpus[min(rank, len(i.gpus) - 1)][0]
                name = f"{called(i)}{f'-node{rank}' if ranks > 1 else ''}.sh"
                found[name] = script(command(d.plan, i, rank), f"{i.name} on {node}")
            found |= i.replica.launch.files if i.replica.launch else {}
        words = router(d.plan, d.instances) if len(d.instances) > 1 else []
        if engine == "trtllm" and words:
            found["disaggregated.yaml"] = disaggregated(d.instances)
        if words:
            found["router.sh"] = script(quoted(words), "the router")
        return found

    return files


def called(i: Instance) -> str:
    """A server's name, with its role where it has one."""
    return i.name if i.replica.role == "mixed" else f"{i.replica.role}-{i.name}"


def disaggregated(servers: Sequence[Instance]) -> str:
    """TensorRT-LLM's front for pairs: servers that prefill are its context servers, others generate."""
    told: dict[str, Any] = {"hostname": "0.0.0.0", "port": 8080, "backend": "pytorch"}
    for role, name in (("prefill", "context_servers"), ("decode", "generation_servers")):
        urls = [f"{i.head}:{i.port}" for i in servers if i.replica.role == role]
        told[name] = {"num_instances": len(urls), "urls": urls}
    return yaml(told)


def script(words: str, about: str) -> str:
    """A script that ends with the command, and says first which variables it lacks."""
    used = [f': "${{{name}:?}}"' for name in NEEDED if f"${name}" in words]
    return "\n".join(["#!/usr/bin/env bash", f"# {about}", "set -euo pipefail", *used, words, ""])
