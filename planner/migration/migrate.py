"""From one plan to another: which servers go on, what GPUs have to load and from where, how long that takes
at least, and what is served meanwhile."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from planner.migration.loading import Bits, Loading, Stock, reloaded
from planner.migration.matching import matched
from planner.migration.schema import Migration, Servers, Serving, Sources
from planner.migration.servers import Domain, Machines, Server, held
from planner.plans.schema import Plan


def migration(before: Sequence[Plan], after: Sequence[Plan]) -> Migration:
    """From plans that run side by side to others; of one model each is one plan. Nodes are the same where
    their names and GPUs are. Raises InputError where a plan does not say what stands where."""
    old, new = held(before), held(after)
    there, here = Machines(before[0]), Machines(after[0])
    for machines, one in ((there, old), (here, new)):
        machines.refuse([seat.gpu[0] for s in one.servers for seat in s.seats])
    stock = Stock({**old.shares, **new.shares})
    same = _same(there, here, [*old.servers, *new.servers])
    pairs = matched(old.servers, new.servers, same, stock.missing)
    loading = Loading(stock, here, _holding(stock, here, same, old.servers), pairs.placed)
    starting = {p.server for p in pairs.placed} - set(pairs.kept.values())
    dropped = [s for a, s in enumerate(old.servers) if a not in pairs.kept]
    requests, kv_bytes = _dropped(dropped)
    kept, restarted = len(pairs.kept), len(pairs.restarted)
    both = kept + restarted
    return Migration(
        servers=Servers(kept, restarted, len(old.servers) - both, len(new.servers) - both),
        held_bytes=sum(stock.size(stock.of(p.new) & stock.of(p.old)) for p in pairs.placed),
        taken=sum((row.taken for row in loading.rows), Sources()),
        rows=tuple(loading.rows),
        slowest=loading.slowest,
        reloaded=reloaded(stock, here, pairs.placed, lambda server: server in starting),
        serving=serving(before, [old.servers[a] for a in pairs.kept]),
        dropped_requests=requests,
        dropped_kv_bytes=kv_bytes,
        gone=_gone(there, here, old.servers),
        whole=tuple(dict.fromkeys([*old.whole, *new.whole])),
    )


def _same(there: Machines, here: Machines, servers: Sequence[Server]) -> dict[tuple[str, str], Sequence[int]]:
    """Numbers of the GPUs that both clusters have on the machines of some servers."""
    ats = dict.fromkeys(seat.at for s in servers for seat in s.seats)
    kinds = ((at, here.kind(at)) for at in ats)
    return {at: here.numbers(at[1]) for at, kind in kinds if kind is not None and kind == there.kind(at)}


def _holding(
    stock: Stock, here: Machines, same: Mapping[tuple[str, str], Sequence[int]], servers: Sequence[Server]
) -> dict[Domain, Bits]:
    """What the GPUs of each domain hold before, on machines that stay."""
    keys = defaultdict[Domain, set[object]](set)
    found = dict[Domain, Bits]()
    for server in servers:
        for seat in server.seats:
            if seat.at in same:
                domain = here.domain(seat.at)
                if seat.key not in keys[domain]:
                    keys[domain].add(seat.key)
                    found[domain] = found.get(domain, stock.empty) | stock.of(seat.key)
    return found


def _dropped(servers: Sequence[Server]) -> tuple[float, float]:
    """Requests in flight on servers, and bytes of their cache: as many as the plan says there are on average,
    or where it does not, as many as there may be."""
    requests, kv_bytes = 0.0, 0.0
    for server in servers:
        r = server.replica
        used = 1.0 if r.cache is None else r.cache.used
        requests += r.max_batch if r.cache is None else r.cache.sequences
        room = {m.stage: m.kv_bytes for m in r.memory}
        kv_bytes += used * sum(s.gpus * room.get(i, 0.0) for i, s in enumerate(r.stages))
    return requests, kv_bytes


def _gone(there: Machines, here: Machines, servers: Sequence[Server]) -> tuple[str, ...]:
    """Machines that servers stood on and that the new cluster has not."""
    ats = dict.fromkeys(seat.at for s in servers for seat in s.seats)
    return tuple(dict.fromkeys(at[0] for at in ats if here.kind(at) != there.kind(at)))


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
    each = {r.id: max(r.count // max(len(r.stages[0].nodes), 1), 1) for r in plan.replicas}  # on a node
    whole = [c for c in plan.chains if all(here[h.node, h.replica] >= each[h.replica] for h in c.hops)]
    return sum(chain.share for chain in whole)
