"""Not even host memory and what stands behind it hold the weights and one request: how many GB are missing,
where, and what would do. Every way named has been tried."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cluster_configs.names import NameRun, NodeNames
from cluster_configs.schema import ClusterLink, Host, NodeClass, Tier
from model_zoo.derive import kv_bytes_per_seq
from planner.candidates.ask import Ask
from planner.cost.host import host_of
from planner.cost.memory import device_bytes, room_by_stage
from planner.designs.precision import precisions
from planner.designs.shape import like
from planner.engines import NAMES
from planner.fit import fits
from planner.inputs.options import Options
from planner.replicas import host_memory, several_hosts
from planner.rules.designs import OFFLOADS

HOST_SIZES_GB = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
"""Host memory as it is sold."""

DISK = Tier(kind="nvme", gb=4000, read_gb_per_s=7, write_gb_per_s=5)
"""A disk as it is sold."""

MOST_MORE = 7
"""Nodes more that are tried."""

SHORTER = (0.5, 0.25, 0.125, 0.0625)
"""Shares of the prompt that are tried."""

USUAL_GB_PER_S = 60.0
"""Bandwidth of a host that states none: what is asked here does not depend on it."""


@dataclass(frozen=True)
class Look:
    """Where room is looked for."""

    classes: Sequence[NodeClass]
    links: Sequence[ClusterLink]
    asked: Ask

    @property
    def fits(self) -> bool:
        """Whether some replica with weights in host memory has room for one request."""
        alone = ((n, e) for n in self.classes for e in host_memory.engines(n, self.asked))
        return any(host_memory.holds(n, e, self.asked) for n, e in alone) or several_hosts.holds(
            self.classes, self.links, self.asked
        )

    def swapped(self, old: NodeClass, **changes: object) -> Look:
        """With one class changed."""
        new = replace(old, **changes)  # type: ignore[arg-type]
        return replace(self, classes=[new if n is old else n for n in self.classes])


def missing(look: Look) -> str | None:
    """In words what all places of the roomiest replica lack; None where no class states host memory."""
    held = [_Held.of(look.asked, node, many) for node in look.classes for many in _nodes(look.asked, node)]
    best = min((h for h in held if h is not None), key=lambda h: h.missing, default=None)
    if best is None:
        return None
    places = ", ".join(f"{size / 1e9:,.1f} GB {where}" for where, size in best.places.items() if size > 0)
    short = (
        f"{best.missing / 1e9:,.1f} GB short even with host memory"
        if best.missing > 0
        else "no split over GPUs and host memory leaves room for one request"
    )
    return f"{short}: {best.need / 1e9:,.1f} GB of weights and one request's cache, room for {places}"


@dataclass(frozen=True)
class _Held:
    """Bytes that a replica of some nodes of a class needs, and has room for by place."""

    need: float
    places: dict[str, float]

    @property
    def missing(self) -> float:
        return self.need - sum(self.places.values())

    @staticmethod
    def of(asked: Ask, node: NodeClass, nodes: int) -> _Held | None:
        host = host_of(node, node.gpus_per_node, 1)
        if host is None:
            return None
        card = asked.card.model_copy(update={"mtp_layers": 0})
        own, one = device_bytes(node.device), like(1, 1)
        m = room_by_stage(card, own, one, asked.precisions, "llama.cpp", host_memory.TOKENS_PER_STEP)
        free = own - float(m.activation_bytes[0, 0] + m.reserve_bytes[0, 0])
        tokens = max(b.isl + b.osl for b in asked.workload.buckets)
        gpus = nodes * node.gpus_per_node
        share = host.room_bytes / max(host.total_bytes, 1.0)
        return _Held(
            need=float(m.weights_bytes[0, 0]) + kv_bytes_per_seq(card, tokens, asked.precisions.kv),
            places={
                f"on {gpus} GPU{'s' * (gpus > 1)} of {node.id}": gpus * free,
                "in host memory": nodes * share * host.memory_bytes,
                "in CXL memory": nodes * share * host.cxl_bytes,
                "on disk": host.nvme_bytes if nodes == 1 and _llama_cpp(asked, node) else 0.0,
            },
        )


def _nodes(asked: Ask, node: NodeClass) -> list[int]:
    """Nodes of one replica: one, or as many as llama.cpp joins."""
    many = min(node.node_count, several_hosts.MOST_NODES)
    return [1, many] if many > 1 and _llama_cpp(asked, node) else [1]


def _llama_cpp(asked: Ask, node: NodeClass) -> bool:
    """Whether it may serve the model: it alone reads disks, and joins nodes."""
    return "llama.cpp" in host_memory.engines(node, asked)


def remedies(look: Look, options: Options) -> Iterator[str]:
    """Changes that would do, the cheapest first: another engine; a lower precision; shorter prompts; a disk;
    more host memory; more nodes."""
    if options.engine != "any":
        for engine in OFFLOADS:
            if replace(look, asked=replace(look.asked, engines=(engine,))).fits:
                yield f"--engine {engine}, with weights in host memory"
                return
    yield from _lower(look, options)
    yield from _shorter(look)
    for node in look.classes:
        yield from _disk(look, node)
        yield from _memory(look, node)
        yield from _more_nodes(look, node)


def _lower(look: Look, options: Options) -> Iterator[str]:
    every = NAMES if options.engine == "any" else (options.engine,)
    for precision in fits.QUANTISED:
        used = precisions(look.asked.card, precision, options.kv_precision)
        if replace(look, asked=replace(look.asked, engines=every, precisions=used)).fits:
            yield f"--precision {precision}, with weights in host memory"
            return


def _shorter(look: Look) -> Iterator[str]:
    """One bucket's prompt, to a half and less."""
    load = look.asked.workload
    if len(load.buckets) > 1:
        return
    (bucket,) = load.buckets
    for share in SHORTER:
        isl = int(share * bucket.isl)
        short = load.model_copy(update={"buckets": [bucket.model_copy(update={"isl": isl})]})
        if isl and replace(look, asked=replace(look.asked, workload=short)).fits:
            yield f"prompts of at most {isl:,} tokens (--isl {isl}), with weights in host memory"
            return


def _disk(look: Look, node: NodeClass) -> Iterator[str]:
    known = node.device.unified_memory or (node.host is not None and node.host.memory_gb is not None)
    if not known or any(t.kind == "nvme" for t in node.tiers):
        return
    if look.swapped(node, tiers=(*node.tiers, DISK)).fits:
        yield (
            f"an NVMe disk of {DISK.gb:,.0f} GB in each node of {node.id} (`tiers: [{{kind: nvme, "
            f"gb: {DISK.gb:g}, read_gb_per_s: {DISK.read_gb_per_s:g}, write_gb_per_s: "
            f"{DISK.write_gb_per_s:g}}}]`), slowly"
        )


def _memory(look: Look, node: NodeClass) -> Iterator[str]:
    if node.device.unified_memory:
        return
    known = node.host.model_dump() if node.host else {}
    sizes = [size for size in HOST_SIZES_GB if size > (known.get("memory_gb") or 0)]

    def enough(memory: int) -> bool:
        host = Host(**{"gb_per_s": USUAL_GB_PER_S, **known, "memory_gb": memory})
        return look.swapped(node, host=host).fits

    at = bisect_left(sizes, True, key=enough)
    if at < len(sizes):
        where = f" in each node of {node.id}" if len(look.classes) > 1 else " a node"
        rate = "" if known.get("gb_per_s") else ", gb_per_s: …"
        form = f"`host: {{memory_gb: {sizes[at]}{rate}}}` in the cluster YAML"
        yield f"{sizes[at]} GB of host memory{where} ({form})"


def _more_nodes(look: Look, node: NodeClass) -> Iterator[str]:
    """The fewest more nodes of a class that would do, up to as many as llama.cpp joins."""
    if host_of(node, node.gpus_per_node, 1) is None or not isinstance(node.nodes, NodeNames):
        return
    most = min(MOST_MORE, several_hosts.MOST_NODES - node.node_count)
    runs = node.nodes.runs
    more = [look.swapped(node, nodes=NodeNames((*runs, NameRun("more", 0, k)))) for k in range(1, most + 1)]
    at = bisect_left(more, True, key=lambda larger: larger.fits)
    if at < len(more):
        yield f"{at + 1} more node{'s' * (at > 0)} of {node.id} (`count: {node.node_count + at + 1}`)"
