"""A block of requests on one GPU with host memory, a disk and what else there is behind it (CXL memory,
memory of another machine or GPU): machine, job, ways to compute it.

Rates are datasheet figures; programs reach the shares of them in `block.yaml`, fitted by
`benchmarks/offline.py`. What follows from them: `block_schedule.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cluster_configs.schema import NodeClass
from model_zoo.derive import active_params, kv_bytes_per_seq, total_params, weight_bytes
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Attention, DenseFfn, ModelCard
from planner.cost.host import USABLE as HOST_USABLE
from planner.cost.host import host_of, shared
from planner.cost.reserve import device_bytes
from planner.designs.precision import precisions
from planner.reading.documents import read_plain

FILE = Path(__file__).with_name("block.yaml")

TIERS = ("gpu", "host", "disk")
USABLE = {"gpu": 0.88, "host": HOST_USABLE, "disk": 0.95}
"""Share of each tier's bytes that a job may take: driver, system and file system have the rest."""


UNIFIED = 1e15
"""Bytes/s between CPU and GPU where nothing has to be copied."""

LINKS = 0.8
"""Share of the stated rates of CXL links, NICs and peers that transfers reach: assumed."""


@dataclass(frozen=True)
class Beside:
    """One more tier. `by_cpu`: memory that the CPU reads where it lies, and that reaches the GPU as host
    memory does (CXL); else it comes over a link of its own (a NIC, another GPU's NVLink)."""

    name: str
    bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    by_cpu: bool


@dataclass(frozen=True)
class Machine:
    """Datasheet figures in SI units; PCIe (or the `link` in its place) in one direction; a tier that is not
    there has 0 bytes. `unified`: GPU and CPU read one memory, the GPU's."""

    gpu_bytes: float
    gpu_flops_per_s: float
    gpu_bytes_per_s: float
    pcie_bytes_per_s: float
    host_bytes: float
    host_bytes_per_s: float
    disk_bytes: float = 0.0
    disk_read_bytes_per_s: float = 1e9
    disk_write_bytes_per_s: float = 1e9
    host_flops_per_s: float = 0.0
    beside: tuple[Beside, ...] = ()
    unified: bool = False
    link: str = "pcie"

    @property
    def room(self) -> dict[str, float]:
        """Bytes of each tier that may be filled."""
        held = (self.gpu_bytes, self.host_bytes, self.disk_bytes)
        own = {tier: USABLE[tier] * size for tier, size in zip(TIERS, held, strict=True)}
        return own | {tier.name: HOST_USABLE * tier.bytes for tier in self.beside}


def machine_of(node: NodeClass) -> Machine | None:
    """One GPU of a node with its share of the host and of all tiers; None where no host memory is stated, or
    of unified memory no disk."""
    host, device = host_of(node, 1, 1), node.device
    if host is None or not (host.pcie_bytes_per_s or device.unified_memory):
        return None
    tflops = device.tflops.get("bf16") or device.tflops.get("fp16") or max(device.tflops.values())
    parts = [(kind, kind == "cxl", shared(node, kind, 1)) for kind in ("cxl", "remote")]
    return Machine(
        gpu_bytes=device_bytes(device),
        gpu_flops_per_s=1e12 * tflops,
        gpu_bytes_per_s=1e9 * device.memory_gb_per_s,
        pcie_bytes_per_s=UNIFIED if device.unified_memory else host.pcie_bytes_per_s,
        host_bytes=0.0 if device.unified_memory else host.memory_bytes,
        host_bytes_per_s=host.bytes_per_s,
        disk_bytes=host.nvme_bytes,
        disk_read_bytes_per_s=host.nvme_read_bytes_per_s or 1e9,
        disk_write_bytes_per_s=host.nvme_write_bytes_per_s or 1e9,
        host_flops_per_s=host.flops_per_s,
        beside=tuple(
            Beside(kind, tier.bytes, tier.read_bytes_per_s, tier.write_bytes_per_s, by_cpu)
            for kind, by_cpu, tier in parts
            if tier.bytes
        ),
        unified=bool(device.unified_memory),
        link="pcie" if device.host_link[0] == "PCIe" else device.host_link[0],
    )


@dataclass(frozen=True)
class Job:
    """Requests alike and a model's mean layer: bytes as stored, values, FLOPs a token without attention."""

    isl: int
    osl: int
    layers: int
    hidden: int
    inner: int
    heads: int
    weight_bytes: float
    weights: float
    flops_per_token: float
    cache_bytes_per_token: float
    cache_per_token: float


@dataclass(frozen=True)
class Way:
    """How a block is computed. Batches of `gpu_batch`; `pinned`: host memory that PCIe reads at full rate;
    `cpu_weights`: in decode the CPU computes with a share of each layer's weights beside the GPU."""

    gpu_batch: int
    host_attention: bool = False
    packed_weights: bool = False
    packed_cache: bool = False
    overlap: bool = True
    pinned: bool = True
    cpu_weights: bool = False

    @property
    def side_by_side(self) -> bool:
        return self.overlap and not (self.packed_weights or self.packed_cache)


@dataclass(frozen=True)
class Reached:
    """Shares of datasheet rates that programs reach; `unpack_bytes`: GPU memory traffic a packed value."""

    gpu_compute: float
    gpu_memory: float
    pinned: float
    pageable: float
    host_memory: float
    disk: float
    unpack_bytes: float


@cache
def reached() -> Reached:
    """Shares of its peak that each resource reaches, by name, as `block.yaml` ships them."""
    return Reached(**read_plain(FILE)["reached"])


def job_of(card: ModelCard, isl: int, osl: int, weights: str | None = None, kv: str | None = None) -> Job:
    """The job of a model in its checkpoint's precisions or in those asked for. Raises InputError for unknown
    ones.

    All experts of a layer are weights: a large block reads them all.
    """
    kinds, layers = card.kinds[0], len(card.stack)
    used = precisions(card, weights, kv)
    stored = (
        sum(weight_bytes(card).values()) if weights is None else total_params(card) * WEIGHT_BYTES[weights]
    )
    cached = kv_bytes_per_seq(card, isl + osl, used.kv) / (isl + osl) / layers
    return Job(
        isl=isl,
        osl=osl,
        layers=layers,
        hidden=card.hidden,
        inner=max(
            (layer.ffn.inner for layer in kinds if isinstance(layer.ffn, DenseFfn)), default=card.hidden
        ),
        heads=max((layer.mixer.heads for layer in kinds if isinstance(layer.mixer, Attention)), default=1),
        weight_bytes=stored / layers,
        weights=total_params(card) / layers,
        flops_per_token=2.0 * active_params(card, embedding=False) / layers,
        cache_bytes_per_token=cached,
        cache_per_token=cached / KV_BYTES[used.kv],
    )
