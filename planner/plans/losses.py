"""Nodes that a fleet may lose, and what the rest serves then, verified with every replica on its nodes.

Replicas with any part on a lost node are gone. The rest is the fleet's own replicas, given as much traffic as
keeps every limit by the one model of a server, spread over them anew. Nodes on which as many of each
candidate stand are alike; of losses those count that no other loss contains: who serves without more,
serves without less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, islice
from math import comb, inf

from planner.candidates.deadline import in_time
from planner.inputs.options import Survive
from planner.objectives import THROUGHPUT
from planner.plans import placement
from planner.plans.carried import as_carried
from planner.plans.found import Found, Group, groups
from planner.plans.strain import scaled
from solvers import fleet
from solvers.linear import Limits

MOST = 2000
"""Ways to lose several nodes that are looked at; of more, one that is worse than any of them."""

Lost = tuple[tuple[str, int], ...]
"""Candidates and how many of their replicas are lost, in order."""


@dataclass(frozen=True)
class Alike:
    """Nodes (class, index), on each of which `held[c]` replicas of candidate c have a part."""

    nodes: Sequence[tuple[str, int]]
    held: Mapping[str, int]


@dataclass(frozen=True)
class Rest:
    """What is left after a loss: `lost[c]` replicas of each candidate, the most that the others serve [1/s],
    and their fleet, None where they serve nothing. `classes`: nodes lost of each class; empty where the loss
    stands for many that are no worse."""

    lost: Mapping[str, int]
    classes: Mapping[str, int]
    rps: float
    fleet: Found | None

    def serving(self, rps: float) -> tuple[Found, list[Group]] | None:
        """The fleet that is left and its groups, at a rate that it can serve."""
        if self.fleet is None:
            return None
        found = scaled(self.fleet, rps / self.fleet.solution.rate)
        return found, groups(found)


def placed(found: Found, survive: Survive | None) -> placement.Placed:
    """The fleet on its nodes: as far apart as can be where some may be lost, on no more nodes than the
    program has where nodes cost something."""
    counts = running(found)
    if survive is None:
        return placement.place(found.cluster.classes, counts, found.candidates)
    paid = found.problem.objective.spends == "usd_per_hour" or "usd_per_hour" in found.problem.budget
    every = {node.id: node.node_count for node in found.cluster.classes}
    apart = found.solution.nodes if paid else every
    return placement.place(found.cluster.classes, counts, found.candidates, apart, _contents(found, counts))


def _contents(found: Found, counts: Mapping[str, int]) -> dict[str, list[dict[str, int]]]:
    """How many of each candidate the program puts on each class's nodes, where it says so."""
    of, left = found.problem.standings(), dict(counts)
    contents: dict[str, dict[int, dict[str, int]]] = {}
    for (g, i, standing), many in sorted(found.solution.held.items(), key=lambda item: item[0][:2]):
        for c in of[standing]:
            here = min(many, left.get(c, 0))
            if here:
                contents.setdefault(g, {}).setdefault(i, {})[c] = here
                left[c], many = left[c] - here, many - here
    return {g: list(nodes.values()) for g, nodes in contents.items()}


def running(found: Found) -> dict[str, int]:
    """Replicas that serve anything: those that a plan has."""
    serving = {c for c, _ in found.solution.flows}
    return {c: k for c, k in found.solution.replicas.items() if c in serving}


def alike(on: placement.Placed) -> list[Alike]:
    """The nodes in use, those together that are alike."""
    nodes: dict[tuple[str, Lost], list[tuple[str, int]]] = {}
    for at, held in sorted(on.standing.items()):
        nodes.setdefault((at[0], tuple(sorted(held.items()))), []).append(at)
    return [Alike(own, dict(held)) for (_, held), own in nodes.items()]


def losses(found: Found, on: placement.Placed, nodes: int) -> dict[Lost, Mapping[str, int]]:
    """Losses that no other contains, and of how many nodes of each class they are."""
    kinds, counts = alike(on), running(found)
    if comb(len(kinds) + nodes - 1, nodes) > MOST:
        return {_worst(kinds, counts, nodes): {}}
    each: dict[Lost, Mapping[str, int]] = {}
    for some in combinations_with_replacement(range(len(kinds)), min(nodes, len(on.standing))):
        times = Counter(some)
        if all(k <= len(kinds[i].nodes) for i, k in times.items()):
            lost = _sum([(kinds[i].held, k) for i, k in times.items()], counts)
            classes = Counter({kinds[i].nodes[0][0]: 0 for i in times})
            classes.update(kinds[i].nodes[0][0] for i in some)
            each.setdefault(lost, dict(classes))
    return {lost: classes for lost, classes in each.items() if not any(_within(lost, o) for o in each)}


def _sum(held: Sequence[tuple[Mapping[str, int], int]], counts: Mapping[str, int]) -> Lost:
    """Replicas on several nodes together; one that stands on two of them may be counted twice, up to all."""
    gone: Counter[str] = Counter()
    for own, times in held:
        gone.update({c: k * times for c, k in own.items()})
    return tuple(sorted((c, min(k, counts[c])) for c, k in gone.items()))


def _worst(kinds: Sequence[Alike], counts: Mapping[str, int], nodes: int) -> Lost:
    """The loss that takes of each candidate as many as any `nodes` nodes have."""
    gone: dict[str, int] = {}
    for c in sorted({c for kind in kinds for c in kind.held}):
        fullest = sorted(((kind.held.get(c, 0), len(kind.nodes)) for kind in kinds), reverse=True)
        each = (held for held, times in fullest for _ in range(min(times, nodes)))
        gone[c] = min(sum(islice(each, nodes)), counts[c])
    return tuple(gone.items())


def _within(one: Lost, other: Lost) -> bool:
    """Whether `one` is a part of `other`, and another loss."""
    more = dict(other)
    return one != other and all(k <= more.get(c, 0) for c, k in one)


def rests(found: Found, survive: Survive, limits: Limits) -> Iterator[Rest]:
    """What is left after each loss; `limits.gap`: how near to the most that it serves."""
    for lost, classes in losses(found, placed(found, survive), survive.nodes).items():
        in_time()
        gone = dict(lost)
        there = {c: k - gone.get(c, 0) for c, k in running(found).items() if k > gone.get(c, 0)}
        own = _left(found, there, limits) if there else None
        yield Rest(gone, classes, own.solution.rate if own else 0.0, own)


def _left(found: Found, there: Mapping[str, int], limits: Limits) -> Found | None:
    """The fleet of the replicas that are `there` with the most traffic that they carry; watts stay
    limited."""
    problem, s = fleet.carried(found.problem, there, limits)
    if s.objective is None or s.rate <= 0:
        return None
    watts = {b: most for b, most in found.problem.budget.items() if b == "watts"}
    own = replace(found, objective=THROUGHPUT, problem=replace(problem, budget=watts), solution=s)
    made = groups(own)
    return as_carried(own, made, limits.gap) if made else None


def least_left(found: Found, survive: Survive, limits: Limits) -> float:
    """Requests/s that the rest serves at least, whatever is lost."""
    return min((rest.rps for rest in rests(found, survive, limits)), default=inf)
