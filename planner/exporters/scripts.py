"""Shell scripts of one engine: one a server and node, and one for the router."""

from __future__ import annotations

from collections.abc import Callable

from planner.exporters.deployed import Deployed, Files
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
                name = f"{i.name}.sh" if ranks == 1 else f"{i.name}-node{rank}.sh"
                found[name] = script(command(d.plan, i, rank), f"{i.name} on {node}")
            found |= i.replica.launch.files if i.replica.launch else {}
        words = router(d.plan, d.instances) if len(d.instances) > 1 else []
        if words:
            found["router.sh"] = script(quoted(words), "the router")
        return found

    return files


def script(words: str, about: str) -> str:
    """A script that ends with the command."""
    used = [f': "${{{name}:?}}"' for name in NEEDED if f"${name}" in words]
    place, _, program = words.rpartition('" ') if False else ("", "", words)
    return "\n".join(["#!/usr/bin/env bash", f"# {about}", "set -euo pipefail", *used, place + program, ""])
