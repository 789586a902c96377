"""Which nodes a plan takes, by name, and which it does not need."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_configs.unlike import machines
from planner.errors import InputError
from planner.launch.instances import instances
from planner.launch.server import machine_of
from planner.plans.schema import Plan

MANY = 4
"""Names of a class that are listed; of more the first and the last."""


def rented(plan: Plan) -> list[str]:
    """A line with the nodes in use, one with the others; nothing where all are in use or none is placed."""
    if plan.chains:
        return []
    try:
        used = {node for i in instances(plan) for node, _ in i.gpus}
    except InputError:
        return []
    there = {name: [machine_of(n) for n in names] for name, names in nodes_of(plan).items()}
    left = {name: [n for n in names if n not in used] for name, names in there.items()}
    if not any(left.values()):
        return []
    taken = {name: [n for n in names if n in used] for name, names in there.items()}
    lines = [f"nodes in use: {_listed(taken)}", f"not needed: {_listed(left)}"]
    return lines if any(taken.values()) else []


def nodes_of(plan: Plan) -> dict[str, list[str]]:
    """Names of all nodes by the entry of the cluster."""
    found: dict[str, list[str]] = {}
    for node in plan.problem.cluster["nodes"]:
        name, count = node.get("name") or node["device"], int(node.get("count") or 1)
        found[name] = machines(name, count) if node.get("gpus") else [f"{name}-{i}" for i in range(count)]
    return found


def _listed(groups: dict[str, list[str]]) -> str:
    """`2 h100-sxm (h100-sxm-0, h100-sxm-1)`, by class."""
    said = [f"{len(names):,} {name} ({shortened(names)})" for name, names in groups.items() if names]
    return ", ".join(said)


def shortened(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MANY else f"{names[0]} … {names[-1]}"
