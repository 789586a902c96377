"""What stands beside the GPUs of a node: host memory, CXL memory, its CPU, PCIe and disks, in SI units, from
the `host` and `tiers` of a node class; and how much of that engines get.

CXL memory is host memory at a rate of its own. Pages are dealt to both in a fixed ratio (Linux' weighted
interleave), so both are read at once; of U bytes x lie behind the link, as many as make the longer of
(U - x) / host rate and x / CXL rate least, within what both hold. The system's own order, host memory first
and the rest in CXL memory, reads them one after the other.

Where CPU and GPU share one memory (`Device.unified_memory`) the host's is what engines leave of it, at the
same rate; nothing is copied to the GPU. It counts only where a disk holds what is beyond it.

A replica of g of a node's GPUs has g shares of all that the node's GPUs share: host memory and bandwidth,
CPU, disks. So replicas that fit side by side on the GPUs fit on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

from cluster_configs import schema
from cluster_configs.schema import NodeClass
from planner.cost.reserve import device_bytes
from planner.designs.shape import Stage
from planner.reading.documents import read_plain

FILE = Path(__file__).with_suffix(".yaml")

USABLE = 0.9
"""Share of host memory that weights and cache may take: the rest is the system's, the engine's and its
buffers'."""

FLOPS_PER_BYTE = 25.0
"""FLOP/s over bytes/s of a CPU that states no `tflops`: they do 15 to 30 fp32 FLOPs in the time of a byte
(16 cores x 4 GHz x 32 over 70-90 GB/s; 2 x 32 cores x 2.2 GHz x 64 over 614 GB/s)."""

UNIFIED_FLOPS_PER_BYTE = 4.0
"""FLOP/s over bytes/s of a CPU that states no `tflops` and shares its memory with a GPU, whose need sets
the rate: 24 cores x 4 GHz x 32 over 819 GB/s of an M3 Ultra, 12 x 4.5 GHz x 32 over 546 GB/s of an M4 Max."""


@dataclass(frozen=True)
class Host:
    """The part of a node that one replica has.

    `pcie_bytes_per_s` of all GPUs that copy at once together, 0 where it is not known; `nvme_bytes` 0: no
    disk; `cxl_bytes` behind a CXL link beside `memory_bytes`.
    """

    memory_bytes: float
    bytes_per_s: float
    flops_per_s: float
    pcie_bytes_per_s: float
    sockets: int = 1
    nvme_bytes: float = 0.0
    nvme_read_bytes_per_s: float = 0.0
    nvme_write_bytes_per_s: float = 0.0
    cxl_bytes: float = 0.0
    cxl_read_bytes_per_s: float = 0.0

    @property
    def total_bytes(self) -> float:
        """Bytes of host memory and CXL memory together."""
        return self.memory_bytes + self.cxl_bytes

    @property
    def room_bytes(self) -> float:
        """Bytes of both memories that weights and cache may take."""
        return USABLE * self.total_bytes

    def behind_cxl(self, used: float) -> float:
        """How many of `used` bytes lie in CXL memory, so that all are read soonest.

        >>> host = Host(1e11, 3e11, 0, 0, cxl_bytes=1e11, cxl_read_bytes_per_s=1e11)
        >>> [round(host.behind_cxl(u) / 1e9, 1) for u in (40e9, 120e9, 170e9)]
        [10.0, 30.0, 80.0]
        """
        both = self.bytes_per_s + self.cxl_read_bytes_per_s
        evenly = used * self.cxl_read_bytes_per_s / both if both else 0.0
        return min(max(evenly, used - USABLE * self.memory_bytes), USABLE * self.cxl_bytes)

    def rate(self, used: float) -> float:
        """Bytes/s at which the CPU reads `used` bytes that lie so."""
        behind = self.behind_cxl(used)
        if not behind:
            return self.bytes_per_s
        return used / max((used - behind) / self.bytes_per_s, behind / self.cxl_read_bytes_per_s)


def host_of(node: NodeClass, gpus: int, at_once: int) -> Host | None:
    """The host of a replica of `gpus` GPUs in one node, of which `at_once` copy at the same time; None where
    the class states no host memory.

    GPUs on one PCIe root share it.
    """
    host, disk, cxl = node.host or schema.Host(), shared(node, "nvme", gpus), shared(node, "cxl", gpus)
    share, device = gpus / node.gpus_per_node, node.device
    if device.unified_memory and disk.bytes:
        memory = 1e9 * device.memory_gb * node.gpus_per_node - device_bytes(device) * node.gpus_per_node
        bandwidth, per_byte = 1e9 * device.memory_gb_per_s * node.gpus_per_node, UNIFIED_FLOPS_PER_BYTE
    elif host.memory_gb is None or host.gb_per_s is None:
        return None
    else:
        memory, bandwidth, per_byte = 1e9 * host.memory_gb, 1e9 * host.gb_per_s, FLOPS_PER_BYTE
    flops = per_byte * bandwidth if host.tflops is None else 1e12 * host.tflops
    on_root = min(host.gpus_per_pcie_root or 1, node.gpus_per_node)
    root = 1e9 * (host.pcie_gb_per_s or device.host_link[1])
    pcie = root * min(gpus, on_root) / on_root * ceil(at_once / on_root)
    return Host(
        memory_bytes=share * memory,
        bytes_per_s=share * bandwidth,
        flops_per_s=share * flops,
        pcie_bytes_per_s=pcie,
        sockets=host.sockets or 1,
        nvme_bytes=disk.bytes,
        nvme_read_bytes_per_s=disk.read_bytes_per_s,
        nvme_write_bytes_per_s=disk.write_bytes_per_s,
        cxl_bytes=cxl.bytes,
        cxl_read_bytes_per_s=cxl.read_bytes_per_s,
    )


@dataclass(frozen=True)
class Shared:
    """All tiers of a kind together: they add."""

    bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float


def shared(node: NodeClass, kind: str, gpus: int) -> Shared:
    """What `gpus` GPUs of a node have of its tiers of a kind."""
    among = {"gpu": 1, "node": node.gpus_per_node, "cluster": node.gpus}
    parts = [(1e9 * gpus / among[tier.shared_by], tier) for tier in node.tiers if tier.kind == kind]
    return Shared(
        sum(part * tier.gb for part, tier in parts),
        sum(part * tier.read_gb_per_s for part, tier in parts),
        sum(part * tier.write_gb_per_s for part, tier in parts),
    )


@dataclass(frozen=True)
class HostStage(Stage):
    """A stage beside host memory: of its first `away` layers with routed experts these lie there, but for
    `kept` of each layer. Layers before the first stage, so many are `before` it, lie there whole, with their
    cache. Of every `group` layers the weights of the last `streamed` lie there, copied in every step.

    Over several nodes: `node` of the replica that it stands in, 0 the one whose host has the layers before
    the first stage; the `after` layers behind it lie whole in its own node's memory, computed by that CPU."""

    away: int = 0
    kept: int = 0
    before: int = 0
    group: int = 0
    streamed: int = 0
    node: int = 0
    after: int = 0

    @property
    def streams(self) -> list[int]:
        """Layers whose weights are copied to the GPUs in every step.

        >>> HostStage("gh", 1, (0, 9), group=4, streamed=3).streams
        [1, 2, 3, 5, 6, 7]
        """
        return [
            i for i in range(*self.layers) if self.streamed and i % self.group >= self.group - self.streamed
        ]

    @property
    def part(self) -> str:
        notes = [f"{self.before} before on the CPU"] * (self.before > 0)
        if self.away:
            but = f" but {self.kept}" if self.kept else ""
            notes.append(f"experts of {self.away}{but} on the CPU")
        if self.streamed:
            notes.append(f"{len(self.streams)} streamed from host memory")
        if self.after:
            notes.append(f"{self.after} behind on its CPU")
        return " ".join([super().part, *(f"({note})" for note in notes)])


@dataclass(frozen=True)
class HostUse:
    """What an engine gets of a host: shares of its memory bandwidth, FLOP/s, PCIe (`pageable`: from pages of
    a mapped file; 0: it maps none) and disks; the fixed seconds of passing a layer's tokens from GPU to CPU
    and back; whether experts on GPU and CPU, or copies and kernels, run at the same time; the spread of
    log(measured / predicted) that it adds."""

    memory: float
    compute: float
    pcie: float
    pageable: float
    nvme: float
    handover_s: float
    together: bool
    sigma: float


@cache
def host_use(engine: str, sockets: int) -> HostUse:
    """What an engine that offloads (`planner.rules.designs.OFFLOADS`) reaches of a host of so many
    sockets."""
    row = read_plain(FILE)["engines"][engine]
    own = row[f"sockets_{min(sockets, 2)}"]
    return HostUse(
        memory=own["memory"],
        compute=own["compute"],
        pcie=row["pcie"],
        pageable=row.get("pageable", 0.0),
        nvme=row["nvme"],
        handover_s=1e-6 * row["handover_us"],
        together=row["together"],
        sigma=row["sigma"],
    )
