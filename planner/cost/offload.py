"""Seconds, watts and memory of replicas in one node whose weights lie partly in host memory or on a disk.

A design names a staging of `HostStage`s. Layers before the first stage lie in host memory whole; of the first
`away` MoE layers of a stage the routed experts do, but for the `kept` most popular ones of each. A step takes

    sum over layers of   GPU part + hand-over + min(on the CPU, over PCIe and on the GPU) + disk
    + LM head + hops between GPUs + the engine's own

    on the CPU        max(bytes touched / host bandwidth, FLOPs / host FLOP/s), with CXL memory's (`host.py`)
    over PCIe         weights touched / PCIe, then the kernels of the GPU; the CPU reads what cache lies there
    disk              bytes touched that host memory does not hold / its reads

with the engine's shares of the rates (`host.py`) and `touched` the expected distinct experts. Where an engine
computes experts on CPU and GPU at once, a layer takes the longer of both. Nothing else overlaps, and GPUs of
a pipeline work one after the other: llama.cpp runs a step so as soon as tensors lie elsewhere.

Streamed layers (vLLM's prefetch) are computed on the GPU; every step copies all their weights, met or not
(`streaming.py`). Copies started in a step are waited for at its end: the engine's own time comes on top.

What host memory does not hold is read from disk through its cache: experts met last stay in it
(`expert_tiers.missed`); of a dense model every byte is met once a step, so such a cache holds none in time.
MTP layers are not loaded. The CPU's own watts are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass
from model_zoo.schema import Attention, Mla, ModelCard, MoeFfn
from planner.cost.attention import Load, decode_work
from planner.cost.calibration import Calibration
from planner.cost.expert_tiers import missed, rest_chosen, rest_touched
from planner.cost.experts import Routed, expert_work
from planner.cost.host import Host, host_of, host_use
from planner.cost.host_ways import BANDWIDTH, ENGINE, GPU, PCIE, RESOURCES, Part, Rates
from planner.cost.memory import Memory, kv_bytes_by_stage
from planner.cost.model import CostModel
from planner.cost.placements import HostStaging, held_bytes, in_tiers, places
from planner.cost.reserve import Sequences
from planner.cost.streaming import streaming_s, streams
from planner.designs.shape import Designs, Floats, Ints, Precisions, like
from planner.designs.shape import which as which_of

CXL_SIGMA = 0.2
"""Spread of log(measured / predicted) where weights lie in CXL memory, too: assumed, no run is at hand."""


class OffloadModel(CostModel):
    """What a model takes in each of `stagings` on nodes with a host; designs come from `designs_of`."""

    resources: tuple[str, ...] = RESOURCES
    fewer_alike = True

    def __init__(
        self,
        card: ModelCard,
        node: NodeClass,
        stagings: Sequence[HostStaging],
        engine: str,
        precisions: Precisions,
        calibration: Calibration | None = None,
    ) -> None:
        super().__init__(card.model_copy(update={"mtp_layers": 0}), node, engine, precisions, calibration)
        self.placements: tuple[HostStaging, ...] = tuple(stagings)
        self.stagings = self.placements
        self.held = held_bytes(self)
        self.ffns = tuple(kind.ffn if isinstance(kind.ffn, MoeFfn) else None for kind in self.kinds)
        self.hosts = [_host(node, staging, engine) for staging in stagings]
        self.use = host_use(engine, self.hosts[0].sockets)
        placed = places(self, self.placements)
        self.bounds, self.here = placed.bounds, placed.here
        self.away, self.before = placed.away, placed.before
        self.kept = np.array([staging[0].kept for staging in stagings], dtype=np.float64)
        firsts, seen = [staging[0] for staging in stagings], np.asarray(self.card.kinds[1])
        moved = streams(seen, len(self.kinds), firsts, lambda tp: held_bytes(self, tp).layer)
        self.streamed, self.stream_bytes, self.ahead_bytes = moved
        out = self._out(np.arange(len(stagings)))
        experts = (self.away.sum(axis=1) * out[:, None] + self.before) @ self.held.experts
        dense = self.before @ (self.held.layer - self.held.experts)
        dense = dense + self.stream_bytes * [stage.tp for stage in firsts]
        rest = in_tiers(experts, dense, self.hosts, np.asarray(self.before.any(axis=1)))
        self.cached, self.host_bytes, self.disk_bytes = rest
        used = list(zip(self.hosts, self.host_bytes.tolist(), strict=True))
        self.cxl_bytes = np.array([host.behind_cxl(own) for host, own in used])
        self.read_bytes_per_s = np.array([host.rate(own) for host, own in used])

    def concurrent(self, designs: Designs) -> Ints:
        """One: the GPUs of a pipeline work one after the other."""
        return np.ones(len(designs), dtype=np.int64)

    def seconds_by(self, designs: Designs, load: Load) -> dict[str, float]:
        """Seconds of a step of the first design, by resource."""
        found = self._parts_s(designs, self._spread(designs, load))[0]
        names = list(self.resources)
        names[PCIE] = self.node_class.device.host_link[0]
        return dict(zip(names, found.tolist(), strict=True))

    def copied(self, designs: Designs, load: Load) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether a step of the first design copies to a GPU what it needs of experts that lie away, and of
        layers before the first stage: (kinds,) each."""
        load, which = self._spread(designs, load), which_of(designs)
        found = np.zeros((2, len(self.kinds)), dtype=bool)
        for k, kind in enumerate(self.kinds):
            if self.away[which].sum(axis=1)[0, k]:
                routed = self.layers.routed_s(kind, load, designs)
                found[0, k] = self._away_s(k, load, which, routed)[0, PCIE] > 0
            if self.before[which[0], k]:
                whole = self.layers.layer_s(kind, load, designs)
                found[1, k] = self._before_s(k, load, which, whole)[0, PCIE] > 0
        return found[0], found[1]

    def sigmas(self, designs: Designs) -> Floats:
        """The host's figures rest on few machines: wider."""
        behind = np.where(self.cxl_bytes[which_of(designs)] > 0, CXL_SIGMA, 0.0)
        return np.asarray(np.hypot(super().sigmas(designs), np.hypot(self.use.sigma, behind)))

    def memory_by_stage(
        self, designs: Designs, tokens_per_step: int, sequences: Sequences | None = None
    ) -> Memory:
        """Memory of a GPU of every stage, and last of the host: shape (n, stages + 1)."""
        which, at = which_of(designs), like(len(designs), designs.tp, designs.pp)
        m = self.room(at, tokens_per_step, sequences, self.bounds[which, :-1])
        out = self.away[which] @ self.held.experts * self._out(which)[:, None] / designs.tp[:, None]
        out, ahead = out + self.stream_bytes[which, None], self.ahead_bytes[which, None]
        names = ("room_bytes", "total_bytes", "nvme_bytes")
        room, total, disk = (self._of_hosts(which, name) for name in names)
        used, spilt = self.host_bytes[which], self.disk_bytes[which]
        left = np.where((spilt > 0) & (used + spilt > disk), -spilt, room - used)
        last = (used, np.zeros(len(designs)), total - room, total, left)
        weights, activation, reserve, capacity, kv = m.parts
        gpus = (weights - out, activation + ahead, reserve, capacity, kv + out - ahead)
        return Memory.by_stage([np.column_stack(both) for both in zip(gpus, last, strict=True)])

    def layer_s(self, load: Load) -> tuple[Floats, Floats, Floats]:
        """Seconds of a layer of each kind, under a load of shape (1,): seconds whole on a GPU; what its
        experts away from it add; whole on the host: (kinds,) each."""
        one, which = like(1, 1), np.zeros(1, dtype=np.int64)
        here, more, before = np.zeros((3, len(self.kinds)))
        for k, kind in enumerate(self.kinds):
            whole = self.layers.layer_s(kind, load, one)
            here[k] = whole[0]
            before[k] = self._before_s(k, load, which, whole).sum()
            if self.ffns[k]:
                routed = self.layers.routed_s(kind, load, one)
                more[k] = max(self._away_s(k, load, which, routed).sum() - routed[0], 0.0)
        return here, more, before

    def shares_behind(self, at: int, node: int) -> tuple[tuple[str, float], ...]:
        """What lies, in staging `at`, behind the stages of another node: shares by tier."""
        return ()

    def _held(self, designs: Designs, tokens: Floats) -> Floats:
        """Bytes of cache of one sequence of `tokens` (n, w) on a GPU of each stage and on the host: (n, w,
        stages + 1)."""
        at = like(len(designs), designs.tp, designs.pp)
        bounds = self.bounds[which_of(designs)]
        return kv_bytes_by_stage(self.card, at, self.precisions, self.engine, tokens, bounds)

    def _out(self, which: Ints) -> Floats:
        """Share of the experts of a layer whose experts lie away that really does, (n,)."""
        experts = next((ffn.experts for ffn in self.ffns if ffn), 1)
        return np.asarray(1 - self.kept[which] / experts)

    def _round_s(self, designs: Designs, load: Load) -> Floats:
        return np.asarray(self._parts_s(designs, load).sum(axis=1))

    def _parts_s(self, designs: Designs, load: Load) -> Floats:
        """Seconds of a step by resource, (n, RESOURCES)."""
        which, total = which_of(designs), np.zeros((len(designs), len(self.resources)))
        streamed = np.zeros(len(designs))
        for k, kind in enumerate(self.kinds):
            whole = self.layers.layer_s(kind, load, designs)
            routed = self.layers.routed_s(kind, load, designs)
            away = self.away[which].sum(axis=1)[:, k]
            total[:, GPU] += self.here[which, k] * whole + away * (whole - routed)
            streamed += self.streamed[which, k] * whole
            if away.any():
                total += away[:, None] * self._away_s(k, load, which, routed)
            if self.before[which, k].any():
                total += self.before[which, k][:, None] * self._before_s(k, load, which, whole)
        total[:, GPU] += self.layers.head_s(load.sampled, designs)
        total[:, GPU] += self.hops_s(designs, load)
        if self.streamed.any():
            self._stream(which, streamed, total)
        kernels = total.sum(axis=1)
        launched = self._launched_s(kernels, load, designs) - kernels
        total[:, ENGINE] = self.engine_s(designs, load.sequences) + launched
        return total

    def _stream(self, which: Ints, streamed: Floats, total: Floats) -> None:
        """Add what the copies of a step take beyond the GPU, which computes their layers in `streamed`
        seconds; where they take longer than all of it, they are the step."""
        link = np.maximum(self.use.pcie * self._of_hosts(which, "pcie_bytes_per_s"), 1.0)
        memory = np.maximum(self.use.memory * self.read_bytes_per_s[which], 1.0)
        tp = np.array([staging[0].tp for staging in self.placements])[which]
        run = np.array([staging[0].streamed for staging in self.placements])[which]
        copy, computed = tp * self.stream_bytes[which] / np.minimum(link, memory), total[:, GPU]
        step = streaming_s(computed, streamed, copy, run)
        total[:, GPU] = np.where(copy < computed, computed, 0.0)
        by = np.where(memory < link, BANDWIDTH, PCIE)
        total[np.arange(len(which)), by] += step - total[:, GPU]

    def _away_s(self, k: int, load: Load, which: Ints, routed: Floats) -> Floats:
        """Seconds by resource of the experts of one layer that lie away, (n, RESOURCES): `routed` is what all
        of them would take on the GPU."""
        ffn, kept, rows = self.ffns[k], self.kept[which], load.rows
        assert ffn is not None
        touched = rest_touched(ffn.experts, ffn.top_k, rows, kept)
        met = rest_touched(ffn.experts, ffn.top_k, rows, 0.0 * kept)
        pairs = rows * ffn.top_k * rest_chosen(ffn.experts, kept)
        width = ffn.latent or self.card.hidden
        flops = 2 * pairs * ffn.matrices * width * ffn.inner
        moved = touched * self.held.expert[k]
        off = missed(ffn.experts, ffn.top_k, rows, self.cached[which]) * self.held.expert[k]
        share = touched / np.maximum(met, 1e-12)
        part = Part(moved, flops, moved, off, (1 - share) * routed, share * routed)
        return self._rates(which).fastest_s(part, len(self.resources))

    def _before_s(self, k: int, load: Load, which: Ints, whole: Floats) -> Floats:
        """Seconds by resource of one layer that lies in host memory whole, (n, RESOURCES); its cache, which
        lies there too, is read by the CPU either way."""
        ffn, one = self.ffns[k], like(len(which), 1)
        works = [work for _, work in self.layers.works(self.kinds[k], load, one)]
        moved, flops = sum(w.bytes for w in works), sum(w.flops for w in works)
        weights = np.full(len(which), self.held.layer[k] - self.held.experts[k])
        if ffn is None:
            off = np.where(self.cached[which] < 1, weights, 0.0)
        else:
            off = missed(ffn.experts, ffn.top_k, load.rows, self.cached[which]) * self.held.expert[k]
            met = rest_touched(ffn.experts, ffn.top_k, load.rows, 0.0 * load.rows)
            weights = weights + met * self.held.expert[k]
        mixer, cache = self.kinds[k].mixer, 0.0 * whole
        if isinstance(mixer, Attention | Mla):
            cache = decode_work(mixer, load, one.tp, self.precisions.kv).bytes
        part = Part(np.asarray(moved), np.asarray(flops), weights, off, 0.0 * whole, whole, cache)
        return self._rates(which).fastest_s(part, len(self.resources))

    def _rates(self, which: Ints) -> Rates:
        """To the GPUs: from pinned memory, or where a disk is mapped from pageable memory."""
        use, mapped = self.use, (self.disk_bytes[which] > 0) & (self.use.pageable > 0)
        return Rates(
            use,
            memory=use.memory * self.read_bytes_per_s[which],
            flops=use.compute * self._of_hosts(which, "flops_per_s"),
            copied=np.maximum(
                np.where(mapped, use.pageable, use.pcie) * self._of_hosts(which, "pcie_bytes_per_s"), 1.0
            ),
            disk=np.maximum(use.nvme * self._of_hosts(which, "nvme_read_bytes_per_s"), 1.0),
        )

    def _of_hosts(self, which: Ints, name: str) -> Floats:
        return np.array([getattr(host, name) for host in self.hosts])[which]

    def _busy_s(self, designs: Designs, load: Load, reached: bool = False) -> tuple[Floats, Floats]:
        """Seconds at peak FLOP/s (or at the best that was `reached`) and at full bandwidth, (n,) each, of
        what lies on all GPUs, one after the other."""
        which = which_of(designs)
        compute, memory = self.at_peak_s(load, designs, reached)
        away = self.away[which].sum(axis=1)
        counts = self.here[which] + away
        flops, moved = (counts * compute).sum(axis=1), (counts * memory).sum(axis=1)
        for k, ffn in enumerate(self.ffns):
            if ffn is not None and away[:, k].any():
                precision, each = self.layers.expert_weights(self.kinds[k])
                work = expert_work(Routed(ffn, self.card.hidden, load.rows, designs, each))
                peak = self.layers.rate("moe", precision, reached)
                flops = flops - away[:, k] * work.flops / peak
                moved = moved - away[:, k] * work.weights / self.chip.bytes_per_s
        return np.maximum(flops, 0.0), np.maximum(moved, 0.0)


def _host(node: NodeClass, staging: HostStaging, engine: str) -> Host:
    """The host of the first node of a staging; without disks where the engine does not read from them, or
    several nodes share the layers."""
    mine = [stage for stage in staging if stage.node == 0]
    host = host_of(node, sum(stage.tp for stage in mine), mine[0].tp)
    assert host is not None
    disks = host_use(engine, host.sockets).nvme and len(mine) == len(staging)
    return host if disks else replace(host, nvme_bytes=0.0)
