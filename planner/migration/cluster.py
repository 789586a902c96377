"""Machines of a plan's cluster: which GPUs, in which scale-up domain and zone, with which ports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Device, NodeClass, ResolvedCluster
from planner.errors import InputError, nearest
from planner.launch.instances import before
from planner.launch.server import machine_of
from planner.migration.servers import At
from planner.plans.schema import Plan


@dataclass(frozen=True)
class Domain:
    """GPUs that a scale-up link joins: a node, or a few of them. Known by class and number."""

    name: str
    number: int
    node_class: NodeClass = field(compare=False)

    @property
    def nodes(self) -> list[str]:
        """Its nodes."""
        size = self.node_class.domain_nodes
        return list(self.node_class.nodes[self.number * size : (self.number + 1) * size])

    @property
    def nic_bytes_per_s(self) -> float:
        """All NICs of its GPUs together."""
        return len(self.nodes) * self.node_class.gpus_per_node * self.node_class.nic_bytes_per_s


class Machines:
    """The machines of a plan's cluster that the servers of some plans stand on."""

    def __init__(self, plan: Plan) -> None:
        p = plan.problem
        devices = {name: Device.model_validate(form) for name, form in p.devices.items()}
        self.plan = plan
        self.cluster: ResolvedCluster = resolve(Cluster.model_validate(p.cluster), devices=devices)

    @cached_property
    def classes(self) -> dict[str, NodeClass]:
        return {c.id: c for c in self.cluster.classes}

    @cached_property
    def index(self) -> dict[At, int]:
        """Where each machine stands among those of its class."""
        return {(machine_of(name), c.id): i for c in self.cluster.classes for i, name in enumerate(c.nodes)}

    def refuse(self, machines: Iterable[str]) -> None:
        """Raises InputError for a machine that the cluster has not."""
        known = {name for name, _ in self.index}
        for name in dict.fromkeys(machines):
            if name not in known:
                hint = f"did you mean `{nearest(name, sorted(known), 1)[0]}`?"
                raise InputError(f"the cluster has no node `{name[:60]}`", "replicas", hint)

    def kind(self, at: At) -> tuple[object, ...] | None:
        """What has to be the same for a machine to be the same one in two plans; None where it is not
        there."""
        if at not in self.index:
            return None
        node = self.classes[at[1]]
        return (node.device.name, node.gpus_per_node)

    def numbers(self, node_class: str) -> range:
        """Numbers of the GPUs of a class in its nodes."""
        first = before(self.plan, node_class)
        return range(first, first + self.classes[node_class].gpus_per_node)

    def domain(self, at: At) -> Domain:
        """The scale-up domain of a machine's GPUs."""
        node = self.classes[at[1]]
        return Domain(node.id, self.index[at] // node.domain_nodes, node)
