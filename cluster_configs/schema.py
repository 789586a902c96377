"""The cluster as its YAML says it (pydantic, user units), and as planning uses it (`NodeClass`, SI units).

Field names and meanings: the Cluster YAML contract. GB = 1e9 bytes. `resolving.py` turns one into the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from cluster_configs.feeds import Energy, Feed
from cluster_configs.names import NodeNames
from planner.reading.names import NodeName

Positive = Annotated[float, Field(ge=1e-12, le=1e12)]
NonNegative = Annotated[float, Field(ge=0, le=1e12)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
NicKind = Literal["infiniband", "roce", "ethernet"]
Generation = Literal[
    "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell_dc", "blackwell_rtx",
    "xe", "xe2", "rdna3", "cdna2", "cdna3", "cdna4", "gaudi2", "gaudi3", "tpu", "apple",
]  # fmt: skip
Vendor = Literal["nvidia", "amd", "intel", "google", "apple"]
Precision = Literal["bf16", "fp16", "fp8", "fp4", "int8", "fp32"]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Device(Strict):
    """One accelerator as sold: dense peaks, one-direction bandwidths; an absent precision is not native."""

    name: str
    vendor: Vendor
    generation: Generation
    also: list[str] = []
    memory_gb: Positive
    memory_gb_per_s: Positive
    tflops: dict[Precision, Positive]
    matmul_tflops: dict[Precision, Positive] | None = None  # best single product that was measured
    intra_gb_per_s: Positive  # to peers in the scale-up domain, per GPU
    intra_link: str  # nvlink | pcie | xgmi | …
    nic_gb_per_s: Positive  # per GPU, out of the domain
    nic: NicKind = "infiniband"
    gpus_per_node: Count
    scale_up_gpus: Count  # GPUs joined by NVLink-class links (PCIe boxes: the node)
    tdp_watts: Positive
    pcie_gb_per_s: Positive | None = None
    peer_to_peer: bool | None = None  # over PCIe; false: its driver refuses. None: as the node says
    c2c_gb_per_s: Positive | None = None  # NVLink-C2C to its host, per GPU, one direction
    unified_memory: bool | None = None  # its CPU's memory, too
    compute_capability: str | None = None
    price_usd_per_gpu_hour: Positive | None = None
    sources: dict[str, str]  # field group -> where the figure comes from
    notes: str | None = None

    @property
    def reached_tflops(self) -> dict[Precision, float]:
        """TFLOP/s that no product exceeds, by precision: the best that was measured, else the data sheet's
        peak, which some cards reach (a B60 all of it, an A100 0.87, an H100 0.8, an MI300X 0.6)."""
        best = self.matmul_tflops or {}
        return {p: min(peak, best.get(p, peak)) for p, peak in self.tflops.items()}

    @property
    def host_link(self) -> tuple[str, float]:
        """Name and GB/s of what joins it to its host, one direction; 0 where that is not known, or nothing is
        copied. On a GH200 the GPU's own link leads there."""
        if self.unified_memory:
            return "unified memory", 0.0
        if self.c2c_gb_per_s:
            return "NVLink-C2C", self.c2c_gb_per_s
        if "c2c" in self.intra_link:
            return "NVLink-C2C", self.intra_gb_per_s
        return "PCIe", self.pcie_gb_per_s or 0.0


class OwnDevice(Strict):
    """A GPU that the catalog does not know: memory, bandwidth, dense FLOP rates; the rest by generation.
    `tflops` as one number is its 16-bit rate."""

    generation: Generation
    memory_gb: Positive
    memory_gb_per_s: Positive
    tflops: dict[Precision, Positive]
    matmul_tflops: dict[Precision, Positive] | None = None
    vendor: Vendor | None = None
    tdp_watts: Positive | None = None
    pcie_gb_per_s: Positive | None = None
    intra_gb_per_s: Positive | None = None
    intra_link: str | None = None
    nic_gb_per_s: Positive | None = None
    nic: NicKind | None = None
    gpus_per_node: Count | None = None
    scale_up_gpus: Count | None = None
    peer_to_peer: bool | None = None
    compute_capability: str | None = None
    unified_memory: bool | None = None
    price_usd_per_gpu_hour: Positive | None = None
    notes: str | None = None

    @field_validator("tflops", mode="before")
    @classmethod
    def _of_16_bit(cls, value: object) -> object:
        if isinstance(value, dict) and not {"bf16", "fp16"} & {*value}:
            raise ValueError("`tflops` needs the 16-bit rate: `{bf16: …}` or `{fp16: …}`")
        return {"fp16": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


class Host(Strict):
    """What stands beside the GPUs of a node: of all sockets together memory, its bandwidth and fp32 vector
    TFLOP/s; of one PCIe root the rate in one direction."""

    memory_gb: Positive | None = None
    gb_per_s: Positive | None = None
    tflops: Positive | None = None
    pcie_gb_per_s: Positive | None = None
    gpus_per_pcie_root: Count | None = None
    sockets: Count | None = None

    @model_validator(mode="after")
    def _memory_is_read_at_some_rate(self) -> Host:
        if self.memory_gb is not None and self.gb_per_s is None:
            raise ValueError("`host` has `memory_gb`, so it needs the memory's bandwidth too: `gb_per_s`")
        return self


class Tier(Strict):
    """Memory beside GPUs and host memory: disks; memory behind a CXL link, host memory at a rate of its own;
    memory of another machine over the NIC, or of another GPU."""

    kind: Literal["nvme", "cxl", "remote"]
    gb: Positive
    read_gb_per_s: Positive
    write_gb_per_s: Positive
    shared_by: Literal["node", "cluster", "gpu"] = "node"


class GpuCount(Strict):
    """So many GPUs of one kind in a node."""

    device: str
    count: Count = 1


class Node(Strict):
    """`count` identical nodes, of one kind of GPU (`device`, `gpus_per_node`) or of several (`gpus`)."""

    name: NodeName | None = None
    count: Count = 1
    device: str | None = None
    gpus: Annotated[list[GpuCount], Field(min_length=1)] | None = None
    gpus_per_node: Count | None = None
    price_usd_per_hour: NonNegative | None = None  # the whole node
    power_cap_watts: Positive | None = None  # the whole node
    zone: NodeName | None = None
    scale_up_gpus: Count | None = None
    intra_gb_per_s: Positive | None = None
    peer_to_peer: bool | None = None  # whether GPUs of the node read each other's memory over PCIe
    nic_gb_per_s: Positive | None = None
    nic: NicKind | None = None
    spot: bool = False
    availability: Annotated[float, Field(gt=0, le=1)] = 1.0
    host: Host | None = None
    tiers: list[Tier] = []

    @model_validator(mode="after")
    def _says_its_gpus_once(self) -> Node:
        if self.gpus is None and self.device is None:
            raise ValueError("`device` is missing: which GPU? (or `gpus:` where a node has several kinds)")
        if self.gpus is not None and (self.device is not None or self.gpus_per_node is not None):
            raise ValueError("`gpus` names all GPUs of the node: leave out `device` and `gpus_per_node`")
        return self


class Link(Strict):
    """Between two zones or nodes: all flows together, each direction."""

    between: Annotated[list[str], Field(min_length=2, max_length=2)]
    gb_per_s: Positive
    latency_ms: NonNegative = 0.0

    @field_validator("between", mode="before")
    @classmethod
    def _two_ends(cls, value: object) -> object:
        if isinstance(value, list | tuple) and len(value) == 2:
            return value
        shown = str(value)[:60]
        raise ValueError(f"`between` must name two zones or nodes, as in [a, b]; got {shown}")


class Cluster(Strict):
    name: str = "cluster"
    nodes: Annotated[list[Node], Field(min_length=1)]
    links: list[Link] = []
    device_overrides: dict[str, dict[str, object]] = {}
    devices: dict[str, OwnDevice] | None = None  # GPUs of one's own, by name
    energy: dict[str, Energy] | None = None  # by zone
    power_caps_watts: dict[str, Positive] | None = None  # of all GPUs of a zone, or of an entry's nodes


@dataclass(frozen=True)
class NodeClass:
    """All identical nodes of a cluster, merged: the unit of planning. SI units (bytes, bytes/s, watts)."""

    id: str  # name of the first entry merged in
    device: Device  # overrides applied
    nodes: NodeNames  # names of all nodes: "h-0", "h-1", …
    gpus_per_node: int
    scale_up_gpus: int  # may exceed gpus_per_node (NVL72): then whole nodes join one domain
    intra_bytes_per_s: float  # per GPU, one direction, inside the scale-up domain
    nic_bytes_per_s: float  # per GPU, one direction
    nic: NicKind
    zone: str
    price_usd_per_hour: float | None  # one node
    power_cap_watts: float | None  # one node
    spot: bool
    availability: float
    host: Host | None
    tiers: tuple[Tier, ...]
    box: str | None = None  # the node with unlike GPUs that it is a part of
    peer_to_peer: bool = True  # its GPUs read each other's memory; else copies pass through the host's

    @property
    def node_count(self) -> int:
        return len(self.nodes)

    @property
    def gpus(self) -> int:
        return self.node_count * self.gpus_per_node

    @property
    def gpu_most_watts(self) -> float:
        """What a GPU may draw: its own limit, or its part of the node's cap."""
        cap = self.power_cap_watts
        own = self.device.tdp_watts
        return own if cap is None else min(own, cap / self.gpus_per_node)

    @property
    def domain_nodes(self) -> int:
        """Nodes that one scale-up domain joins."""
        return max(1, self.scale_up_gpus // self.gpus_per_node)


@dataclass(frozen=True)
class ClusterLink:
    """Between two zones or node classes (sorted): shared by all flows, each direction."""

    between: tuple[str, str]
    bytes_per_s: float
    latency_s: float

    def joins(self, a: NodeClass, b: NodeClass) -> bool:
        """Whether it lies between two classes: by zone, or by a node's name where all nodes share it."""
        ends = set(self.between)
        return a.id != b.id and ends in ({a.zone, b.zone}, {a.id, b.id}, {a.id, b.zone}, {a.zone, b.id})


def declared_link(links: Iterable[ClusterLink], a: NodeClass, b: NodeClass) -> ClusterLink | None:
    """The one that joins two classes."""
    return next((link for link in links if link.joins(a, b)), None)


@dataclass(frozen=True)
class ResolvedCluster:
    """What planning starts from: classes in reading order, links, the form with all defaults filled in.
    `defaulted`: fields that some entry left to its device or to us, as "cluster.nodes.price_usd_per_hour"."""

    name: str
    classes: tuple[NodeClass, ...]
    links: tuple[ClusterLink, ...]
    source: Cluster
    warnings: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    feeds: tuple[Feed, ...] = ()
