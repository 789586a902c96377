"""Unlike shares of one long prompt: by hand, by trying all, by the prices."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import contexts
from solvers.contexts import Group, Problem

FAST = Group("h100", 0.0, 1e-5, 0.0, 1.0, 1e9)
SLOW = Group("a100", 0.0, 3e-5, 0.0, 1.0, 1e9)
SMALL = Problem(1e6, (FAST, SLOW))


def positive(least: float, most: float) -> st.SearchStrategy[float]:
    return st.floats(least, most)


GROUPS = st.builds(
    Group,
    name=st.just(""),
    fixed_s=positive(0.0, 2.0),
    each_s=positive(1e-6, 1e-4),
    pass_s=positive(0.0, 20.0),
    held_bytes=positive(0.5, 2.0),
    room_bytes=positive(2e5, 3e6),
)


@st.composite
def problems(draw: st.DrawFn, most: int = 3) -> Problem:
    groups = draw(st.lists(GROUPS, min_size=2, max_size=most))
    return Problem(1e6, tuple(replace(g, name=str(i)) for i, g in enumerate(groups)))


def test_both_finish_together():
    """By hand: a third as fast takes a quarter; 750,000 x 10 us = 250,000 x 30 us = 7.5 s."""
    s = contexts.solve(SMALL)

    assert s.tokens == pytest.approx({"h100": 750_000, "a100": 250_000})
    assert s.seconds == pytest.approx(7.5)


def test_room_moves_tokens_and_has_a_price():
    """By hand: 600,000 fit, the slow one takes 400,000 in 12 s; a token more on the fast one saves 30 us."""
    s = contexts.solve(replace(SMALL, groups=(replace(FAST, room_bytes=6e5), SLOW)))

    assert s.tokens["a100"] == pytest.approx(400_000)
    assert s.seconds == pytest.approx(12.0)
    assert s.second_per_byte == pytest.approx({"h100": 3e-5, "a100": 0.0})


def test_a_slow_link_moves_tokens_to_whom_it_leads():
    """The link to the slow group takes 30 s for all keys and values: they are sent less the more it has."""
    linked = replace(SMALL, groups=(replace(FAST, pass_s=40.0), SLOW))

    assert contexts.solve(linked).tokens["a100"] > 250_000


def test_too_little_room_has_no_shares():
    tight = replace(SMALL, groups=tuple(replace(g, room_bytes=4e5) for g in SMALL.groups))

    assert contexts.solve(tight) is None


@settings(deadline=None, max_examples=60)
@given(problems())
def test_no_shares_on_a_grid_are_through_sooner(p):
    s, steps = contexts.solve(p), 60
    best = np.inf
    for parts in product(range(steps + 1), repeat=len(p.groups) - 1):
        if sum(parts) <= steps:
            x = [k / steps * p.tokens for k in (*parts, steps - sum(parts))]
            if all(own <= g.most_tokens for own, g in zip(x, p.groups, strict=True)):
                best = min(best, p.seconds({g.name: own for own, g in zip(x, p.groups, strict=True)}))
    if s is None:
        assert best == np.inf
        return
    assert s.seconds <= best * (1 + 1e-9)
    assert s.seconds == pytest.approx(s.bound, rel=1e-6)
    assert all(s.tokens.get(g.name, 0) <= g.most_tokens * (1 + 1e-6) for g in p.groups)


@settings(deadline=None, max_examples=40)
@given(problems())
def test_the_price_of_room_lies_between_what_more_saves_and_less_costs(p):
    s = contexts.solve(p)
    if s is None:
        return
    g, step = p.groups[0], 1e3

    def seconds(by: float) -> float:
        other = contexts.solve(replace(p, groups=(replace(g, room_bytes=g.room_bytes + by), *p.groups[1:])))
        return np.inf if other is None else other.seconds

    saved, cost = (s.seconds - seconds(step)) / step, (seconds(-step) - s.seconds) / step
    assert saved - 1e-9 <= s.second_per_byte[g.name] <= cost + 1e-9


def test_every_row_of_the_docstring_is_in_the_model():
    families = {family for family, _ in contexts.build(SMALL).model.rows}

    assert families == {"all", "busy", "pass", "fit"}
    assert all(f"\n{family}" in contexts.__doc__ for family in families)
