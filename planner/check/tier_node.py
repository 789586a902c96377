"""One node with weights beside its GPUs: they find room there, and no step reads faster than it can.

Experts are met unequally: by T tokens with 1 - 1/(1 + mT·λ)-like odds, λ exponential over the experts and m
such that one token meets top_k of them. The share of them that lies away is the least popular; of what lies
on a disk, host memory keeps what was met last. One replica may use all of a node's bandwidth here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, log

from cluster_configs.schema import Host, NodeClass
from model_zoo.schema import ModelCard, MoeFfn
from planner.check import weights
from planner.check.case import Case
from planner.check.queueing import resident_bytes
from planner.check.roofline import sequences
from planner.check.violation import EXACT, GB, MODEL, Violation, at_most
from planner.plans.schema import Replica, Stage, StageMemory, Tiered

MEMORY = ("host", "cxl")
"""Tiers that the CPU reads as its memory."""

SYSTEM = 0.2
"""Part of a node's memory that the system and an engine's own buffers take at most."""


def sites(replica: Replica) -> list[list[int]]:
    """Stages by the nodes that they stand on; the server's last."""
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, stage in enumerate(replica.stages):
        found[stage.node_class, *stage.nodes].append(i)
    return sorted(found.values(), key=max)


def cache_rooms(case: Case, card: ModelCard, replica: Replica) -> Iterator[tuple[list[Stage], float, float]]:
    """For each node whose memory has whole layers with their cache: the layers, as stages; bytes that weights
    leave of the replica's part of it, and the least that the system leaves of those."""
    mine, away = [part for part in case.plan.tiers if part.replica == replica.id], case.away(replica)
    for stages in sites(replica) if mine else ():
        node = Beside(case, card, replica, mine, stages)
        ranges = [(first, end) for first, end in node.whole_layers(away) if first < end]
        held = [replica.stages[0].model_copy(update={"layers": layers}) for layers in ranges]
        total = sum(node.capacities()[tier] for tier in MEMORY) * node.gpus / node.node.gpus_per_node
        left = total - sum(part.bytes for part in node.parts if part.tier in MEMORY)
        if held:
            mapped = any(
                part.tier == "nvme" for part in node.parts
            )  # then pages of the file fill what is left
            yield held, left, 0.0 if mapped else left - SYSTEM * total


@dataclass(frozen=True)
class Beside:
    """One node of a group with weights beside its GPUs: `every` part of a replica, and the node's stages."""

    case: Case
    card: ModelCard
    replica: Replica
    every: list[Tiered]
    stages: list[int]

    @cached_property
    def parts(self) -> list[Tiered]:
        """In this node."""
        here = {*self.stages, *([None] if self.serves else [])}
        return [part for part in self.every if part.stage in here]

    @property
    def serves(self) -> bool:
        """Whether it is the server, which has the last stage."""
        return len(self.replica.stages) - 1 in self.stages

    @cached_property
    def node(self) -> NodeClass:
        return self.case.classes[self.replica.stages[self.stages[0]].node_class]

    @property
    def gpus(self) -> int:
        return sum(self.replica.stages[i].gpus for i in self.stages)

    def violations(self, where: str) -> Iterator[Violation]:
        if self.gpus > self.node.gpus_per_node:
            yield Violation("tier_nodes", where, "GPUs that share host memory stand in one node")
        room = self.capacities()
        yield from self._room(room, where)
        if room["host"]:
            yield from self._times(where)

    def capacities(self) -> dict[str, float]:
        """Bytes of a node's tiers; of unified memory what the GPUs' engines leave counts as the host's."""
        host, device = self.node.host, self.node.device
        times = {"gpu": self.node.gpus_per_node, "node": 1, "cluster": 1}
        tiers = {
            kind: sum(GB * t.gb * times[t.shared_by] for t in self.node.tiers if t.kind == kind)
            for kind in ("cxl", "nvme")
        }
        memory = (host.memory_gb or 0.0) if host else 0.0
        if device.unified_memory:
            memory = device.memory_gb * self.node.gpus_per_node
            memory -= sum(held.capacity_bytes * s.gpus / GB for held, s in self._stages())
        return {"host": GB * memory, **tiers}

    def _stages(self) -> Iterator[tuple[StageMemory, Stage]]:
        for held in self.replica.memory:
            if held.stage in self.stages:
                yield held, self.replica.stages[held.stage]

    def _room(self, capacities: dict[str, float], where: str) -> Iterator[Violation]:
        """What all replicas that may stand in one node keep in each tier, with the cache of host layers."""
        together = min(self.replica.count, max(self.node.gpus_per_node // self.gpus, 1))
        used = {t: together * sum(part.bytes for part in self.parts if part.tier == t) for t in capacities}
        away, load, cache = self.case.away(self.replica), self.case.loads[self.replica.id], 0.0
        for first, end in self.whole_layers(away):
            stage = self.replica.stages[0].model_copy(update={"layers": (first, end)})
            held = resident_bytes(self.case, self.card, self.replica, stage, load)
            cache += together * held / self.replica.count
        used["host"] += max(cache - max(capacities["cxl"] - used["cxl"], 0.0), 0.0)
        for tier, capacity in capacities.items():
            if not at_most(used[tier], capacity, EXACT):
                text = f"{used[tier] / GB:.4g} GB in {tier} of a node with {capacity / GB:.4g} GB"
                yield Violation("tier_over", where, text)

    def whole_layers(self, away: weights.Away) -> Iterator[tuple[int, int]]:
        """Ranges that lie in this node's memory with their cache."""
        if self.serves and away.layers:
            yield 0, away.layers
        for i in self.stages:
            end = self.replica.stages[i].layers[1]
            yield end, end + away.after.get(i, 0)

    def _times(self, where: str) -> Iterator[Violation]:
        """Steps are no shorter than their bytes over the tier's bandwidth."""
        load, step = self.case.loads[self.replica.id], self.replica.step
        if not load.rps:
            return
        if load.decode_tok_per_s and self.replica.role != "prefill":
            tokens = sequences(self.case, self.replica, load) / self.replica.count
            floors = {name: s for name, s in self._floors(tokens).items() if name != "both"}
            name = max(floors, key=lambda n: floors[n])
            if not at_most(floors[name], step.decode_s, MODEL):
                text = f"{step.decode_s:.4g} s, {name} needs {floors[name]:.4g} s"
                yield Violation("decode_below_tiers", f"{where}.step.decode_s", text)
        if self.replica.role != "decode":
            floor = self._floors(self.case.new_prompt(self.replica, load))["both"]
            took_s = step.prefill_s + step.decode_s  # those that decode meanwhile ask for some of the same
            if not at_most(floor, took_s, MODEL):
                text = f"{took_s:.4g} s with a decode step, reading what lies beside it takes {floor:.4g} s"
                yield Violation("prefill_below_tiers", f"{where}.step.prefill_s", text)

    def _floors(self, tokens: float) -> dict[str, float]:
        """Seconds that reading takes of a step of `tokens`: as stated, and by the faster way ("both")."""
        host, device = self.node.host or Host(), self.node.device
        read = {"cpu": 0.0, "pcie": 0.0, "nvme": 0.0}
        behind = 0.0
        away = self.case.away(self.replica)
        for part in self.parts:
            for i in numbers(part):
                moved = self._read_bytes(i, part, away.experts.get(i, 0.0), tokens)
                read[part.way if part.tier in MEMORY else "nvme"] += moved
                behind += moved if part.tier == "cxl" else 0.0
        roots = -(-self.gpus // (host.gpus_per_pcie_root or 1))
        unified = GB * device.memory_gb_per_s * self.node.gpus_per_node if device.unified_memory else 0.0
        link = host.pcie_gb_per_s or device.host_link[1]
        cxl = self._read_rate("cxl")
        rates = {
            "cpu": (unified or GB * (host.gb_per_s or 0.0)) + cxl,
            "pcie": GB * roots * link,
            "nvme": self._read_rate("nvme"),
        }
        found = {way: size / rates[way] for way, size in read.items() if size and rates[way]}
        both = (read["cpu"] + read["pcie"]) / max(rates["cpu"], rates["pcie"], 1.0)
        if away.streamed:  # from the one, over the other, with no choice
            found["cpu"] = read["pcie"] / rates["cpu"]
            both = max(found.values())
        if behind and (away.streamed or not read["pcie"]):
            found["cxl"] = behind / cxl if cxl else inf
        return {"cpu": 0.0, **found, "both": max(both, found.get("nvme", 0.0))}

    def _read_rate(self, kind: str) -> float:
        """Bytes/s at most of a node's tiers of a kind."""
        return GB * sum(t.read_gb_per_s for t in self.node.tiers if t.kind == kind) * self.gpus

    def _read_bytes(self, number: int, part: Tiered, away: float, tokens: float) -> float:
        """Bytes of a layer in `part` that a step of `tokens` reads there at least; `away`: the share of its
        experts beside the GPUs."""
        layer = self.card.stack[number]
        size = weights.layer_bytes(self.card, self.replica.precision, layer, weights.WHOLE)
        if part.what == "weights":
            return part.share * size.total.low
        if part.what == "layers":
            return part.share * (size.attention.low + size.dense.low)
        ffn = layer.ffn
        assert isinstance(ffn, MoeFfn)
        held = (p for p in self.parts if p.what == "experts" and p.tier in MEMORY)
        alike = sum(p.share for p in held if number in numbers(p))
        on_disk = part.share if part.tier == "nvme" else max(away - alike, 0.0)
        met, missed = met_share(ffn, tokens, away), missed_share(ffn, tokens, on_disk)
        in_memory = max(met - missed, 0.0) * part.share / max(alike, 1e-12)
        return size.experts.low * (missed if part.tier == "nvme" else in_memory)


def numbers(part: Tiered) -> list[int]:
    """Layers that the part is of."""
    return [i for first, end in part.layers for i in range(first, end)]


def _scale(ffn: MoeFfn) -> float:
    """m: of an exponential popularity, such that one token meets top_k of the experts."""
    share = ffn.top_k / ffn.experts
    return share / (1 - share) if share < 1 else 1e12


def met_share(ffn: MoeFfn, tokens: float, away: float) -> float:
    """Share of all experts that `tokens` tokens meet among the least popular share `away` of them.

    >>> round(8 * met_share(MoeFfn(experts=8, top_k=2, inner=64), 1, 1.0), 3)
    2.0
    """
    m = 1 + _scale(ffn) * tokens
    if away >= 1:
        return 1 - 1 / m
    return away - (1 - exp(m * log(1 - away))) / m


def missed_share(ffn: MoeFfn, tokens: float, on_disk: float) -> float:
    """Share of all experts that `tokens` tokens meet and that a cache lacks which holds all but `on_disk`."""
    return on_disk - 1 / (1 / on_disk + _scale(ffn) * tokens) if on_disk > 0 else 0.0
