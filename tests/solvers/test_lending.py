"""Borrowed cache: by hand, against trying, by impossibility, by the prices."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import lending
from solvers.lending import Bucket, Problem, Servers

ROOMY = Servers(
    count=1,
    room=100.0,
    base_s=0.0,
    sequence_s=0.1,
    token_s=0.0,
    prompt_s={"w": 0.0},
    port_bytes_per_s=1e9,
)
SMALL = Problem(
    servers={"a": replace(ROOMY, count=2)},
    buckets={"w": Bucket(context=60.0, steps=10.0, share=1.0)},
    pace_s=1.0,
    message_bytes=1.0,
    piece=10.0,
    over={("a", "a"): ()},
)


def test_halves_of_two_servers_hold_a_third_request():
    """By hand: each of two holds 100 tokens, one request of 60 alone; together 200 / 60 = 3.33 of them."""
    assert lending.solve(SMALL, alone=True).rate == pytest.approx(2 / 10)
    assert lending.solve(SMALL).rate == pytest.approx(200 / 60 / 10)


def test_a_request_that_fits_no_server_fits_two():
    long = replace(SMALL, buckets={"w": Bucket(150.0, 10.0, 1.0)})

    assert lending.solve(long, alone=True).rate == 0
    s = lending.solve(long)
    assert s.rate == pytest.approx(200 / 150 / 10)


def test_a_slow_port_limits_what_is_lent():
    """By hand: 2 servers send 3 bytes a step each, one a piece of 10 tokens: 60 of 200 tokens lie away. There
    is room for all that, own or away."""
    slow = {"a": replace(ROOMY, count=2, port_bytes_per_s=3.0, room=1000.0, sequence_s=0.5)}
    one = lending.solve(replace(SMALL, servers=slow))

    assert sum(one.lent.values()) <= 60 + 1e-9
    far = replace(SMALL, servers={"a": replace(ROOMY, room=0.0), "b": replace(ROOMY, sequence_s=9.0)})
    s = lending.solve(replace(far, over={("a", "b"): ()}, message_bytes=5e8))
    assert s.rate == pytest.approx((20 / 60 + 1 / 9) / 10)  # 2 messages of 10 tokens for a, 1/9 request on b


def test_waiting_for_others_costs_those_that_have_no_need():
    busy = replace(SMALL, buckets={"w": Bucket(1.0, 10.0, 1.0)}, wait_s=0.2)

    assert lending.solve(busy).rate == pytest.approx(0.8 * lending.solve(busy, alone=True).rate)


def test_zones_that_nothing_joins_lend_nothing():
    apart = replace(SMALL, servers={"a": ROOMY, "b": ROOMY}, over={})

    assert lending.solve(apart).lent == {}


def server(count: int, room: float, seq: float, token: float) -> Servers:
    return Servers(count, room, 0.01, seq, token, {"s": 0.01, "l": 0.05}, 1e9)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.builds(
            server,
            st.integers(1, 2),
            st.floats(50, 500),
            st.floats(1e-3, 1e-2),
            st.floats(0.0, 1e-4),
        ),
        min_size=2,
        max_size=2,
    ),
    st.floats(0.05, 0.6),
)
def test_no_mixture_tried_serves_more_and_lending_never_less(servers, share):
    groups = dict(zip("ab", servers, strict=True))
    p = Problem(
        groups,
        {"s": Bucket(10.0, 20.0, 1 - share), "l": Bucket(200.0, 20.0, share)},
        pace_s=0.1,
        message_bytes=1.0,
        piece=10.0,
        over=dict.fromkeys(product("ab", "ab"), ()),
    )
    s = lending.solve(p)

    assert s.rate == pytest.approx(s.bound, rel=1e-6)
    assert s.rate >= lending.solve(p, alone=True).rate * (1 - 1e-9)
    assert tried(p) <= s.rate * (1 + 1e-9)


def tried(p: Problem) -> float:
    """The best rate of a grid: which part of each bucket decodes on a, and of its tokens lies there."""
    best, grid = 0.0, np.linspace(0, 1, 6)
    a, b = p.servers["a"], p.servers["b"]
    for short, long, kept in product(grid, grid, grid):
        per = {w: k.share * k.steps * p.pace_s for w, k in p.buckets.items()}  # sequences at 1 request/s
        on_a = {"s": short * per["s"], "l": long * per["l"]}
        tokens = sum(k.context * per[w] for w, k in p.buckets.items())
        use = []
        for x, seqs, part in (
            (a, on_a, kept),
            (b, {w: per[w] - on_a[w] for w in per}, 1 - kept),
        ):
            work = sum((x.sequence_s + x.prompt_s[w] / p.buckets[w].steps) * n for w, n in seqs.items())
            use += [part * tokens / (x.count * x.room)]
            use += [(work + x.token_s * part * tokens) / (x.count * (p.pace_s - x.base_s))]
        best = max(best, 1 / max(use))
    return best


def test_every_row_of_the_docstring_is_in_the_model():
    linked = replace(SMALL, link_bytes_per_s={"k": 1.0}, over={("a", "a"): ("k",)})
    families = {f for alone in (True, False) for f, _ in lending.build(linked, alone).model.rows}

    assert families == {"serve", "hold", "room", "busy", "send", "take", "over", "whole"}
    assert all(f"\n{family}[" in lending.__doc__ for family in families)
