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
from functools import cached_property
from itertools import pairwise

from model_zoo.schema import ModelCard
from planner.check import kv, weights
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


class _Run:
    """A group as hops with the same layers use it: the copies of one node, with only the layers they run."""

    def __init__(self, case: Case, card: ModelCard, group: Replica, layers: tuple[int, int]) -> None:
        stage = group.stages[0].model_copy(update={"layers": layers})
        self.card, self.load, self.hit = card, case.chain_load, case.workload.prefix_hit
        self.replica = group.model_copy(update={"count": copies(group), "stages": [stage]})
        self.floors = Floors(case, card, self.replica, self.load)
        first, end = group.stages[0].layers
        self.part = (layers[1] - layers[0]) / (end - first)

    @cached_property
    def busy(self) -> float:
        """Least busy share of the GPUs if all requests came here."""
        return self.floors.busy()

    @cached_property
    def cache_bytes(self) -> list[tuple[float, float, float]]:
        """For each bucket the requests/s, and bytes on a GPU of one request: half a prompt while it is read;
        then all of it and half the answer, times the tokens of the answer."""
        found = []
        for bucket, rate in self.load.buckets:
            own, stage = bucket.isl * (1 - self.hit), self.replica.stages[0]
            reading = kv.sequence_bytes(self.card, self.replica, stage, own / 2)
            held = kv.sequence_bytes(self.card, self.replica, stage, own + bucket.osl / 2)
            found.append((rate, reading, (bucket.osl - 1) * held))
        return found

    def step_s(self, share: float) -> float:
        """Least seconds of a step where `share` of all tokens come here: a node that is busy for T of every
        second has at least as many sequences in a step as tokens arrive in T."""
        if not weights.known(self.replica.precision):
            return 0.0
        tokens = share * self.load.decode_tok_per_s / self.replica.count
        return self.floors.step_floor_s(max(1.0, tokens * self.floors.step_floor_s(1.0)))


@dataclass(frozen=True)
class _Visit:
    """Requests of one chain on one node: `share` of all that take chains, `lone_s` their prefill on the whole
    chain."""

    share: float
    lone_s: float
    tpot_s: float
    run: _Run


class _Loads:
    """Visits by node, and latencies by chain."""

    def __init__(self, case: Case, card: ModelCard) -> None:
        self.case, self.card, self.load = case, card, case.chain_load
        hops = [hop for chain in case.plan.chains for hop in chain.hops]
        kinds = {(hop.replica, hop.layers) for hop in hops}
        self.runs = {kind: _Run(case, card, case.groups[kind[0]], kind[1]) for kind in sorted(kinds)}
        self.on_node: dict[tuple[str, str], list[_Visit]] = defaultdict(list)
        self.share: dict[Hop, float] = defaultdict(float)
        for chain in case.plan.chains:
            lone_s = self.lone_s(chain)
            for hop in chain.hops:
                visit = _Visit(chain.share, lone_s, chain.tpot_s, self.run(hop))
                self.on_node[hop.node, hop.replica].append(visit)
                self.share[hop] += chain.share
        self.step_s = {hop: self.run(hop).step_s(share) for hop, share in self.share.items() if self.decodes}

    @property
    def decodes(self) -> bool:
        """Whether some request has a second token."""
        return self.load.decode_tok_per_s > 0

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

    def run(self, hop: Hop) -> _Run:
        """What a hop uses of its node."""
        return self.runs[hop.replica, hop.layers]

    def lone_s(self, chain: Chain) -> float:
        """Seconds of a mean prompt through the whole chain without waiting: its hops, and links between."""
        new = self.load.prompt * (1 - self.case.workload.prefix_hit)
        message = new * self.card.hidden * ACTIVATION_BYTES
        total = sum(self.run(hop).part * self.case.groups[hop.replica].step.prefill_s for hop in chain.hops)
        for a, b in pairwise(chain.hops):
            link = self.case.link(self.case.class_of(a), self.case.class_of(b))
            total += link.latency_s + message / link.bytes_per_s if link else 0.0
        return total

    def round_s(self, chain: Chain) -> float:
        """Least seconds of one token through the whole chain and back to its first node; 0 where no request
        has a second token."""
        if not self.decodes:
            return 0.0
        total = sum(self.step_s[hop] for hop in chain.hops)
        for a, b in pairwise([*chain.hops, chain.hops[0]]):
            link = self.case.link(self.case.class_of(a), self.case.class_of(b))
            total += link.latency_s if link else 0.0
        return total

    def _busy(self, group: Replica, visits: list[_Visit], where: str) -> Iterator[Violation]:
        """The share of its time that a copy works."""
        token_s = group.step.decode_s / group.max_batch
        request_s = self.load.decode_tok_per_s * token_s + self.load.rps * group.step.prefill_s
        busy = sum(visit.share * visit.run.part for visit in visits) * request_s / copies(group)
        if not at_most(busy, 1.0, MODEL):
            yield Violation("node_over", where, f"its hops take {busy:.4g} times the time there is")

    def _batch(self, group: Replica, visits: list[_Visit], where: str) -> Iterator[Violation]:
        """Requests in flight through the node within the places it has."""
        held = sum(
            v.share * (self.load.rps * v.lone_s + self.load.decode_tok_per_s * v.tpot_s) for v in visits
        )
        room = copies(group) * group.max_batch
        if not at_most(held, room, MODEL):
            text = f"{held:.4g} requests in flight by Little's law, room for {room}"
            yield Violation("batch_over", where, text)

    def _cache(self, group: Replica, visits: list[_Visit], where: str) -> Iterator[Violation]:
        """The cache of its requests fits kv_bytes on each GPU, and kv_tokens."""
        needed = sum(self._resident_bytes(visit) for visit in visits) / copies(group)
        room = group.attn_dp * group.memory[0].kv_bytes
        if not at_most(needed, room, MODEL):
            text = f"{needed / 1e9:.4g} GB resident on a GPU by Little's law, {room / 1e9:.4g} GB reserved"
            yield Violation("kv_over", where, text)
            return
        shortest = max(
            min(b.isl * (1 - self.case.workload.prefix_hit) for b in self.case.workload.buckets), 1.0
        )
        token = kv.sequence_bytes(self.card, group, group.stages[0], shortest) / shortest
        if token and not at_most(needed / token, group.kv_tokens, MODEL):
            text = f"{needed / token:,.0f} tokens resident by Little's law, room for {group.kv_tokens:,.0f}"
            yield Violation("kv_over", where, text)

    def _resident_bytes(self, visit: _Visit) -> float:
        """Cache on a GPU of the node, over its copies."""
        return visit.share * sum(
            rate * (visit.lone_s * reading + visit.tpot_s * held)
            for rate, reading, held in visit.run.cache_bytes
        )

    def _arithmetic(self, group: Replica, visits: list[_Visit], where: str) -> Iterator[Violation]:
        """FLOPs of all its hops within what its GPUs reach."""
        busy = sum(visit.share * visit.run.busy for visit in visits)
        if not at_most(busy, 1.0, MODEL):
            text = f"its hops need {busy:.4g} times the FLOP/s that the GPUs of {group.id} reach there"
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
