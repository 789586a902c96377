"""Packing rows against trying every bin: chains of sizes, others, unlike bins, items too large."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import packing
from solvers.linear import Limits, Linear, total
from tests.solvers.fleets import fewest_bins, fits

CHAINS = st.sampled_from([[1], [2], [1, 2], [2, 4], [1, 2, 4, 8], [3, 6], [1, 3, 6]])
UNEVEN = st.sampled_from([[2, 3], [3, 5], [1, 3, 5], [3, 5, 6], [2, 3, 5, 8], [4, 6]])


def packs(counts: dict[int, int], bins: list[packing.Bins]) -> bool:
    """Whether the rows of `packing.add` leave room for exactly these items."""
    m = Linear("packing")
    items = {}
    for size, k in counts.items():
        v = m.integers("item", [size])[size]
        m.fix(v, k)
        items[size] = [v]
    packing.add(m, "bins", items, bins)
    return m.solve(Limits()).status == "optimal"


def listed(counts: dict[int, int]) -> tuple[int, ...]:
    return tuple(sorted(size for size, k in counts.items() for _ in range(k)))


@settings(max_examples=60)
@given(sizes=CHAINS | UNEVEN, data=st.data(), room=st.integers(4, 9), bins=st.integers(0, 3))
def test_rows_hold_exactly_when_the_items_fit_into_equal_bins(sizes, data, room, bins):
    counts = {s: data.draw(st.integers(0, 4 if s > 1 else 6)) for s in sizes}

    assert packs(counts, [packing.Bins(room, bins)]) == fits(listed(counts), (room,) * bins)


@settings(max_examples=40)
@given(sizes=CHAINS | UNEVEN, data=st.data(), full=st.integers(0, 2), rest=st.integers(1, 7))
def test_rows_hold_exactly_when_the_items_fit_beside_a_partial_last_domain(sizes, data, full, rest):
    counts = {s: data.draw(st.integers(0, 3)) for s in sizes}
    bins = [packing.Bins(8, full), packing.Bins(rest, 1)]

    assert packs(counts, bins) == fits(listed(counts), tuple(sorted([8] * full + [rest])))


@settings(max_examples=60)
@given(sizes=UNEVEN, data=st.data(), room=st.integers(4, 9), bins=st.integers(0, 3), rest=st.integers(1, 7))
def test_arcs_hold_exactly_when_patterns_do(sizes, data, room, bins, rest):
    counts = {s: data.draw(st.integers(0, 4)) for s in sizes}
    kinds = [packing.Bins(room, bins), packing.Bins(rest, 1)]
    with patch.object(packing, "MOST_PATTERNS", 0):
        packed = packs(counts, kinds)

    assert packed == fits(listed(counts), tuple(sorted([room] * bins + [rest])))


def test_a_rack_of_many_sizes_is_packed_by_arcs_at_once():
    counts = dict.fromkeys(range(3, 33), 1)  # 525 units; patterns of 72 units would be millions

    assert packs(counts, [packing.Bins(72, 8)])
    assert not packs(counts, [packing.Bins(72, 7)])


@pytest.mark.parametrize("sizes", [[4, 8, 16], [3, 5, 9]])
def test_items_larger_than_every_bin_never_fit(sizes):
    assert packs({sizes[0]: 1, sizes[2]: 0}, [packing.Bins(8, 3)])
    assert not packs({sizes[0]: 1, sizes[1]: 0, sizes[2]: 1}, [packing.Bins(8, 3)])


def test_bins_that_others_take_whole_are_not_filled():
    m = Linear("packing")
    n, y, taken = m.integers("v", ["n", "y", "taken"], {"n": 9, "y": 3, "taken": 9}).values()
    m.fix(taken, 2)
    packing.add(m, "bins", {4: [n]}, [packing.Bins(8, counted=(y * 1.0,), taken=(taken * 1.0,))])
    m.minimise([n * -1.0])

    assert m.solve(Limits()).value == pytest.approx(-2.0)


def test_bins_taken_whole_are_counted_where_nothing_is_packed():
    m = Linear("packing")
    y, taken = m.integers("v", ["y", "taken"], 9).values()
    m.fix(taken, 2)
    packing.add(m, "bins", {}, [packing.Bins(8, counted=(y * 1.0,), taken=(taken * 1.0,))])
    m.minimise([y * 1.0])

    assert m.solve(Limits()).value == pytest.approx(2.0)


@settings(max_examples=60)
@given(sizes=CHAINS, data=st.data(), room=st.integers(8, 11))
def test_best_fit_fills_the_fewest_bins_where_sizes_divide(sizes, data, room):
    counts = {s: data.draw(st.integers(0, 4)) for s in sizes}

    assert packing.bins_filled(counts, room) == fewest_bins(listed(counts), room)


@settings(max_examples=60)
@given(sizes=UNEVEN, data=st.data(), room=st.integers(8, 11))
def test_best_fit_never_claims_fewer_bins_than_are_needed(sizes, data, room):
    counts = {s: data.draw(st.integers(0, 3)) for s in sizes}

    assert packing.bins_filled(counts, room) >= fewest_bins(listed(counts), room)


@settings(max_examples=60)
@given(sizes=CHAINS | UNEVEN, data=st.data(), room=st.integers(1, 14))
def test_each_bin_is_filled_as_far_as_what_is_left_can_fill_it(sizes, data, room):
    counts = {s: data.draw(st.integers(0, 5)) for s in sizes}
    left = list(listed({s: k for s, k in counts.items() if s <= room}))
    for bin_ in packing.fillings(counts, room):
        sums = {0}
        for size in left:
            sums |= {filled + size for filled in sums if filled + size <= room}

        assert sum(s * k for s, k in bin_.items()) == max(sums) > 0
        for size in listed(bin_):
            left.remove(size)
    assert not left


@given(sizes=UNEVEN, room=st.integers(1, 12))
def test_patterns_are_all_maximal_fillings_once_each(sizes, room):
    found = [dict(q) for q in packing.patterns(sizes, room)]
    left = [room - sum(s * k for s, k in q.items()) for q in found]
    fitting = [s for s in sizes if s <= room]

    assert all(0 <= rest < min(fitting) for rest in left)
    assert len({tuple(sorted(q.items())) for q in found}) == len(found)
    assert bool(found) == bool(fitting)


def test_every_row_of_the_docstring_is_in_the_model():
    families = set()
    for sizes in ([1, 2], [2, 3]):
        m = Linear("packing")
        packing.add(m, "b", {s: [m.integers("item", [s])[s]] for s in sizes}, [packing.Bins(8, 2)])
        families |= {family for family, _ in m.rows}

    assert families == {"fit", "full", "cover"}
    assert all(f"\n{family}[" in (packing.__doc__ or "") for family in families)


def test_sums_are_read_as_sums():
    m = Linear("sum")
    a, b = m.reals("v", ["a", "b"]).values()
    m.add("row", "r", total([a, b * 2.0, a]) >= 4.0)
    m.minimise([a * 1.0, b * 3.0])

    assert m.solve(Limits()).value == pytest.approx(2.0 * 1.0)
