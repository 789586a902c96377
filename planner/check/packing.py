"""Every GPU is used once: the stages of all replicas fit together on the nodes they name.

A stage no larger than a node stands on one node. A larger one takes whole nodes and a rest; a
tensor-parallel group must lie inside one scale-up domain, which may be part of a node (NVLink pairs), a
node, or many nodes (NVL72).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from cluster_configs.names import NodeNames
from cluster_configs.schema import NodeClass
from planner.check import binpack
from planner.check.case import Case
from planner.check.violation import Violation
from planner.plans.schema import Replica, Stage


@dataclass
class Items:
    """What must be packed on one class, size -> count: `gpus` inside a node (or a smaller domain), `nodes`
    inside a domain of many nodes; and `free_nodes`, whole nodes anywhere."""

    gpus: Counter[int] = field(default_factory=Counter)
    nodes: Counter[int] = field(default_factory=Counter)
    free_nodes: int = 0

    def add(self, stage: Stage, replica: Replica, node_class: NodeClass) -> None:
        """The items of stage `stage` of all replicas of the group."""
        size, ranks = node_class.gpus_per_node, replica.attn_dp * replica.cp
        if stage.tp > size:
            self.nodes[-(-stage.tp // size)] += replica.count * ranks
        elif node_class.scale_up_gpus < size:
            self.gpus[stage.tp] += replica.count * ranks
        elif stage.gpus > size:
            whole, rest = divmod(stage.gpus, size)
            self.free_nodes += replica.count * whole
            self.gpus[rest] += replica.count
        else:
            self.gpus[stage.gpus] += replica.count


def violations(case: Case) -> Iterator[Violation]:
    """tp beyond a scale-up domain; more GPUs than there are; GPUs enough but no way to place them."""
    for node_class in case.cluster.classes:
        mine = [
            (f"replicas[{i}].stages[{j}]", replica, stage)
            for i, replica in enumerate(case.plan.replicas)
            for j, stage in enumerate(replica.stages)
            if stage.node_class == node_class.id
        ]
        for where, _, stage in mine:
            if stage.tp > max(node_class.scale_up_gpus, 1):
                text = f"tp {stage.tp} does not fit a scale-up domain of {node_class.scale_up_gpus} GPUs"
                yield Violation("tp_across_domains", where, text)
        yield from _crowded(node_class, [(replica, stage) for _, replica, stage in mine])


def nodes_used(case: Case, node_class: NodeClass) -> int:
    """Nodes of the class that the plan needs at least (exact where all sizes divide the node): also all those
    that groups of chains name, for each of them stands on every one of its nodes."""
    items, named = Items(), set[str]()
    for replica in case.plan.replicas:
        for stage in replica.stages:
            if stage.node_class == node_class.id:
                items.add(stage, replica, node_class)
                if replica.role == "chain":
                    named.update(stage.nodes)
    return max(_nodes(items, node_class), len(named))


def _nodes(items: Items, node_class: NodeClass) -> int:
    joined = sum(size * count for size, count in items.nodes.items())
    small = {size: count for size, count in items.gpus.items() if size}
    return joined + items.free_nodes + binpack.bins_needed(small, node_class.gpus_per_node)


def _crowded(node_class: NodeClass, stages: list[tuple[Replica, Stage]]) -> Iterator[Violation]:
    """For each set of nodes that stages name, and for all: what may only stand there must fit there (Hall's
    condition)."""
    index = NodeIndex(node_class.nodes)
    named = [
        (replica, stage, frozenset(at for name in stage.nodes if (at := index.find(name)) is not None))
        for replica, stage in stages
    ]
    sets = {nodes for _, _, nodes in named}
    for nodes in sorted(sets | {frozenset().union(*sets)}, key=len):
        items, gpus = Items(), 0
        for replica, stage, own in named:
            if own <= nodes:
                items.add(stage, replica, node_class)
                gpus += replica.count * stage.gpus
        if _fit(items, node_class, nodes) is False:
            have = len(nodes) * node_class.gpus_per_node
            code = "gpus_double_booked" if gpus > have else "no_packing"
            shown = f"{len(nodes)} nodes of {node_class.gpus_per_node} GPUs ({have} in all)"
            yield Violation(
                code, f"class {node_class.id}", f"replicas take {gpus} GPUs and do not fit on {shown}"
            )
            return


def _fit(items: Items, node_class: NodeClass, nodes: Set[int]) -> bool | None:
    """Whether `items` fit on these nodes of the class. Whole nodes go first: what is left is plain bin
    packing."""
    joined = sum(size * count for size, count in items.nodes.items())
    left = len(nodes) - joined - items.free_nodes
    if left < 0:
        return False
    if items.nodes and binpack.fits(items.nodes, _domains(node_class, nodes)) is False:
        return False
    small = {size: count for size, count in items.gpus.items() if size}
    size, domain = node_class.gpus_per_node, node_class.scale_up_gpus
    if domain >= size:
        return binpack.fits(small, {size: left})
    bins = Counter({domain: size // domain * left})
    bins[size % domain] += left
    return binpack.fits(small, bins)


def _domains(node_class: NodeClass, nodes: Set[int]) -> Counter[int]:
    """Domains of many nodes, by how many of `nodes` are in them: nodes fill domains in the order of the
    cluster."""
    per_domain = max(node_class.scale_up_gpus // node_class.gpus_per_node, 1)
    inside = Counter(index // per_domain for index in nodes)
    return Counter(inside.values())


class NodeIndex:
    """Positions of node names in a class.

    >>> from cluster_configs.names import NameRun
    >>> index = NodeIndex(NodeNames((NameRun("h", 0, 3), NameRun("spare", 4, 5))))
    >>> index.find("h-2"), index.find("spare-4"), index.find("h-3"), index.find("h-02")
    (2, 3, None, None)
    """

    def __init__(self, names: NodeNames) -> None:
        self._runs: dict[str, list[tuple[int, int, int]]] = {}
        before = 0
        for stem, start, stop in names.runs:
            self._runs.setdefault(stem, []).append((start, stop, before))
            before += stop - start

    def find(self, name: str) -> int | None:
        """Position of `name` in the class; None where no node is called so."""
        stem, _, digits = name.rpartition("-")
        if not digits.isdecimal() or len(digits) > 12 or str(int(digits)) != digits:
            return None
        for start, stop, before in self._runs.get(stem, ()):
            if start <= int(digits) < stop:
                return before + int(digits) - start
        return None
