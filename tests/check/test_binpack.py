"""Packing: never a wrong yes or no, and decided wherever engines put it."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.check.binpack import bins_needed, fits

SIZES = st.dictionaries(st.integers(1, 8), st.integers(1, 3), min_size=1, max_size=4)
BINS = st.dictionaries(st.integers(1, 8), st.integers(1, 3), min_size=1, max_size=2)


def by_trying_all(items: dict[int, int], bins: dict[int, int]) -> bool:
    """Item by item into every bin with another room."""

    @cache
    def put(left: tuple[int, ...], room: tuple[int, ...]) -> bool:
        if not left:
            return True
        first, rest = left[0], left[1:]
        return any(
            put(rest, tuple(sorted((*room[:i], space - first, *room[i + 1 :]))))
            for i, space in enumerate(room)
            if space >= first and (i == 0 or room[i - 1] != space)
        )

    sizes = tuple(sorted((size for size, count in items.items() for _ in range(count)), reverse=True))
    return put(sizes, tuple(sorted(capacity for capacity, count in bins.items() for _ in range(count))))


@settings(max_examples=150)
@given(SIZES, BINS)
def test_agrees_with_trying_all_fillings(items: dict[int, int], bins: dict[int, int]) -> None:
    assert fits(items, bins) in (by_trying_all(items, bins), None)


@settings(max_examples=80)
@given(SIZES)
def test_the_bound_is_never_above_what_is_needed(items: dict[int, int]) -> None:
    needed = bins_needed(items, 8)

    assert needed == 0 or not by_trying_all(items, {8: needed - 1})


@settings(max_examples=80)
@given(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=9), st.integers(1, 6))
def test_sizes_that_divide_the_bin_are_always_decided(sizes: list[int], bins: int) -> None:
    items = {size: sizes.count(size) for size in set(sizes)}

    assert fits(items, {8: bins}) is (sum(sizes) <= 8 * bins)


@pytest.mark.parametrize(
    ("items", "bins", "answer"),
    [
        ({3: 2}, {8: 1}, True),
        ({3: 3}, {8: 1}, False),  # 9 GPUs
        ({5: 2}, {8: 1}, False),
        ({3: 20_000}, {8: 10_000}, True),
        ({3: 20_001}, {8: 10_000}, False),  # 60,003 of 80,000 GPUs, but only two fit a node
        ({8: 1, 1: 79_993}, {8: 10_000}, False),
        ({8: 1, 1: 79_992}, {8: 10_000}, True),
        ({6: 10_000, 2: 10_000}, {8: 10_000}, True),
        ({}, {8: 1}, True),
        ({1: 1}, {}, False),
        ({9: 1}, {8: 5}, False),
    ],
)
def test_packings_known_by_hand(items: dict[int, int], bins: dict[int, int], answer: bool) -> None:
    assert fits(items, bins) is answer
