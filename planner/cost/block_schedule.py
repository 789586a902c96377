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
    packed         4-bit weights and cache are unpacked into GPU memory: weights for each GPU batch, cache
                   each step, so many bytes of traffic a value

All of these go on side by side and the longest is the layer's time; engines that do not overlap (and what is
packed: unpacking waits for the copy) take their sum. Error: docs/tiers.md.

Source: the schedule and its policy space, FlexGen, arXiv:2303.06865; seconds and bytes are ours.
"""

from __future__ import annotations

import numpy as np

from planner.cost.block import TIERS, Job, Machine, Reached, Way
from planner.cost.shape import Floats

TENSORS = ("weights", "cache", "activations")
COLUMNS = tuple((q, t) for q in TENSORS for t in TIERS if (q, t) != ("activations", "disk"))
ANYWHERE = ("", "")
"""What is the same wherever the tensors rest: the last column."""
AT = {place: i for i, place in enumerate([*COLUMNS, ANYWHERE])}
ROWS = ("to gpu", "from gpu", "disk read", "disk write", "compute")
BUSY = tuple((phase, what) for phase in ("prefill", "decode") for what in ROWS)
FITS = tuple((tier, phase) for tier in TIERS for phase in ("prefill", "decode"))
RESOURCES = ("gpu compute", "gpu memory", "pcie", "host memory", "disk read", "disk write")

PACKED = 4.5 / 16
"""Bytes of 4-bit values with a 16-bit scale and zero a group of 64, of 16-bit ones."""
HOST_TRAFFIC = 5.0
Place = tuple[str, str]
Row = dict[Place, float]


def block_seconds(job: Job, machine: Machine, way: Way, reached: Reached, batches: int) -> Floats:
    """Of a layer by resource and busy row, for a tensor all in one place: (resources, busy, columns + 1)."""
    of = np.stack([_phase(job, machine, way, reached, batches, prefill) for prefill in (True, False)])
    if not way.side_by_side:
        of = np.broadcast_to(of.sum(axis=2, keepdims=True), of.shape)
    return np.concatenate(list(of), axis=1)


def _phase(job: Job, machine: Machine, way: Way, reached: Reached, batches: int, prefill: bool) -> Floats:
    """One phase's rows: (resources, busy of the phase, columns + 1)."""
    tokens, block = (job.isl if prefill else 1), way.gpu_batch * batches
    weights, cached = _stored(job, way)
    hidden = 2.0 * block * tokens * job.hidden
    new = block * (job.isl + 1 if prefill else 1) * cached
    look = 0.0 if prefill else block * (job.isl + job.osl / 2) * cached
    pcie = machine.pcie_bytes_per_s * (reached.pinned if way.pinned else reached.pageable)
    cache_pcie = machine.pcie_bytes_per_s * reached.pinned
    fetched = 0.0 if way.host_attention else look
    rows: dict[tuple[str, str], Row] = {
        ("pcie", "to gpu"): {
            **_away("weights", weights / pcie),
            **_away("cache", fetched / cache_pcie),
            **_away("activations", hidden / cache_pcie),
        },
        ("pcie", "from gpu"): {
            **_away("cache", new / cache_pcie),
            **_away("activations", hidden / cache_pcie),
        },
        ("disk read", "disk read"): {
            ("weights", "disk"): weights / (machine.disk_read_bytes_per_s * reached.disk),
            ("cache", "disk"): look / (machine.disk_read_bytes_per_s * reached.disk),
        },
        ("disk write", "disk write"): {
            ("cache", "disk"): new / (machine.disk_write_bytes_per_s * reached.disk)
        },
        **_compute(job, machine, way, reached, batches, prefill),
    }
    held = np.zeros((len(RESOURCES), len(ROWS), len(COLUMNS) + 1))
    for (resource, what), row in rows.items():
        for place, value in row.items():
            held[RESOURCES.index(resource), ROWS.index(what), AT[place]] += value
    return held


def _compute(
    job: Job, machine: Machine, way: Way, reached: Reached, batches: int, prefill: bool
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
    if way.host_attention:
        on_host = HOST_TRAFFIC * attended / (machine.host_bytes_per_s * reached.host_memory)
    by_flops = matmul_s > reading_s
    return {
        ("gpu compute", "compute"): {ANYWHERE: pairs_s + matmul_s * by_flops},
        ("gpu memory", "compute"): {
            ANYWHERE: reading_s * (not by_flops) + reached.unpack_bytes * unpacked / bytes_per_s,
            ("cache", "gpu"): on_gpu,
            **_away("cache", 0.0 if way.host_attention else on_gpu),
        },
        ("host memory", "compute"): _away("cache", on_host),
    }


def block_bytes(job: Job, way: Way, batches: int) -> Floats:
    """Held by each tier in each phase, for a tensor all in one place: (fits, columns + 1).

    On the GPU beside what rests there: two layers of the weights that do not, two GPU batches' activations
    and cache that pass through, what a GPU batch works in (scores of attention too), and what is unpacked.
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
            **_away("weights", 2 * weights),
            ("cache", "gpu"): cache,
            **_away("cache", staged),
            ("activations", "gpu"): block * hidden,
            **_away("activations", passing),
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
    held = np.zeros((len(FITS), len(COLUMNS) + 1))
    for i, moment in enumerate(FITS):
        for place, value in rows[moment].items():
            held[i, AT[place]] = value
    return held


def tokens_per_s(
    job: Job, machine: Machine, way: Way, reached: Reached, batches: int, shares: dict[Place, float]
) -> float:
    """Generated tokens/s of a block, prompt and generation together, with `shares` of each tensor by tier."""
    x = np.array([*(shares.get(place, 0.0) for place in COLUMNS), 1.0])
    rows = block_seconds(job, machine, way, reached, batches).sum(axis=0) @ x
    phases = {phase: [r for r, (p, _) in zip(rows, BUSY, strict=True) if p == phase] for phase, _ in BUSY}
    steps = times(job)
    seconds = sum(steps[phase] * max(of) for phase, of in phases.items())
    return float(way.gpu_batch * batches * job.osl / seconds)


def times(job: Job) -> dict[str, float]:
    """Layers x steps of each phase."""
    return {"prefill": float(job.layers), "decode": float(job.layers * (job.osl - 1))}


def _stored(job: Job, way: Way) -> tuple[float, float]:
    """Bytes of a layer's weights, and of its cache a token, as they rest and travel."""
    weights = 2 * PACKED * job.weights if way.packed_weights else job.weight_bytes
    cached = 2 * PACKED * job.cache_per_token if way.packed_cache else job.cache_bytes_per_token
    return weights, cached


def _away(tensor: str, value: float) -> Row:
    """The same on every tier but the GPU."""
    return {(tensor, tier): value for tier in TIERS[1:] if (tensor, tier) in AT}
