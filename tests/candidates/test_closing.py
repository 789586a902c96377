"""The largest load that keeps a limit: closed on curves that are known, and against scanning servers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.candidates.largest import (
    MOSTLY,
    busiest,
    closed,
    largest,
    most,
    one_at_a_time,
)
from planner.candidates.points import batched, decode_steps, prefilled
from planner.candidates.setup import Setup, prefill_parts
from planner.designs.shape import Floats, Ints
from planner.queueing import work_s
from tests.candidates.samples import CHAT, TWO, one_setup, promising

TRIES = np.geomspace(1.0, 1000.0, 7)


class Curve:
    """One row whose excess is a function of the load; counts how often it is asked."""

    def __init__(self, excess) -> None:
        self.excess, self.asked = excess, 0

    def __call__(self, rows: Ints, loads: Floats) -> Floats:
        self.asked += 1
        return np.array([self.excess(x) for x in loads])

    def closed(self, tries: Floats = TRIES) -> tuple[float, float]:
        low, high = closed(self, tries[None], np.array([[self.excess(x) for x in tries]]))
        return float(low[0]), float(high[0])


@settings(max_examples=60)
@given(at=st.floats(1.01, 990.0), power=st.floats(0.2, 4.0))
def test_a_power_of_the_load_is_closed_from_both_sides_in_few_steps(at: float, power: float):
    curve = Curve(lambda x: (x / at) ** power - 1)
    low, high = curve.closed()

    assert low == pytest.approx(at, rel=1e-7)
    assert low <= high <= low * (1 + 1e-7)
    assert curve.asked <= 6


@settings(max_examples=60)
@given(at=st.floats(1.01, 990.0))
def test_a_wall_is_found_though_nothing_leads_there(at: float):
    """Half of the limit is used up to some load, and beyond it the server cannot carry any more."""
    low, high = Curve(lambda x: -0.5 if x <= at else np.inf).closed()

    assert low <= at <= high
    assert high / low < 1.001


def test_what_no_try_keeps_is_nothing_and_what_all_keep_the_last():
    assert Curve(lambda x: 0.1).closed() == (0.0, 0.0)
    assert Curve(lambda x: -0.1).closed() == (1000.0, 1000.0)


def test_the_highest_load_that_keeps_it_counts_where_lower_ones_do_not():
    """Kept below 2 and from 20 to 50."""
    low, high = Curve(lambda x: -0.2 if x < 2 or 20 <= x <= 50 else 0.3).closed()

    assert low == pytest.approx(50, rel=1e-6)
    assert high == pytest.approx(50, rel=1e-6)


def test_rows_are_closed_by_themselves():
    ends = np.array([3.0, 40.0, 700.0])

    def at(rows: Ints, loads: Floats) -> Floats:
        return loads / ends[rows] - 1

    tries = np.broadcast_to(TRIES, (3, 7))
    low, high = closed(at, tries, tries / ends[:, None] - 1)

    assert low == pytest.approx(ends, rel=1e-7)
    assert high == pytest.approx(ends, rel=1e-7)


def scanned(s: Setup, design: int, bucket: int) -> tuple[float, float]:
    """The largest batch of a fine grid at which a bucket keeps the promise, and the next one."""
    grid = np.geomspace(0.5, 3000.0, 4000)
    p = batched(s, np.full(len(grid), design), grid, "mixed")
    slow = p.tpot_s[:, bucket] * s.caution("mixed")[1][design] > s.promise.tpot_s
    kept = np.flatnonzero(~slow & (p.late[:, bucket] <= 0) & (p.other[:, bucket] <= 0))
    return float(grid[kept[-1]]), float(grid[kept[-1] + 1])


@pytest.mark.parametrize("tpot_ms", [12.0, 30.0])
def test_the_largest_batch_is_the_one_that_scanning_finds(tpot_ms: float):
    s = one_setup(promising(TWO, tpot_ms=tpot_ms), gpus="2xH100")
    index = s.fitting[:3]
    low, high = largest(s, index, [("mixed", s.promise.tpot_s)])
    for i, design in enumerate(index):
        for bucket in range(2):
            below, above = scanned(s, int(design), bucket)
            assert below * (1 - 1e-6) <= low[0, i, bucket] <= high[0, i, bucket] * (1 + 1e-9)
            assert high[0, i, bucket] <= above * (1 + 1e-6)


def test_a_limit_that_one_request_breaks_leaves_no_batch():
    s = one_setup(promising(CHAT, tpot_ms=0.1))

    assert most(s, s.fitting, "mixed").tolist() == [0.0] * len(s.fitting)


def test_a_longer_limit_never_leaves_less():
    s = one_setup()
    asked = [("decode", limit) for limit in (0.01, 0.02, 0.05)]
    low, _ = largest(s, s.fitting, asked)  # type: ignore[arg-type]

    assert (np.diff(low, axis=0) >= 0).all()
    assert (low[2] > low[0]).any()


def test_a_prefill_server_is_as_busy_as_its_first_token_allows():
    """Just below that load its cautious TTFT is within the limit, just above it is not."""
    s = one_setup()
    index, within = s.fitting[:3], np.array([0.05, 0.5])
    low, high = busiest(s, index, within)
    parts = prefill_parts(s, index)
    for edge, limit in enumerate(within):
        for load, kept in ((low * (1 - 1e-6), True), (high * (1 + 1e-5), False)):
            some = np.flatnonzero((low[edge, :, 0] > 0.01) & (high[edge, :, 0] < s.busiest * 0.999))
            p = prefilled(s, parts, some, load[edge, some, 0])
            cautious = p.ttft_s[:, 0] * s.caution("prefill")[0, index][some]
            assert ((cautious <= limit) == kept).all()
    assert (low[1] >= low[0]).all()
    assert (low[1] > 0.1).all()


def test_a_prompt_that_is_late_by_itself_leaves_no_load():
    s = one_setup()

    assert busiest(s, s.fitting, np.array([1e-4]))[0].tolist() == [[[0.0]] * len(s.fitting)]


def test_one_request_at_a_time_decodes_in_all_steps_but_those_of_its_prompt():
    """By hand: 199 decode steps and one of the prompt, as 1,000 tokens fit a step."""
    s = one_setup()
    chunked = replace(s, token_budget=400)

    assert one_at_a_time(s, s.fitting[:2]) == pytest.approx(199 / 200)
    assert one_at_a_time(chunked, s.fitting[:2]) == pytest.approx(199 / 202)


def test_where_requests_come_at_random_one_decodes_for_a_share_of_its_time():
    """Long prompts and two tokens of answer: nearly all of its time is the prompt's."""
    short = CHAT.model_copy(update={"buckets": [CHAT.buckets[0].model_copy(update={"isl": 6000, "osl": 2})]})
    open_ = short.model_copy(update={"rate_rps": 1.0})
    s = one_setup(promising(open_))
    index = s.fitting[:2]
    step = decode_steps(s, index, np.ones(2))
    prompt = work_s(step, s.mix.new, s.mix.isl, s.mix.osl, "prefill", s.token_budget)[:, 0]
    decode = step.t0_s + work_s(step, s.mix.new, s.mix.isl, s.mix.osl, "decode")[:, 0]
    share = decode / (decode + prompt)

    assert (share < MOSTLY).all()
    assert one_at_a_time(s, index) == pytest.approx(share)
    long = promising(CHAT.model_copy(update={"rate_rps": 1.0}))
    assert one_at_a_time(one_setup(long), index).tolist() == [1.0, 1.0]
