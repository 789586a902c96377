"""What popular experts, or a cache of experts, leave of the choices of a step, by the law of their loads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.expert_tiers import missed, rest_chosen, rest_touched
from planner.cost.experts import distinct_experts

ASKED = st.tuples(st.sampled_from([(8, 2), (128, 8), (256, 8)]), st.floats(0.5, 2000), st.floats(0, 1))


def touched(experts, top_k, tokens, held):
    return float(rest_touched(experts, top_k, np.array([tokens]), np.array([held]))[0])


@given(ASKED)
def test_nothing_held_leaves_all_distinct_experts_and_all_held_leaves_none(asked):
    (experts, top_k), tokens, _ = asked

    every = float(distinct_experts(experts, top_k, np.array([tokens]), 1.0)[0])
    assert touched(experts, top_k, tokens, 0) == pytest.approx(every, rel=1e-6)
    assert touched(experts, top_k, tokens, experts) == pytest.approx(0.0, abs=1e-6)


@given(ASKED)
def test_more_held_leaves_less_and_more_tokens_leave_more(asked):
    (experts, top_k), tokens, part = asked
    held = part * experts
    left = touched(experts, top_k, tokens, held)

    assert 0 <= left <= experts - held + 1e-6
    assert touched(experts, top_k, tokens, 0.5 * held) >= left - 1e-9
    assert touched(experts, top_k, 2 * tokens, held) >= left - 1e-9


@given(ASKED)
def test_the_popular_ones_get_more_than_their_number(asked):
    (experts, _), _, part = asked

    left = float(rest_chosen(experts, np.array([part * experts]))[0])
    assert 0 <= left <= 1 - part + 1e-9


def test_one_token_chooses_its_experts_by_their_share():
    """A token takes top_k: those not held are chosen as often as their share of pairs says."""
    held = np.array([0.0, 16.0, 64.0, 120.0])
    few = 1e-3  # so few tokens that none meets an expert twice

    left = rest_touched(128, 8, np.full(4, few), held)
    first = float(rest_touched(128, 8, np.array([few]), np.array([0.0]))[0])
    assert left / first == pytest.approx(rest_chosen(128, held), rel=5e-3, abs=1e-4)


@given(ASKED)
def test_a_cache_misses_more_than_the_popular_ones_would_and_less_the_larger_it_is(asked):
    """Holding those met last is at best as good as holding the most popular ones."""
    (experts, top_k), tokens, part = asked
    miss = float(missed(experts, top_k, np.array([tokens]), np.array([part]))[0])

    assert touched(experts, top_k, tokens, part * experts) <= miss + 1e-6
    assert miss <= float(distinct_experts(experts, top_k, np.array([tokens]), 1.0)[0]) + 1e-6
    assert miss >= float(missed(experts, top_k, np.array([tokens]), np.array([min(part + 0.1, 1)]))[0]) - 1e-9


def test_where_every_token_takes_every_expert_just_those_not_held_are_left():
    assert touched(8, 8, 5.0, 3.0) == pytest.approx(5.0, rel=1e-3)


def test_a_cache_of_all_misses_nothing_and_one_of_none_all():
    tokens, cached = np.array([4.0, 4.0]), np.array([0.0, 1.0])

    nothing, everything = missed(64, 4, tokens, cached)
    assert nothing == pytest.approx(float(distinct_experts(64, 4, np.array([4.0]), 1.0)[0]), rel=1e-6)
    assert everything == 0.0
