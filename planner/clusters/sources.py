"""The tools whose output is read as a cluster, and the way from their text to a cluster file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from cluster_configs.devices import find
from planner.clusters import k8s, nvidia_smi, ray, skypilot, slurm
from planner.clusters.found import Found, Gpus, Input, Machine
from planner.errors import InputError


@dataclass(frozen=True)
class Source:
    """A tool: `name` of its command (`from-…`), what it is called in a sentence, what to run, its reader."""

    name: str
    tool: str
    run: str
    read: Callable[[tuple[Input, ...]], Found]


SOURCES: Final[tuple[Source, ...]] = (
    Source("nvidia-smi", "nvidia-smi", nvidia_smi.RUN, nvidia_smi.read),
    Source("k8s", "kubectl", k8s.RUN, k8s.read),
    Source("slurm", "Slurm", slurm.RUN, slurm.read),
    Source("ray", "ray status", ray.RUN, ray.read),
    Source("skypilot", "sky show-gpus", skypilot.RUN, skypilot.read),
)


def completed(found: Found, device: str | None, gpus_per_node: int | None) -> Found:
    """What was found with what the user adds: the device of GPUs that have no name; GPUs of nodes for which
    the input shows none. Raises InputError for an unknown device."""
    if device is None:
        if gpus_per_node is not None and not found.machines:
            raise InputError("--gpus-per-node needs --device: which GPUs are they?", "--gpus-per-node")
        return found
    card = find(device, "--device")
    named = Gpus(card.name, gpus_per_node or 0, card.memory_gb * 1e9 / 2**20)
    if gpus_per_node is not None and not found.machines:
        return replace(found, machines=tuple(Machine(name, (named,)) for name in found.bare), lacking=None)
    return replace(found, machines=tuple(_named(machine, named) for machine in found.machines))


def _named(machine: Machine, card: Gpus) -> Machine:
    """The node with its GPUs called by the card's name, where the input gives them none."""
    gpus = (g if g.model else replace(card, count=g.count) for g in machine.gpus)
    return replace(machine, gpus=tuple(gpus))
