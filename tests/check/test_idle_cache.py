"""What the verifier itself counts of cache that is kept between requests: by hand and by drawing gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.check import idle_cache as kept
from planner.check.case import Case, open_case
from planner.inputs.reuse import Idle, IdleKind, Reuse
from tests.check.plans import dense

AGES = (10.0, 30.0)
COUNTED = Idle(
    ages_s=list(AGES), kinds=[IdleKind(bucket=0, depth=0, tokens=100, back=[0.5, 0.2])], hits=[[40, 10]]
)
"""Of 100 tokens half return within 10 s, a fifth within 20 s more, evenly; the rest never."""


def case(*reuse: Reuse, idle: Idle | None = None) -> Case:
    """A case whose first bucket has prompts of 1,024 tokens and answers of 256."""
    found = open_case(dense())
    assert isinstance(found, Case)
    return replace(found, workload=found.workload.model_copy(update={"reuse": list(reuse), "idle": idle}))


@pytest.mark.parametrize("keep_s", [2.0, 20.0, 200.0])
def test_log_normal_gaps_return_as_drawn_ones_do(keep_s: float) -> None:
    """A gap of 60 s on average, as wide as that: ln(gap) is normal with variance ln 2."""
    variance = np.log(2.0)
    gaps = np.random.default_rng(0).lognormal(np.log(60) - variance / 2, np.sqrt(variance), 400_000)

    share, waited_s = kept._returned(Reuse(name="turns", gap_s=60, gap_cv=1), keep_s)

    assert share == pytest.approx((gaps <= keep_s).mean(), abs=0.003)
    assert waited_s == pytest.approx((gaps * (gaps <= keep_s)).mean(), abs=0.02 * keep_s)


def test_gaps_all_alike_return_at_once_or_not_at_all() -> None:
    ever = Reuse(name="tools", gap_s=5, gap_cv=0)

    assert [kept._returned(ever, s) for s in (0.0, 4.0, 5.0, 9.0)] == [(0, 0), (0, 0), (1, 5), (1, 5)]


def test_tokens_found_are_shared_beginnings_and_what_returns_of_the_rest() -> None:
    """By hand: 0.5 x 400 begun; the other way returns for half of the requests, four times of five, with half
    of 1,024 tokens, of which 200 are begun: 0.5 x 0.8 x 312."""
    c = case(
        Reuse(name="system", tokens=400, share=0.5, distinct=3),
        Reuse(name="turns", gap_s=5, gap_cv=0, share=0.5, again=0.8, part=0.5),
    )

    assert kept.begun_tokens(c) == 200
    assert kept.fixed_tokens(c) == 1200
    assert kept.found_tokens(c, 0, keep_s=4.0) == 200
    assert kept.found_tokens(c, 0, keep_s=6.0) == pytest.approx(200 + 0.5 * 0.8 * 312)


def test_a_request_leaves_what_rests_until_it_returns_or_its_time_is_over() -> None:
    """By hand, kept for 10 s: 512 tokens return after 5 s four times of five; the other 768 rest all 10 s."""
    c = case(Reuse(name="turns", gap_s=5, gap_cv=0, again=0.8, part=0.5))

    assert kept.token_seconds(c, 0, keep_s=10.0) == pytest.approx(512 * (0.8 * 5 + 0.2 * 10) + 768 * 10)


@pytest.mark.parametrize(
    ("keep_s", "found", "rests"), [(5, 20, 437.5), (10, 40, 750), (20, 45, 1200), (99, 50, 3620)]
)
def test_counted_gaps_are_spread_evenly_over_their_class(keep_s: float, found: float, rests: float) -> None:
    """By hand, token-seconds of 100 tokens. In 5 s a quarter returns, after 2.5 s on average; in 10 s half
    after 5 s; then a tenth in 10 s; at last 30 tokens rest for all 99 s, 50 waited 5 s, 20 waited 20 s."""
    c = case(idle=COUNTED)

    assert kept.found_tokens(c, 0, keep_s) == pytest.approx(found)
    assert kept.token_seconds(c, 0, keep_s) == pytest.approx(rests)
