"""Where columns of a pair begin and end: shares of the TTFT promise for either side."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.candidates.mix import Promise
from planner.candidates.pairing import NO_EDGES, Edges

SMALL = Promise(ttft_s=2.0, tpot_s=0.5, percentile="mean", loop="closed")


def test_a_step_that_matters_has_edges_and_leaves_the_prefill_side_what_it_does_not_take():
    """A step of a quarter or an eighth of 2 s: the prefill side has 1.5, 1.75, half or all of it."""
    assert Edges.of(SMALL) == Edges(prefill=(1.0, 1.5, 1.75, 2.0), decode=(0.25, 0.5))


def test_a_step_that_hardly_matters_has_none_but_its_longest():
    """6 % of 2 s are 0.12 s."""
    assert Edges.of(replace(SMALL, tpot_s=0.12)).decode == (0.12,)
    assert Edges.of(replace(SMALL, tpot_s=0.121)).decode == (0.0605, 0.121)


def test_a_step_longer_than_the_promise_is_cut_to_it():
    assert Edges.of(replace(SMALL, tpot_s=9.0)) == Edges((1.0, 2.0), (1.0, 2.0))
    assert Edges.of(replace(SMALL, tpot_s=inf)) == Edges((1.0, 2.0), (1.0, 2.0))


def test_without_a_promise_of_the_first_token_there_is_one_edge_without_end():
    assert Edges.of(replace(SMALL, ttft_s=inf)) == Edges((inf,), (0.5,))


def test_the_bound_counts_the_edge_before_and_nothing_before_the_first():
    edges = Edges.of(SMALL)

    assert [edges.before(s, "prefill") for s in (1.0, 1.2, 1.5, 2.0)] == [0.0, 1.0, 1.0, 1.75]
    assert [edges.before(s, "decode") for s in (0.25, 0.5)] == [0.0, 0.25]
    assert edges.before(inf, "prefill") == 0.0
    assert NO_EDGES.before(1.0, "decode") == 0.0


@given(ttft=st.floats(1e-3, 1e3), tpot=st.floats(1e-4, 1e2))
def test_edges_ascend_to_the_most_that_either_side_may_take(ttft: float, tpot: float):
    edges = Edges.of(replace(SMALL, ttft_s=ttft, tpot_s=tpot))

    assert list(edges.prefill) == sorted(set(edges.prefill))
    assert list(edges.decode) == sorted(set(edges.decode))
    assert edges.prefill[-1] == ttft
    assert edges.decode[-1] == pytest.approx(min(ttft, tpot))
    assert edges.prefill[0] > 0


@given(st.sets(st.floats(1e-3, 2.0), max_size=4), st.sets(st.floats(1e-3, 0.5), max_size=4))
def test_finer_edges_never_raise_what_the_plan_counts_nor_lower_what_the_bound_does(first, second):
    """Between two edges the plan counts the upper, the bound the lower: both come nearer."""
    edges = Edges.of(SMALL)
    finer = edges.finer(first, second)

    assert {*edges.prefill} <= {*finer.prefill}
    assert {*edges.decode} <= {*finer.decode}
    for role, old in (("prefill", edges.prefill), ("decode", edges.decode)):
        assert all(finer.before(s, role) >= edges.before(s, role) for s in old)
