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
from planner.explain.reasons import Fleet, Kind, kind
from planner.explain.rivals import Rival, Rivals, lost

MOST_PARTS = 4
"""Kinds of one fleet that are banned in turn, on the fewest GPUs first: what is small is missed least."""


def next_best(rivals: Rivals, many: int) -> list[tuple[Rival, Fleet]]:
    """The `many` best fleets whose kinds are neither those of the plan, nor of each other, nor these and some
    more. Fewer where the time is over, or solves proved nothing that a verdict could say."""
    shown, tried = list[tuple[Rival, Fleet]](), set[frozenset[Kind]]()
    order = count()
    parts = [(0.0, next(order), frozenset[Kind](), Rival("proven", rivals.best), rivals.best)]
    while parts:
        _, _, banned, rival, fleet = heapq.heappop(parts)
        known = next((f.kinds for _, f in shown if f.kinds.keys() <= fleet.kinds.keys()), None)
        shown += [] if known else [(rival, fleet)]
        if len(shown) > many:
            break
        for less in sorted(known or fleet.kinds, key=lambda k: (fleet.kinds[k], k))[:MOST_PARTS]:
            without = banned | {less}
            if without in tried or rivals.late:
                continue
            tried.add(without)
            other = rivals.where(_other_than(without))
            if other.fleet is not None and lost(rivals.best, other) is not None:
                worse = -rivals.best.gain(other.fleet.objective)
                heapq.heappush(parts, (worse, next(order), without, other, other.fleet))
    return shown[1:]


def _other_than(banned: frozenset[Kind]) -> Callable[[Candidate], bool]:
    return lambda c: kind(c) not in banned
