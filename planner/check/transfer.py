"""What crosses the network: KV caches from prefill to decode, activations between stages; within NICs and
links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from cluster_configs.schema import ClusterLink, NodeClass
from planner.check import kv
from planner.check.case import Case, Load
from planner.check.roofline import ACTIVATION_BYTES
from planner.check.violation import GB, MODEL, Violation, at_most
from planner.plans.schema import Replica, Route

THROUGH_HOST = 0.37 * GB
"""Bytes/s of KV caches of one GPU over TCP: what engines fall back to where neither GPUs of a node read each
other's memory nor RDMA NICs do. Measured 0.28 to 0.5 (vllm issue 52607, ucx-py issue 370, vLLM's blog)."""


@dataclass
class Flows:
    """Bytes/s: out of and into the NICs of each group, to others inside its node, and from class to class (by
    id)."""

    sent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    received: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    inside: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    between: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with the flows."""
    flows = Flows()
    yield from _gathered(case, flows)
    yield from over_links(case, flows.between)


def between(case: Case) -> Mapping[tuple[str, str], float]:
    """Bytes/s from class to class (by id)."""
    flows = Flows()
    for _ in _gathered(case, flows):
        pass
    return flows.between


def _gathered(case: Case, flows: Flows) -> Iterator[Violation]:
    """Adds up all flows; what is wrong with them but for the links between classes."""
    for number, route in enumerate(case.plan.routing):
        if route.prefill is not None and route.decode is not None:
            yield from _pair(case, route, flows, f"routing[{number}].kv_gb_per_s")
    for name, flow in flows.sent.items():
        yield from _ports(case, name, flow, "sends")
    for name, flow in flows.received.items():
        yield from _ports(case, name, flow, "receives")
    for name, flow in flows.inside.items():
        yield from _inside(case, name, flow)
    yield from _stages(case, flows)
    yield from _hops(case, flows)


def _pair(case: Case, route: Route, flows: Flows, where: str) -> Iterator[Violation]:
    """Adds the flow of one prefill-decode route; it must state at least what its prompts weigh."""
    prefill, decode = case.groups[str(route.prefill)], case.groups[str(route.decode)]
    own, stated = own_bytes_per_s(case, route, prefill, decode), (route.kv_gb_per_s or 0.0) * GB
    if not at_most(own, stated, MODEL):
        text = f"{stated / GB:.4g} GB/s stated, its requests bring {own / GB:.4g} GB/s"
        yield Violation("kv_flow_understated", where, text)
    flow = max(own, stated)
    for source, target, share in _crossings(case, prefill, decode):
        flows.between[source.id, target.id] += share * flow
        if source.id == target.id and one_domain(source) and not _loops_over_nics(source):
            flows.inside[prefill.id] += share * flow
            flows.inside[decode.id] += share * flow
        else:
            flows.sent[prefill.id] += share * flow
            flows.received[decode.id] += share * flow


def own_bytes_per_s(case: Case, route: Route, prefill: Replica, decode: Replica) -> float:
    """Bytes/s that the route's prompts bring, less what the prefix cache may hold at both ends: every copy
    that ranks of the decode replica keep (a latent on all, a head on several) is fetched."""
    if case.card is None:
        return 0.0
    new_tokens = case.workload.buckets[route.bucket].isl * (1 - case.workload.prefix_hit)
    one = kv.prompt_bytes(case.card, prefill.precision.kv, new_tokens)
    ranks = [(stage, stage.tp * decode.cp) for stage in decode.stages if stage.tp]
    kept = sum(n * kv.sequence_bytes(case.card, decode, stage, new_tokens) for stage, n in ranks)
    return case.route_rps(route) * (max(one, kept) if _alike(case, decode) else one)


def _alike(case: Case, replica: Replica) -> bool:
    """Whether all stages divide their cache over their ranks in the same, known way."""
    return not case.measured(replica) and len({(stage.tp, stage.device) for stage in replica.stages}) == 1


def one_domain(node_class: NodeClass) -> bool:
    """Whether scale-up links join all GPUs of the class, so that nothing inside it needs a NIC."""
    return node_class.gpus <= max(node_class.scale_up_gpus, node_class.gpus_per_node)


def _crossings(case: Case, prefill: Replica, decode: Replica) -> Iterator[tuple[NodeClass, NodeClass, float]]:
    """Classes that a flow goes between, with its share: from stage to stage, in proportion to the layers
    they have in common."""
    layers = prefill.stages[-1].layers[1]
    for source in prefill.stages:
        for target in decode.stages:
            first, end = max(source.layers[0], target.layers[0]), min(source.layers[1], target.layers[1])
            if end > first:
                classes = case.classes[source.node_class], case.classes[target.node_class]
                yield *classes, (end - first) / layers


def _ports(case: Case, name: str, flow: float, word: str) -> Iterator[Violation]:
    """A group cannot send or receive faster than the NICs of its GPUs."""
    group = case.groups[name]
    nics = sum(_cache_nic(case.classes[stage.node_class]) * stage.gpus for stage in group.stages)
    ports = group.count * nics
    if not at_most(flow, ports, MODEL):
        text = f"{name} {word} {flow / GB:.4g} GB/s of KV cache over NICs of {ports / GB:.4g} GB/s"
        yield Violation("nic_over", f"replicas.{name}", text)


def _inside(case: Case, name: str, flow: float) -> Iterator[Violation]:
    """Nor faster than the links, or copies through the host, inside its nodes."""
    group, most = case.groups[name], 0.0
    for stage in group.stages:
        node = case.classes[stage.node_class]
        rate = node.intra_bytes_per_s if node.peer_to_peer else min(node.intra_bytes_per_s, THROUGH_HOST)
        most += group.count * stage.gpus * rate
    if not at_most(flow, most, MODEL):
        text = f"{name} moves {flow / GB:.4g} GB/s of KV cache inside its nodes, which carry {most / GB:.4g}"
        yield Violation("inside_over", f"replicas.{name}", text)


def _cache_nic(node: NodeClass) -> float:
    """Bytes/s of a GPU's caches over its NICs: over plain Ethernet, or where a driver keeps NICs out of GPU
    memory, through the host. What joins unlike GPUs of one node is their PCIe."""
    free = node.peer_to_peer if node.box else _has_rdma(node)
    return node.nic_bytes_per_s if free else min(node.nic_bytes_per_s, THROUGH_HOST)


def _has_rdma(node: NodeClass) -> bool:
    return node.nic in ("infiniband", "roce") and node.device.peer_to_peer is not False


def _loops_over_nics(node: NodeClass) -> bool:
    """Whether even caches that stay inside a node go over its NICs."""
    return not node.peer_to_peer and _has_rdma(node)


def _activations(case: Case, load: Load, role: str = "mixed") -> float:
    """Bytes/s of hidden states from one stage to the next: of each new prompt token and each step's token."""
    if case.card is None:
        return 0.0
    prompts = 0.0 if role == "decode" else load.rps * load.prompt * (1 - case.workload.prefix_hit)
    answers = 0.0 if role == "prefill" else load.decode_tok_per_s
    return (prompts + answers) * case.card.hidden * ACTIVATION_BYTES


def _stages(case: Case, flows: Flows) -> Iterator[Violation]:
    """Adds the activations that pass from stage to stage of other classes. They take the NICs of both."""
    for name, group in case.groups.items():
        flow = _activations(case, case.loads[name], group.role)
        for number, (first, second) in enumerate(pairwise(group.stages)):
            if first.node_class == second.node_class:
                continue
            flows.between[first.node_class, second.node_class] += flow
            for stage in (first, second):
                ports = group.count * stage.gpus * case.classes[stage.node_class].nic_bytes_per_s
                where = f"replicas.{name}.stages[{number}]"
                yield from _activation_ports(flow, ports, where, f"NICs of {stage.node_class}")


def _hops(case: Case, flows: Flows) -> Iterator[Violation]:
    """Adds the activations that pass from node to node of the chains, within each node's NICs."""
    flow = _activations(case, case.chain_load)
    ends: dict[tuple[str, str, str], float] = defaultdict(float)
    for chain in case.plan.chains:
        for first, second in pairwise(chain.hops):
            a, b = case.class_of(first), case.class_of(second)
            flows.between[a.id, b.id] += chain.share * flow
            if first.node != second.node and not (a.id == b.id and one_domain(a)):
                ends[a.id, first.node, "out of"] += chain.share * flow
                ends[b.id, second.node, "into"] += chain.share * flow
    for (name, node, way), own in ends.items():
        ports = case.classes[name].nic_bytes_per_s * case.classes[name].gpus_per_node
        yield from _activation_ports(own, ports, f"node {node}", f"NICs {way} {node}")


def _activation_ports(flow: float, ports: float, where: str, what: str) -> Iterator[Violation]:
    if not at_most(flow, ports, MODEL):
        text = f"{flow / GB:.4g} GB/s of activations over {what} of {ports / GB:.4g} GB/s"
        yield Violation("nic_over", where, text)


def over_links(case: Case, between: Mapping[tuple[str, str], float]) -> Iterator[Violation]:
    """All flows over one link together within it, each direction. Between zones there must be a link."""
    load: dict[tuple[ClusterLink, str], float] = defaultdict(float)
    for (source, target), flow in between.items():
        a, b = case.classes[source], case.classes[target]
        link = case.link(a, b)
        if link is not None:
            load[link, "up" if (a.zone, a.id) <= (b.zone, b.id) else "down"] += flow
        elif a.zone != b.zone and flow:
            text = f"{flow / GB:.4g} GB/s from zone {a.zone} to {b.zone}, which no link joins"
            yield Violation("no_link", "problem.cluster.links", text)
    for (link, _), flow in load.items():
        if not at_most(flow, link.bytes_per_s, MODEL):
            name, limit = " - ".join(link.between), link.bytes_per_s / GB
            text = f"{flow / GB:.4g} GB/s over the link {name} of {limit:.4g} GB/s"
            yield Violation("link_over", "problem.cluster.links", text)
