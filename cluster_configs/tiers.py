"""Memory beside the GPUs of a node that cannot be as it is written: refused with the line, or told.

Linux shows CXL memory as a NUMA node without cores beside host memory, so it needs one. Where GPU and CPU
share one memory, `memory_gb` of a host would count it twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster_configs.schema import Device, Node, Tier
from planner.reading.documents import Document, Loc


def check_memory(node: Node, device: Device, document: Document, at: Loc) -> None:
    """Raises InputError where host and tiers of an entry contradict its device or each other."""
    host = node.host
    if device.unified_memory and host is not None:
        for field in ("memory_gb", "gb_per_s", "pcie_gb_per_s"):
            if getattr(host, field) is not None:
                raise document.error(
                    f"{device.name} has unified memory: its CPU reads the GPU's {device.memory_gb:g} GB at "
                    f"{device.memory_gb_per_s:g} GB/s, so `host` has no `{field}` of its own",
                    (*at, "host", field),
                    f"leave it out; another size is written `device_overrides: {{{device.name}: "
                    "{memory_gb: …}}`",
                )
    for i, tier in enumerate(node.tiers):
        if tier.kind == "cxl" and (device.unified_memory or host is None or host.memory_gb is None):
            why = (
                f"{device.name} has unified memory, which nothing extends"
                if device.unified_memory
                else "CXL memory stands beside host memory, and this node states none"
            )
            hint = None if device.unified_memory else "add `host: {memory_gb: …, gb_per_s: …}`"
            raise document.error(why, (*at, "tiers", i, "kind"), hint)
        for j, other in enumerate(node.tiers[:i]):
            if tier.shared_by != other.shared_by and _alike(tier, other):
                raise document.error(
                    f"the same {tier.kind} memory is shared by a {tier.shared_by} here and by a "
                    f"{other.shared_by} at {document.where((*at, 'tiers', j))}",
                    (*at, "tiers", i, "shared_by"),
                    "keep one; two devices alike are written with the same `shared_by`, and add",
                )


def doubts(node: Node) -> Iterator[str]:
    """Warnings: tiers of one kind and size with other figures may be one written twice."""
    seen: dict[tuple[str, float, str], Tier] = {}
    for tier in node.tiers:
        first = seen.setdefault((tier.kind, tier.gb, tier.shared_by), tier)
        if first != tier:
            yield (
                f"{node.name}: two {tier.kind} tiers of {tier.gb:g} GB, one read at {first.read_gb_per_s:g} "
                f"and one at {tier.read_gb_per_s:g} GB/s: taken as two that add. "
                "If they are one, keep one line"
            )


def _alike(a: Tier, b: Tier) -> bool:
    return a.model_copy(update={"shared_by": b.shared_by}) == b
