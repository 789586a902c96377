"""Seconds and bytes of a block of requests on one GPU with host memory and a disk behind it, offline.

A block is k GPU batches of the same size. Layer by layer, all its batches pass before the next layer's
weights are needed, so weights are fetched once a layer and step for the whole block, while the layer before
computes. Weights, KV cache and activations rest in shares x on tiers; of a layer, with B = k * GPU batch
requests of s prompt and n output tokens, c = s + n / 2 cached tokens on average (C bytes of cache a token, W
of weights):

    to the GPU     W x[away] + activations, and the cache B c C x[away] where the GPU attends to it
    from the GPU   new cache B (s or 1) C x[away] + activations
    disk           reads W x[disk], in decode B c C x[disk]; writes new cache x[disk]
    compute        matmuls of each GPU batch: the longer of FLOPs and reading W from GPU memory; attention
                   over the cache from GPU memory, or over what is away on the CPU: 5 bytes of host memory
                   traffic a byte (16-bit cache is read, written as fp32, read again)
    more tiers     reads and writes of what rests there, each over its link; CXL memory's also over PCIe, the
                   CPU reads cache where it lies; others' come to the GPU over their own link
    on the CPU     x[weights, cpu] rests in host memory; prompts fetch it as any; in decode the CPU computes
                   with it, once a GPU batch, by the longer of its FLOPs and its bytes, while the GPU computes
                   with the rest and copies run: inputs and outputs of four matrices a layer cross the link,
                   and copies take their part of host memory's bandwidth (HeteGen, arXiv:2403.01164)
    packed         4-bit weights and cache are unpacked into GPU memory: weights for each GPU batch, cache
                   each step, so many bytes of traffic a value

All of these go on side by side and the longest is the layer's time; engines that do not overlap (and what is
packed: unpacking waits for the copy) take their sum. Error: docs/tiers.md.

Source: the schedule and its policy space, FlexGen, arXiv:2303.06865; seconds and bytes are ours.
"""

from __future__ import annotations

import numpy as np

from planner.cost.block import LINKS, Job, Machine, Reached, Way
from planner.cost.block_axes import ANYWHERE, CPU, PLAIN, Axes, Place, Row, axes
from planner.designs.shape import Floats

PACKED = 4.5 / 16
"""Bytes of 4-bit values with a 16-bit scale and zero a group of 64, of 16-bit ones."""
HOST_TRAFFIC = 5.0

CPU_COMPUTE = 0.4
"""Share of a CPU's FLOP/s in matmuls: assumed, as programs of `host.yaml` reach it."""

CROSSINGS = 4
"""Matrices of a layer whose inputs come from the GPU and whose outputs go back: QKV, output, up, down."""


def block_seconds(
    job: Job, machine: Machine, way: Way, reached: Reached, batches: int, on: Axes | None = None
) -> Floats:
    """Seconds of a layer by resource and busy row, for a tensor all in one place: (resources, busy, columns +
    1)."""
    on = on or axes(machine, way.cpu_weights)
    of = np.stack([_phase(job, machine, way, reached, batches, prefill, on) for prefill in (True, False)])
    if not way.side_by_side:
        of = np.broadcast_to(of.sum(axis=2, keepdims=True), of.shape)
    return np.concatenate(list(of), axis=1)


def _phase(
    job: Job, machine: Machine, way: Way, reached: Reached, batches: int, prefill: bool, on: Axes
) -> Floats:
    """One phase's rows: (resources, busy of the phase, columns + 1)."""
    tokens, block = (job.isl if prefill else 1), way.gpu_batch * batches
    weights, cached = _stored(job, way)
    hidden = 2.0 * block * tokens * job.hidden
    new = block * (job.isl + 1 if prefill else 1) * cached
    look = 0.0 if prefill else block * (job.isl + job.osl / 2) * cached
    pcie = machine.pcie_bytes_per_s * (reached.pinned if way.pinned else reached.pageable)
    cache_pcie = machine.pcie_bytes_per_s * reached.pinned
    fetched = 0.0 if way.host_attention else look
    apart = [tier.name for tier in machine.beside if not tier.by_cpu]
    kept = [*apart, *["cpu"] * (not prefill)]
    crossing = CROSSINGS * hidden / cache_pcie * (way.cpu_weights and not prefill)
    rows: dict[tuple[str, str], Row] = {
        ("pcie", "to gpu"): {
            **on.away("weights", weights / pcie, kept),
            **on.away("cache", fetched / cache_pcie, apart),
            **on.away("activations", hidden / cache_pcie, apart),
            ANYWHERE: crossing,
        },
        ("pcie", "from gpu"): {
            **on.away("cache", new / cache_pcie, apart),
            **on.away("activations", hidden / cache_pcie, apart),
            ANYWHERE: crossing,
        },
        ("disk read", "disk read"): {
            ("weights", "disk"): weights / (machine.disk_read_bytes_per_s * reached.disk),
            ("cache", "disk"): look / (machine.disk_read_bytes_per_s * reached.disk),
        },
        ("disk write", "disk write"): {
            ("cache", "disk"): new / (machine.disk_write_bytes_per_s * reached.disk)
        },
        **_compute(job, machine, way, reached, batches, prefill, on),
    }
    for tier in machine.beside:
        read, write = LINKS * tier.read_bytes_per_s, LINKS * tier.write_bytes_per_s
        looked = fetched if tier.by_cpu else look  # the CPU reads as it computes
        rows[f"{tier.name} read", f"{tier.name} read"] = {
            ("weights", tier.name): weights / read,
            ("cache", tier.name): looked / read,
            ("activations", tier.name): hidden / read,
        }
        rows[f"{tier.name} write", f"{tier.name} write"] = {
            ("cache", tier.name): new / write,
            ("activations", tier.name): hidden / write,
        }
    if way.cpu_weights:
        rows |= _on_cpu(job, machine, reached, batches * way.gpu_batch * (not prefill), batches, weights)
    held = np.zeros((len(on.resources), len(on.rows), len(on.columns) + 1))
    for (resource, what), row in rows.items():
        for place, value in row.items():
            held[on.resources.index(resource), on.rows.index(what), on.at[place]] += value
    return held


def _on_cpu(
    job: Job, machine: Machine, reached: Reached, tokens: int, batches: int, weights: float
) -> dict[tuple[str, str], Row]:
    """What the CPU does beside the GPU with weights of its own, if it has `tokens` to compute, and what
    copies take of host memory."""
    memory = machine.host_bytes_per_s * reached.host_memory
    by_flops = tokens * job.flops_per_token / max(machine.host_flops_per_s * CPU_COMPUTE, 1.0)
    by_bytes = batches * job.weight_bytes / memory * (tokens > 0)
    copies = weights / memory
    return {
        ("cpu", "cpu"): {CPU: by_flops if by_flops > by_bytes else 0.0},
        ("host memory", "cpu"): {
            CPU: (by_bytes if by_bytes >= by_flops else 0.0) if tokens else copies,
            ("weights", "host"): copies,
        },
    }


def _compute(
    job: Job, machine: Machine, way: Way, reached: Reached, batches: int, prefill: bool, on: Axes
) -> dict[tuple[str, str], Row]:
    """What GPU and CPU do one after another."""
    tokens, block = (job.isl if prefill else 1), way.gpu_batch * batches
    flops_per_s = machine.gpu_flops_per_s * reached.gpu_compute
    bytes_per_s = machine.gpu_bytes_per_s * reached.gpu_memory
    context = job.isl if prefill else job.isl + job.osl / 2
    matmul_s = block * tokens * job.flops_per_token / flops_per_s
    reading_s = batches * job.weight_bytes / bytes_per_s
    attended = 0.0 if prefill else block * context * job.cache_bytes_per_token
    pairs_s = 4.0 * block * tokens * context * job.hidden / flops_per_s if prefill else 0.0
    unpacked = batches * job.weights * way.packed_weights
    unpacked += block * context * job.cache_per_token * way.packed_cache
    on_gpu, on_host = attended / bytes_per_s, 0.0
    memory = machine.host_bytes_per_s * reached.host_memory
    if way.host_attention:
        on_host = HOST_TRAFFIC * attended / memory
    by_flops = matmul_s > reading_s
    spared: dict[str, Row] = {"flops": {}, "bytes": {}}
    if way.cpu_weights and not prefill:
        spared["flops" if by_flops else "bytes"] = {CPU: -max(matmul_s, reading_s)}
    host = on.away("cache", on_host)
    for tier in machine.beside if way.host_attention else ():
        if tier.by_cpu:  # read from there once, then as any
            read = attended / (LINKS * tier.read_bytes_per_s)
            host["cache", tier.name] = (HOST_TRAFFIC - 1) * attended / memory + read
    return {
        ("gpu compute", "compute"): {ANYWHERE: pairs_s + matmul_s * by_flops, **spared["flops"]},
        ("gpu memory", "compute"): {
            ANYWHERE: reading_s * (not by_flops) + reached.unpack_bytes * unpacked / bytes_per_s,
            ("cache", "gpu"): on_gpu,
            **on.away("cache", 0.0 if way.host_attention else on_gpu),
            **spared["bytes"],
        },
        ("host memory", "compute"): host,
    }


def block_bytes(job: Job, way: Way, batches: int, on: Axes = PLAIN, unified: bool = False) -> Floats:
    """Held by each tier in each phase, for a tensor all in one place: (fits, columns + 1).

    On the GPU beside what rests there: two layers of the weights that do not, two GPU batches' activations
    and cache that pass through, what a GPU batch works in (scores of attention too), and what is unpacked.
    What comes from disk passes host memory, if that is not the GPU's.
    """
    block, layers = way.gpu_batch * batches, job.layers
    weights, cached = _stored(job, way)
    rows: dict[Place, Row] = {}
    for phase, tokens in (("prefill", job.isl), ("decode", 1)):
        context = job.isl + (job.osl if phase == "decode" else 1)
        cache = layers * block * context * cached
        hidden = 2.0 * tokens * job.hidden
        passing = 2 * way.gpu_batch * hidden
        staged = (
            (1 if phase == "prefill" else 2 * (not way.host_attention)) * way.gpu_batch * context * cached
        )
        scores = 2 * job.heads * tokens * context
        working = 2.0 * way.gpu_batch * (6 * tokens * job.hidden + tokens * job.inner + scores)
        unpacked = 2.0 * job.weights * way.packed_weights
        unpacked += 2.0 * way.gpu_batch * context * job.cache_per_token * way.packed_cache
        rows["gpu", phase] = {
            ("weights", "gpu"): layers * weights,
            **on.away("weights", 2 * weights),
            ("cache", "gpu"): cache,
            **on.away("cache", staged),
            ("activations", "gpu"): block * hidden,
            **on.away("activations", passing),
            ANYWHERE: working + unpacked,
        }
        rows["host", phase] = {
            ("weights", "host"): layers * weights,
            ("weights", "disk"): 2 * weights,
            ("cache", "host"): cache,
            ("cache", "disk"): 2 * way.gpu_batch * context * cached,
            ("activations", "host"): block * hidden,
        }
        rows["disk", phase] = {("weights", "disk"): layers * weights, ("cache", "disk"): cache}
        for tier in on.beside:
            rows[tier, phase] = {
                ("weights", tier): layers * weights,
                ("cache", tier): cache,
                ("activations", tier): block * hidden,
            }
        if on.cpu:
            rows["host", phase][CPU] = layers * weights
        if unified:
            for place in (("weights", "disk"), ("cache", "disk")):
                rows["gpu", phase][place] += rows["host", phase].pop(place)
    held = np.zeros((len(on.fits), len(on.columns) + 1))
    for i, moment in enumerate(on.fits):
        for place, value in rows[moment].items():
            held[i, on.at[place]] = value
    return held


def times(job: Job) -> dict[str, float]:
    """Layers x steps of each phase."""
    return {"prefill": float(job.layers), "decode": float(job.layers * (job.osl - 1))}


def _stored(job: Job, way: Way) -> tuple[float, float]:
    """Bytes of a layer's weights, and of its cache a token, as they rest and travel."""
    weights = 2 * PACKED * job.weights if way.packed_weights else job.weight_bytes
    cached = 2 * PACKED * job.cache_per_token if way.packed_cache else job.cache_bytes_per_token
    return weights, cached
