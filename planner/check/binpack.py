"""Do integer items fit into bins? Yes by a filling, no by a bound, None where neither is found.

Items and bins are counted by size, so that 10,000 bins cost no more than ten. A yes comes from first-fit
decreasing, which is exact where every size divides the next larger one and the bins are equal, or from a
small search. A no comes from dual feasible functions: weights u(x) with sum u <= 1 for every set that fits
a bin (Fekete and Schepers 2001, "New classes of fast lower bounds for bin packing problems").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache, partial
from math import ceil, floor

MAX_SEARCH_ITEMS = 60
MAX_SEARCH_STEPS = 20_000


def fits(items: Mapping[int, int], bins: Mapping[int, int]) -> bool | None:
    """Whether `items` (size -> count) fit into `bins` (capacity -> count). None: undecided.

    >>> fits({3: 2, 2: 1}, {8: 1}), fits({3: 3}, {8: 1}), fits({3: 20_000}, {8: 10_000})
    (True, False, True)
    """
    items = {size: count for size, count in items.items() if count > 0}
    bins = {size: count for size, count in bins.items() if count > 0}
    if not items:
        return True
    if not bins or max(items) > max(bins):
        return False
    if _first_fit(items, bins):
        return True
    if bins_needed(items, max(bins)) > sum(bins.values()) or _volume(items) > _volume(bins):
        return False
    return _search(items, bins)


def bins_needed(items: Mapping[int, int], capacity: int) -> int:
    """Least number of bins of `capacity` by the best bound: never more than are truly needed.

    >>> bins_needed({3: 5}, 8), bins_needed({5: 3, 3: 3}, 8), bins_needed({4: 5}, 8)
    (3, 3, 3)
    """
    weights = [partial(_rounded, capacity=capacity, parts=k) for k in range(1, min(capacity, 64) + 1)]
    weights += [partial(_cut, capacity=capacity, threshold=t) for t in range(min(capacity // 2, 64) + 1)]
    return max(ceil(sum(weight(size) * count for size, count in items.items())) for weight in weights)


def _rounded(size: int, capacity: int, parts: int) -> Fraction:
    """A dual feasible function: the share of a bin, rounded down in `parts` + 1 parts of it."""
    share = Fraction(size, capacity)
    scaled = share * (parts + 1)
    return share if scaled.denominator == 1 else Fraction(floor(scaled), parts)


def _cut(size: int, capacity: int, threshold: int) -> Fraction:
    """Another: sizes below `threshold` count nothing, and those that leave no such size room a whole bin."""
    if size > capacity - threshold:
        return Fraction(1)
    return Fraction(size if size >= threshold else 0, capacity)


def _volume(counts: Mapping[int, int]) -> int:
    return sum(size * count for size, count in counts.items())


def _first_fit(items: Mapping[int, int], bins: Mapping[int, int]) -> bool:
    """Largest items first, each into the fullest bins that still take it; bins with equal room are one
    number."""
    room = Counter(bins)
    for size in sorted(items, reverse=True):
        left = items[size]
        for space in sorted(room):
            if space < size or not left:
                continue
            each, available = space // size, room[space]
            full = min(available, left // each)
            _move(room, space, space - each * size, full)
            left -= full * each
            if left and full < available:
                _move(room, space, space - left * size, 1)
                left = 0
        if left:
            return False
    return True


def _move(room: Counter[int], source: int, target: int, count: int) -> None:
    room[source] -= count
    room[target] += count


def _search(items: Mapping[int, int], bins: Mapping[int, int]) -> bool | None:
    """Every way to fill the largest bins first, remembering what was left; None where that would take too
    long."""
    if sum(items.values()) > MAX_SEARCH_ITEMS:
        return None
    sizes = sorted(items, reverse=True)
    enough = sum(items.values())  # an item a bin at worst
    caps = sorted((c for c, n in bins.items() for _ in range(min(n, enough))), reverse=True)[:enough]
    steps = 0

    @cache
    def possible(left: tuple[int, ...], used: int) -> bool:
        nonlocal steps
        steps += 1
        if not any(left):
            return True
        if used == len(caps) or steps > MAX_SEARCH_STEPS:
            return False
        if sum(s * n for s, n in zip(sizes, left, strict=True)) > sum(caps[used:]):
            return False
        return any(possible(rest, used + 1) for rest in _fillings(sizes, left, caps[used]))

    answer = possible(tuple(items[size] for size in sizes), 0)
    return None if not answer and steps > MAX_SEARCH_STEPS else answer


def _fillings(sizes: list[int], left: tuple[int, ...], room: int) -> Iterator[tuple[int, ...]]:
    """What can be left over after filling one bin so that nothing more fits, fullest ways first."""

    def choose(index: int, left: tuple[int, ...], room: int) -> Iterator[tuple[int, ...]]:
        if index == len(sizes):
            if not any(n and s <= room for s, n in zip(sizes, left, strict=True)):
                yield left
            return
        for take in range(min(left[index], room // sizes[index]), -1, -1):
            rest = (*left[:index], left[index] - take, *left[index + 1 :])
            yield from choose(index + 1, rest, room - take * sizes[index])

    yield from choose(0, left, room)
