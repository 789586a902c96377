"""What rests between requests, by hand: stated and counted; both forms are refused where they are off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost.idle_cache import Resting, resting_of
from planner.errors import InputError
from planner.inputs.reading import read_workload
from planner.inputs.reuse import Reuse
from planner.inputs.trace_workload import buckets_of, idle_of
from planner.inputs.traces import Trace
from planner.inputs.workload import Bucket, Workload

ONE = [Bucket(isl=1000, osl=200)]


KIND = "bucket: 0, depth: 0, tokens: 9"


def stated(*reuse: Reuse) -> Resting:
    found = resting_of(Workload(buckets=ONE, reuse=list(reuse)))
    assert found is not None
    return found


def test_a_context_that_returns_after_exactly_10_s_waits_as_long():
    """1,200 tokens rest; of the next prompt's 1,000 tokens 900 are found, by 8 of 10 requests."""
    r = stated(Reuse(name="turns", gap_s=10, gap_cv=0, again=0.8, part=0.9))

    assert r.hit_tokens(9.8)[0] == 0
    assert r.hit_tokens(10.0)[0] == pytest.approx(720)
    assert r.token_s(5.0)[0] == pytest.approx(5 * 1200)
    assert r.token_s(30.0)[0] == pytest.approx(900 * (0.8 * 9.95 + 0.2 * 30) + 300 * 30)


def test_a_log_normal_gap_keeps_its_mean():
    r = stated(Reuse(name="turns", gap_s=60, gap_cv=1.5))
    middle = r.ages_s - r.widths_s / 2

    assert float(r.back[0] @ middle / r.back[0].sum()) == pytest.approx(60, rel=0.05)


def test_shared_beginnings_are_found_without_a_return():
    r = stated(Reuse(name="system", tokens=400, share=0.5, distinct=3))

    assert r.hit_tokens(0.0)[0] == 200
    assert r.fixed_tokens == 1200
    assert r.token_s(10.0)[0] == pytest.approx((1000 - 200 + 200) * 10)


def test_ways_share_the_requests():
    r = stated(
        Reuse(name="system", tokens=100),
        Reuse(name="tools", share=0.5, gap_s=4),
        Reuse(name="turns", share=0.5, gap_s=60, part=0.5),
    )

    assert r.hit_tokens(1e6)[0] == pytest.approx(100 + 0.5 * 900 + 0.5 * 400, rel=2e-3)
    assert r.tokens.sum() == pytest.approx(1100)


@settings(max_examples=40)
@given(st.floats(1, 1e5), st.floats(0.1, 100))
def test_che_s_time_fills_the_room(room: float, rate: float):
    r = stated(Reuse(name="turns", gap_s=60, again=0.5))
    seconds = r.keep_s(room, np.array([rate]))

    assert rate * r.token_s(seconds)[0] == pytest.approx(room, rel=1e-6)


def test_longer_keeping_finds_more_and_holds_more():
    r = stated(Reuse(name="turns", gap_s=60, gap_cv=2, again=0.5))
    times = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4]

    assert np.all(np.diff([r.hit_tokens(t)[0] for t in times]) >= 0)
    assert np.all(np.diff([r.token_s(t)[0] for t in times]) > 0)


def trace(rows: list[tuple[float, list[int]]]) -> Trace:
    """Blocks of 10 tokens."""
    sizes = np.array([len(b) for _, b in rows])
    start = np.concatenate([[0], np.cumsum(sizes)])
    at, block = np.array([t for t, _ in rows]), np.array([b for _, blocks in rows for b in blocks])
    return Trace("t", at, 10 * sizes, np.ones_like(sizes), 10, block, start)


def test_a_trace_is_counted_by_gap():
    """Two blocks return after 5 s, one after 20."""
    t = trace([(0, [1, 2, 3]), (5, [1, 2]), (25, [1, 4])])
    buckets, which = buckets_of(t)
    idle = idle_of(t, which)
    assert idle is not None
    r = resting_of(Workload(buckets=buckets, idle=idle))
    assert r is not None
    shares = np.array([b.share for b in buckets])

    assert float(shares @ r.hit_tokens(25.0)) == pytest.approx((20 + 10) / 3)
    assert float(shares @ r.hit_tokens(5.0)) == pytest.approx(20 / 3)
    assert float(shares @ [b.isl for b in buckets]) == pytest.approx(70 / 3, rel=0.02)


def test_a_trace_in_which_nothing_returns_has_no_reuse():
    t = trace([(0, [1, 2]), (5, [3])])

    assert idle_of(t, buckets_of(t)[1]) is None


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("reuse: [{name: a, share: 1.2, gap_s: 3}]", ":1:26", "at most 1"),
        ("reuse: [{name: a, gap_s: -3}]", ":1:26", "at least 0.001"),
        ("reuse: [{name: a, gap_s: 1e-300, gap_cv: 100}]", ":1:26", "at least 0.001"),
        ("reuse: [{name: ' ', gap_s: 3}]", ":1:16", "can be printed"),
        ('reuse: [{name: "a\\e[31m", gap_s: 3}]', ":1:16", "a control character, U+001B"),
        ('reuse: [{name: "a\\vb", gap_s: 3}]', ":1:16", "a control character, U+000B"),
        ("idle: {ages_s: [1], kinds: [], hits: [[1]]}", ":1:28", "at least 1 entry"),
        ("reuse: [{name: a, gap_s: 3, gap_cv: -1}]", ":1:37", "at least 0"),
        ("reuse: [{name: a}]", ":1:9", "either `tokens`"),
        ("reuse: [{name: a, tokens: 5, gap_s: 3}]", ":1:9", "either `tokens`"),
        ("reuse: [{name: a, tokens: 5, again: 0.5}]", ":1:9", "goes with `gap_s`"),
        ("reuse: [{name: a, tokens: 0}]", ":1:27", "at least 1"),
        ("isl: 100\nreuse: [{name: a, tokens: 101}]", ":2:27", "101 tokens, a prompt only 100"),
        ("prefix_hit: 0.5\nreuse: [{name: a, gap_s: 3}]", ":2:8", "not both"),
        ("reuse: [{name: a, gap_s: 3}, {name: b, gap_s: 3, share: 0.1}]", ":1:8", "more than all requests"),
        (f"idle: {{ages_s: [5, 2], kinds: [{{{KIND}, back: [0, 0]}}], hits: [[0, 0]]}}", "", "must rise"),
        (f"idle: {{ages_s: [5], kinds: [{{{KIND}, back: [0]}}], hits: [[0], [0]]}}", "", "of 2 buckets"),
    ],
)  # fmt: skip
def test_reuse_that_makes_no_sense_is_refused_where_it_stands(
    tmp_path: Path, text: str, where: str, says: str
):
    (tmp_path / "w.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        read_workload(tmp_path / "w.yaml")

    assert says in f"{caught.value}"
    assert f"w.yaml{where}" in (caught.value.where or "")
