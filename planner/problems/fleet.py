"""Candidates -> the numbers of `solvers/fleet`: stocks, columns, prefill/decode pairs with their
transfers, budgets; for the plan, or for the bound.

A pair (prefill group, decode group, bucket) exists only where engine and KV precision agree, a path joins
the two classes, and the *pair* keeps the TTFT promise:  TTFT(prefill) + transfer + one decode step. Groups
gather candidates of one class, engine and edge of the promise, whose transfers fall into the same bands, so
pairs stay few.

Transfer: what of it comes after the prompt (`planner/cost/transfer.py`), over the slowest of the sender's
NICs, the receiver's and the link, or over the scale-up domain. Where others use them it takes longer, 1/(1-u)
times at a share u of the time: a pair claims its bytes / u of NICs and links, u the largest of SHARES at
which it is still in time. With one bucket that keeps all in time; what of a mix is late is found by `broken`.

Every approximation is on one of two sides. The *plan's* problem takes the edge at which a column stands,
rounds transfers up and what hides them down: what it finds is sound but for mixes, which are verified. The
*bound's* takes the edge before, rounds transfers down, lets each have NICs and links to itself, and takes
the smallest share that a bucket fills (`Candidate.least`): no fleet is better than its optimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

from cluster_configs.schema import NodeClass, ResolvedCluster, declared_link
from planner.candidates.candidate import Candidate
from planner.candidates.dominance import undominated
from planner.candidates.needs import Counts
from planner.candidates.tangents import Line
from planner.cost.power import idle_watts
from planner.cost.transfer import inside_bytes_per_s, nic_bytes_per_s
from planner.inputs.options import Budget
from planner.problems.feeds import feed_watts, replica_watts
from planner.problems.pairs import Side, Traffic, fast, groups_of, merged, pairs_of, rows, sent_between
from planner.problems.ways import link_name
from planner.replicas.pool import Pool
from solvers.fleet.types import Column, FleetProblem, Goal, Stock, Wait


@dataclass(frozen=True)
class Together:
    """Limits on what all requests of a bucket wait for in the mean, whatever route they take, in place of
    those that every column keeps by itself; and lines under what those at a candidate wait for, by both."""

    limits: Mapping[str, Wait]
    lines: Mapping[str, Mapping[str, tuple[Line, ...]]] = field(default_factory=dict)


def state(
    cluster: ResolvedCluster,
    traffic: Traffic,
    goal: Goal,
    budget: Budget,
    side: Side,
    pool: Pool,
    together: Together | None = None,
) -> FleetProblem:
    """The fleet problem of the pool's candidates on `cluster`: the plan's, or the bound's. `together`: limits
    are of all routes together."""
    nodes = {node.id: node for node in cluster.classes}
    candidates = [c for c in pool.candidates if rows(c, side)]
    groups, member_of = groups_of(candidates, nodes, traffic, side, pool.edges)
    nics, inside = (
        fast(candidates, member_of, nodes, traffic, port) for port in (nic_bytes_per_s, inside_bytes_per_s)
    )
    timed = goal.spends == "latency" or together is not None
    found = pairs_of(groups, cluster, traffic, (nics, inside), side, pool.pairing, timed)
    pairs, into = merged(found.pairs)
    links = found.links
    member_of = {c: into.get(g, g) for c, g in member_of.items()}
    paired = {g for p, d, _ in pairs for g in (p, d)}
    able = [c for c in candidates if c.role == "mixed" or member_of[c.id] in paired]
    counts = replace(Counts.of(goal, budget.watts is not None), waits=together is not None)
    lines = together.lines if together else {}
    sizes = {node.id: node.gpus_per_node for node in cluster.classes}
    columns = {
        c.id: _column(c, member_of.get(c.id), traffic, goal, cluster, side, lines.get(c.id, {}))
        for c in undominated(able, sizes, counts, member_of)
    }
    for a, b in permutations(cluster.classes, 2) if cluster.links else ():
        if link := declared_link(cluster.links, a, b):
            links[link_name(link, a, b)] = link.bytes_per_s
    limits = {k: float(v) for k, v in budget.model_dump().items() if v is not None}
    return FleetProblem(
        columns=columns,
        stocks={n.id: stock(n) for n in cluster.classes},
        share=traffic.share,
        objective=goal,
        demand=traffic.rate_rps,
        pairs=pairs,
        nic=found.nic,
        links=links,
        budget=limits,
        kinds={c.id: c.kind for c in able if c.id in columns},
        feeds=feed_watts(cluster),
        inside=found.inside,
        waits=together.limits if together else {},
    )


def stock(node: NodeClass) -> Stock:
    """A class as bins: domains of several nodes where links join them (NVL72)."""
    span = min(node.domain_nodes, node.node_count)
    rest = idle_watts(node.device.tdp_watts)
    return Stock(node.node_count, node.gpus_per_node, node.price_usd_per_hour, span, rest, node.box)


def _column(
    c: Candidate,
    group: str | None,
    traffic: Traffic,
    goal: Goal,
    cluster: ResolvedCluster,
    side: Side,
    waits: Mapping[str, tuple[Line, ...]],
) -> Column:
    late: dict[str, float] = {}
    if goal.spends == "latency":
        for w, ttft in c.ttft_s.items():
            first = ttft if c.role != "decode" else c.tpot_s * c.emitted
            late[w] = first + ((traffic.osl[w] - 1) * c.tpot_s if c.role != "prefill" else 0.0)
    blocks = c.blocks if len(c.blocks) > 1 else ()
    sent = sent_between(c, cluster) if blocks else {}
    watts = c.watts
    if goal.spends == "latency":  # whose lines are seconds: watts at next to no load, until a fleet is known
        nodes = {n.id: n for n in cluster.classes}
        watts = min(watts, sum(k * idle_watts(nodes[g].device.tdp_watts) for g, k in c.blocks))
    return Column(
        *(c.blocks[0][0], c.gpus, rows(c, side), watts, late, group, c.joined),
        blocks=blocks,
        sent=sent,
        tangents=c.tangents if goal.spends in ("watts", "latency") or side == "bound" else (),
        feeds=replica_watts(c, cluster),
        waits=waits,
    )
