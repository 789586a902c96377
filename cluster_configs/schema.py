"""The cluster as its YAML says it (pydantic, user units), and as the planner uses it (`NodeClass`, SI base units).

Field names and meanings: the Cluster YAML contract. GB = 1e9 bytes. `resolve.py` turns the first into the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
NicKind = Literal["infiniband", "roce", "ethernet"]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Device(Strict):
    """One accelerator as sold: dense peaks without sparsity, bandwidths in one direction. None = not native or unknown."""

    name: str
    vendor: Literal["nvidia", "amd", "intel", "google", "apple"]
    generation: str  # pascal volta turing ampere ada hopper blackwell_dc blackwell_rtx xe2 cdna2 cdna3 cdna4 gaudi tpu apple
    also: list[str] = []
    memory_gb: Positive
    memory_gb_per_s: Positive
    tflops: dict[Literal["bf16", "fp16", "fp8", "fp4", "int8", "fp32"], Positive]
    intra_gb_per_s: Positive  # to peers in the scale-up domain, per GPU
    intra_link: str  # nvlink | pcie | xgmi | …
    nic_gb_per_s: Positive  # per GPU, out of the domain
    gpus_per_node: Count
    scale_up_gpus: Count  # GPUs joined by NVLink-class links (PCIe boxes: the node)
    tdp_watts: Positive
    pcie_gb_per_s: Positive | None = None
    compute_capability: str | None = None
    price_usd_per_gpu_hour: Positive | None = None
    sources: dict[str, str]  # field group -> where the figure comes from
    notes: str | None = None


class Host(Strict):
    memory_gb: Positive | None = None
    gb_per_s: Positive | None = None
    tflops: Positive | None = None
    pcie_gb_per_s: Positive | None = None
    gpus_per_pcie_root: Count | None = None


class Tier(Strict):
    kind: Literal["nvme", "cxl", "remote"]
    gb: Positive
    read_gb_per_s: Positive
    write_gb_per_s: Positive
    shared_by: Literal["node", "cluster", "gpu"] = "node"


class Node(Strict):
    """`count` identical nodes."""

    name: str | None = None
    count: Count = 1
    device: str
    gpus_per_node: Count | None = None
    price_usd_per_hour: NonNegative | None = None  # the whole node
    power_cap_watts: Positive | None = None  # the whole node
    zone: str | None = None
    scale_up_gpus: Count | None = None
    intra_gb_per_s: Positive | None = None
    nic_gb_per_s: Positive | None = None
    nic: NicKind | None = None
    spot: bool = False
    availability: Annotated[float, Field(gt=0, le=1)] = 1.0
    host: Host | None = None
    tiers: list[Tier] = []


class Link(Strict):
    """Between two zones or nodes: all flows together, each direction."""

    between: Annotated[list[str], Field(min_length=2, max_length=2)]
    gb_per_s: Positive
    latency_ms: NonNegative = 0.0


class Cluster(Strict):
    name: str = "cluster"
    nodes: Annotated[list[Node], Field(min_length=1)]
    links: list[Link] = []
    device_overrides: dict[str, dict[str, object]] = {}


@dataclass(frozen=True)
class NodeClass:
    """All identical nodes of a cluster, merged: the unit of planning. SI base units (bytes, bytes/s, FLOP/s, watts)."""

    id: str  # name of the first entry merged in
    device: Device  # overrides applied
    nodes: tuple[str, ...]  # names of all nodes: "h-0", "h-1", …
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

    @property
    def node_count(self) -> int:
        return len(self.nodes)

    @property
    def gpus(self) -> int:
        return self.node_count * self.gpus_per_node


@dataclass(frozen=True)
class ClusterLink:
    """Bandwidth and latency between two zones or nodes (keys sorted); shared by all flows, each direction."""

    between: tuple[str, str]
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True)
class ResolvedCluster:
    """What planning starts from: classes in reading order, links by zone pair, and the document they came from."""

    name: str
    classes: tuple[NodeClass, ...]
    links: tuple[ClusterLink, ...]
    source: Cluster
    warnings: tuple[str, ...] = ()
