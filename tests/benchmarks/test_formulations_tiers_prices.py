"""What one more unit is worth: by hand, and between the left and the right derivative."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from benchmarks.formulations.tiers_prices import margins, prices, with_more
from solvers import tiers
from solvers.linear import Limits
from solvers.tiers.point import solve_at
from tests.solvers.tier_cases import SMALL, problems


def value_there(p, s, of, amount):
    """Tokens/s of the chosen point with `amount` more; None where it has no room then."""
    changed = with_more(p, of, amount)
    point = tiers.at(changed.lines[p.lines.index(s.point.line)], s.point.batches)
    found = solve_at(changed, point)
    return None if found is None else point.tokens / found.seconds


def test_a_gb_on_the_gpu_is_worth_a_ninth():
    """By hand: k / (8 + k - room), so 4 / 36 a GB at room 6, and 4/5 - 2/3 for a whole GB."""
    s = tiers.solve(SMALL, Limits())
    [price] = prices(SMALL, s, {"gpu": 1.0}, Limits())

    assert price.marginal == pytest.approx(1 / 9)
    assert price.worth == pytest.approx(4 / 5 - 2 / 3)


def test_a_faster_link_is_worth_what_it_takes():
    """By hand: 4 / (6 / rate), so 2/3 a unit until computing limits at 1.5."""
    s = tiers.solve(SMALL, Limits())
    [link] = prices(SMALL, s, {"link": 1.0}, Limits())

    assert link.marginal == pytest.approx(2 / 3)
    assert link.worth == pytest.approx(1 / 3)


def test_what_does_not_limit_is_worth_nothing():
    s = tiers.solve(SMALL, Limits())

    assert margins(SMALL, s)["gpu"] > 0
    assert margins(replace(SMALL, room={"gpu": 6.0, "cpu": 80.0}), s)["cpu"] == 0


@settings(max_examples=150, derandomize=True)
@given(p=problems())
def test_each_price_lies_between_the_derivatives_on_both_sides(p):
    s = tiers.solve(p, Limits())
    assume(s.point is not None)
    for of, price in margins(p, s).items():
        step = 1e-5 * (p.room.get(of) or p.rate[of])
        less, more = value_there(p, s, of, -step), value_there(p, s, of, step)
        right = (more - s.tokens_per_s) / step
        left = right if less is None else (s.tokens_per_s - less) / step
        slack = 1e-3 * max(abs(left), abs(right)) + 1e-4 * s.tokens_per_s / (step * 1e5)

        assert price >= min(left, right) - slack
        assert less is None or price <= max(left, right) + slack
