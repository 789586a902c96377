"""Packing: items of a few integer sizes into identical bins, as rows of a larger model.

Sets       s in S   item sizes       b in B   kinds of bin
           q in Q[b]   patterns: a maximal filling of one bin of b
Data       room[b]  units in a bin of b            k[q,s]  items of size s in pattern q
Given      item[s]  number of items of size s (an expression of the larger model)
           bins[b]  number of bins of b    (an expression or a number, less those that others take whole)
Choose     z[b,q]   integer >= 0, bins of b filled by q    (only where sizes do not divide one another)

Sizes that divide one another (1, 2, 4, 8): exact without patterns. First-fit decreasing never wastes a hole
that a smaller size could use, so all items fit if and only if for every s the items of at least s, counted
in units of s, find as many holes:
fit[s]     sum(t >= s) t/s * item[t]      <= sum(b) floor(room[b]/s) * bins[b]
otherwise, by patterns:
full[b]    sum(q) z[b,q]                  <= bins[b]
cover[s]   sum(b,q) k[q,s] * z[b,q]       >= item[s]
or, where there are more than MOST_PATTERNS of them, by arcs, a bin being a path from 0 that may end anywhere:
Choose     f[b,u,s] integer >= 0, bins of b in which an item of s fills the units from u on; u is a sum of
items of at least s, as every filling can be put in largest first
start[b]   sum(s) f[b,0,s]                <= bins[b]
pass[b,u]  sum(s) f[b,u,s]                <= sum(s) f[b,u-s,s]      0 < u < room[b]
cover[s]   sum(b,u) f[b,u,s]              >= item[s]

Source     divisible sizes: Coffman, Garey, Johnson 1987, "Bin packing with divisible item sizes";
           patterns: Gilmore, Gomory 1961; arcs: Valério de Carvalho 1999, "Exact solution of bin-packing
           problems using column generation and branch-and-bound".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from solvers.linear import Expr, Linear, Term, Var

MOST_PATTERNS = 2000

Place = tuple[int, int]
"""A kind of bin, and units of it."""


@dataclass(frozen=True)
class Bins:
    """`count` (a number, or terms of the model) bins of `room` units, less those that others take whole."""

    room: int
    count: float = 0.0
    counted: tuple[Term, ...] = ()
    taken: tuple[Term, ...] = ()


def add(m: Linear, key: str, items: Mapping[int, Sequence[Var]], bins: Sequence[Bins]) -> None:
    """Add to `m` the rows that fit `items` (size -> variables that count items of that size) into `bins`."""
    sizes = sorted(items)
    if divisible(sizes):
        for s in sizes:
            units = [items[t][i] * (t // s) for t in sizes if t >= s for i in range(len(items[t]))]
            holes, fixed = _available(bins, s)
            m.add("fit", (key, s), Expr(units + [Term(i, -c) for i, c in holes]) <= fixed)
        if not sizes:  # others may still take whole bins
            holes, fixed = _available(bins, 1)
            m.add("fit", (key, 0), Expr([Term(i, -c) for i, c in holes]) <= fixed)
        return
    every = ((b, q) for b, kind in enumerate(bins) for q in patterns(sizes, kind.room))
    ways = list(islice(every, MOST_PATTERNS + 1))
    if len(ways) > MOST_PATTERNS:
        _by_arcs(m, key, items, bins)
        return
    z = m.integers("z", ways)
    for b, kind in enumerate(bins):
        used = [z[key] * 1.0 for key in z if key[0] == b] + list(kind.taken)
        m.add("full", (key, b), Expr(used + [Term(i, -c) for i, c in kind.counted]) <= kind.count)
    for s in sizes:
        made = [v * -dict(q)[s] for (_, q), v in z.items() if s in dict(q)]
        m.add("cover", (key, s), Expr([v * 1.0 for v in items[s]] + made) <= 0)


def _by_arcs(m: Linear, key: str, items: Mapping[int, Sequence[Var]], bins: Sequence[Bins]) -> None:
    """The rows `start`, `pass` and `cover`."""
    known = [(b, u, s) for b, kind in enumerate(bins) for u, s in arcs(sorted(items), kind.room)]
    f = m.integers("f", known)
    of_size = defaultdict[int, list[Term]](list)
    leaving, coming = defaultdict[Place, list[Term]](list), defaultdict[Place, list[Term]](list)
    for (b, u, s), v in f.items():
        of_size[s].append(v * -1.0)
        leaving[b, u].append(v * 1.0)
        coming[b, u + s].append(v * -1.0)
    for b, kind in enumerate(bins):
        used = leaving.pop((b, 0), []) + list(kind.taken)
        m.add("start", (key, b), Expr(used + [Term(i, -c) for i, c in kind.counted]) <= kind.count)
    for at, out in leaving.items():
        m.add("pass", (key, *at), Expr(out + coming[at]) <= 0)
    for s in items:
        m.add("cover", (key, s), Expr([v * 1.0 for v in items[s]] + of_size[s]) <= 0)


def arcs(sizes: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """(u, s): from where in a bin an item of each size may stand, where larger ones stand before it.

    >>> sorted(arcs([2, 3], 7))
    [(0, 2), (0, 3), (2, 2), (3, 2), (3, 3), (4, 2), (5, 2)]
    """
    reached = {0}
    for s in sorted(sizes, reverse=True):
        for u in range(room - s + 1):
            if u in reached:
                reached.add(u + s)
                yield u, s


def _available(bins: Sequence[Bins], size: int) -> tuple[list[Term], float]:
    """Holes of `size` in all bins: terms of the model and a constant."""
    holes: list[Term] = []
    fixed = 0.0
    for kind in bins:
        fit = kind.room // size
        fixed += fit * kind.count
        holes += [Term(i, fit * c) for i, c in kind.counted]
        holes += [Term(i, -fit * c) for i, c in kind.taken]
    return holes, fixed


def divisible(sizes: Sequence[int]) -> bool:
    """True when each size divides the next larger one.

    >>> divisible([1, 2, 8]), divisible([2, 3, 6])
    (True, False)
    """
    return all(b % a == 0 for a, b in pairwise(sorted(sizes)))


def patterns(sizes: Sequence[int], room: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """All maximal fillings of `room` as ((size, count), ...), largest size first.

    >>> list(patterns([2, 3], 8))
    [((3, 2), (2, 1)), ((3, 1), (2, 2)), ((2, 4),)]
    """
    fitting = sorted((s for s in sizes if s <= room), reverse=True)

    def fill(i: int, left: int) -> Iterator[tuple[tuple[int, int], ...]]:
        if i == len(fitting) - 1:
            most = left // fitting[i]
            yield ((fitting[i], most),) if most else ()
            return
        for count in range(left // fitting[i], -1, -1):
            for rest in fill(i + 1, left - count * fitting[i]):
                yield (((fitting[i], count),) if count else ()) + rest

    if not fitting:
        return
    for pattern in fill(0, room):
        left = room - sum(s * k for s, k in pattern)
        if left < fitting[-1]:
            yield pattern


def fillings(items: Mapping[int, int], room: int) -> Iterator[dict[int, int]]:
    """Bins of `room` for `items` (size -> count), one after the other as full as the rest allows, larger
    items first among equals: size -> count each. (Minimum bin slack: Gupta, Ho 1999.)

    >>> list(fillings({16: 4, 12: 2}, 72))
    [{16: 3, 12: 2}, {16: 1}]
    """
    left = {s: k for s, k in sorted(items.items(), reverse=True) if k and s <= room}
    while left:
        ways: dict[int, dict[int, int]] = {0: {}}  # units filled -> by what
        for s, k in left.items():
            for filled, way in sorted(ways.items(), key=lambda item: -item[0]):
                for more in range(1, min(k, (room - filled) // s) + 1):
                    ways.setdefault(filled + more * s, {**way, s: more})
        best = ways[max(ways)]
        again = min(left[s] // k for s, k in best.items())
        for s, k in best.items():
            left[s] -= again * k
        left = {s: k for s, k in left.items() if k}
        yield from [best] * again


def bins_filled(items: Mapping[int, int], room: int) -> int:
    """Bins of `room` that best-fit decreasing fills with `items` (size -> count); fewest where sizes divide.

    >>> bins_filled({4: 1, 2: 2, 1: 1}, 8), bins_filled({6: 2, 3: 1, 2: 1}, 8), bins_filled({3: 5}, 8)
    (2, 3, 3)
    """
    holes: Counter[int] = Counter()  # room left -> bins with that room
    filled = 0
    for size in sorted(items, reverse=True):
        left = items[size]
        for hole in sorted(h for h in holes if h >= size):
            left = _put(holes, hole, min(holes[hole], -(-left // (hole // size))), size, left)
        new = -(-left // (room // size))
        filled += new
        holes[room] += new
        _put(holes, room, new, size, left)
    return filled


def _put(holes: Counter[int], hole: int, bins: int, size: int, left: int) -> int:
    """Put up to `left` items of `size` into `bins` bins that have `hole` room; the items that remain."""
    each = hole // size
    full, rest = divmod(min(left, bins * each), each)
    holes[hole] -= full + (1 if rest else 0)
    holes[hole - each * size] += full
    if rest:
        holes[hole - rest * size] += 1
    return left - full * each - rest
