"""Replay of a Plan's chains, from the Plan alone.

Each copy of a group on a node is one server with `max_batch` places and `kv_tokens` of cache, in which a
request counts with its prompt and half of its answer, as the plan counts them. Seconds:

- Of a pass: `step.engine_s`, once. The layers' own `step.decode_s - step.engine_s` is for `max_batch` tokens;
  for fewer it is scaled by what `planner.cost` says of the node's class, so the plan's level is kept and only
  the ratio is ours. Weights' bytes over bandwidth would do where a step is all reading; kernels of T4 or L4
  at hundreds of sequences are not. `step.prefill_s` is scaled to each bucket's prompt alike.
- Of a message: between zones the declared link, shared by all nodes, each direction on its own; within a zone
  the sender's NIC; within a node its scale-up links. Slower ends slow a message down. Latency is the declared
  one, and the NICs' or links' own. From the last node a token returns to the first, which takes the declared
  latency between those two.

`in_flight` is the plan's own by Little's law: rate x (TTFT + steps x TPOT). The first so many requests are
met at an even spread of places in their answers, for a start that is not in step; a lifetime is cut as
warm-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from benchmarks.replays import chain_net
from benchmarks.replays.chains import replay
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, ClusterLink, Device, NodeClass, ResolvedCluster, declared_link
from model_zoo.schema import ModelCard
from planner.cost.attention import Load
from planner.cost.layers import ACTIVATION_BYTES
from planner.cost.model import CostModel
from planner.cost.reserve import counted_tokens_per_step
from planner.designs.precision import served
from planner.designs.shape import Floats, like
from planner.errors import InputError
from planner.inputs.workload import Bucket, Workload
from planner.operating.requests import computed
from planner.plans.schema import Chain, Hop, Plan, Replica
from planner.simulate.requests import Requests

KERNELS = "vllm"
"""Whose kernels nodes are taken to have, as in `planner/problems/chains.py`."""

PAUSE_S = 0.1
"""From a request's end to the next one's entry, as in Helix's simulator. A prompt sent at once travels with
the tokens that came back with the last one, and holds up all of them on every node: up to a quarter fewer
tokens/s, `python -m benchmarks.chain_replay`."""

MORE = 10
"""Times more requests than a replay as fast as predicted would take: a faster one does not run out."""


@dataclass(frozen=True)
class Promised:
    """What the plan says of the requests that take chains; mean over chains by share."""

    rps: float
    decode_tok_per_s: float
    ttft_s: float
    tpot_s: float
    steps: float  # mean osl - 1

    @property
    def lifetime_s(self) -> float:
        return self.ttft_s + self.steps * self.tpot_s

    @property
    def in_flight(self) -> int:
        return max(1, round(self.rps * self.lifetime_s))


def replay_plan(
    plan: Plan, together: bool = False, pause_s: float = PAUSE_S, lifetimes: float = 4.0, seed: int = 0
) -> chain_net.Result:
    """Replay the plan's chains for so many mean lifetimes of a request after the warm-up. `together`,
    `pause_s`: those of `chain_net.Net`."""
    case = Case(plan)
    said = case.promised
    count = int(MORE * said.in_flight * (1 + lifetimes))
    requests, held = case.drawn(count, said.in_flight, np.random.default_rng(seed))
    window = (said.lifetime_s, (1 + lifetimes) * said.lifetime_s)
    net = replace(case.net, together=together, pause_s=pause_s)
    return replay(net, requests, held, said.in_flight, window)


class Case:
    """A plan's chains opened up."""

    def __init__(self, plan: Plan) -> None:
        if not plan.chains or not plan.problem.model:
            raise InputError("the plan has no chains, or no model", "plan", "plan with `--engine chains`")
        problem = plan.problem
        devices = {name: Device.model_validate(form) for name, form in problem.devices.items()}
        self.plan, self.groups = plan, {replica.id: replica for replica in plan.replicas}
        self.cluster: ResolvedCluster = resolve(Cluster.model_validate(problem.cluster), devices=devices)
        self.classes = {node.id: node for node in self.cluster.classes}
        self.card = ModelCard.model_validate(problem.model)
        self.workload = Workload.model_validate(problem.workload)

    @cached_property
    def buckets(self) -> list[tuple[Bucket, float]]:
        """Requests/s of each bucket that take chains."""
        rps, buckets, shares = self.plan.predicted.rps.value, self.workload.buckets, self.workload.shares
        routes = [route for route in self.plan.routing if route.chains]
        return [(buckets[r.bucket], rps * shares[r.bucket] * r.share) for r in routes]

    @cached_property
    def promised(self) -> Promised:
        rps = sum(rate for _, rate in self.buckets)
        tokens = sum(rate * (bucket.osl - 1) for bucket, rate in self.buckets)
        ttft_s = sum(chain.share * chain.ttft_s for chain in self.plan.chains)
        tpot_s = sum(chain.share * chain.tpot_s for chain in self.plan.chains)
        return Promised(rps, tokens, ttft_s, tpot_s, tokens / rps)

    def new(self, isl: Floats) -> Floats:
        """Prompt tokens that are computed on average."""
        return computed(isl, isl * self.workload.prefix_hit)

    def drawn(self, count: int, in_flight: int, rng: np.random.Generator) -> tuple[Requests, Floats]:
        """Requests by the buckets' shares, and the cache each counts for."""
        rates = np.array([rate for _, rate in self.buckets])
        kind = rng.choice(len(rates), count, p=rates / rates.sum())
        isl = np.array([bucket.isl for bucket, _ in self.buckets], dtype=float)[kind]
        osl = np.array([bucket.osl for bucket, _ in self.buckets], dtype=float)[kind]
        held = isl + osl / 2
        osl[:in_flight] = np.ceil(osl[:in_flight] * rng.permutation(np.arange(1, in_flight + 1)) / in_flight)
        return Requests(np.zeros(count), isl, osl, self.new(isl)), held

    @cached_property
    def net(self) -> chain_net.Net:
        """Nodes, wires and chains."""
        visits = dict.fromkeys((hop.node, hop.replica) for chain in self.plan.chains for hop in chain.hops)
        index = {visit: i for i, visit in enumerate(visits)}
        wires = _Wires(self)
        chains = [
            chain_net.Chain(
                share=chain.share,
                hops=[chain_net.Hop(index[hop.node, hop.replica], self._on_node(hop)) for hop in chain.hops],
                legs=[wires.leg(a, b) for a, b in pairwise(chain.hops)],
                back_s=wires.back_s(chain),
            )
            for chain in self.plan.chains
        ]
        nodes = [self._node(node, self.groups[group]) for node, group in visits]
        return chain_net.Net(nodes, list(wires.names), chains, ACTIVATION_BYTES * self.card.hidden)

    def _on_node(self, hop: Hop) -> tuple[int, int]:
        first = self.groups[hop.replica].stages[0].layers[0]
        return hop.layers[0] - first, hop.layers[1] - first

    def _node(self, name: str, group: Replica) -> chain_net.Node:
        stage, step = group.stages[0], group.step
        layers = stage.layers[1] - stage.layers[0]
        batch, decode, tokens, prompt = self._curves[group.id]
        decode_s = max(step.decode_s - step.engine_s, 0.0) / layers * decode
        prompt_s = max(step.prefill_s - step.engine_s, 0.0) / layers * prompt
        return chain_net.Node(
            name=f"{name}/{group.id}",
            layers=layers,
            decode=list(zip(batch.tolist(), decode_s.tolist(), strict=True)),
            prompt=list(zip(tokens.tolist(), prompt_s.tolist(), strict=True)),
            pass_s=step.engine_s,
            places=group.max_batch,
            kv_tokens=group.kv_tokens,
            prompt_tokens=counted_tokens_per_step(KERNELS, [self.node_class(group).device]),
            copies=group.count // len(stage.nodes),
        )

    @cached_property
    def _curves(self) -> Mapping[str, tuple[Floats, Floats, Floats, Floats]]:
        """Of each group: batches and their seconds over those of `max_batch`; prompt lengths and their
        seconds over the mean prompt's."""
        rates = np.array([rate for _, rate in self.buckets])
        isl = np.array([bucket.isl for bucket, _ in self.buckets], dtype=float)
        steps = rates * np.array([bucket.osl - 1 for bucket, _ in self.buckets])
        half = np.array([bucket.osl / 2 for bucket, _ in self.buckets])
        context = (
            float(steps @ (isl + half) / steps.sum()) if steps.any() else float(rates @ isl / rates.sum())
        )
        new, found = self.new(isl), {}
        for group in self.plan.replicas:
            if group.role != "chain":
                continue
            batch = np.unique([*2.0 ** np.arange(np.log2(group.max_batch)), group.max_batch])
            none = np.zeros(len(batch))
            decode = self._layers_s(group, Load(batch, none + context, none, none))
            prompt = self._layers_s(group, Load(0 * new, 0 * new, new, isl - new + new / 2))
            mean = float(rates @ prompt / rates.sum())
            lengths, at = np.unique(new, return_index=True)
            found[group.id] = batch, decode / decode[-1], lengths, prompt[at] / mean
        return found

    def _layers_s(self, group: Replica, load: Load) -> Floats:
        """Seconds of all layers that a node of the group holds."""
        model, (first, end) = self.model(group), group.stages[0].layers
        designs = like(len(load.sequences), group.stages[0].tp)
        kinds, seen = self.card.kinds
        counts = np.bincount(np.asarray(seen[first:end]), minlength=len(kinds))
        used = [(kind, n) for kind, n in zip(kinds, counts, strict=True) if n]
        return np.asarray(sum(n * model.layers.layer_s(kind, load, designs) for kind, n in used))

    def node_class(self, group: Replica) -> NodeClass:
        return self.classes[group.stages[0].node_class]

    def model(self, group: Replica) -> CostModel:
        """The cost model of the group's class."""
        used = group.precision
        precisions = served(self.card, used.weights, used.experts, used.kv)
        return CostModel(self.card, self.node_class(group), KERNELS, precisions)


class _Wires:
    """Wires by name, found as chains are followed."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.names: dict[str, int] = {}

    def leg(self, a: Hop, b: Hop) -> chain_net.Leg:
        """From one hop to the next."""
        one, two = self.case.groups[a.replica], self.case.groups[b.replica]
        first, second = self.case.node_class(one), self.case.node_class(two)
        links = [self.case.model(group).links for group in (one, two)]
        near = np.array([1])
        if a.node == b.node and first.scale_up_gpus >= first.gpus_per_node:
            start = float(links[0].hop_s(np.zeros(1), near)[0])
            gigabyte_s = float(links[0].hop_s(np.array([1e9]), near)[0]) - start
            return chain_net.Leg(self._wire(a.node), 1e9 / gigabyte_s, start)
        wait_s = max(float(each.hop_s(np.zeros(1), near + each.domain)[0]) for each in links)
        nic = min(first.nic_bytes_per_s, second.nic_bytes_per_s)
        link = self._link(first, second)
        if link is None:
            return chain_net.Leg(self._wire(f"{a.node} NIC"), nic, wait_s)
        wire = self._wire(" to ".join(link.between if _up(first, second) else reversed(link.between)))
        return chain_net.Leg(wire, min(nic, link.bytes_per_s), link.latency_s + wait_s)

    def back_s(self, chain: Chain) -> float:
        """From the last node of a chain to the first."""
        last, first = (self.case.node_class(self.case.groups[chain.hops[i].replica]) for i in (-1, 0))
        link = self._link(last, first)
        return link.latency_s if link else 0.0

    def _wire(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _link(self, a: NodeClass, b: NodeClass) -> ClusterLink | None:
        """The declared link of two classes."""
        return declared_link(self.case.cluster.links, a, b)


def _up(a: NodeClass, b: NodeClass) -> bool:
    """The one of a link's two directions in which names rise."""
    return (a.zone, a.id) < (b.zone, b.id)
