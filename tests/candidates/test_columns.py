"""What servers may take, as rows: full at the column's own load, and never less for plans than for bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.candidates import columns as module
from planner.candidates.columns import FEW, alone, decoding, prefilling
from planner.candidates.largest import largest
from planner.candidates.points import KEPT, batched
from planner.inputs.workload import Bucket
from tests.candidates.samples import CHAT, TWO, ask, one_setup, promising

ONE = one_setup(ask(workload=CHAT))
MIXED = one_setup(ask(workload=TWO))
INDEX = np.arange(3)


def columns(s, role="mixed", limit_s=None):
    """Of servers that decode, in one role."""
    return dict(decoding(s, INDEX, [(role, limit_s or s.promise.tpot_s)]))[role]


@pytest.mark.parametrize("s", [ONE, MIXED], ids=["one bucket", "two"])
@pytest.mark.parametrize("role", ["mixed", "decode"])
def test_a_column_at_its_own_load_has_no_time_left_and_breaks_nothing(s, role):
    found = columns(s, role)
    used = np.where(np.isfinite(found.use), found.use, 0.0) @ s.mix.share * found.points.rate[:, None]
    whole = np.isfinite(found.use[:, 0]).all(axis=1)

    assert whole.any()
    assert used[whole, 0] == pytest.approx(1.0)
    assert (used[whole] <= 1 + 1e-6).all()
    assert (found.points.excess[whole].min(axis=1) <= 1e-6).all()


@pytest.mark.parametrize("s", [ONE, MIXED], ids=["one bucket", "two"])
def test_the_rows_of_bounds_ask_no_more_and_serve_no_less(s):
    for found in (columns(s), columns(s, "decode"), prefilling(s, INDEX, np.array([1.0, 2.0]))):
        assert (found.least <= found.use * (1 + 1e-9)).all()
        assert np.isfinite(found.least[np.isfinite(found.use)]).all()
        assert np.isfinite(found.least).any()


def test_beyond_a_wall_the_rows_of_bounds_stay_those_of_plans(monkeypatch):
    """Where a load just above the largest breaks everything, what it fills bounds nothing."""

    def walled(s, index, asked):
        low, high = largest(s, index, asked)
        return low, high * 30

    monkeypatch.setattr(module, "largest", walled)
    found = columns(MIXED)
    assert (found.least <= found.use * (1 + 1e-9)).all()


def test_rows_of_time_and_room_are_those_of_the_law_of_the_step():
    """By hand: with u of its time used steps last t0 / (1 - u); KV is room x seconds, tokens are a step's."""
    found = columns(ONE)
    p = found.points
    rest = 1 - p.load
    step_s = p.step.t0_s / rest
    tokens = (199 + 1000) * step_s / (ONE.token_budget * p.step.stages)

    assert found.use[:, 0, 0] == pytest.approx(p.work_s[:, 0] / p.load)
    assert found.use[:, 1, 0] == pytest.approx(p.work_s[:, 0] + rest * p.kv_share[:, 0])
    assert found.use[:, 2, 0] == pytest.approx(p.work_s[:, 0] + rest * tokens)


def test_prompts_are_no_tokens_of_a_decode_servers_steps():
    found = columns(ONE, "decode")
    p = found.points
    tokens = 199 * p.step.t0_s / (ONE.token_budget * p.step.stages)

    assert found.use[:, 2, 0] == pytest.approx(p.work_s[:, 0] + tokens)


@settings(max_examples=25)
@given(share=st.floats(0.02, 0.98), row=st.integers(0, 100))
def test_what_the_one_model_says_is_kept_keeps_the_bounds_rows(share, row):
    """A server of two buckets under another mix: its largest load by bisection is within `least`."""
    found = columns(MIXED)
    column = row % len(found.use)
    design = found.points.index[column]
    own = replace(MIXED, mix=replace(MIXED.mix, share=np.array([share, 1 - share])))
    load = found.points.sequences[column]
    p = batched(own, np.array([design]), np.array([load]), "mixed")
    if (p.excess > KEPT).any() or p.load[0] > found.points.load[column]:
        return
    used = found.least[column] @ own.mix.share * p.rate[0]

    assert not np.isfinite(used).all() or used.max() <= 1 + 1e-3


@pytest.mark.parametrize("share", [0.01, 0.2, 0.7])
def test_without_limits_a_mix_that_fills_less_may_make_longer_steps(share):
    """Long prompts fill the tokens of a step before its time is over: servers that get fewer of them do
    more than under the workload's own mix, and the bound counts that."""
    buckets = [Bucket(isl=30_000, osl=128, share=1.0), Bucket(isl=2, osl=4096, share=1e-6)]
    asked = promising(CHAT.model_copy(update={"buckets": buckets}), ttft_ms=1e8, tpot_ms=None)
    s = one_setup(asked, engine="llama.cpp")
    found = dict(decoding(s, s.fitting[:3], [("mixed", np.inf)]))["mixed"]
    own = replace(s, mix=replace(s.mix, share=np.array([share, 1 - share])))
    low = largest(own, s.fitting[:3], [("mixed", np.inf)])[0][0].min(axis=1)
    rate = batched(own, s.fitting[:3], low, "mixed").rate
    for design, most in zip(s.fitting[:3], rate, strict=True):
        used = (found.least[found.points.index == design] @ own.mix.share * most).max(axis=1)
        assert used.min() <= 1 + 3e-3


def test_a_decode_column_stands_at_the_step_it_keeps():
    both = dict(decoding(ONE, INDEX, [("decode", 0.02), ("decode", 0.03)]))["decode"]

    assert set(both.within_s) == {0.02, 0.03}
    for limit in (0.02, 0.03):
        own = both.points.tpot_s[both.within_s == limit]
        assert (own <= limit * (1 + 1e-6)).all()
        assert own.max() == pytest.approx(limit, rel=1e-3)
    assert (columns(ONE).within_s == 0).all()


def test_a_prefill_column_is_as_busy_as_its_promise_lets_it():
    found = prefilling(ONE, INDEX, np.array([0.2, 2.0]))
    tight, loose = (found.points.ttft_s[found.within_s == x, 0] for x in (0.2, 2.0))

    assert (tight <= 0.2 * (1 + 1e-6)).all()
    assert (loose <= 2.0 * (1 + 1e-6)).all()
    assert (found.points.load <= ONE.busiest * (1 + 1e-9)).all()
    per_design = {i: found.points.load[found.points.index == i] for i in found.points.index}
    assert all(np.diff(load) > 0 for load in per_design.values() if len(load) == 2)
    assert any(len(load) == 2 for load in per_design.values())
    assert found.use[:, 0, 0] * found.points.rate == pytest.approx(1.0)


def test_bounds_count_no_rest_of_a_step_that_another_prompt_fills():
    """By hand: a step of 8,192 tokens takes 40 prompts of 200 alone, so 1 / 40 of its start each; where
    others fill the rest 200 / 8,192."""
    found = prefilling(MIXED, np.array([0]), np.array([np.inf]))
    s = one_setup(ask(workload=TWO))
    step, work = s.prefills.at(np.array([0]))
    budget = s.token_budget * step.stages[0]
    rest = step.t0_s[0] * (1 / (budget // 200) - 200 / budget)

    assert rest > 0
    assert found.least[0, 0, 0] <= (work[0, 0] - rest) / s.busiest * (1 + 1e-9)
    assert found.use[0, 0, 0] == pytest.approx(work[0, 0] / found.points.load[0])


def test_of_one_bucket_bounds_and_plans_are_all_but_the_same():
    for found in (columns(ONE), columns(ONE, "decode"), prefilling(ONE, INDEX, np.array([2.0]))):
        assert found.least[:, 0] == pytest.approx(found.use[:, 0], rel=1e-3)


def test_where_more_load_may_keep_a_promise_again_bounds_count_the_largest(monkeypatch):
    """By hand: sure up to 20 sequences, perhaps 25: four fifths of each row."""
    ends = np.full((1, 3, 1), 20.0), np.full((1, 3, 1), 25.0)
    monkeypatch.setattr(module, "largest", lambda *_: ends)
    found = columns(ONE)

    assert (found.points.sequences == 20).all()
    assert found.least == pytest.approx(0.8 * found.use)


def test_of_many_buckets_the_most_unlike_are_looked_at_alone():
    """By hand: longest prompt, longest answer, shortest of both, most answer for its prompt."""
    sizes = [(500, 500), (9000, 100), (50, 10), (100, 2000), (3000, 300)]
    many = TWO.model_copy(update={"buckets": [Bucket(isl=i, osl=o) for i, o in sizes]})

    assert len(sizes) > FEW
    assert alone(one_setup(ask(workload=many))) == [1, 2, 3]
    assert alone(MIXED) == [0, 1]
    assert alone(ONE) == []


def test_some_columns_are_the_same_columns():
    found = columns(MIXED)
    few = found.take(np.array([1, 0]))

    assert (few.use == found.use[[1, 0]]).all()
    assert (few.least == found.least[[1, 0]]).all()
    assert (few.points.rate == found.points.rate[[1, 0]]).all()
    assert (few.within_s == found.within_s[[1, 0]]).all()
