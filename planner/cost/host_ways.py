"""Weights of a layer that lie in host memory: computed with on the CPU, or sent to the GPU and used there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.cost.host import HostUse
from planner.designs.shape import Floats

RESOURCES = ("GPU", "host memory bandwidth", "host FLOP/s", "PCIe", "NVMe reads", "hand-over", "engine")
"""What the seconds of a step go to."""


GPU, BANDWIDTH, FLOPS, PCIE, NVME, HANDOVER, ENGINE = range(len(RESOURCES))


@dataclass(frozen=True)
class Part:
    """What of a layer lies in host memory, (n,) each: bytes and FLOPs that the CPU would move and do; bytes
    of weights to send instead; bytes from disk either way; seconds of the GPU for what it computes anyway
    (`beside_s`) and for what was sent (`fetched_s`); bytes of cache that the CPU reads even then."""

    moved: Floats
    flops: Floats
    sent: Floats
    from_disk: Floats
    beside_s: Floats
    fetched_s: Floats
    cache: Floats | float = 0.0


@dataclass(frozen=True)
class Rates:
    """What a host reaches, (n,) each, with the engine's `use` of it: bytes/s of memory, FLOP/s, bytes/s to
    the GPUs and from disk."""

    use: HostUse
    memory: Floats
    flops: Floats
    copied: Floats
    disk: Floats

    def fastest_s(self, part: Part, resources: int) -> Floats:
        """On the CPU, or sent over PCIe and computed on the GPU, the faster: (n, resources)."""
        found = np.zeros((len(part.moved), resources))
        by_bytes, by_flops = part.moved / self.memory, part.flops / self.flops
        copy, kept = part.sent / self.copied, part.cache / self.memory
        cpu, gpu_s = np.maximum(by_bytes, by_flops), part.beside_s + part.fetched_s
        beside_s = np.maximum(part.beside_s - cpu, 0.0) if self.use.together else part.beside_s
        on_cpu = cpu + beside_s <= copy + kept + part.beside_s + part.fetched_s
        found[:, BANDWIDTH] = np.where(on_cpu, np.where(by_bytes >= by_flops, by_bytes, 0.0), kept)
        found[:, FLOPS] = np.where(on_cpu & (by_bytes < by_flops), by_flops, 0.0)
        found[:, PCIE] = np.where(on_cpu, 0.0, copy)
        found[:, GPU] = np.where(on_cpu, beside_s, gpu_s)
        found[:, NVME] = part.from_disk / self.disk
        found[:, HANDOVER] = self.use.handover_s
        return found
