"""Requests in buckets: means over them, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.operating.requests import Requests

SMALL = Requests(*(np.array([row]) for row in ([600.0, 200.0], [1000.0, 200.0], [101.0, 11.0], [0.25, 0.75])))
"""A quarter has 1,000 prompt tokens, of which 400 are in the cache, and 101 of answer; others 200 and 11."""


def test_means_are_over_requests():
    assert SMALL.prompt == pytest.approx(0.25 * 600 + 0.75 * 200)
    assert SMALL.decodes == pytest.approx(0.25 * 100 + 0.75 * 10)
    assert SMALL.mean(SMALL.isl) == pytest.approx(400)


def test_a_computed_token_attends_to_the_cache_and_half_of_those_computed_with_it():
    """400 found and half of 600; half of 200."""
    assert SMALL.keys == pytest.approx(0.25 * 700 + 0.75 * 100)


def test_the_mean_context_is_of_steps_and_so_of_long_answers():
    """Of 32.5 steps 25 are of the long ones, at 1,000 + 101 / 2, and 7.5 at 200 + 11 / 2."""
    assert SMALL.context == pytest.approx((25 * 1050.5 + 7.5 * 205.5) / 32.5)


def test_where_nobody_decodes_the_context_is_that_of_prompts():
    alone = Requests(SMALL.new, SMALL.isl, np.ones((1, 2)), SMALL.share)

    assert alone.context == pytest.approx(400)
    assert alone.decodes == pytest.approx(0)


def test_drafted_tokens_leave_fewer_steps_at_contexts_as_long():
    """Two tokens a step: 100 further tokens come in 50 steps."""
    fast = Requests(SMALL.new, SMALL.isl, SMALL.osl, SMALL.share, 2.0)

    assert fast.decodes == pytest.approx(SMALL.decodes / 2)
    assert fast.context == pytest.approx(SMALL.context)
    assert fast.in_steps.osl == pytest.approx(np.array([[51.0, 6.0]]))
    assert fast.in_steps.decodes == pytest.approx(fast.decodes)
    assert fast.in_steps.in_steps.osl == pytest.approx(fast.in_steps.osl)


def test_servers_that_are_taken_keep_what_is_theirs():
    rows = [np.vstack([x, 2 * x]) for x in (SMALL.new, SMALL.isl, SMALL.osl)]
    two = Requests(*rows, np.vstack([SMALL.share, SMALL.share]), np.array([[1.0], [3.0]]))
    again = two.take(np.array([1, 0, 1]))

    assert again.prompt == pytest.approx(two.prompt[[1, 0, 1]])
    assert again.decodes == pytest.approx(two.decodes[[1, 0, 1]])
    assert SMALL.take(np.array([0])).emitted == 1.0


@given(st.lists(st.tuples(st.floats(1, 1e5), st.floats(1, 1e4), st.floats(0.01, 1)), min_size=1, max_size=4))
def test_the_context_lies_between_those_of_the_buckets(buckets):
    isl, osl, share = (np.array([x]) for x in zip(*buckets, strict=True))
    of = Requests(isl, isl, osl + 1, share / share.sum())
    each = isl + (osl + 1) / 2

    assert each.min() * (1 - 1e-9) <= of.context[0] <= each.max() * (1 + 1e-9)
