"""A job on one GPU with what memory it has behind it, as a tiers problem.

All GPU batches and ways to compute are lines. Rows of `planner/cost/block_schedule.py` are affine in the
number of GPU batches, so two of them say all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.cost.block import Job, Machine, Reached, Way
from planner.cost.block_axes import PLAIN, Axes, axes
from planner.cost.block_schedule import block_bytes, block_seconds, times
from solvers.tiers.types import Line, Point, TiersProblem

GPU_BATCHES = (*range(1, 17), 18, 20, 22, 24, 28, 32, 36, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256)

PACKED = ((True, False), (False, True), (True, True))
"""Weights, cache."""


FEW = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""GPU batches where the CPU computes with weights, too: that is only shown, and its programs are larger."""

FINE = 32
"""Parts of a layer's weights, where the CPU computes with some."""


def ways(
    packed: bool = False, gpu_batches: Sequence[int] = GPU_BATCHES, cpu_weights: bool = False
) -> list[Way]:
    """Attention on GPU or CPU for every GPU batch; `packed`: beside these with 4-bit weights, cache, both;
    `cpu_weights`: all with a share of the weights computed with on the CPU."""
    plain = [
        Way(g, host_attention=on_host, cpu_weights=cpu_weights)
        for g in gpu_batches
        for on_host in (False, True)
    ]
    return plain + [Way(g, False, w, c) for g in gpu_batches for w, c in PACKED] * packed


def state(job: Job, machine: Machine, among: Sequence[Way], reached: Reached) -> TiersProblem:
    """Rates in units a second, so that prices are tokens/s for a byte/s or a FLOP/s more. All of `among` have
    the same columns: the CPU computes with weights in all of them or in none."""
    on = axes(machine, any(way.cpu_weights for way in among))
    names = [machine.link if name == "pcie" else name for name in on.resources]
    return TiersProblem(
        columns=on.columns,
        busy=on.busy,
        times=times(job),
        fits=on.fits,
        room=machine.room,
        rate=dict(zip(names, rates(machine, on), strict=True)),
        lines=[_line(job, machine, way, reached, on) for way in among],
    )


def way_of(point: Point) -> Way:
    """How the block of a point of such a problem is computed."""
    assert isinstance(point.line.key, Way)
    return point.line.key


def rates(machine: Machine, on: Axes = PLAIN) -> tuple[float, ...]:
    """Rate of each resource, in the order of `Axes.resources`: FLOP/s and bytes/s."""
    return (
        machine.gpu_flops_per_s,
        machine.gpu_bytes_per_s,
        machine.pcie_bytes_per_s,
        machine.host_bytes_per_s,
        machine.disk_read_bytes_per_s,
        machine.disk_write_bytes_per_s,
        *(rate for tier in machine.beside for rate in (tier.read_bytes_per_s, tier.write_bytes_per_s)),
        *[machine.host_flops_per_s] * on.cpu,
    )


def _line(job: Job, machine: Machine, way: Way, reached: Reached, on: Axes) -> Line:
    seconds = [block_seconds(job, machine, way, reached, k, on) for k in (1, 2)]
    held = [block_bytes(job, way, k, on, machine.unified) for k in (1, 2)]
    return Line(
        key=way,
        tokens=float(way.gpu_batch * job.osl),
        seconds=np.stack([2 * seconds[0] - seconds[1], seconds[1] - seconds[0]]),
        bytes=np.stack([2 * held[0] - held[1], held[1] - held[0]]),
        pieces={
            "weights": (job.layers * (FINE if way.cpu_weights else 1), 0),
            "cache": (0, job.layers * way.gpu_batch),
            "activations": (0, way.gpu_batch),
        },
    )
