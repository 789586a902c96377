"""The next best kinds of fleet, in order.

A fleet is told by the set of its kinds of replica. The best fleet that lacks at least one kind of a set S is
the best of |S| solves, each with one kind of S banned. So all fleets but those with every kind of S are
parted by what they lack; the best is taken, and the part that it came from is parted again by its own kinds
(E. Lawler, Management Science 18, 1972; K. Murty, Operations Research 16, 1968). A fleet with all kinds of
one shown before and some more is no other kind of fleet: its part is parted by the kinds of that one.

Among the plan's candidates: a design that another one makes pointless on the same GPUs is no rival.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from planner.candidates.candidate import Candidate
from planner.explain.rivals import Kind, Rival, Rivals, gain, kind, proves
from planner.plans.found import Found, groups


def next_best(rivals: Rivals, many: int) -> list[Rival]:
    """The `many` best fleets whose kinds are neither those of the plan, nor of each other, nor these and some
    more. Fewer where the time is over, or solves proved nothing that a verdict could say."""
    made, shown = list[Rival](), list[frozenset[Kind]]()
    order, tried = count(), set[frozenset[Kind]]()
    parts = [(0.0, next(order), frozenset[Kind](), rivals.best)]
    found: dict[int, Rival] = {}
    while parts:
        _, number, banned, fleet = heapq.heappop(parts)
        sizes = _sizes(fleet)
        known = next((one for one in shown if one <= set(sizes)), None)
        if known is None:
            shown.append(frozenset(sizes))
            made += [found[number]] if number else []
        if len(made) == many:
            break
        for less in sorted(known or sizes, key=lambda k: (sizes[k], k)):  # what is small is missed least
            without = banned | {less}
            if without in tried or rivals.late:
                continue
            tried.add(without)
            rival = rivals.where(_other_than(without))
            if rival.found is not None and rival.objective is not None and proves(rivals.best, rival):
                found[at := next(order)] = rival
                heapq.heappush(parts, (-gain(rivals.best, rival.objective), at, without, rival.found))
    return made


def _other_than(banned: frozenset[Kind]) -> Callable[[Candidate], bool]:
    return lambda c: kind(c) not in banned


def _sizes(fleet: Found) -> dict[Kind, int]:
    """GPUs of each kind of replica that serves something."""
    sizes: dict[Kind, int] = {}
    for g in groups(fleet):
        sizes[kind(g.candidate)] = sizes.get(kind(g.candidate), 0) + g.count * g.candidate.gpus
    return sizes
