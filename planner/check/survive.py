"""Lost nodes: the plan says where every replica stands; whichever nodes are lost, the rest serves its share.

Each loss of the nodes that are stated, every combination of them where several may be lost, takes no more
replicas than one of the plan's `losses` does. After each of these the others get their part of the traffic
as stated, and must find time, batch, cache and links for it, by the same arithmetic as the whole plan: its
stored step times are those of a lighter load, so nothing sound is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement
from math import comb

from cluster_configs.schema import NodeClass
from planner.check import queueing, routing, transfer
from planner.check.case import Case, Load, gpus_of, rests
from planner.check.packing import NodeIndex
from planner.check.proof import sense
from planner.check.roofline import Floors
from planner.check.violation import EXACT, FIGURE, MODEL, Violation, at_most, same
from planner.inputs.workload import Bucket
from planner.plans.schema import Replica, Standing, Survives

MOST = 2000
"""Combinations of unlike nodes that are looked at one by one; of more, all at once that any of them takes."""


def violations(case: Case) -> Iterator[Violation]:
    """Everything that a lost node would break; nothing where none was asked to be survived."""
    asked, told = case.options.survive, case.plan.survives
    if asked is None and told is None:
        return
    if asked is None or told is None or (told.nodes, told.share) != (asked.nodes, asked.share):
        yield Violation("survive_unlike", "survives", "what is promised is not what was asked for")
        return
    broken = list(_standing(case, told))
    yield from broken
    if not broken:
        yield from _losses(case, told)
    yield from _rests(case, told)
    yield from _price(case, told)


def _standing(case: Case, told: Survives) -> Iterator[Violation]:
    """Nodes exist, are named once, and hold all replicas within their GPUs."""
    names, held = Counter[str](), Counter[tuple[str, str]]()
    indices = {g: NodeIndex(node.nodes) for g, node in case.classes.items()}
    for i, part in enumerate(told.standing):
        where, names = f"survives.standing[{i}]", names + Counter(part.nodes)
        of = {g for g, index in indices.items() for name in part.nodes if index.find(name) is not None}
        if len(of) != 1 or any(indices[g].find(name) is None for g in of for name in part.nodes):
            yield Violation("survive_standing", where, "these are not nodes of one class")
            return
        if unknown := sorted(part.replicas.keys() - case.groups.keys()):
            yield Violation("survive_standing", where, f"there is no group {unknown[0]}")
            return
        (g,) = of
        meant = {r: {n for stage in case.groups[r].stages for n in stage.nodes} for r in part.replicas}
        if elsewhere := [r for r in part.replicas if not meant[r].issuperset(part.nodes)]:
            text = f"{elsewhere[0]} is said to stand on nodes that its stages do not name"
            yield Violation("survive_standing", where, text)
        held.update({(r, g): k * len(part.nodes) for r, k in part.replicas.items()})
        full = sum(k * _least_gpus(case.groups[r], case.classes[g]) for r, k in part.replicas.items())
        if full > case.classes[g].gpus_per_node:
            text = f"replicas take {full} GPUs of nodes of {case.classes[g].gpus_per_node}"
            yield Violation("survive_standing", where, text)
    if twice := [name for name, times in names.items() if times > 1]:
        yield Violation("survive_standing", "survives.standing", f"{twice[0]} is named twice")
    for r in case.plan.replicas:
        for g in {stage.node_class for stage in r.stages}:
            nodes = r.count * -(-gpus_of(r, g) // case.classes[g].gpus_per_node)
            if held[r.id, g] < nodes:
                text = (
                    f"{r.id} has parts on {held[r.id, g]} nodes of {g}, its {r.count} replicas take {nodes}"
                )
                yield Violation("survive_standing", "survives.standing", text)


def _least_gpus(replica: Replica, node: NodeClass) -> int:
    """GPUs that a part on one node takes at least: all of them where one node has room; 1 of those whose
    stages may stand on several."""
    gpus, alone = gpus_of(replica, node.id), len({stage.node_class for stage in replica.stages}) == 1
    return gpus if alone and gpus <= node.gpus_per_node else 1


def _losses(case: Case, told: Survives) -> Iterator[Violation]:
    """Every loss is within one that the plan speaks of."""
    stated = [loss.lost for loss in told.losses]
    for lost in _every(case, told):
        if not any(all(k <= loss.get(r, 0) for r, k in lost.items()) for loss in stated):
            words = ", ".join(f"{k} of {r}" for r, k in sorted(lost.items()))
            yield Violation("survive_unsaid", "survives.losses", f"a loss of {words} is in none of them")
            return


def _every(case: Case, told: Survives) -> Iterator[Mapping[str, int]]:
    """Replicas that each combination of lost nodes takes, each counted on every node that it stands on."""
    kinds, counts = told.standing, {r.id: r.count for r in case.plan.replicas}
    if comb(len(kinds) + told.nodes - 1, told.nodes) > MOST:
        yield {r: min(_most(kinds, r, told.nodes), count) for r, count in counts.items()}
        return
    lost = min(told.nodes, sum(len(kind.nodes) for kind in kinds))
    for some in combinations_with_replacement(range(len(kinds)), lost):
        times = Counter(some)
        if all(k <= len(kinds[i].nodes) for i, k in times.items()):
            gone = Counter[str]()
            for i, k in times.items():
                gone.update({r: k * each for r, each in kinds[i].replicas.items()})
            yield {r: min(k, counts[r]) for r, k in gone.items()}


def _most(kinds: list[Standing], r: str, nodes: int) -> int:
    """Replicas of a group on those `nodes` nodes that have the most."""
    each = [kind.replicas.get(r, 0) for kind in kinds for _ in range(min(len(kind.nodes), nodes))]
    return sum(sorted(each, reverse=True)[:nodes])


def _rests(case: Case, told: Survives) -> Iterator[Violation]:
    """After each loss the rest is given its share of the rate, and can serve it."""
    for i, (loss, rest) in enumerate(rests(case)):
        where = f"survives.losses[{i}]"
        if loss.classes.keys() - case.classes.keys() or sum(loss.classes.values()) > told.nodes:
            text = f"{loss.classes} are not {told.nodes} nodes of the cluster at most"
            yield Violation("survive_unsaid", f"{where}.classes", text)
        if not at_most(told.share * case.rps, loss.rps, EXACT):
            text = f"{loss.rps:.6g} req/s are left of {case.rps:.6g}, promised are {told.share:.4g} of them"
            yield Violation("survive_short", f"{where}.rps", text)
        wrong = list(routing.violations(rest))
        if not wrong:
            wrong = [*_times(case, rest), *transfer.violations(rest)]
        for each in wrong:
            yield Violation("survive_short", where, f"what is left does not serve its share: {each.message}")


def _times(case: Case, rest: Case) -> Iterator[Violation]:
    """Batch, cache and time of the groups that are left. With more of each bucket one that only prefills is
    busier by as much; one that decodes has larger batches, which take less time a request, but not less than
    at peak."""
    for index, replica in enumerate(rest.plan.replicas):
        yield from queueing.room(rest, replica, f"replicas[{index}]")
        busy, most = 0.0, 1.0
        if replica.role == "prefill":
            before, after = (_by_bucket(own.loads[replica.id]) for own in (case, rest))
            more = min((after.get(b, 0.0) / rate for b, rate in before.items() if rate), default=0.0)
            busy = replica.utilisation * more * case.groups[replica.id].count / replica.count
            most = case.options.max_utilisation
        elif case.card:
            busy = Floors(rest, case.card, replica, rest.loads[replica.id]).busy()
        if not at_most(busy, most, MODEL):
            text = f"{replica.id} would be busy {busy:.4g} of the time, {most:g} at most"
            yield Violation("utilisation_over", f"replicas[{index}]", text)


def _by_bucket(load: Load) -> dict[Bucket, float]:
    """Requests/s of each bucket, by all ways together."""
    rates: dict[Bucket, float] = {}
    for bucket, rate in load.buckets:
        rates[bucket] = rates.get(bucket, 0.0) + rate
    return rates


def _price(case: Case, told: Survives) -> Iterator[Violation]:
    """What is given up follows from the two objectives, and the one that need not survive is no worse."""
    own = case.plan.proof.own
    if told.without is None or told.price is None:
        return
    worse, better = (own, told.without) if sense(case) == "max" else (told.without, own)
    price = abs(own - told.without) / abs(told.without) if told.without else 0.0
    rounded = abs(told.price - price) <= EXACT  # objectives that are nearly alike differ in no digit
    if not at_most(worse, better, EXACT) or not (rounded or same(told.price, price, FIGURE)):
        text = f"{told.price:.4g}, {own:.6g} against {told.without:.6g} without gives {price:.4g}"
        yield Violation("survive_price", "survives.price", text)
