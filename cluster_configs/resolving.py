"""Cluster form → node classes: defaults by device, names, links, identical entries merged into one class.

An entry's nodes are called name-0, name-1, …; its name defaults to its device's, then -2, -3, …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cluster_configs.feeds import check_zones, fed_apart, feeds, names_of
from cluster_configs.links import Ends, Entry, resolve_links
from cluster_configs.names import NameRun, NodeNames
from cluster_configs.overrides import Catalog
from cluster_configs.ports import has_peers, usual_nic_gb_per_s
from cluster_configs.schema import Cluster, Device, Node, NodeClass, ResolvedCluster
from cluster_configs.tiers import check_memory, doubts
from cluster_configs.unlike import Expanded, expand, name_of
from planner.reading.documents import Document, Loc
from planner.reading.names import as_node_name

ZONE = "default"
MAX_GPUS_PER_NODE = 1024
MAX_NODES = 1_000_000
_TERABIT_GB_PER_S = 125.0
"""A faster NIC per GPU is not sold: the figure is then likely in gigabits."""


def resolve(
    cluster: Cluster, document: Document | None = None, devices: Mapping[str, Device] | None = None
) -> ResolvedCluster:
    """The cluster as planning uses it. Raises InputError, with positions where `document` is given.

    `devices`, where given, stand for the catalog with overrides already applied: a plan embeds its own.
    """
    document = document or Document(None, cluster.name)
    catalog = Catalog(cluster, document, devices)
    whole = expand(cluster, catalog.find, document)
    filled = _Filler(catalog, document, whole).fill(cluster)
    entries = {n.name: Entry(n.name, n.count, n.zone) for n in filled.nodes}
    links, repeats = resolve_links(whole.cluster.links, Ends(entries), document)
    check_zones(cluster.energy, (n.zone for n in filled.nodes), document)
    linked = {end for link in links for end in link.between} - {n.zone for n in filled.nodes}
    pairs = zip(whole.origin, filled.nodes, strict=True)
    zones = {n.name: cluster.nodes[i].zone or ZONE for i, n in pairs}  # as written, of parts of nodes, too
    linked |= fed_apart(cluster.power_caps_watts, zones, document)
    forms = {
        i: n.form
        if n.box is None
        else cluster.nodes[i].model_copy(update={"name": name_of(cluster.nodes[i], i)})
        for i, n in zip(whole.origin, filled.nodes, strict=True)
    }
    named = {
        field: dict(sorted(own.items()))  # in whatever order they are written
        for field in ("power_caps_watts", "energy")
        if (own := getattr(cluster, field))
    }
    form = cluster.model_copy(update={"nodes": [*forms.values()], **named})
    classes = _merge(filled.nodes, linked)
    return ResolvedCluster(
        name=cluster.name,
        classes=tuple(classes),
        links=links,
        source=form,
        warnings=(*catalog.warnings(), *whole.warnings, *filled.warnings, *repeats),
        defaulted=tuple(filled.defaulted),
        feeds=feeds(cluster.power_caps_watts, {c.id: _names(c, zones) for c in classes}, document),
    )


@dataclass(frozen=True)
class _FilledNode:
    """One entry with nothing left open."""

    form: Node
    device: Device
    name: str
    count: int
    zone: str
    box: str | None = None


@dataclass(frozen=True)
class _Filled:
    nodes: list[_FilledNode]
    warnings: list[str]
    defaulted: list[str]


class _Filler:
    """Fills in what entries leave to the device, and refuses what cannot be."""

    def __init__(self, catalog: Catalog, document: Document, whole: Expanded) -> None:
        self.catalog, self.document, self.whole = catalog, document, whole
        self.warnings: list[str] = []
        self.defaulted: dict[str, None] = {}  # an ordered set

    def fill(self, cluster: Cluster) -> _Filled:
        entries, origin = self.whole.cluster.nodes, self.whole.origin
        devices = [
            self.catalog.find(node.device or "", ("nodes", i, "device"))
            for i, node in zip(origin, entries, strict=True)
        ]
        names = self._names(cluster, devices)
        self._check_total(cluster)
        nodes = [
            self._entry(node, device, name, at)
            for at, (node, device, name) in enumerate(zip(entries, devices, names, strict=True))
        ]
        return _Filled(nodes, self.warnings, list(self.defaulted))

    def _names(self, cluster: Cluster, devices: list[Device]) -> list[str]:
        """Each entry's name: its own, else the device's with the first number free."""
        taken: dict[str, int] = {}
        for i, node in enumerate(cluster.nodes):
            if node.name is None:
                continue
            self._check_name(node.name, "name", i)
            if node.name in taken:
                first = self.document.where(("nodes", taken[node.name], "name"))
                hint = f"it stands at {first} already: identical nodes are written once, with `count:`"
                raise self.document.error(f"name `{node.name}` is used twice", ("nodes", i, "name"), hint)
            taken[node.name] = i
        return [
            node.name or _free_name(as_node_name(device.name), taken)
            for node, device in zip(self.whole.cluster.nodes, devices, strict=True)
        ]

    def _check_name(self, name: str, field: str, i: int) -> None:
        """Behind a slash stand the parts of a node with unlike GPUs."""
        if "/" in name:
            hint = "leave it out for a default"
            raise self.document.error(f"`{field}` has a slash", ("nodes", i, field), hint)

    def _check_total(self, cluster: Cluster) -> None:
        total = 0
        for i, node in enumerate(cluster.nodes):
            total += node.count
            if total > MAX_NODES:
                raise self.document.error(f"more than {MAX_NODES:,} nodes", ("nodes", i, "count"))

    def _entry(self, node: Node, device: Device, name: str, at: int) -> _FilledNode:
        i, box = self.whole.origin[at], self.whole.box[at]
        gpus = node.gpus_per_node or device.gpus_per_node
        if gpus > MAX_GPUS_PER_NODE:
            message = f"`gpus_per_node` must be at most {MAX_GPUS_PER_NODE}, got {gpus}"
            raise self.document.error(
                message, ("nodes", i, "gpus_per_node"), "more nodes are written with `count:`"
            )
        price = device.price_usd_per_gpu_hour
        defaults: dict[str, object] = {
            "gpus_per_node": gpus,
            "price_usd_per_hour": None if price is None else round(price * gpus, 6),
            "zone": ZONE,
            "scale_up_gpus": default_scale_up(device, gpus),
            "intra_gb_per_s": device.intra_gb_per_s,
            "nic_gb_per_s": usual_nic_gb_per_s(device, gpus),
            "nic": device.nic,
        }
        if box is not None:
            del defaults["price_usd_per_hour"]
        missing = {k: v for k, v in defaults.items() if getattr(node, k) is None and v is not None}
        self.defaulted |= {f"cluster.nodes.{key}": None for key in missing}
        form = node.model_copy(update={"name": name, "device": device.name, **missing})
        self._check_links_of(form, gpus, ("nodes", i))
        check_memory(form, device, self.document, ("nodes", i))
        self.warnings += doubts(form)
        if form.peer_to_peer and device.peer_to_peer is False:
            self.warnings.append(
                f"{name}: peer_to_peer of {device.name} needs an NVLink bridge or a changed driver: "
                "over PCIe NVIDIA's refuses it"
            )
        return _FilledNode(form, device, name, node.count, form.zone or ZONE, box)

    def _check_links_of(self, node: Node, gpus: int, at: Loc) -> None:
        """The scale-up domain is part of a node or whole nodes; a NIC is no faster than any on sale."""
        scale_up = node.scale_up_gpus or gpus
        if scale_up > gpus and scale_up % gpus:
            below = scale_up // gpus * gpus
            raise self.document.error(
                f"`scale_up_gpus` must be a multiple of `gpus_per_node` ({gpus}), or less; got {scale_up}",
                (*at, "scale_up_gpus"),
                f"write {below} or {below + gpus}",
            )
        if node.nic_gb_per_s is not None and node.nic_gb_per_s > _TERABIT_GB_PER_S:
            gigabytes = node.nic_gb_per_s
            self.warnings.append(
                f"{node.name}: nic_gb_per_s {gigabytes:g} is {8 * gigabytes:g} Gbit/s per GPU; "
                f"a {gigabytes:g} Gbit/s NIC is written {gigabytes / 8:g}"
            )


def default_scale_up(device: Device, gpus_per_node: int) -> int:
    """GPUs of a scale-up domain by default: a rack's whole nodes, a board, or on PCIe the node.

    >>> from cluster_configs.devices import find
    >>> [default_scale_up(find(d), n) for d, n in (("gb200", 4), ("h100-sxm", 4), ("l40s", 10))]
    [72, 4, 10]
    """
    usual = device.scale_up_gpus
    if usual > device.gpus_per_node:
        return max(usual // gpus_per_node, 1) * gpus_per_node
    if device.intra_link == "pcie":
        return gpus_per_node
    return min(usual, gpus_per_node)


def _free_name(base: str, taken: dict[str, int]) -> str:
    """`base`, or `base`-2, -3, …: the first that is free, which it then takes."""
    name, number = base, taken.get(f"\0{base}", 2)  # the number tried last, so that many entries stay fast
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken[name], taken[f"\0{base}"] = -1, number
    return name


def _merge(nodes: list[_FilledNode], linked: set[str]) -> list[NodeClass]:
    """One class for all entries alike but in name and count; what is `linked` is one of its own."""
    classes: dict[str, NodeClass] = {}
    for node in nodes:
        alike = node.form.model_copy(update={"name": None, "count": 1}).model_dump_json()
        for own, runs in _split_linked(node, linked):
            key = f"{alike} {own}"
            if known := classes.get(key):
                classes[key] = replace(known, nodes=NodeNames((*known.nodes.runs, *runs)))
            else:
                classes[key] = _class(own or node.name, node, runs)
    return list(classes.values())


def _names(node: NodeClass, zones: Mapping[str, str]) -> set[str]:
    """What a class is called by: the names of its entries, and their zones."""
    entries = [run.stem for run in node.nodes.runs]
    return {zones[entry] for entry in entries}.union(*map(names_of, entries))


def _split_linked(node: _FilledNode, linked: set[str]) -> Iterator[tuple[str, tuple[NameRun, ...]]]:
    """(own name or "", runs): an entry's nodes, those that a link names set apart."""
    if node.name in linked:
        yield node.name, (NameRun(node.name, 0, node.count),)
        return
    prefix = f"{node.name}-"
    apart = sorted(int(end[len(prefix) :]) for end in linked if _is_node(end, prefix, node.count))
    starts, stops = [0, *(i + 1 for i in apart)], [*apart, node.count]
    rest = tuple(NameRun(node.name, a, b) for a, b in zip(starts, stops, strict=True) if a < b)
    if rest:
        yield "", rest
    for i in apart:
        yield f"{prefix}{i}", (NameRun(node.name, i, i + 1),)


def _is_node(end: str, prefix: str, count: int) -> bool:
    number = end.removeprefix(prefix)
    return (
        end.startswith(prefix) and number.isdecimal() and str(int(number)) == number and int(number) < count
    )


def _class(id: str, node: _FilledNode, runs: tuple[NameRun, ...]) -> NodeClass:
    form, device = node.form, node.device
    gpus = form.gpus_per_node or device.gpus_per_node
    return NodeClass(
        id=id,
        device=device,
        nodes=NodeNames(runs),
        gpus_per_node=gpus,
        scale_up_gpus=form.scale_up_gpus or device.scale_up_gpus,
        intra_bytes_per_s=1e9 * (form.intra_gb_per_s or device.intra_gb_per_s),
        nic_bytes_per_s=1e9 * (form.nic_gb_per_s or usual_nic_gb_per_s(device, gpus)),
        nic=form.nic or device.nic,
        zone=node.zone,
        price_usd_per_hour=form.price_usd_per_hour,
        power_cap_watts=form.power_cap_watts,
        spot=form.spot,
        availability=form.availability,
        host=form.host,
        tiers=tuple(form.tiers),
        box=node.box,
        peer_to_peer=has_peers(form, device),
    )
