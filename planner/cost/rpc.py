"""Seconds, watts and memory of replicas over several nodes, with weights in the host memory of each:
llama.cpp with an `rpc-server` on all nodes but the first.

An rpc-server offers its node's GPUs and, if told to, its CPU as devices that hold whole layers with their
cache and compute them there; nothing is copied between a remote node's memory and its GPUs. The first node is
all that `OffloadModel` says, without disks. A step passes the layers in order, device by device, none at the
same time:

    first layers on the first node's CPU, then of each remote node its GPUs and its CPU, then the first node's
    GPUs and the LM head

What passes from one device to the next goes through the first node (32-bit activations): one hop where
either of them is there, two between remote ones, none between the GPUs of one server. A hop takes what the
slower NIC of both nodes takes, and a declared link's time. Each remote device takes `RPC_S` of a step beside.

Source of the ways: llama.cpp, tools/rpc/README.md and rpc-server.cpp. Error: no run of such a replica is at
hand; `SIGMA` is a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from cluster_configs.schema import ClusterLink, NodeClass, declared_link
from model_zoo.schema import ModelCard
from planner.cost.attention import Load
from planner.cost.calibration import Calibration
from planner.cost.host import Host, HostStage, host_of
from planner.cost.host_ways import BANDWIDTH, FLOPS, GPU, RESOURCES
from planner.cost.memory import Memory
from planner.cost.model import CostModel
from planner.cost.offload import OffloadModel
from planner.cost.placements import HostStaging
from planner.cost.reserve import Sequences
from planner.designs.shape import Designs, Floats, Ints, Precisions, like
from planner.designs.shape import which as which_of

ENGINE = "llama.cpp"

RPC_S = 5e-3
"""Seconds of a step for each remote device, beside kernels and wire: a model of 1.1B parameters took 10 ms a
token more on a remote GTX 1660 over 1 Gbit/s than on a local one, 0.8 ms more through a server on the same
host (May 2024, llama.cpp pull 6829, issue 8832); graphs are reused since (pull 15405)."""

SIGMA = 0.5
"""Spread of log(measured / predicted) that the network adds."""

LARGE = 1e6
NETWORK = len(RESOURCES)


class RpcModel(OffloadModel):
    """What a model takes in each of `stagings` whose first node is of class `main`, all of `classes`."""

    resources = (*RESOURCES, "network")

    def __init__(
        self,
        card: ModelCard,
        main: NodeClass,
        classes: Sequence[NodeClass],
        links: Sequence[ClusterLink],
        stagings: Sequence[HostStaging],
        precisions: Precisions,
        calibration: Calibration | None = None,
    ) -> None:
        super().__init__(card, main, stagings, ENGINE, precisions, calibration)
        self.of_class = {c.id: CostModel(self.card, c, ENGINE, precisions, calibration) for c in classes}
        for model in (self, *self.of_class.values()):
            model.limit_watts = None
        names = list(self.of_class)
        deepest = max(len(staging) for staging in self.placements)
        self.hosts_at = self.bounds.shape[1] - deepest
        self.stage_class = np.full((len(self.placements), deepest), -1)
        self.remote = np.zeros((len(names), len(self.placements), len(self.kinds)))
        self.after = np.zeros((len(self.placements), self.hosts_at, len(self.kinds)))
        self.remote_hosts: list[list[Host | None]] = []
        for i, staging in enumerate(self.placements):
            own: list[Host | None] = [None] * self.hosts_at
            for s, stage in enumerate(staging):
                g = names.index(stage.node_class)
                self.stage_class[i, s] = g
                if stage.node:
                    self.remote[g, i] += self._count(stage.layers)
                    behind = (stage.layers[1], stage.layers[1] + stage.after)
                    self.after[i, stage.node] += self._count(behind)
                    own[stage.node] = self._remote_host(staging, stage)
            self.remote_hosts.append(own)
        rest = self.after @ self.held.layer
        each = [list(zip(*pair, strict=True)) for pair in zip(self.remote_hosts, rest, strict=True)]
        self.rest = rest
        self.rate = np.array([[h.rate(b) if h else 1.0 for h, b in row] for row in each])
        self.flops = np.array([[h.flops_per_s if h else 1.0 for h, _ in row] for row in each])
        ways = [self._way(staging, links) for staging in self.placements]
        self.hop_s, self.hop_s_per_byte, self.devices = np.array(ways).T

    def cpu_layer_s(self, load: Load, host: Host, rate: float) -> Floats:
        """Seconds of a layer of each kind, whole on a remote CPU, under a load of shape (1,): (kinds,)."""
        moved, flops = self._on_cpu(load)
        by_bytes, by_flops = self._cpu_s(moved, flops, rate, host.flops_per_s)
        return np.asarray(np.maximum(by_bytes, by_flops)[0])

    def shares_behind(self, at: int, node: int) -> tuple[tuple[str, float], ...]:
        host, used = self.remote_hosts[at][node], float(self.rest[at, node])
        cxl = host.behind_cxl(used) / used if host and used else 0.0
        return (("host", 1 - cxl), ("cxl", cxl))

    @property
    def most_gpus(self) -> int:
        """All stagings stand on the nodes there are."""
        return sum(m.node_class.gpus for m in self.of_class.values())

    def by_class(self, designs: Designs) -> list[tuple[NodeClass, Ints]]:
        own = [self.placements[i] for i in which_of(designs)]
        return [
            (m.node_class, np.array([sum(s.tp for s in staging if s.node_class == g) for staging in own]))
            for g, m in self.of_class.items()
        ]

    def sigmas(self, designs: Designs) -> Floats:
        return np.asarray(np.hypot(super().sigmas(designs), SIGMA))

    def on(self, node: NodeClass) -> CostModel:
        return self.of_class[node.id]

    def memory_by_stage(
        self, designs: Designs, tokens_per_step: int, sequences: Sequences | None = None
    ) -> Memory:
        """Memory of a GPU of every stage, and last of the hosts of all nodes: shape (n, stages + nodes)."""
        which, at = which_of(designs), like(len(designs), designs.tp, designs.pp)
        deepest = self.stage_class.shape[1]
        parts = np.zeros((5, len(designs), deepest + self.hosts_at))
        parts[4] = np.inf
        out = self.away[which] @ self.held.experts
        for g, model in enumerate(self.of_class.values()):
            here = self.stage_class[which] == g
            m = model.room(at, tokens_per_step, sequences, self.bounds[which, :deepest])
            m = replace(m, weights_bytes=m.weights_bytes - out, kv_bytes=m.kv_bytes + out)
            parts[:, :, :deepest] = np.where(here, m.parts, parts[:, :, :deepest])
        for row, i in enumerate(which.tolist()):
            for j, host in enumerate([self.hosts[i], *self.remote_hosts[i][1:]]):
                if host is not None:
                    used = self.host_bytes[i] if j == 0 else self.rest[i, j]
                    total, left = host.total_bytes, host.room_bytes
                    parts[:, row, deepest + j] = (used, 0.0, total - left, total, left - used)
        return Memory.by_stage(parts)

    def _parts_s(self, designs: Designs, load: Load) -> Floats:
        total, which = super()._parts_s(designs, load), which_of(designs)
        one = like(len(designs), 1)
        for g, model in enumerate(self.of_class.values()):
            for k in np.flatnonzero(self.remote[g][which].any(axis=0)):
                total[:, GPU] += self.remote[g][which, k] * model.layers.layer_s(self.kinds[k], load, one)
        moved, flops = self._on_cpu(load)
        for j in range(1, self.hosts_at):
            rate, speed = self.rate[which, j, None], self.flops[which, j, None]
            by_bytes, by_flops = self._cpu_s(moved, flops, rate, speed)
            counts = self.after[which, j]
            total[:, BANDWIDTH] += (counts * np.where(by_bytes >= by_flops, by_bytes, 0.0)).sum(axis=1)
            total[:, FLOPS] += (counts * np.where(by_bytes < by_flops, by_flops, 0.0)).sum(axis=1)
        sent = self.hop_s[which] + self.hop_s_per_byte[which] * 2 * self._message(load)
        total[:, NETWORK] = sent + RPC_S * self.devices[which]
        return total

    def hops_s(self, designs: Designs, load: Load) -> Floats:
        """Between the first node's own GPUs."""
        own = np.array([sum(s.node == 0 for s in staging) for staging in self.placements])[which_of(designs)]
        return (own - 1) * self.links.hop_s(self._message(load), np.ones(len(designs), dtype=np.int64))

    def _busy_s(self, designs: Designs, load: Load, reached: bool = False) -> tuple[Floats, Floats]:
        compute, memory = super()._busy_s(designs, load, reached)
        which, one = which_of(designs), like(len(designs), 1)
        for g, model in enumerate(self.of_class.values()):
            if self.remote[g][which].any():
                flops, moved = model.at_peak_s(load, one, reached)
                compute = compute + (self.remote[g][which] * flops).sum(axis=1)
                memory = memory + (self.remote[g][which] * moved).sum(axis=1)
        return compute, memory

    def _on_cpu(self, load: Load) -> tuple[Floats, Floats]:
        """Bytes and FLOPs of a layer of each kind, (n, kinds)."""
        one = like(len(load.sequences), 1)
        works = [[work for _, work in self.layers.works(kind, load, one)] for kind in self.kinds]
        moved = np.stack([sum((w.bytes for w in own), 0.0 * load.rows) for own in works], axis=1)
        return moved, np.stack([sum((w.flops for w in own), 0.0 * load.rows) for own in works], axis=1)

    def _cpu_s(
        self, moved: Floats, flops: Floats, rate: Floats | float, flops_per_s: Floats | float
    ) -> tuple[Floats, Floats]:
        return moved / (self.use.memory * rate), flops / (self.use.compute * flops_per_s)

    def _count(self, layers: tuple[int, int]) -> Floats:
        """Layers of each kind in a range."""
        seen = np.asarray(self.card.kinds[1])[slice(*layers)]
        return np.bincount(seen, minlength=len(self.kinds)).astype(np.float64)

    def _remote_host(self, staging: HostStaging, stage: HostStage) -> Host | None:
        gpus = sum(s.tp for s in staging if s.node == stage.node)
        return host_of(self.of_class[stage.node_class].node_class, gpus, 1)

    def _way(self, staging: HostStaging, links: Sequence[ClusterLink]) -> tuple[float, float, int]:
        """From the first layer to the LM head: seconds at no bytes, seconds a byte, remote devices."""
        stops: list[tuple[HostStage | None, str]] = [(None, "cpu")]  # tokens are embedded on the first node
        for stage in staging:
            stops.append((stage if stage.node else None, "gpu"))
            if stage.after:
                stops.append((stage, "cpu"))
        start = each = 0.0
        for (a, one), (b, two) in pairwise(stops):
            same = a is not None and b is not None and a.node == b.node and one == two == "gpu"
            for stage in [] if same or (a is None and b is None) else [x for x in (a, b) if x]:
                near, far = (self.hop_to_s(stage.node_class, links, size) for size in (0.0, LARGE))
                start, each = start + near, each + (far - near) / LARGE
        return start, each, sum(stage is not None for stage, _ in stops)

    def hop_to_s(self, other: str, links: Sequence[ClusterLink], message: float) -> float:
        """From the first node to a node of class `other`: the slower NIC of both, and a declared link."""
        ends = (self.node_class, self.of_class[other].node_class)
        beyond = [np.array([c.scale_up_gpus + 1]) for c in ends]
        models = (self, self.of_class[other])
        nics = [m.links.hop_s(np.array([message]), size)[0] for m, size in zip(models, beyond, strict=True)]
        link = declared_link(links, *ends)
        return float(max(nics)) + (link.latency_s + message / link.bytes_per_s if link else 0.0)
