"""A trace as a workload: buckets whose means are the trace's, and what of its cache returns, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.inputs.reuse import LONGEST_S
from planner.inputs.trace_workload import Uses, buckets_of, idle_of, traced
from planner.inputs.traces import Trace
from planner.inputs.workload import Workload

NEVER = float("inf")
SIZE = 16


def trace(requests: Sequence[tuple[float, int, int, Sequence[int]]], dropped: int = 0) -> Trace:
    """Of (arrival, prompt, answer, blocks)."""
    at, isl, osl, blocks = zip(*requests, strict=True)
    counts = [len(b) for b in blocks]
    return Trace(
        "t.csv",
        np.array(at, dtype=float),
        np.array(isl),
        np.array(osl),
        SIZE if any(counts) else 0,
        np.array([b for own in blocks for b in own], dtype=np.int64),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        dropped,
    )


THREE = trace([(0, 32, 4, (0, 1)), (10, 40, 4, (0, 1, 2)), (30, 32, 4, (0, 3))])
"""Block 0 comes thrice, block 1 twice; the last block of the second prompt has 8 tokens."""


def test_each_use_of_a_block_knows_the_one_before_and_the_next():
    use = Uses.of(THREE)

    assert use.request.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert use.depth.tolist() == [0, 16, 0, 16, 32, 0, 16]
    assert use.tokens.tolist() == [16, 16, 16, 16, 8, 16, 16]
    assert use.next_s.tolist() == [10, 10, 20, NEVER, NEVER, NEVER, NEVER]
    assert use.last_s.tolist() == [NEVER, NEVER, 10, 10, NEVER, 20, NEVER]
    assert use.seen.tolist() == [False, False, True, True, False, True, False]


def test_in_caches_apart_only_what_the_same_one_holds_is_met():
    """The second request goes elsewhere: block 0 is met once, after 30 s, block 1 never."""
    use = Uses.of(THREE, np.array([0, 1, 0]))

    assert use.next_s.tolist() == [30, *[NEVER] * 6]
    assert use.last_s.tolist() == [*[NEVER] * 5, 30, NEVER]


def test_what_is_found_again_a_request_is_what_returns_a_request():
    """By hand: 16 + 16 + 16 tokens are found by three requests; 104 of prompts and 12 of answers are left."""
    idle = idle_of(THREE, np.zeros(3, dtype=np.int64))

    assert idle is not None
    assert sum(idle.hits[0]) == pytest.approx(48 / 3)
    assert sum(k.tokens for k in idle.kinds) == pytest.approx(116 / 3)
    assert sum(k.tokens * sum(k.back) for k in idle.kinds) == pytest.approx(48 / 3)
    answers = idle.kinds[-1]
    assert (answers.tokens, sum(answers.back), answers.above) == (12 / 3, 0.0, None)


Drawn = tuple[int, list[int], int, int]
REQUESTS = st.tuples(
    st.integers(0, 50),
    st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
    st.integers(1, 9),
    st.integers(0, 1),
)


@settings(max_examples=60)
@given(st.lists(REQUESTS, min_size=2, max_size=12))
def test_every_token_is_left_once_and_found_as_often_as_it_returns(drawn: list[Drawn]):
    drawn = sorted(drawn, key=lambda r: r[0])
    t = trace([(float(at), SIZE * len(blocks), osl, blocks) for at, blocks, osl, _ in drawn])
    bucket = np.unique([b for *_, b in drawn], return_inverse=True)[1].astype(np.int64)
    idle = idle_of(t, bucket)

    if idle is None:
        assert not Uses.of(t, bucket).seen.any()
        return
    assert 0 < idle.ages_s[0] <= idle.ages_s[-1] <= LONGEST_S
    for w in range(int(bucket.max()) + 1):
        own = [k for k in idle.kinds if k.bucket == w]
        many = int((bucket == w).sum())
        left = float((t.isl + t.osl)[bucket == w].sum())
        assert sum(k.tokens for k in own) * many == pytest.approx(left)
        assert sum(k.tokens * sum(k.back) for k in own) == pytest.approx(sum(idle.hits[w]))


def test_nothing_returns_where_no_blocks_are_named_or_none_comes_twice():
    none = np.zeros(2, dtype=np.int64)

    assert idle_of(trace([(0, 5, 1, ()), (1, 5, 1, ())]), none) is None
    assert idle_of(trace([(0, 16, 1, (0,)), (1, 16, 1, (1,))]), none) is None


def test_buckets_part_at_the_median_four_fifths_and_the_longest_twentieth():
    """By hand, of prompts of 1 to 100 tokens."""
    found, which = buckets_of(trace([(i, i, 2, ()) for i in range(1, 101)]))

    assert [(b.isl, b.share) for b in found] == [(26, 0.5), (66, 0.3), (88, 0.15), (98, 0.05)]
    assert np.bincount(which).tolist() == [50, 30, 15, 5]


def test_requests_that_are_alike_are_one_bucket():
    found, which = buckets_of(trace([(i, 7, 3, ()) for i in range(5)]))

    assert [(b.isl, b.osl, b.share) for b in found] == [(7, 3, 1.0)]
    assert which.tolist() == [0] * 5


@pytest.mark.parametrize(("shared", "buckets"), [(True, [88]), (False, [16, 160])])
def test_sessions_that_grow_keep_their_prompts_in_one_bucket(shared: bool, buckets: list[int]):
    """A short prompt, then a long one that begins with it: parted by length, none would find the other's."""
    requests = []
    for i in range(10):
        first = 100 * i
        begun = first if shared else first + 1
        requests.append((2.0 * i, 16, 1, (first,)))
        requests.append((2.0 * i + 1, 160, 1, range(begun, begun + 10)))

    assert [b.isl for b in buckets_of(trace(requests))[0]] == buckets


def test_a_workload_takes_the_requests_of_a_trace_and_keeps_its_promise():
    asked = Workload.model_validate({"name": "mine", "rate_rps": 3, "slo": {"ttft_ms": 700}})
    made, notes = traced(asked, THREE, ["rate"])

    assert (made.name, made.rate_rps, made.slo) == ("mine", 3.0, asked.slo)
    assert made.max_osl == 4
    assert made.idle is not None
    assert notes == ["t.csv: 3 requests in 0 min; --rate 0.0667 plans for its own rate"]


def test_the_longest_answer_is_the_trace_s_where_none_is_stated():
    t = trace([(0, 5, 1, ()), (1, 5, 9, ())])

    assert traced(Workload.model_validate({}), t, [])[0].max_osl == 9
    assert traced(Workload.model_validate({"max_osl": 400}), t, [])[0].max_osl == 400


@pytest.mark.parametrize(
    ("fields", "asked", "name"),
    [
        ({}, ["isl"], "isl"),
        ({}, ["rate", "osl"], "osl"),
        ({"prefix_hit": 0.5}, [], "prefix_hit"),
        ({"reuse": [{"name": "a", "gap_s": 1}]}, [], "reuse"),
    ],
)
def test_what_the_trace_says_too_is_refused(fields: dict[str, object], asked: list[str], name: str):
    with pytest.raises(InputError, match=f"`{name}` and a trace both say") as caught:
        traced(Workload.model_validate(fields), THREE, asked)
    assert caught.value.hint == f"leave out `{name}`, or the trace"


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ([(0, 16, 1, (0,)), (0.5, 16, 1, (1,))], "no block of a prompt comes twice"),
        ([(0, 16, 1, ()), (0.5, 16, 1, ())], "the trace names no blocks of prompts"),
        ([(t, 5, 1, ()) for t in (0, 0, 0, 2, 2, 2)], "stamps are 2.0 s apart and more"),
    ],
)
def test_what_a_trace_lacks_is_said(requests: list[tuple[float, int, int, Sequence[int]]], said: str):
    notes = traced(Workload.model_validate({}), trace(requests, dropped=1200), [])[1]

    assert ", 1,200 failed ones left out" in notes[0]
    assert any(said in note for note in notes[1:])
    assert ("apart" in " ".join(notes)) == ("apart" in said)
