"""Which GPU takes which place of the new plan, so that the fewest bytes are loaded.

Nodes are those that the plans name; GPUs of one kind in a node are alike. Servers that need nothing new stay
where they are: first those that are started alike, then those that only other settings are asked of. All
other places of a node go to its other GPUs by the cheapest assignment. That together is the least: by the
triangle inequality of what is missing, |C - A| <= |C - B| + |B - A|, a GPU that holds all of a place may as
well have it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from planner.migration.servers import Gpu, Key, Server

Missing = Callable[[Key | None, Key], float]
"""Bytes of the second holding that the first (None: an empty GPU) has not."""


@dataclass(frozen=True)
class Placed:
    """A place of the new plan, on a GPU that holds `old` (None: nothing) and is to hold `new`."""

    gpu: Gpu
    node_class: str
    old: Key | None
    new: Key
    server: int


@dataclass(frozen=True)
class Matched:
    """`kept`: pairs of servers, before and after, that go on as they are; `restarted`: those that only start
    again, with other settings; by their indices."""

    kept: dict[int, int]
    restarted: dict[int, int]
    placed: list[Placed]


def matched(
    before: Sequence[Server],
    after: Sequence[Server],
    sizes: Mapping[tuple[str, str], Sequence[int]],
    missing: Missing,
) -> Matched:
    """`sizes`: numbers of the GPUs of each (machine, class) of the new plan that the old plan has, too."""
    old = {at: dict.fromkeys(numbers) for at, numbers in sizes.items()}
    whose: dict[Gpu, Key | None] = {s.gpu: s.key for server in before for s in server.seats}
    gone = {a for a, s in enumerate(before) if any((at, name) not in sizes for at, name, _ in s.place)}
    kept = _same(before, after, lambda s: (s.place, s.replica.role, s.keys, s.command), gone, set())
    left = gone | {*kept}
    alike = _same(before, after, lambda s: (s.place, s.keys), left, {*kept.values()})
    placed = []
    for a, b in {**kept, **alike}.items():
        for seat in before[a].seats:
            old.get(seat.at, {}).pop(seat.gpu[1], None)
            placed.append(Placed(seat.gpu, seat.node_class, seat.key, seat.key, b))
    settled = {*kept.values(), *alike.values()}
    wanted = defaultdict[tuple[str, str], list[tuple[Key, int]]](list)
    for b, server in enumerate(after):
        for seat in server.seats if b not in settled else ():
            wanted[seat.at].append((seat.key, b))
    for (machine, node_class), places in wanted.items():
        free = [(machine, number) for number in old.get((machine, node_class), {})]
        held = [whose.get(gpu) for gpu in free]
        for row, (key, b) in zip(_assigned(held, [k for k, _ in places], missing), places, strict=True):
            gpu, has = (free[row], held[row]) if row is not None else ((machine, -1), None)
            placed.append(Placed(gpu, node_class, has, key, b))
    return Matched(kept, alike, placed)


def _same(
    before: Sequence[Server],
    after: Sequence[Server],
    what: Callable[[Server], Key],
    old: Set[int],
    new: Set[int],
) -> dict[int, int]:
    """Pairs of servers that are the same in `what`, without those of `old` and `new`."""
    waiting = defaultdict[Key, list[int]](list)
    for a, server in enumerate(before):
        if a not in old:
            waiting[what(server)].append(a)
    found = dict[int, int]()
    for b, server in enumerate(after):
        if b not in new and (here := waiting.get(what(server))):
            found[here.pop(0)] = b
    return found


def _assigned(held: Sequence[Key | None], places: Sequence[Key], missing: Missing) -> Iterator[int | None]:
    """The row of `held` that each place goes to, with the fewest bytes in all; None where there is no GPU
    that was there before."""
    if not held:
        yield from (None for _ in places)
        return
    cost = np.array([[missing(old, new) for new in places] for old in held])
    rows, columns = linear_sum_assignment(cost)
    by_place: dict[int, int] = dict(zip(columns.tolist(), rows.tolist(), strict=True))
    yield from (by_place.get(i) for i in range(len(places)))
