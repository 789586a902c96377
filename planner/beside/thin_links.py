"""Links too thin for the KV caches of all requests: why a fleet does not prefill on one side of them and
decode on the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

from cluster_configs.schema import NodeClass, ResolvedCluster
from planner.cost.transfer import inside_bytes_per_s, nic_bytes_per_s
from planner.plans.found import Found, Group
from planner.plans.schema import Alternative
from planner.problems.ways import route

WHAT = "prefill and decode apart for all requests"

HOST = "copies through the host's memory for half of {} (no peer-to-peer between its GPUs) carry"


def too_thin(best: Found, chosen: Sequence[Group]) -> list[Alternative]:
    """What the caches of all the plan's requests need, against what each way between classes in use that no
    cache of the plan takes can carry."""
    crossed = _crossed(best, chosen)
    if all(b.osl == 1 for b in best.workload.buckets):
        return []
    setup, rate = chosen[0].setup, best.solution.rate
    mean = float(setup.sent_bytes @ setup.mix.share)
    used = {g.candidate.home[0] for g in chosen}
    nodes = [n for n in best.cluster.classes if n.id in used]
    made = []
    for a, b in combinations_with_replacement(nodes, 2):
        carried = None if {a.id, b.id} in crossed else carries(a, b, best.cluster)
        if carried is None or rate * mean <= carried[0]:
            continue
        room, words = carried
        what = f"{WHAT}, over {a.id if a is b else f'{a.id} and {b.id}'}"
        why = (
            f"KV of {rate:,.3g} requests/s is {rate * mean / 1e9:,.3g} GB/s, {words} {room / 1e9:,.3g}: "
            f"{room / mean:,.3g} requests/s"
        )
        made.append(Alternative(what=what, objective=None, loss=None, why=why, status="infeasible"))
    return made


def carries(a: NodeClass, b: NodeClass, cluster: ResolvedCluster) -> tuple[float, str] | None:
    """Bytes/s that go from one class to the other at most, and over what; None inside one scale-up
    domain whose GPUs read each other's memory.

    Within a class half of the GPUs send to the other half.
    """
    way = route(a, b, cluster)
    if way is None:
        return 0.0, f"without a link from {a.zone} to {b.zone} these carry"
    if not way.on_nic:
        return None if a.peer_to_peer else (a.gpus / 2 * inside_bytes_per_s(a), HOST.format(a.id))
    if a is b:
        return a.gpus / 2 * nic_bytes_per_s(a), f"the NICs of half of {a.id} carry"
    room, nics = min((n.gpus * nic_bytes_per_s(n), n.id) for n in (a, b))
    if way.link is not None and way.link.bytes_per_s < room:
        return way.link.bytes_per_s, f"the link {' - '.join(way.link.between)} carries"
    return room, f"the NICs of {nics} carry"


def _crossed(best: Found, chosen: Sequence[Group]) -> list[set[str]]:
    """Pairs of classes that caches of the plan go between."""
    of = {best.problem.columns[g.candidate.id].group: g.candidate.home[0] for g in chosen}
    return [{of[p], of[d]} for p, d, _ in best.solution.pair_flows if p in of and d in of]
