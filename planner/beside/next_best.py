"""The next best kinds of fleet, in order.

A fleet is told by the set of its kinds of replica. The best fleet that lacks at least one kind of a set S is
the best of |S| solves, each with one kind of S banned. So all fleets but those with every kind of S are
parted by what they lack; the best is taken, and the part that it came from is parted again by its own kinds
(E. Lawler, Management Science 18, 1972; K. Murty, Operations Research 16, 1968). A fleet with all kinds of
one shown before and some more is no other kind of fleet: its part is parted by the kinds of that one. A part
is solved only where its relaxation does not lose more than the fleets of others do.

Among the plan's candidates: a design that another one makes pointless on the same GPUs is no rival.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from math import inf

from planner.beside.reasons import Fleet, Kind, kind
from planner.beside.rivals import Rival, Rivals
from planner.candidates.candidate import Candidate

MOST_SOLVES = 8
"""After which the list ends."""

Part = tuple[float, int, frozenset[Kind], Rival | None]
"""What its fleets lose at least, the order of equals, the kinds that they lack, and its best fleet where it
is solved."""


def next_best(rivals: Rivals, many: int) -> list[tuple[Rival, Fleet]]:
    """The `many` best fleets whose kinds are neither those of the plan, nor of each other, nor these and some
    more. The list ends where a part that was not solved, or not to its end, may have a better one."""
    shown, tried, solves = list[tuple[Rival, Fleet]](), set[frozenset[Kind]](), 0
    order = count()
    parts: list[Part] = [(-inf, next(order), frozenset[Kind](), Rival("proven", rivals.best))]
    while parts and len(shown) <= many:
        _, _, banned, rival = heapq.heappop(parts)
        if rival is None:
            late, solves = rivals.late or solves >= MOST_SOLVES, solves + 1
            rival = Rival("none_found") if late else rivals.where(_other_than(banned))
            if rival.ended != "infeasible":
                heapq.heappush(parts, (_least(rivals.best, rival), next(order), banned, rival))
            continue
        if rival.fleet is None or rival.ended == "stopped":
            break
        own = rival.fleet.kinds
        known = next((fleet.kinds for _, fleet in shown if fleet.kinds.keys() <= own.keys()), own)
        shown += [(rival, rival.fleet)] if known is own else []
        for without in (banned | {k} for k in sorted(known) if len(shown) <= many):
            if without not in tried:
                tried.add(without)
                least = -inf if rivals.late else rivals.least_lost(_other_than(without))
                heapq.heappush(parts, (least, next(order), without, None))
    return shown[1:]


def _least(best: Fleet, part: Rival) -> float:
    """The share of the plan's objective that fleets of a part lose at least; of one that is solved, that its
    best fleet does."""
    if part.fleet is None:
        return -inf
    sure = part.fleet.bound if part.ended == "stopped" else part.fleet.objective
    return -inf if sure is None else -best.gain(sure)


def _other_than(banned: frozenset[Kind]) -> Callable[[Candidate], bool]:
    return lambda c: kind(c) not in banned
