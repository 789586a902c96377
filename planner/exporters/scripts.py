"""Shell scripts of one engine: one a server and node, and one for the router."""

from __future__ import annotations

from collections.abc import Callable

from planner.exporters import front
from planner.exporters.deployed import Deployed, Files, script
from planner.launch.instances import Instance
from planner.launch.words import command

START = (
    "Copy the folder to every node.",
    "Run the script that is named for each server on the node it names.",
    front.START,
)


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
        return found | front.files(d)

    return files


def called(i: Instance) -> str:
    """A server's name, with its role where it has one."""
    return i.name if i.replica.role == "mixed" else f"{i.replica.role}-{i.name}"
