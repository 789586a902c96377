"""The matrix of `nvidia-smi topo -p2p r`: which GPUs of a node read each other's memory.

Its cells, by its legend: OK; CNS, GNS, TNS: not supported by the chipset, the GPU, the topology; NS; U:
unknown.
"""

from __future__ import annotations

import re
from typing import Any

from cluster_configs.schema import Device
from planner.clusters.found import limited
from planner.clusters.topology import Topology, nvlink_gb_per_s

_HEADER = re.compile(r"^\s*(?:GPU\d+\s+)*GPU\d+\s*$")
_ROW = re.compile(r"^\s*GPU(\d+)\s+((?:(?:X|OK|CNS|GNS|TNS|NS|U)\s*)+)$")


def read_peers(text: str) -> tuple[int, bool] | None:
    """Number of GPUs of the first matrix, and whether each reads every other's memory; None where there is no
    matrix, or not the whole of it.

    >>> read_peers(" \\tGPU0\\tGPU1\\t\\n GPU0\\tX\\tOK\\t\\n GPU1\\tOK\\tX\\t\\n")
    (2, True)
    >>> read_peers(" \\tGPU0\\tGPU1\\t\\n GPU0\\tX\\tCNS\\t\\n GPU1\\tCNS\\tX\\t\\n")
    (2, False)
    """
    lines = text.splitlines()
    for start, line in enumerate(lines):
        if not _HEADER.match(line):
            continue
        gpus = limited(len(line.split()))
        rows = [match[2].split() for row in lines[start + 1 : start + 1 + gpus] if (match := _ROW.match(row))]
        if gpus > 1 and len(rows) == gpus and all(len(row) == gpus for row in rows):
            cells = {cell for row in rows for cell in row} - {"X"}
            return None if cells == {"U"} else (gpus, cells == {"OK"})
    return None


def without_peers(text: str) -> str:
    """The text without such matrices, so that none is taken for one of `topo -m`."""
    lines, kept = text.splitlines(keepends=True), list[str]()
    for i, line in enumerate(lines):
        below = lines[i + 1] if i + 1 < len(lines) else ""
        if not _ROW.match(line) and not (_HEADER.match(line) and _ROW.match(below)):
            kept.append(line)
    return "".join(kept)


def peer_fields(
    topology: Topology | None, device: Device | None, gpus: int, told: bool | None
) -> dict[str, Any]:
    """Whether GPUs read each other's memory, where it is `told` or NVLinks join all and the device over PCIe
    would not."""
    if device is None or gpus < 2:
        return {}
    joined = topology is not None and nvlink_gb_per_s(topology, device) is not None
    peers = True if told is None and joined else told
    return {} if peers is None or peers == (device.intra_link != "pcie") else {"peer_to_peer": peers}
