"""Seconds of messages between GPUs: alpha-beta by group and link, or interpolated measurements where a device
has them.

Inside the scale-up domain (NVLink, xGMI, or PCIe within a node) measured anchors are (bytes, microseconds) of
the fastest graph-captured collective; beyond it every GPU drives its own NIC. Arrays of shape (n,).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cluster_configs.schema import NodeClass
from planner.cost.efficiency.reading import Efficiency, Table
from planner.designs.shape import Floats, Ints, distinct

Flags = NDArray[np.bool_]

MEASURED_EXCHANGE_GPUS = 8


class Links:
    """The links of one node class under one device's measured (or default) link efficiency."""

    def __init__(self, node_class: NodeClass, efficiency: Efficiency) -> None:
        self.domain = node_class.scale_up_gpus
        self.intra = node_class.intra_bytes_per_s
        self.nic = node_class.nic_bytes_per_s
        kind = "pcie" if "pcie" in node_class.device.intra_link.lower() else "nvlink"
        self.default: Table = efficiency.default_links[kind]
        self.table: Table = efficiency.links
        self.flat: Table = efficiency.default_links
        self.tuning = efficiency.tuning
        # a cluster may say its links are slower or faster than those measured
        self.slower = 1e9 * efficiency.links_gb_per_s / self.intra
        self._last: tuple[tuple[bytes, bytes], Floats] | None = None  # all layers send the same messages

    def all_reduce_s(self, message_bytes: Floats, gpus: Ints) -> Floats:
        """Sum of `message_bytes` over `gpus` ranks, everywhere: within nodes, then across with 1/domain of it
        per NIC."""
        asked = (message_bytes.tobytes(), gpus.tobytes())
        if self._last is None or self._last[0] != asked:
            self._last = asked, self._collective("all_reduce", message_bytes, gpus, rounds=2)
        return self._last[1]

    def all_gather_s(self, gathered_bytes: Floats, gpus: Ints) -> Floats:
        """`gathered_bytes` in all, a part from every rank, everywhere; a reduce-scatter takes the same."""
        return self._collective("all_gather", gathered_bytes, gpus, rounds=1)

    def exchange_s(
        self,
        tokens: Floats,
        token_bytes: Floats,
        top_k: int,
        gpus: Ints,
        way: str,
        piped: Flags | bool = False,
        bulk: Flags | bool = True,
    ) -> Floats:
        """`tokens` of each GPU to the `top_k` ranks of their experts (`way` "dispatch") or back ("combine").

        Inside the domain a copy goes to every expert; across nodes one copy a node (`bulk`), to an expected
        (N - 1)*(1 - (1 - 1/N)^k) of N nodes, or a copy to every expert. `piped`: links inside and across
        nodes work at once. Error: 5 % inside measured nodes, unknown across.
        """
        row: Table = self.table.get(way) or self.flat[way]
        rate = 1e9 * row["gb_per_s"] / self.slower if "gb_per_s" in row else row["share"] * self.intra
        away = (1 - 1 / np.maximum(gpus, 1)) / (1 - 1 / MEASURED_EXCHANGE_GPUS)
        nodes = np.ceil(gpus / self.domain)
        inside = top_k * np.where(bulk, 1.0, 1 / nodes)
        near = 1e-6 * row["t0_us"] + away * tokens * inside * token_bytes / rate
        one_a_node = (nodes - 1) * -np.expm1(top_k * np.log1p(-1 / np.maximum(nodes, 2)))
        copies = np.where(bulk, one_a_node, top_k * (1 - 1 / nodes))
        far = np.where(nodes > 1, self._network_s(copies * tokens * token_bytes, nodes), 0.0)
        both = np.where(piped, np.maximum(near, far), near + far)
        return np.where((gpus > 1) & (tokens > 0), both, 0.0)

    def ring_s(self, message_bytes: Floats, tp: Ints, cp: Ints) -> Floats:
        """`message_bytes`, a part from each of cp groups of tp ranks, past all of them: cp - 1 rounds, each
        rank sending to its like in the next group; across NICs where the groups leave the domain."""
        row = self.flat["hop"]
        moved = message_bytes * (cp - 1) / cp
        near = 1e-6 * row["t0_us"] * (cp - 1) + moved / (row["share"] * self.intra)
        nodes = np.ceil(tp * cp / self.domain)
        far = (cp - 1) * self._network_s(moved / np.maximum(cp - 1, 1), np.full(len(cp), 2.0))
        return np.where((cp > 1) & (message_bytes > 0), np.where(nodes > 1, far, near), 0.0)

    def hop_s(self, message_bytes: Floats, replica_gpus: Ints) -> Floats:
        """From one pipeline stage to the next: over the scale-up links if the whole replica is in one
        domain."""
        row = self.flat["hop"]
        near = 1e-6 * row["t0_us"] + message_bytes / (row["share"] * self.intra)
        far = self._network_s(message_bytes, np.full(len(replica_gpus), 2.0))
        return np.where(replica_gpus > self.domain, far, near)

    def far_s(self, message_bytes: Floats, ranks: Ints) -> Floats:
        """From a pipeline stage to one on another node, in parts of 1/`ranks`: each goes through a NIC of its
        own, and the receivers gather them inside their node."""
        one = np.ones_like(ranks)
        gathered = self.hop_s(message_bytes * (ranks - 1) / ranks, one)
        parts = self.hop_s(message_bytes / ranks, (self.domain + 1) * one)
        return parts + np.where(ranks > 1, gathered, 0.0)

    def round_s(self, message_bytes: Floats, stage_gpus: Ints, pp: Ints, ranks: Ints) -> Floats:
        """Through pp stages of `stage_gpus`, and a token's id back to the first; 0 for one stage.

        Nodes are filled in order, so stages that share one are joined inside it. Only boundaries between
        nodes are far, where a message goes in parts of 1/`ranks`, and the way back of a replica that leaves
        the domain.
        """
        gpus, one = stage_gpus * pp, np.ones_like(pp)
        crossed = np.ceil(pp / np.maximum(self.domain // stage_gpus, 1)) - 1
        forth = crossed * self.far_s(message_bytes, ranks)
        forth = forth + (pp - 1 - crossed) * self.hop_s(message_bytes, one)
        return np.where(pp > 1, forth + self.hop_s(0.0 * message_bytes, gpus), 0.0)

    def _collective(self, name: str, message_bytes: Floats, gpus: Ints, rounds: int) -> Floats:
        """Seconds of a collective by group size: every size has its own curve."""
        t = np.zeros(np.broadcast_shapes(message_bytes.shape, gpus.shape))
        for size in distinct(gpus):
            at = gpus == size
            inside = min(size, self.domain)
            s = self._inside_s(name, message_bytes[at], inside, rounds)
            if size > self.domain:
                nodes = float(np.ceil(size / self.domain))
                share = rounds * (nodes - 1) / nodes * message_bytes[at] / self.domain
                s = s + self._network_s(share, np.full(int(at.sum()), nodes))
            t[at] = s
        waits = self.tuning.message_wait_s * np.log2(np.maximum(gpus, 1))
        return np.where(message_bytes > 0, self.tuning.messages * t + waits, 0.0)

    def _inside_s(self, name: str, message_bytes: Floats, gpus: int, rounds: int) -> Floats:
        """Within one scale-up domain: anchors of the nearest smaller measured group, or alpha-beta."""
        if gpus == 1:
            return np.zeros_like(message_bytes)
        anchors = self.table.get(name)
        if not anchors:
            row = self.default[_nearest(self.default, gpus)]
            moved = rounds * (gpus - 1) / gpus * message_bytes
            return np.asarray(1e-6 * row["t0_us"] + moved / (row["share"] * self.intra))
        size = _nearest(anchors, gpus)
        curve = np.asarray(anchors[size], dtype=np.float64)
        seconds = 1e-6 * _log_interpolate(message_bytes, curve[:, 0], curve[:, 1])
        floor = 1e-6 * curve[0, 1]
        longer = self.slower * (1 - 1 / gpus) / (1 - 1 / size)
        return np.asarray(floor * max(1.0, np.log2(gpus) / np.log2(size)) + (seconds - floor) * longer)

    def _network_s(self, message_bytes: Floats, nodes: Floats) -> Floats:
        """Through each GPU's NIC to `nodes` nodes."""
        row = self.flat["network"]
        waits = 1e-6 * row["t0_us"] * np.log2(np.maximum(nodes, 2))
        return np.asarray(waits + message_bytes / (row["share"] * self.nic))


def _nearest(sizes: Table, gpus: int) -> int:
    """The largest size with a figure up to `gpus`, else the smallest."""
    return int(max((s for s in sizes if s <= gpus), default=min(sizes)))


def _log_interpolate(x: Floats, xs: Floats, ys: Floats) -> Floats:
    """Between anchors straight in log-log; below the first constant, beyond the last proportional."""
    inside = np.exp(np.interp(np.log(np.maximum(x, 1.0)), np.log(xs), np.log(np.maximum.accumulate(ys))))
    return np.asarray(inside * np.maximum(1.0, x / xs[-1]))
