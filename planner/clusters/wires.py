"""How GPUs of a node are joined: NVLinks and PCIe lanes → fields of a cluster file, and comments in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cluster_configs.schema import Device
from planner.clusters.topology import Topology

_NVLINKS = {
    "6.0": (4, 20.0), "7.0": (6, 25.0), "7.5": (2, 25.0), "8.0": (12, 25.0), "8.6": (4, 14.0625),
    "9.0": (18, 25.0), "10.0": (18, 50.0), "10.3": (18, 50.0),
}  # fmt: skip
"""By compute capability: NVLinks of a GPU at most, GB/s of one in one direction. NVIDIA's pages: P100 160
GB/s over 4, V100 300 over 6, RTX 2080 Ti 100 over 2, A100 600 over 12, RTX 3090 and A40 112.5 over 4, H100
900 over 18, B200 1,800 over 18, both directions together."""
_LANE_GB_PER_S = {1: 0.25, 2: 0.5, 3: 1.0, 4: 2.0, 5: 4.0, 6: 8.0}
"""A PCIe lane in one direction, by generation, as data sheets round it (x16 of generation 4: 32)."""


def pcie_gb_per_s(generation: int | None, lanes: int | None) -> float | None:
    """One direction of a slot, None where either is unknown.

    >>> pcie_gb_per_s(3, 8), pcie_gb_per_s(4, None)
    (8.0, None)
    """
    if generation not in _LANE_GB_PER_S or lanes is None:
        return None
    return _LANE_GB_PER_S[generation] * lanes


def nvlink_gb_per_s(topology: Topology, device: Device) -> float | None:
    """GB/s of each GPU to its peers, one direction, where NVLinks join all GPUs; None where they don't.

    A pair's links behind a switch are those of all pairs, so no GPU counts more than it has.
    """
    if len(topology.islands) != 1 or device.compute_capability not in _NVLINKS or not topology.nvlinks:
        return None
    most, each = _NVLINKS[device.compute_capability]
    links = [sum(n for pair, n in topology.nvlinks.items() if gpu in pair) for gpu in topology.gpus]
    return each * min(most, *links)


def intra_fields(
    topology: Topology | None, device: Device | None, gpus: int, pcie: float | None
) -> dict[str, Any]:
    """Fields of an entry where the node differs from what is usual for its device."""
    if device is None or gpus < 2:
        return {}
    told = None if topology is None else nvlink_gb_per_s(topology, device)
    over_pcie = device.intra_link == "pcie" or (
        topology is not None and bool(topology.nvlinks) and not any(topology.nvlinks.values())
    )
    if told is None and over_pcie:
        told = pcie or device.pcie_gb_per_s
    if told is None or abs(told / device.intra_gb_per_s - 1) < 0.02:
        return {}
    return {"intra_gb_per_s": told}


def nic_fields(text: str, gpus: int) -> dict[str, Any]:
    """What the active ports in `ibstat` carry, per GPU; InfiniBand's where there are any, else RoCE's.

    >>> port = "CA 'mlx5_{}'\\n Port 1:\\n  State: Active\\n  Rate: 400\\n  Link layer: InfiniBand\\n"
    >>> nic_fields(port.format(0) + port.format(1), gpus=8)
    {'nic_gb_per_s': 12.5, 'nic': 'infiniband'}
    """
    rates: dict[str, float] = {}
    for port in re.split(r"^\s*Port \d+:", text, flags=re.MULTILINE)[1:]:
        told = dict(re.findall(r"^\s*([\w ]+): *(\S.*?)\s*$", port.split("\nCA '")[0], re.MULTILINE))
        if told.get("State") == "Active" and told.get("Rate", "").isdigit():
            layer = told.get("Link layer", "InfiniBand")
            rates[layer] = rates.get(layer, 0.0) + float(told["Rate"])
    if not rates or not gpus:
        return {}
    layer = "InfiniBand" if "InfiniBand" in rates else next(iter(rates))
    return {"nic_gb_per_s": rates[layer] / 8 / gpus, "nic": "infiniband" if layer == "InfiniBand" else "roce"}


def remarks_of(t: Topology | None, told_nics: bool = False) -> Iterator[str]:
    """What a matrix says that the cluster file has no field for."""
    if t is None:
        return
    islands = [i for i in t.islands if len(i) > 1]
    if len(t.islands) > 1 and islands:
        yield (
            f"NVLink joins {_groups(islands)} only. One rate counts for all GPUs of a node here, so that of "
            "PCIe is taken; for replicas inside a group write its scale_up_gpus and intra_gb_per_s"
        )
    if t.sockets is not None and len(t.sockets) > 1 and not islands:
        yield _advice(t, t.sockets)
    if t.nics and not told_nics:
        names = f" ({', '.join(t.nic_names[:8])})" if t.nic_names else ""
        yield (
            f"{len(t.nics)} NICs{names}: the matrix does not say how fast (`ibstat` does); nic_gb_per_s "
            "is the device's usual figure"
        )


def _advice(t: Topology, sockets: list[list[int]]) -> str:
    """Which degrees of tensor parallelism stay inside a socket."""
    inside = max(len(group) for group in sockets)
    alone = [f"GPU{gpu}" for group in sockets for gpu in group if len(group) == 1]
    near = [pair for way in ("PIX", "PXB", "PHB") for pair in t.at(way)]
    if inside == 1:
        return "tp=1: each GPU has a socket of its own, tp=2 crosses sockets over PCIe"
    where = " or ".join(f"({','.join(map(str, pair))})" for pair in near)
    best = f"tp=2 on {where}" if near else f"tp={inside} inside a socket"
    rest = f"{', '.join(alone)} only across the sockets" if alone else ""
    return f"{best}; {rest or f'tp={len(t.gpus)} crosses sockets over PCIe'}"


def _groups(groups: list[list[int]]) -> str:
    shown = [f"GPU {g[0]}" if len(g) == 1 else f"GPUs {', '.join(map(str, g))}" for g in groups]
    return " or ".join(shown)
