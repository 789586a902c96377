"""Chains: nodes that each hold a layer interval, passed so that every layer runs once, in order.

A group of role "chain" is all nodes of a class that hold the same interval. A chain names one node a hop and
the layers it runs there; consecutive nodes lie in one zone or are joined by a declared link. A node with
GPUs enough may hold several intervals, and a chain pass it once for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from planner.check.case import Case
from planner.check.violation import EXACT, Violation, same
from planner.plans.schema import Chain, Hop, Replica


def violations(case: Case) -> Iterator[Violation]:
    """Everything wrong with the shape of chains, and with the groups that only chains use."""
    for index, replica in enumerate(case.plan.replicas):
        if replica.role == "chain":
            yield from _group(case, replica, f"replicas[{index}]")
    yield from _nodes(case)
    routed = any(route.chains for route in case.plan.routing)
    if routed and not case.plan.chains:
        yield Violation("no_chains", "chains", "requests are routed to chains, but there are none")
    if not case.plan.chains:
        return
    if not routed:
        yield Violation("chains_unused", "routing", "no route sends requests to the chains")
    total = sum(chain.share for chain in case.plan.chains)
    if not same(total, 1.0, EXACT):
        yield Violation("chain_shares", "chains", f"shares of the chains add up to {total:.7g}, not 1")
    for number, chain in enumerate(case.plan.chains):
        yield from _chain(case, chain, f"chains[{number}]")


def copies(replica: Replica) -> int:
    """Replicas of a chain group that stand side by side on each of its nodes."""
    return replica.count // len(replica.stages[0].nodes)


def _group(case: Case, replica: Replica, where: str) -> Iterator[Violation]:
    """One stage inside a node, as often on each node as fits."""
    if len(replica.stages) != 1:
        text = f"{len(replica.stages)} stages; a group of chains has one, its nodes' interval"
        yield Violation("chain_stages", f"{where}.stages", text)
        return
    stage = replica.stages[0]
    known = case.classes.get(stage.node_class)
    if known is None or not stage.nodes:
        return
    fitting = known.gpus_per_node // stage.gpus
    each, rest = divmod(replica.count, len(stage.nodes))
    if rest or not 1 <= each <= fitting:
        text = f"{replica.count} on {len(stage.nodes)} nodes that have room for {fitting} each"
        yield Violation("chain_count", f"{where}.count", text)


def _nodes(case: Case) -> Iterator[Violation]:
    """No node gives chains more GPUs than it has. (`packing` counts classes, where nodes may be swapped;
    here every node is named.)"""
    taken: Counter[tuple[str, str]] = Counter()
    for replica in case.plan.replicas:
        if replica.role == "chain" and len(replica.stages) == 1 and replica.stages[0].nodes:
            stage = replica.stages[0]
            for node in stage.nodes:
                taken[stage.node_class, node] += max(copies(replica), 1) * stage.gpus
    for (name, node), gpus in taken.items():
        known = case.classes.get(name)
        if known is not None and gpus > known.gpus_per_node:
            text = f"chains take {gpus} GPUs of {node}, which has {known.gpus_per_node}"
            yield Violation("gpus_double_booked", f"node {node}", text)
            return


def _chain(case: Case, chain: Chain, where: str) -> Iterator[Violation]:
    """Hops on nodes that hold their layers, in order; consecutive ones joined."""
    broken = [v for i, hop in enumerate(chain.hops) for v in _hop(case, hop, f"{where}.hops[{i}]")]
    yield from broken
    visits = Counter((hop.node, hop.replica) for hop in chain.hops)
    if twice := [end for end, times in visits.items() if times > 1]:
        text = f"{twice[0][0]} is passed twice with what it holds as {twice[0][1]}"
        yield Violation("node_twice", f"{where}.hops", text)
    yield from _covered(case, chain, where)
    if not broken:
        yield from _joined(case, chain, where)


def _hop(case: Case, hop: Hop, where: str) -> Iterator[Violation]:
    """Its layers lie inside the interval of a chain group that its node belongs to."""
    group = case.groups.get(hop.replica)
    if group is None:
        yield Violation("unknown_replica", f"{where}.replica", f"there is no group {hop.replica}")
        return
    if group.role != "chain":
        yield Violation("wrong_role", f"{where}.replica", f"{hop.replica} is {group.role}, not chain")
        return
    if len(group.stages) != 1 or group.stages[0].node_class not in case.classes:
        yield Violation("chain_stages", f"{where}.replica", f"{hop.replica} is no interval of a known class")
        return
    stage = group.stages[0]
    if hop.node not in stage.nodes:
        yield Violation("hop_elsewhere", f"{where}.node", f"{hop.node} is no node of {hop.replica}")
    if hop.layers[0] < stage.layers[0] or hop.layers[1] > stage.layers[1]:
        text = f"runs {list(hop.layers)}, {hop.replica} holds {list(stage.layers)}"
        yield Violation("hop_outside", f"{where}.layers", text)


def _covered(case: Case, chain: Chain, where: str) -> Iterator[Violation]:
    """The hops run [0, a), [a, b), … up to the last layer; none empty."""
    expected = 0
    for number, hop in enumerate(chain.hops):
        place = f"{where}.hops[{number}].layers"
        first, end = hop.layers
        if first != expected:
            kind = "chain_gap" if first > expected else "chain_overlap"
            yield Violation(kind, place, f"starts at layer {first}, expected {expected}")
        if end <= first:
            yield Violation("hop_empty", place, f"[{first}, {end}) runs no layer")
        expected = end
    if case.card is None:
        text = "the plan embeds no model whose layers could be counted"
        yield Violation("chain_without_model", where, text)
    elif expected != len(case.card.stack):
        text = f"ends at layer {expected}, {case.card.name} has {len(case.card.stack)}"
        yield Violation("chain_not_covered", f"{where}.hops", text)


def _joined(case: Case, chain: Chain, where: str) -> Iterator[Violation]:
    """From each node the next can be reached: in one zone, or over a declared link."""
    for number, (first, second) in enumerate(pairwise(chain.hops)):
        a, b = case.class_of(first), case.class_of(second)
        if a.zone != b.zone and case.link(a, b) is None:
            text = f"from {first.node} in zone {a.zone} to {second.node} in {b.zone}, which no link joins"
            yield Violation("no_link", f"{where}.hops[{number + 1}]", text)
            return
