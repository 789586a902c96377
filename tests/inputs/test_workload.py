"""Workloads: one bucket or several, limits that may be none, and one statement of what is met again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from planner.errors import Misplaced
from planner.inputs.presets import PRESETS, SOURCES
from planner.inputs.workload import Bucket, Slo, Workload

TWO = [{"isl": 100, "osl": 10, "share": 1}, {"isl": 200, "osl": 1, "share": 3}]
TURNS = {"name": "turns", "gap_s": 60}
BEGINNING = {"name": "system", "tokens": 50}
IDLE: dict[str, Any] = {
    "ages_s": [1.0],
    "kinds": [{"bucket": 0, "depth": 0, "tokens": 1, "back": [0.5]}],
    "hits": [[1.0]],
}


def of(**fields: Any) -> Workload:
    return Workload.model_validate(fields)


@pytest.mark.parametrize(
    ("fields", "lengths"),
    [
        ({}, [(1024, 256)]),
        ({"isl": 7}, [(7, 256)]),
        ({"osl": 7}, [(1024, 7)]),
        ({"isl": 5, "osl": 7}, [(5, 7)]),
        ({"buckets": TWO}, [(100, 10), (200, 1)]),
    ],
)
def test_lengths_at_the_top_stand_for_one_bucket(fields: dict[str, Any], lengths: list[tuple[int, int]]):
    assert [(b.isl, b.osl) for b in of(**fields).buckets] == lengths


def test_what_a_workload_says_of_its_requests():
    w = of(buckets=TWO)

    assert (w.loop, w.decodes, w.longest, w.shares) == ("closed", True, 200, [0.25, 0.75])
    assert of(rate_rps=2).loop == "open"
    assert not of(osl=1).decodes


def test_a_limit_that_is_none_is_no_promise_and_one_of_whole_requests_is_written_where_it_is_made():
    slo = Slo.model_validate({"ttft_ms": "none", "tpot_ms": 30})

    assert slo.limits == {"tpot_ms": 30.0}
    assert slo.model_dump() == {"ttft_ms": None, "tpot_ms": 30.0, "percentile": "mean"}
    assert Slo(e2e_ms=5).model_dump()["e2e_ms"] == 5.0
    assert Slo().limits == {"ttft_ms": 2000.0, "tpot_ms": 50.0}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"buckets": TWO, "isl": 5}, "give either `buckets` or `isl`, not both"),
        ({"buckets": TWO, "osl": 5, "isl": 5}, "give either `buckets` or `isl`, not both"),
        ({"buckets": []}, "at least 1 item"),
        ({"buckets": TWO, "max_osl": 9}, r"`max_osl` \(9\) is below the `osl` of a bucket \(10\)"),
        ({"prefix_hit": 0.5, "reuse": [TURNS]}, "either `prefix_hit` or `reuse`"),
        ({"prefix_hit": 0.5, "idle": IDLE}, "either `prefix_hit` or `idle`"),
        ({"reuse": [TURNS], "idle": IDLE}, "either `reuse` or `idle`"),
        ({"prefix_hit": 1.0}, "less than 1"),
        ({"isl": 49, "reuse": [BEGINNING]}, "`system` has 50 tokens, a prompt only 49"),
        ({"reuse": [TURNS | {"share": 0.6}, TURNS | {"share": 0.5}]}, "return add up to 1.1"),
        ({"reuse": [BEGINNING | {"share": 0.6}, BEGINNING | {"share": 0.5}]}, "beginnings add up to 1.1"),
        ({"idle": IDLE | {"hits": [[1.0], [1.0]]}}, "`idle.hits` is of 2 buckets, there are 1"),
        ({"idle": IDLE | {"kinds": [IDLE["kinds"][0] | {"bucket": 1}]}}, "a bucket that is not there"),
        ({"traffic": {"slot_s": 60, "rate_rps": [1], "shares": [[0.5, 0.5]]}}, "2 shares, there are 1 buck"),
        ({"slo": {"ttft_ms": 0}}, "greater than or equal to 0.0000"),
        ({"slo": {"percentile": "p42"}}, "'mean', 'p50', 'p90', 'p95' or 'p99'"),
        ({"rate_rps": 2, "arrivals": "closed"}, "a closed loop has no rate"),
        ({"rate_rps": 0}, "greater than or equal to 0.0000"),
        ({"isl": 0}, "greater than or equal to 1"),
        ({"rate": 5}, "Extra inputs"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: dict[str, Any], said: str):
    with pytest.raises((ValidationError, Misplaced), match=said):
        of(**fields)


def test_what_just_fits_is_taken():
    assert of(buckets=TWO, max_osl=10).max_osl == 10
    assert of(isl=50, reuse=[BEGINNING]).reuse[0].tokens == 50
    assert len(of(reuse=[TURNS | {"share": 0.5}, TURNS | {"share": 0.5}, BEGINNING]).reuse) == 3


def test_buckets_of_the_same_lengths_are_one_and_the_only_one_is_all():
    twice = of(buckets=[TWO[0], TWO[1], TWO[0]])

    assert [(b.isl, b.share) for b in twice.merged.buckets] == [(100, 2.0), (200, 3.0)]
    assert of(buckets=[TWO[1], TWO[1]]).merged.buckets == [Bucket(isl=200, osl=1, share=1.0)]
    counted = of(buckets=[TWO[0], TWO[0]], idle=IDLE | {"hits": [[1.0], [1.0]]})
    assert counted.merged is counted


LENGTHS = st.tuples(st.integers(1, 3), st.integers(1, 2), st.floats(0.01, 100))


@settings(max_examples=50)
@given(st.lists(LENGTHS, min_size=1, max_size=6))
def test_merging_keeps_the_share_of_every_length(lengths: list[tuple[int, int, float]]):
    w = of(buckets=[{"isl": isl, "osl": osl, "share": share} for isl, osl, share in lengths])
    kept = w.merged

    assert sum(w.shares) == pytest.approx(1)
    assert len({(b.isl, b.osl) for b in kept.buckets}) == len(kept.buckets)
    for b, share in zip(kept.buckets, kept.shares, strict=True):
        own = [s for x, s in zip(w.buckets, w.shares, strict=True) if (x.isl, x.osl) == (b.isl, b.osl)]
        assert share == pytest.approx(sum(own))


def test_presets_are_called_as_they_are_listed_and_each_has_a_source():
    assert [preset.name for preset in PRESETS.values()] == list(PRESETS)
    assert set(SOURCES) == set(PRESETS)
    assert PRESETS["batch"].model_copy(update={"name": "offline"}) == PRESETS["offline"]
    assert PRESETS["batch"].slo.limits == {}
