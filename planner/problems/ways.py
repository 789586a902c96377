"""Ways of KV caches between node classes: over NICs and perhaps a declared link, or inside one scale-up
domain."""

from __future__ import annotations

from dataclasses import dataclass

from cluster_configs.schema import ClusterLink, NodeClass, ResolvedCluster, declared_link
from planner.candidates.candidate import Candidate
from planner.cost.transfer import (
    START_S,
    WHOLE,
    inside_bytes_per_s,
    nic_bytes_per_s,
    shared_s,
    stays_inside,
)


@dataclass(frozen=True)
class Way:
    """How a prompt's cache gets from one class to another: over NICs (`on_nic`) and perhaps a link, or inside
    a scale-up domain, where it takes `factor` times as long as over the NICs."""

    link: ClusterLink | None
    on_nic: bool
    factor: float
    latency_s: float

    def alone_s(self, over_nics_s: tuple[float, float], kv_bytes: float) -> tuple[float, float, float]:
        """Seconds at the sender, at the receiver and over the link of a transfer that nothing else meets."""
        over_link = kv_bytes / self.link.bytes_per_s if self.link else 0.0
        return self.factor * over_nics_s[0], self.factor * over_nics_s[1], over_link


def route(a: NodeClass, b: NodeClass, cluster: ResolvedCluster) -> Way | None:
    """None where nothing joins the two classes: zones without a link."""
    if stays_inside(a, b):
        return Way(None, False, nic_bytes_per_s(a) / inside_bytes_per_s(a), START_S)
    link = declared_link(cluster.links, a, b)
    if link is not None:
        return Way(link, True, 1.0, START_S + link.latency_s)
    return Way(None, True, 1.0, START_S) if a.zone == b.zone else None


def port_bytes_per_s(node: NodeClass, way: Way) -> float:
    """Bytes/s of caches through the port of one GPU that `way` takes."""
    return nic_bytes_per_s(node) if way.on_nic else inside_bytes_per_s(node)


def transfer_s(
    a: Candidate, b: Candidate, way: Way, w: str, kv_bytes: float, used: tuple[float, float, float]
) -> float:
    """Seconds after a prompt of bucket `w`, whose cache is `kv_bytes`, until it is at `b`; `used`: shares of
    the time that the sender's NICs, the receiver's and the link are busy."""
    alone = way.alone_s((a.handoff_s[w], b.handoff_s[w]), kv_bytes * b.copies.get(w, 1.0))
    return way.latency_s + a.overlap.get(w, WHOLE).seen_s(shared_s(zip(alone, used, strict=True)))


def link_name(link: ClusterLink, a: NodeClass, b: NodeClass) -> str:
    """One direction of a link, from `a` to `b`: each carries its bytes/s."""
    one, two = link.between if (a.zone, a.id) <= (b.zone, b.id) else link.between[::-1]
    return f"{one} -> {two}"
