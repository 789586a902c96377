"""A node with unlike GPUs (`gpus:`) as the planner sees it: one part a kind, joined by the node's PCIe.

Parts are entries of one node each, in a zone of their own, where what lies between them is PCIe: so
`nic_gb_per_s` of a part is the node's PCIe rate per GPU, and the node's own NIC is a link from that zone
to what else stands in the zone that the file names. What is shared, each on the careful side but the last:

- the price of each part is the whole node's, which is paid once if any of them is in use: that is exact;
- a part has a share of host memory, disks and power cap: of memory by its GPUs, of power by their watts;
- between two kinds of GPU the slower slot counts for all GPUs of both, with the start-up time of a NIC;
- several such nodes share their NICs by pairs, so that of a node that talks to two others at once
  is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from cluster_configs.ports import usual_nic_gb_per_s
from cluster_configs.schema import Cluster, Device, Host, Link, Node, Tier
from planner.reading.documents import Document, Loc

MOST_BOXES = 4
"""Nodes with unlike GPUs in one cluster: each kind in each of them is a class of its own, which planning
takes longer for."""
ZONE = "default"
Find = Callable[[str, Loc], Device]


@dataclass(frozen=True)
class Expanded:
    """The cluster with a part a kind; `origin[i]`: which entry of the file its entry i came from;
    `box[i]`: the node that it is a part of, or None; links of the nodes' own NICs; what was assumed."""

    cluster: Cluster
    origin: list[int]
    box: list[str | None]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Box:
    name: str
    zone: str
    nic_gb_per_s: float
    parts: list[Node]


def expand(cluster: Cluster, find: Find, document: Document) -> Expanded:
    """All entries with one kind of GPU each. Raises InputError for what cannot be said of such nodes."""
    if not any(node.gpus for node in cluster.nodes):
        return Expanded(cluster, [*range(len(cluster.nodes))], [None] * len(cluster.nodes))
    nodes: list[Node] = []
    origin: list[int] = []
    held: list[str | None] = []
    boxes: list[_Box] = []
    for i, node in enumerate(cluster.nodes):
        kinds = _kinds(node, find, ("nodes", i))
        if len(kinds) < 2:
            own = {"device": kinds[0][0].name, "gpus_per_node": kinds[0][1], "gpus": None} if kinds else {}
            nodes, origin, held = [*nodes, node.model_copy(update=own)], [*origin, i], [*held, None]
            continue
        _refuse(cluster, node, i, document)
        for box in _boxes(node, kinds, i):
            boxes.append(box)
            nodes += box.parts
            origin += [i] * len(box.parts)
            held += [box.name] * len(box.parts)
    if len(boxes) > MOST_BOXES:
        at = next(i for i, node in enumerate(cluster.nodes) if node.gpus)
        raise document.error(
            f"{len(boxes)} nodes with unlike GPUs: at most {MOST_BOXES} of them are planned",
            ("nodes", at, "gpus"),
            "write an entry for each kind of GPU: its nodes then talk over their NICs only",
        )
    zones = {node.zone or ZONE for node, box in zip(nodes, held, strict=True) if box is None}
    links = [*cluster.links, *_links(boxes, zones)]
    whole = cluster.model_copy(update={"nodes": nodes, "links": links})
    return Expanded(whole, origin, held, [*_told(boxes)])


def _kinds(node: Node, find: Find, at: Loc) -> list[tuple[Device, int]]:
    """Devices of a node with their number, equal ones together; [] where it is written with `device`."""
    counts: dict[str, tuple[Device, int]] = {}
    for j, kind in enumerate(node.gpus or []):
        device = find(kind.device, (*at, "gpus", j, "device"))
        counts[device.name] = (device, kind.count + counts.get(device.name, (device, 0))[1])
    return [*counts.values()]


def _refuse(cluster: Cluster, node: Node, i: int, document: Document) -> None:
    """What cannot be said truly of a node that is planned kind by kind."""
    at: Loc = ("nodes", i)
    if node.scale_up_gpus is not None:
        raise document.error(
            "`scale_up_gpus` is of GPUs of one kind, this node has several",
            (*at, "scale_up_gpus"),
            "leave it out: kinds are joined by PCIe",
        )
    here = {node.name, node.zone or ZONE}
    for k, link in enumerate(cluster.links):
        if here & {*link.between}:
            raise document.error(
                "a link to a node with unlike GPUs, or to its zone, is not planned: such a node reaches "
                "others in "
                "its zone over its NIC only",
                ("links", k, "between"),
                "leave the link out, or write an entry for each kind of GPU",
            )


def name_of(node: Node, i: int) -> str:
    """The name of the cluster's entry i with unlike GPUs."""
    return node.name or (f"node-{i}" if i else "node")


def machines(name: str, count: int) -> list[str]:
    """Names of the nodes of an entry with unlike GPUs.

    >>> machines("pc", 1), machines("pc", 2)
    (['pc'], ['pc-0', 'pc-1'])
    """
    return [name] if count == 1 else [f"{name}-{i}" for i in range(count)]


def _boxes(node: Node, kinds: list[tuple[Device, int]], i: int) -> Iterator[_Box]:
    """Each of the entry's nodes with its parts."""
    total = sum(count for _, count in kinds)
    slot = node.intra_gb_per_s or min(d.pcie_gb_per_s or d.intra_gb_per_s for d, _ in kinds)
    nic = (
        node.nic_gb_per_s * total
        if node.nic_gb_per_s
        else sum(usual_nic_gb_per_s(d, total) * n for d, n in kinds)
    )
    watts = sum(d.tdp_watts * n for d, n in kinds)
    for name in machines(name_of(node, i), node.count):
        parts = [
            node.model_copy(
                update={
                    "name": f"{name}/{device.name}",
                    "count": 1,
                    "device": device.name,
                    "gpus": None,
                    "gpus_per_node": count,
                    "zone": name,
                    "nic_gb_per_s": slot,
                    "power_cap_watts": node.power_cap_watts
                    and node.power_cap_watts * device.tdp_watts * count / watts,
                    "host": _share_of_host(node.host, count / total),
                    "tiers": [_share_of_tier(tier, count / total) for tier in node.tiers],
                }
            )
            for device, count in kinds
        ]
        yield _Box(name, node.zone or ZONE, nic, parts)


def _share_of_host(host: Host | None, share: float) -> Host | None:
    """The part of host memory and of its CPU that so many of the node's GPUs have."""
    if host is None:
        return None
    scaled: dict[str, Any] = {
        name: value * share for name in ("memory_gb", "gb_per_s", "tflops") if (value := getattr(host, name))
    }
    return host.model_copy(update=scaled)


def _share_of_tier(tier: Tier, share: float) -> Tier:
    if tier.shared_by == "gpu":
        return tier
    scaled = {name: getattr(tier, name) * share for name in ("gb", "read_gb_per_s", "write_gb_per_s")}
    return tier.model_copy(update=scaled)


def _links(boxes: list[_Box], zones: set[str]) -> Iterator[Link]:
    """The NIC of each such node: to the others of its zone, and to another such node there."""
    for box in boxes:
        if box.zone in zones:
            yield Link(between=[box.name, box.zone], gb_per_s=box.nic_gb_per_s)
    for a, b in combinations(boxes, 2):
        if a.zone == b.zone:
            yield Link(between=[a.name, b.name], gb_per_s=min(a.nic_gb_per_s, b.nic_gb_per_s))


def _told(boxes: list[_Box]) -> Iterator[str]:
    for box in boxes:
        kinds = " and ".join(f"{part.gpus_per_node} {part.device}" for part in box.parts)
        first = box.parts[0]
        dealt = "; host memory and disks are dealt by number of GPUs" if first.host or first.tiers else ""
        dealt += "; the power cap is dealt by watts" if first.power_cap_watts else ""
        yield (
            f"`{box.name}` is one node with {kinds}, planned kind by kind: PCIe at "
            f"{first.nic_gb_per_s:g} GB/s a GPU lies between them{dealt}"
        )
