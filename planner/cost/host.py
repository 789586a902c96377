"""What stands beside the GPUs of a node: host memory, its CPU, PCIe and disks, in SI units, from the `host`
and `tiers` of a node class; and how much of that engines get.

A replica of g of a node's GPUs has g shares of all that the node's GPUs share: host memory and bandwidth,
CPU, disks. So replicas that fit side by side on the GPUs fit on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

from cluster_configs.schema import NodeClass
from planner.cost.shape import Stage
from planner.plain_yaml import read_plain

FILE = Path(__file__).with_suffix(".yaml")

USABLE = 0.9
"""Share of host memory that weights and cache may take: the rest is the system's, the engine's and its
buffers'."""

FLOPS_PER_BYTE = 25.0
"""Of a CPU that states no `tflops`: desktop and server CPUs do 15 to 30 fp32 FLOPs in the time of a byte
(16 cores x 4 GHz x 32 over 70-90 GB/s; 2 x 32 cores x 2.2 GHz x 64 over 614 GB/s)."""


@dataclass(frozen=True)
class Host:
    """The part of a node that one replica has.

    `pcie_bytes_per_s` of all GPUs that copy at once together, 0 where it is not known; `nvme_bytes` 0: no
    disk.
    """

    memory_bytes: float
    bytes_per_s: float
    flops_per_s: float
    pcie_bytes_per_s: float
    sockets: int = 1
    nvme_bytes: float = 0.0
    nvme_read_bytes_per_s: float = 0.0
    nvme_write_bytes_per_s: float = 0.0

    @property
    def room_bytes(self) -> float:
        """Of its memory, what weights and cache may take."""
        return USABLE * self.memory_bytes


def host_of(node: NodeClass, gpus: int, at_once: int) -> Host | None:
    """The host of a replica of `gpus` GPUs in one node, of which `at_once` copy at the same time; None where
    the class states no host memory.

    GPUs on one PCIe root share it.
    """
    host = node.host
    if host is None or host.memory_gb is None or host.gb_per_s is None:
        return None
    share = gpus / node.gpus_per_node
    bandwidth = 1e9 * host.gb_per_s
    flops = FLOPS_PER_BYTE * bandwidth if host.tflops is None else 1e12 * host.tflops
    on_root = min(host.gpus_per_pcie_root or 1, node.gpus_per_node)
    root = 1e9 * (host.pcie_gb_per_s or node.device.host_link[1])
    pcie = root * min(gpus, on_root) / on_root * ceil(at_once / on_root)
    disks = [(tier, tier_share(node, tier.shared_by, gpus)) for tier in node.tiers if tier.kind == "nvme"]
    return Host(
        memory_bytes=share * 1e9 * host.memory_gb,
        bytes_per_s=share * bandwidth,
        flops_per_s=share * flops,
        pcie_bytes_per_s=pcie,
        sockets=host.sockets or 1,
        nvme_bytes=sum(part * 1e9 * tier.gb for tier, part in disks),
        nvme_read_bytes_per_s=sum(part * 1e9 * tier.read_gb_per_s for tier, part in disks),
        nvme_write_bytes_per_s=sum(part * 1e9 * tier.write_gb_per_s for tier, part in disks),
    )


def tier_share(node: NodeClass, shared_by: str, gpus: int) -> float:
    """How much of a tier `gpus` GPUs have."""
    among = {"gpu": 1, "node": node.gpus_per_node, "cluster": node.gpus}[shared_by]
    return gpus / among


@dataclass(frozen=True)
class HostStage(Stage):
    """A stage beside host memory: of its first `away` layers with routed experts these lie there, but for
    `kept` of each layer. Layers before the first stage, so many are `before` it, lie there whole, with their
    cache. Of every `group` layers the weights of the last `streamed` lie there, copied in every step."""

    away: int = 0
    kept: int = 0
    before: int = 0
    group: int = 0
    streamed: int = 0

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
        return " ".join([super().part, *(f"({note})" for note in notes)])


@dataclass(frozen=True)
class HostUse:
    """What an engine gets of a host: shares of its memory bandwidth, FLOP/s, PCIe and disks; the fixed
    seconds of passing a layer's tokens from GPU to CPU and back; whether experts on GPU and CPU, or copies
    and kernels, run at the same time; the spread of log(measured / predicted) that it adds."""

    memory: float
    compute: float
    pcie: float
    nvme: float
    handover_s: float
    together: bool
    sigma: float


@cache
def host_use(engine: str, sockets: int) -> HostUse:
    """Of an engine that offloads (`planner.engine_rules.OFFLOADS`) on so many sockets."""
    row = read_plain(FILE)["engines"][engine]
    own = row[f"sockets_{min(sockets, 2)}"]
    return HostUse(
        memory=own["memory"],
        compute=own["compute"],
        pcie=row["pcie"],
        nvme=row["nvme"],
        handover_s=1e-6 * row["handover_us"],
        together=row["together"],
        sigma=row["sigma"],
    )
