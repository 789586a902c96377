"""What is served while servers start: the routes of the plan before that still lead through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from planner.migration.schema import Serving
from planner.migration.servers import Server
from planner.plans.schema import Plan, Replica


def serving(plans: Sequence[Plan], kept: Sequence[Server]) -> Serving:
    """By the servers that are `kept`, each at the load that it has. Of a prefill/decode pair as much as the
    side with the smaller part left can do; of chains those whose nodes are all left alone."""
    rps, total = 0.0, 0.0
    for number, plan in enumerate(plans):
        own = [server for server in kept if server.plan == number]
        total += plan.predicted.rps.value
        rps += plan.predicted.rps.value * _share(plan, own)
    busy = max((server.replica.utilisation for server in kept), default=0.0)
    return Serving(rps, rps / total if total else 0.0, busy)


def _share(plan: Plan, kept: Sequence[Server]) -> float:
    """Of a plan's requests, those whose way is left."""
    count = Counter(server.replica.id for server in kept)
    left = {r.id: count[r.id] / r.count for r in plan.replicas}
    buckets = plan.problem.workload.get("buckets") or [{"share": 1.0}]
    shares = [float(b.get("share", 1.0)) for b in buckets]
    found = 0.0
    for route in plan.routing:
        way = [left[name] for name in (route.replica, route.prefill, route.decode) if name is not None]
        part = _chained(plan, kept) if route.chains else min(way, default=0.0)
        found += shares[route.bucket] / sum(shares) * route.share * part
    return found


def _chained(plan: Plan, kept: Sequence[Server]) -> float:
    """Share of what passes chains that passes only nodes on which the group's servers are all kept."""
    here = Counter((s.seats[0].gpu[0], s.replica.id) for s in kept)
    each = {r.id: _side_by_side(r) for r in plan.replicas}
    whole = [c for c in plan.chains if all(here[h.node, h.replica] >= each[h.replica] for h in c.hops)]
    return sum(chain.share for chain in whole)


def _side_by_side(r: Replica) -> int:
    """Servers of a group of chains on each of its nodes."""
    return max(r.count // max(len(r.stages[0].nodes), 1), 1)
