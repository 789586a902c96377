"""Balance of a small layer, exactly: what each GPU holds is one column.

Sets       e in E experts   r in 1..R replicas   c in C classes of equal GPUs (slots, speed)
           p in P[c]  multisets of (e, r), s[c] of them, no e with two r, whose time is below the limit t and
                      that leave no more to the others than these can carry within it:
                      sum((e,r) in p) w[e]/r >= v[c] * t - (t * sum(c) N[c] * v[c] - sum(e) w[e])
Data       time[c,p] = sum((e,r) in p) w[e]/r / v[c]     N[c]  GPUs of class c     m[p,e,r]  (e,r) in p
Choose     n[c,p] integer >= 0  GPUs that hold p         y[e,r] 0 or 1  e has r replicas
gpus[c]    sum(p) n[c,p]                 == N[c]
held[e,r]  sum(c,p) m[p,e,r] * n[c,p]    == r * y[e,r]
one[e]     sum(r) y[e,r]                 == 1

The least limit with an answer, among the times there are, by bisection: GPUs that are alike are never told
apart, which is what a model with a variable for each expert and GPU is slow at. CP-SAT was slower at both
(docs/decisions/0027-ortools.md).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from solvers.experts.types import Floats, Ints
from solvers.linear import Limits, Linear, total

MOST_COLUMNS, MOST_TRIED = 6000, 500_000
CLOSE = 1e-9
Item = tuple[int, int]
Column = tuple[int, tuple[Item, ...], float]
"""Class, what the GPU holds, and its time."""
Kinds = Counter[tuple[int, float]]
"""How many GPUs have so many slots and such a speed."""


def balance(
    load: Floats, slots: Ints, speed: Floats, known: float, bound: float, limits: Limits
) -> tuple[Ints | None, float]:
    """A placement (gpus, most slots) below the time `known`, None: there is none found; and the bound proven.

    Gives up, with `bound` as it is, where there are too many columns.
    """
    kinds = Counter(zip(slots.tolist(), speed.tolist(), strict=True))
    classes = list(kinds)
    columns = _columns(load, kinds, int(slots.sum()), known * (1 - CLOSE))
    if columns is None:
        return None, bound
    limit = [bound, *np.unique([t for *_, t in columns if t > bound * (1 + CLOSE)]), known]
    low, high = -1, len(limit) - 1  # no answer at limit[low]; there is one at limit[high]
    middle = high - 1
    stop, best = time.perf_counter() + limits.seconds, None
    while low + 1 < high:
        time_limit = limit[middle] * (1 + CLOSE)
        least = _least(load, kinds, time_limit)
        below = [column for column in columns if least[column[0]] <= column[2] <= time_limit]
        left = replace(limits, seconds=max(0.01, stop - time.perf_counter()))
        answer = _answer(load, classes, kinds, below, left)
        if answer is None:
            break
        if answer:
            best, high = answer, middle
        else:
            low = middle
        middle = (low + high) // 2
    return (None if best is None else _placed(best, classes, slots, speed)), float(limit[low + 1])


def _columns(load: Floats, kinds: Kinds, slots: int, limit: float) -> list[Column] | None:
    most = slots - len(load) + 1
    if (len(load) * most) ** max(size for size, _ in kinds) > MOST_TRIED:
        return None
    items = sorted((load[e] / r, e, r) for e in range(len(load)) for r in range(1, most + 1))
    found: list[Column] = []
    for (at, (size, speed)), least in zip(enumerate(kinds), _least(load, kinds, limit), strict=True):
        for held, carried in _multisets(items, size, limit * speed, least * speed):
            found.append((at, held, carried / speed))
            if len(found) > MOST_COLUMNS:
                return None
    return found


def _least(load: Floats, kinds: Kinds, limit: float) -> list[float]:
    """The time of a GPU of each class below which the others, all at `limit`, cannot carry the rest."""
    spare = limit * sum(count * speed for (_, speed), count in kinds.items()) - float(load.sum())
    return [limit - (spare / speed + CLOSE * limit) for _, speed in kinds]


def _multisets(
    items: list[tuple[float, int, int]], size: int, room: float, least: float, first: int = 0
) -> Iterator[tuple[tuple[Item, ...], float]]:
    """Multisets of `size` items from `first` on that carry less than `room`, and at least `least`."""
    if size == 0:
        if least <= 0:
            yield (), 0.0
        return
    if items[-1][0] * size < least:
        return
    for i in range(first, len(items)):
        weight, e, r = items[i]
        if weight * size >= room:  # those after it are no lighter
            return
        for held, carried in _multisets(items, size - 1, room - weight, least - weight, i):
            own = [item for item in held if item[0] == e]
            if all(item == (e, r) for item in own) and len(own) < r:
                yield ((e, r), *held), carried + weight


def _answer(
    load: Floats,
    classes: list[tuple[int, float]],
    kinds: Kinds,
    columns: list[Column],
    limits: Limits,
) -> list[Column] | None:
    """What the GPUs hold; empty when proven that there is no answer, None when not known."""
    m = Linear("experts")
    n = m.integers("n", range(len(columns)))
    holds: dict[Item, list[int]] = {}
    for p, (_, held, _) in enumerate(columns):
        for item in held:
            holds.setdefault(item, []).append(p)
    y = m.integers("y", holds, 1.0)
    for c, kind in enumerate(classes):
        m.add(
            "gpus", c, total(n[p] for p, column in enumerate(columns) if column[0] == c).equals(kinds[kind])
        )
    for (e, r), where in holds.items():
        terms = [k * n[p] for p, k in Counter(where).items()]
        m.add("held", (e, r), total([*terms, -r * y[e, r]]).equals(0.0))
    for e in range(len(load)):
        choices = [y[item] for item in holds if item[0] == e]
        if not choices:
            return []
        m.add("one", e, total(choices).equals(1.0))
    outcome = m.solve(limits)
    if outcome.has_values:
        return [columns[p] for p, k in outcome.counts(n).items() for _ in range(k)]
    return [] if outcome.status == "infeasible" else None


def _placed(answer: list[Column], classes: list[tuple[int, float]], slots: Ints, speed: Floats) -> Ints:
    placed = np.full((len(slots), int(slots.max())), -1, dtype=np.int64)
    free = {
        c: [g for g in range(len(slots)) if (slots[g], speed[g]) == kind] for c, kind in enumerate(classes)
    }
    for c, held, _ in answer:
        placed[free[c].pop(), : len(held)] = [e for e, _ in held]
    return placed
