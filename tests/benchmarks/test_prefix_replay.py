"""The replay of a prefix cache: by hand, against itself, and against published hit rates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.replays import prefix
from planner.inputs.traces import Trace, read_trace

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"


def trace(*prompts: Sequence[int]) -> Trace:
    """One request a second, blocks of one token."""
    sizes = np.array([len(p) for p in prompts])
    start = np.concatenate([[0], np.cumsum(sizes)])
    block = np.array([b for p in prompts for b in p], dtype=np.int64)
    return Trace("t", np.arange(len(prompts), dtype=float), sizes, sizes, 1, block, start)


@st.composite
def trees(draw: st.DrawFn) -> Trace:
    """Prompts that are paths in a tree: equal ids follow equal blocks."""
    ids: dict[tuple[int, ...], int] = {}
    prompts = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=2, max_size=25))
    return trace(*([ids.setdefault(tuple(p[: i + 1]), len(ids)) for i in range(len(p))] for p in prompts))


def test_only_leading_blocks_are_found():
    assert prefix.lru(trace([1, 2, 3], [1, 4, 3]), [10]).hits[:, 0].tolist() == [0, 1]


def test_leaves_go_before_what_they_build_on():
    """Room for two of three blocks: plain LRU keeps the last two, which are of no use without the first."""
    t = trace([1, 2, 3], [1, 2, 3])

    assert prefix.lru(t, [2]).hits[:, 0].tolist() == [0, 0]
    assert prefix.by_expiry(t, [2]).hits[:, 0].tolist() == [0, 2]


def test_what_is_kept_longer_outlives_what_was_used_later():
    t = trace([1], [2], [3], [1])
    keep = np.array([10.0, 0.0, 0.0, 0.0])

    assert prefix.by_expiry(t, [2]).hits[3, 0] == 0
    assert prefix.by_expiry(t, [2], keep).hits[3, 0] == 1


def test_blocks_are_handed_down_and_found_there():
    t = trace([1], [2], [3], [1], [3])

    assert prefix.by_expiry(t, [1, 2]).hits.tolist() == [[0, 0], [0, 0], [0, 0], [0, 1], [0, 1]]


@given(trees(), st.integers(1, 6), st.integers(0, 6))
def test_tiers_together_find_what_one_of_their_size_finds(t: Trace, fast: int, slow: int):
    """LRU is one list, whatever tiers it is cut into, while no prompt overflows the first."""
    room = max(fast, 5)

    both, one = prefix.by_expiry(t, [room, slow]), prefix.by_expiry(t, [room + slow])
    assert (
        prefix.lru(t, [room, slow]).hits.sum(1).tolist() == prefix.lru(t, [room + slow]).hits.sum(1).tolist()
    )
    assert both.hits.sum() <= one.hits.sum() + len(t)  # ties by leaf, not by age, may differ
    assert all(h <= r for h, r in zip(both.held, (room, slow), strict=True))


@given(trees())
def test_an_endless_cache_finds_all_that_came_before(t: Trace):
    hits = prefix.by_expiry(t, [1000]).hits.sum()

    assert hits == prefix.lru(t, [1000]).hits.sum() == len(t.block) - len(set(t.block.tolist()))


@given(trees(), st.integers(1, 8), st.lists(st.floats(0, 20), min_size=1, max_size=5))
def test_no_tier_holds_more_than_its_room(t: Trace, room: int, keep: list[float]):
    keep_s = np.resize(np.array(keep), len(t.block))
    found = prefix.by_expiry(t, [room, room], keep_s)

    assert max(found.held) <= room
    assert (found.hits.sum(1) <= t.isl).all()


PUBLISHED = {
    "conversation": (4.4, 11.0, 28.7, 35.5, 36.4),
    "synthetic": (8.2, 27.9, 57.1, 64.0, 64.0),
}


@pytest.mark.skipif(not SHARED.is_dir(), reason="Mooncake's traces are not here")
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_mooncake_s_hit_rates_are_those_counted_before(name: str):
    pytest.importorskip("pyarrow")
    t = read_trace(SHARED / f"mooncake_{name}.parquet")
    found = [
        100 * prefix.lru(t, [n]).hits.sum() / len(t.block) for n in (1000, 5000, 20_000, 50_000, 100_000)
    ]

    assert found == pytest.approx(PUBLISHED[name], abs=0.0501)
