"""How fast weights come from the storage of a node."""

from __future__ import annotations

from cluster_configs.schema import NodeClass

DISK_BYTES_PER_S = 2e9
"""A node's NVMe where it names none: one drive behind a file system."""


def read_bytes_per_s(node: NodeClass) -> float:
    """Bytes/s that a node reads from its fastest disk (`tiers: nvme`)."""
    return max((1e9 * t.read_gb_per_s for t in node.tiers if t.kind == "nvme"), default=DISK_BYTES_PER_S)
