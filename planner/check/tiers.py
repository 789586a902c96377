"""Weights beside the GPUs: each lies in one place, the place has room, and no step reads faster than it can.

Experts are met unequally: by T tokens with 1 - 1/(1 + mT·λ)-like odds, λ exponential over the experts and m
such that one token meets top_k of them. The share of them that lies away is the least popular; of what lies
on a disk, host memory keeps what was met last. One replica may use all of a node's bandwidth here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import exp, log

from cluster_configs.schema import NodeClass
from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, Layer, ModelCard, MoeFfn
from planner.check import weights
from planner.check.case import Case
from planner.check.memory import GENEROUS
from planner.check.queueing import resident_bytes
from planner.check.roofline import sequences
from planner.check.violation import EXACT, MODEL, Violation, at_most
from planner.plans.schema import Replica, Tiered

GB = 1e9
WHOLE = weights.Split(1, 1, 1)
ENGINES = ("llama.cpp", "sglang")
"""That compute with weights in host memory."""

STREAMING = ("vllm",)
"""That copy weights from host memory to the GPUs in every step, and compute there."""


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with what lies beside the GPUs."""
    for number, part in enumerate(case.plan.tiers):
        where = f"tiers[{number}]"
        if part.what == "cache":  # `kept` has its rules
            continue
        if part.replica not in case.groups:
            yield Violation("unknown_replica", f"{where}.replica", f"there is no group {part.replica}")
        elif case.card is not None:
            yield from _size(case.card, case.groups[part.replica], part, where)
    for index, replica in enumerate(case.plan.replicas):
        mine = [p for p in case.plan.tiers if p.replica == replica.id and p.what != "cache"]
        known = {replica.precision.weights, replica.precision.experts} <= WEIGHT_BYTES.keys()
        inside = case.card is not None and all(_inside(case.card, part) for part in mine)
        if mine and case.card is not None and inside and known and replica.precision.kv in KV_BYTES:
            beside = Beside(case, case.card, replica, mine)
            yield from beside.violations(f"replicas[{index}]")


def _size(card: ModelCard, replica: Replica, part: Tiered, where: str) -> Iterator[Violation]:
    """Layers of the model, and bytes that such weights take."""
    if not _inside(card, part):
        text = f"{part.layers}, {card.name} has {len(card.stack)}"
        yield Violation("layers_outside", f"{where}.layers", text)
        return
    span, split = weights.Span(), WHOLE
    if part.what == "weights":  # each GPU copies its own shard
        split = weights.Split(replica.tp, replica.tp, replica.tp)
    for layer in (card.stack[i] for r in part.layers for i in range(*r)):
        size = weights.in_bytes(
            weights.layer_params(layer, card.hidden, split), card, replica.precision, layer
        )
        rest = size.attention + size.dense + size.other
        parts = {"experts": size.experts, "layers": rest, "weights": size.total}[part.what]
        span += parts.times(weights.Span(split.tp, split.tp))
    low, high = part.share * span.low * (1 - MODEL), part.share * span.high * GENEROUS
    if not low <= part.bytes <= high + 1:
        text = f"{part.bytes / GB:.4g} GB stated, such weights take {low / GB:.4g} to {high / GB:.4g} GB"
        yield Violation("tier_bytes_wrong", f"{where}.bytes", text)


def _inside(card: ModelCard, part: Tiered) -> bool:
    return all(0 <= first < end <= len(card.stack) for first, end in part.layers)


@dataclass(frozen=True)
class Beside:
    """One group with weights beside its GPUs."""

    case: Case
    card: ModelCard
    replica: Replica
    parts: list[Tiered]

    @cached_property
    def node(self) -> NodeClass:
        return self.case.classes[self.replica.stages[0].node_class]

    @property
    def gpus(self) -> int:
        return sum(stage.gpus for stage in self.replica.stages)

    def violations(self, where: str) -> Iterator[Violation]:
        streams = {part.what == "weights" for part in self.parts}
        if streams != {self.replica.engine in STREAMING} or self.replica.engine not in ENGINES + STREAMING:
            text = f"{self.replica.engine} does not keep weights in host memory so"
            yield Violation("tier_engine", f"{where}.engine", text)
        if (
            len({stage.node_class for stage in self.replica.stages}) > 1
            or self.gpus > self.node.gpus_per_node
        ):
            yield Violation("tier_nodes", where, "a replica with weights in host memory stands in one node")
        yield from self._once(where)
        room = self._capacities()
        yield from self._room(room, where)
        if room["host"]:
            yield from self._times(where)

    def _once(self, where: str) -> Iterator[Violation]:
        """No expert in two places; layers in host memory whole, from the first one on, with their experts."""
        away = self.case.away(self.replica)
        for layer, share in away.experts.items():
            if not at_most(share, 1.0, EXACT):
                text = f"{share:.4g} of the experts of layer {layer} lie beside the GPUs"
                yield Violation("tier_twice", where, text)
                return
        moe = {i for i, layer in enumerate(self.card.stack) if isinstance(layer.ffn, MoeFfn)}
        if strangers := away.experts.keys() - moe:
            text = f"layer {min(strangers)} has no routed experts"
            yield Violation("tier_no_experts", where, text)
        yield from self._streamed(where)
        whole: dict[int, float] = dict.fromkeys(range(away.layers), 0.0)
        for part in self.parts:
            for i in (i for r in part.layers for i in range(*r) if part.what == "layers"):
                whole[i] = whole.get(i, 0.0) + part.share
        split = [i for i, share in whole.items() if abs(share - 1) > EXACT]
        lone = [i for i in whole if i in moe and abs(away.experts.get(i, 0.0) - 1) > EXACT]
        if split or lone:
            text = f"layer {(split or lone)[0]} lies before the first stage, but not once and whole"
            yield Violation("tier_layers", where, text)

    def _streamed(self, where: str) -> Iterator[Violation]:
        """Streamed layers once, whole, copied from host memory: the last so many of every so many."""
        mine = [part for part in self.parts if part.what == "weights"]
        if not mine:
            return
        listed = sorted(i for part in mine for r in part.layers for i in range(*r))
        first, group = min((r for part in mine for r in part.layers), default=(0, 1))
        spread = [i for i in range(len(self.card.stack)) if i % group >= first]
        ways = {(part.tier, part.way, part.share) for part in mine}
        if listed != spread or ways != {("host", "pcie", 1.0)}:
            text = "streamed layers are the last so many of every so many: once, whole, copied from the host"
            yield Violation("tier_layers", where, text)

    def _capacities(self) -> dict[str, float]:
        """Bytes of a node's tiers."""
        host, disks = self.node.host, [t for t in self.node.tiers if t.kind == "nvme"]
        times = {"gpu": self.node.gpus_per_node, "node": 1, "cluster": 1}
        return {
            "host": GB * (host.memory_gb or 0.0) if host else 0.0,
            "nvme": sum(GB * t.gb * times[t.shared_by] for t in disks),
        }

    def _room(self, capacities: dict[str, float], where: str) -> Iterator[Violation]:
        """What all replicas that may stand in one node keep in each tier, with the cache of host layers."""
        together = min(self.replica.count, max(self.node.gpus_per_node // self.gpus, 1))
        for tier, capacity in capacities.items():
            used = together * sum(part.bytes for part in self.parts if part.tier == tier)
            if tier == "host" and (before := self.case.away(self.replica).layers):
                stage = self.replica.stages[0].model_copy(update={"layers": (0, before)})
                load = self.case.loads[self.replica.id]
                held = resident_bytes(self.case, self.card, self.replica, stage, load)
                used += together * held / self.replica.count
            if not at_most(used, capacity, EXACT):
                text = f"{used / GB:.4g} GB in {tier} of a node with {capacity / GB:.4g} GB"
                yield Violation("tier_over", where, text)

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
            if step.by and abs(sum(step.by.values()) - step.decode_s) > 0.02 * step.decode_s:
                text = f"its parts add up to {sum(step.by.values()):.4g} s, not {step.decode_s:.4g} s"
                yield Violation("step_parts", f"{where}.step.by", text)
        if self.replica.role != "decode":
            new = max(self.case.new_prompt(self.replica), 1.0)
            floor = self._floors(new)["both"]
            if not at_most(floor, step.prefill_s, MODEL):
                text = f"{step.prefill_s:.4g} s, reading what lies beside the GPUs takes {floor:.4g} s"
                yield Violation("prefill_below_tiers", f"{where}.step.prefill_s", text)

    def _floors(self, tokens: float) -> dict[str, float]:
        """Seconds that reading takes of a step of `tokens`: as stated, and by the faster way ("both")."""
        host = self.node.host
        assert host is not None
        read = {"cpu": 0.0, "pcie": 0.0, "nvme": 0.0}
        away = self.case.away(self.replica)
        for part in self.parts:
            for i in (i for r in part.layers for i in range(*r)):
                layer = self.card.stack[i]
                moved = self._read_bytes(layer, part, away.experts.get(i, 0.0), tokens)
                read["nvme"] += moved if part.tier == "nvme" else 0.0
                read[part.way] += moved if part.tier == "host" else 0.0
        roots = -(-self.gpus // (host.gpus_per_pcie_root or 1))
        rates = {
            "cpu": GB * (host.gb_per_s or 0.0),
            "pcie": GB * roots * (host.pcie_gb_per_s or self.node.device.host_link[1]),
            "nvme": GB * sum(t.read_gb_per_s for t in self.node.tiers if t.kind == "nvme") * self.gpus,
        }
        found = {way: size / rates[way] for way, size in read.items() if size and rates[way]}
        both = (read["cpu"] + read["pcie"]) / max(rates["cpu"], rates["pcie"], 1.0)
        if away.streamed:  # from the one, over the other, with no choice
            found["cpu"] = read["pcie"] / rates["cpu"]
            both = max(found.values())
        return {"cpu": 0.0, **found, "both": max(both, found.get("nvme", 0.0))}

    def _read_bytes(self, layer: Layer, part: Tiered, away: float, tokens: float) -> float:
        """Bytes of a layer in `part` that a step of `tokens` reads there at least; `away`: the share of its
        experts beside the GPUs."""
        size = weights.in_bytes(
            weights.layer_params(layer, self.card.hidden, WHOLE), self.card, self.replica.precision, layer
        )
        if part.what == "weights":
            return size.total.low
        if part.what == "layers":
            return size.attention.low + size.dense.low
        ffn = layer.ffn
        assert isinstance(ffn, MoeFfn)
        on_disk = part.share if part.tier == "nvme" else max(away - part.share, 0.0)
        met, missed = met_share(ffn, tokens, away), missed_share(ffn, tokens, on_disk)
        return size.experts.low * (missed if part.tier == "nvme" else max(met - missed, 0.0))


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
