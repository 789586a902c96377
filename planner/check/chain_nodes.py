"""Load on the nodes of chains: what each runs and holds at the promised rate, and how soon chains answer.

With X requests/s through chains, a chain of share s, and of the layers that a node holds the part f that a
hop runs (steps: osl - 1, means over buckets):

    busy        sum over hops  s X f (steps decode_s / max_batch + prefill_s)     <= copies on the node
    in flight   sum over hops  s X (lone TTFT + steps TPOT)                       <= copies x max_batch
    KV          the same, each request with its context x bytes of the layers run <= copies x kv_bytes

decode_s / max_batch is a token's time in a full step, so `busy` errs low; a lone TTFT, the prefill_s of its
hops and the links' time, leaves waiting out, so the other two do. A chain's TPOT is at least a step of each
of its hops with as few sequences as its tokens/s allow, and the links' latencies, the way back among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from model_zoo.schema import KV_BYTES, WEIGHT_BYTES, ModelCard
from planner.check import kv
from planner.check.case import Case
from planner.check.chains import copies
from planner.check.roofline import ACTIVATION_BYTES, Floors
from planner.check.violation import MODEL, Violation, at_most
from planner.plans.schema import Chain, Hop, Replica


def violations(case: Case) -> Iterator[Violation]:
    """Everything that nodes of chains cannot do in time or hold, and latencies that no chain can keep."""
    if case.card is None or not case.plan.chains:
        return
    yield from _Loads(case, case.card).violations()


@dataclass(frozen=True)
class Visit:
    """Requests of one chain on one node: `share` of all that take chains, `lone_s` their prefill on the whole
    chain, `run` the group with the layers they use and the copies of one node."""

    share: float
    lone_s: float
    tpot_s: float
    part: float
    run: Replica


class _Loads:
    """Visits by node, and latencies by chain."""

    def __init__(self, case: Case, card: ModelCard) -> None:
        self.case, self.card, self.load = case, card, case.chain_load
        self.on_node: dict[tuple[str, str], list[Visit]] = defaultdict(list)
        for chain in case.plan.chains:
            lone_s = self.lone_s(chain)
            for hop in chain.hops:
                visit = Visit(chain.share, lone_s, chain.tpot_s, self.part(hop), self.run(hop))
                self.on_node[hop.node, hop.replica].append(visit)

    def violations(self) -> Iterator[Violation]:
        """Nodes first, then the chains."""
        for (node, name), visits in self.on_node.items():
            group = self.case.groups[name]
            where = f"node {node}, {name}"
            yield from self._busy(group, visits, where)
            yield from self._batch(group, visits, where)
            yield from self._cache(group, visits, where)
            yield from self._arithmetic(group, visits, where)
        for number, chain in enumerate(self.case.plan.chains):
            yield from self._latency(chain, f"chains[{number}]")

    def part(self, hop: Hop) -> float:
        """Of the layers that its node holds, those that the hop runs."""
        first, end = self.case.groups[hop.replica].stages[0].layers
        return (hop.layers[1] - hop.layers[0]) / (end - first)

    def run(self, hop: Hop) -> Replica:
        """The group as this hop uses it: the copies of one node, holding the layers it runs."""
        group = self.case.groups[hop.replica]
        stage = group.stages[0].model_copy(update={"layers": hop.layers})
        return group.model_copy(update={"count": copies(group), "stages": [stage]})

    def lone_s(self, chain: Chain) -> float:
        """Seconds of a mean prompt through the whole chain without waiting: its hops, and links between."""
        new = self.load.prompt * (1 - self.case.workload.prefix_hit)
        message = new * self.card.hidden * ACTIVATION_BYTES
        total = sum(self.part(hop) * self.case.groups[hop.replica].step.prefill_s for hop in chain.hops)
        for a, b in pairwise(chain.hops):
            link = self.case.link(self.case.class_of(a), self.case.class_of(b))
            total += link.latency_s + message / link.bytes_per_s if link else 0.0
        return total

    def round_s(self, chain: Chain) -> float:
        """Least seconds of one token through the whole chain and back to its first node; 0 where no request
        has a second token."""
        total = 0.0
        if not self.load.decode_tok_per_s:
            return total
        for hop in chain.hops:
            run = self.run(hop)
            used = run.precision
            if {used.weights, used.experts} <= WEIGHT_BYTES.keys() and used.kv in KV_BYTES:
                through = sum(visit.share for visit in self.on_node[hop.node, hop.replica]) / run.count
                floors = Floors(self.case, self.card, run, self.load)
                alone = floors.step_floor_s(1.0)
                total += floors.step_floor_s(max(1.0, through * self.load.decode_tok_per_s * alone))
        for a, b in pairwise([*chain.hops, chain.hops[0]]):
            link = self.case.link(self.case.class_of(a), self.case.class_of(b))
            total += link.latency_s if link else 0.0
        return total

    def _busy(self, group: Replica, visits: list[Visit], where: str) -> Iterator[Violation]:
        """The share of its time that a copy works."""
        token_s = group.step.decode_s / group.max_batch
        request_s = self.load.decode_tok_per_s * token_s + self.load.rps * group.step.prefill_s
        busy = sum(visit.share * visit.part for visit in visits) * request_s / copies(group)
        if not at_most(busy, 1.0, MODEL):
            yield Violation("node_over", where, f"its hops take {busy:.4g} times the time there is")

    def _batch(self, group: Replica, visits: list[Visit], where: str) -> Iterator[Violation]:
        """Requests in flight through the node within the places it has."""
        held = sum(
            v.share * (self.load.rps * v.lone_s + self.load.decode_tok_per_s * v.tpot_s) for v in visits
        )
        room = copies(group) * group.max_batch
        if not at_most(held, room, MODEL):
            text = f"{held:.4g} requests in flight by Little's law, room for {room}"
            yield Violation("batch_over", where, text)

    def _cache(self, group: Replica, visits: list[Visit], where: str) -> Iterator[Violation]:
        """What they hold fits kv_bytes on each GPU, and kv_tokens."""
        needed = sum(self._resident_bytes(visit) for visit in visits) / copies(group)
        room = group.attn_dp * group.memory[0].kv_bytes
        if not at_most(needed, room, MODEL):
            text = f"{needed / 1e9:.4g} GB resident on a GPU by Little's law, {room / 1e9:.4g} GB reserved"
            yield Violation("kv_over", where, text)
            return
        shortest = min(b.isl * (1 - self.case.workload.prefix_hit) for b in self.case.workload.buckets)
        token = kv.sequence_bytes(self.card, group, group.stages[0], shortest) / max(shortest, 1.0)
        if token and not at_most(needed / token, group.kv_tokens, MODEL):
            text = f"{needed / token:,.0f} tokens resident by Little's law, room for {group.kv_tokens:,.0f}"
            yield Violation("kv_over", where, text)

    def _resident_bytes(self, visit: Visit) -> float:
        """Cache on a GPU of the node, over its copies: half a prompt while it is read, then all of it and
        half the answer."""
        total, stage = 0.0, visit.run.stages[0]
        for bucket, rate in self.load.buckets:
            own = bucket.isl * (1 - self.case.workload.prefix_hit)
            reading = visit.lone_s * kv.sequence_bytes(self.card, visit.run, stage, own / 2)
            held = kv.sequence_bytes(self.card, visit.run, stage, own + bucket.osl / 2)
            total += rate * visit.share * (reading + (bucket.osl - 1) * visit.tpot_s * held)
        return total

    def _arithmetic(self, group: Replica, visits: list[Visit], where: str) -> Iterator[Violation]:
        """FLOPs of all its hops within the peak of its GPUs."""
        busy = sum(v.share * Floors(self.case, self.card, v.run, self.load).busy() for v in visits)
        if not at_most(busy, 1.0, MODEL):
            text = f"its hops need {busy:.4g} times the peak FLOP/s of the GPUs of {group.id} there"
            yield Violation("rate_above_roofline", where, text)

    def _latency(self, chain: Chain, where: str) -> Iterator[Violation]:
        """A first token after the prompt has passed all nodes, every other after a step of each."""
        for name, stated_s, floor_s in (
            ("ttft", chain.ttft_s, self.lone_s(chain)),
            ("tpot", chain.tpot_s, self.round_s(chain)),
        ):
            if not at_most(floor_s, stated_s, MODEL):
                text = f"{stated_s:.4g} s, but its hops and links alone take {floor_s:.4g} s"
                yield Violation(f"{name}_below_step", f"{where}.{name}_s", text)
