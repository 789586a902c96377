"""Boxes of desktop cards: how many GPUs stand in one, and what each has of its network port."""

from __future__ import annotations

from cluster_configs.schema import Device, Node

DESKTOP = 2
"""GPUs of a PCIe node that the catalog assumes to be a desktop (`gpus_per_node` of GeForce cards)."""

BOX = 8
"""GPUs of the largest usual box of such cards: rented ones have 1 to 8, all on PCIe."""

PORT_GB_PER_S = 1.25
"""The one 10 Gb/s Ethernet port that the catalog assumes in a desktop, whatever number of GPUs shares it."""


def box_size(device: Device) -> int:
    """Return the GPUs of the largest usual node of a device.

    >>> from cluster_configs.devices import find
    >>> [box_size(find(d)) for d in ("rtx-4090", "h100-sxm", "gb200", "m3-ultra")]
    [8, 8, 4, 1]
    """
    return BOX if _is_desktop(device) else device.gpus_per_node


def usual_nic_gb_per_s(device: Device, gpus: int) -> float:
    """Return the network rate per GPU that is usual in a node of `gpus` GPUs.

    The GPUs of a desktop share its port. A rate other than the catalog's, from `device_overrides`, stays.

    >>> from cluster_configs.devices import find
    >>> [usual_nic_gb_per_s(find("rtx-4090"), n) for n in (1, 2, 8)], usual_nic_gb_per_s(find("l40s"), 4)
    ([1.25, 0.625, 0.15625], 50.0)
    """
    shared = _is_desktop(device) and device.nic_gb_per_s == PORT_GB_PER_S / DESKTOP
    return round(PORT_GB_PER_S / gpus, 6) if shared else device.nic_gb_per_s


def _is_desktop(device: Device) -> bool:
    return device.intra_link == "pcie" and device.gpus_per_node == DESKTOP


PCIE_GB_PER_S = 64.0
"""PCIe 5.0 x16, one direction; the slowest NVLink between data-centre GPUs carries more."""


def has_peers(node: Node, device: Device) -> bool:
    """Whether GPUs of a node read each other's memory: over links of their own they do; over PCIe only where
    the node says so. NVIDIA's driver refuses it to GeForce cards, and cloud machines have it for few others:
    AWS's G6 has none (llm-d-infra pull 181), nor had virtual machines of A800 (nccl issue 1329) and on Azure
    (nccl issue 1214).

    >>> from cluster_configs.devices import find
    >>> [has_peers(Node(device=d), find(d)) for d in ("h100-sxm", "l40s", "rtx-4090")]
    [True, False, False]
    >>> has_peers(Node(device="l40s", peer_to_peer=True), find("l40s"))
    True
    """
    if node.peer_to_peer is not None:
        return node.peer_to_peer
    return device.intra_link != "pcie" and (node.intra_gb_per_s or device.intra_gb_per_s) > PCIE_GB_PER_S
