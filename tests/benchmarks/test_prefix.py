"""The benchmark of the prefix cache, on the small made-up trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.prefix import Case, first
from benchmarks.replays import prefix
from planner.inputs.traces import Trace, read_trace

SIZES = (1000, 4000, 20_000)
"""Blocks of 16 tokens."""


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read_trace(Path(__file__).resolve().parents[2] / "docs" / "examples" / "trace.csv")


@pytest.mark.parametrize("blocks", SIZES)
def test_nobody_saves_more_than_who_knows_the_future(trace: Trace, blocks: int) -> None:
    case = Case.of(trace)
    keeps = (0.0, case.dearer_s(blocks), case.keep_s(blocks)[case.kind])
    saved = [case.shares(prefix.by_expiry(trace, [blocks], keep))[1] for keep in keeps]

    assert 0 <= max(saved) <= case.at_most(blocks) + 1e-9


def test_the_formula_finds_what_the_replay_finds_in_a_cache_for_all(trace: Trace) -> None:
    case = Case.of(trace)
    found, _ = case.shares(prefix.lru(trace, [10**6]))

    assert case.by_formula(10**6)[0] == pytest.approx(found, abs=0.01)


def test_the_first_requests_of_a_trace_are_a_trace(trace: Trace) -> None:
    half = first(trace, len(trace) // 2)

    assert len(half) == len(trace) // 2
    assert len(half.block) == half.start[-1]
    assert half.arrival_s[-1] <= trace.arrival_s[-1]
