"""Autoscalers and tables of the day before, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.schedule.policies import Fleet, Load, Policy, autoscaler, cheapest, forecast
from solvers.schedule import Kind, Problem

ONE = Fleet(Problem((Kind("a", 1.0, 60.0, 99),), [2.0] * 4, 1.0))


def load(*rate: float, step_s: float = 60.0) -> Load:
    return Load(np.array(rate), np.zeros(len(rate), dtype=int), step_s)


def test_an_autoscaler_follows_what_was_and_pays_for_head_room() -> None:
    """2, 2, 6, 6 requests/s by the minute: at the jump it still has 2 servers, and is 4 short of 16."""
    found = ONE.judged(load(2, 2, 6, 6), Policy(None, 0.0))
    assert found.short == pytest.approx(4 / 16)
    assert found.usd == pytest.approx(2 + 2 + 2 + 6)
    assert ONE.judged(load(2, 2, 6, 6), Policy(None, 2.0)).short == 0
    assert autoscaler(ONE, load(2, 2, 6, 6), 0.001).policy.head == 2.0


def test_what_it_starts_serves_a_cold_start_later_and_stays_for_minutes() -> None:
    slow = Fleet(Problem((Kind("a", 1.0, 60.0, 99, cold_hours=2 / 60),), [2.0] * 4, 1.0))
    found = slow.judged(load(2, 6, 6, 6, 6), Policy(None, 0.0))
    assert found.short == pytest.approx((4 + 4 + 4) / 26)  # seen a minute late, and two minutes to start
    down = ONE.judged(load(6, *[2] * 8), Policy(None, 0.0))
    assert down.usd == pytest.approx(6 * 7 + 2 * 2)  # the minute after, and five more
    long = replace(ONE, min_up_s=420.0).judged(load(6, *[2] * 8), Policy(None, 0.0))
    assert long.usd == pytest.approx(6 * 9)  # seven more: a minimum of less than a slot counts, too


def test_a_table_serves_from_the_first_step_of_a_slot() -> None:
    two = Load(np.array([2.0, 2.0, 6.0, 6.0]), np.array([0, 0, 1, 1]), 60.0)
    cold = Fleet(Problem((Kind("a", 1.0, 60.0, 99, cold_hours=0.5),), [2.0] * 2, 2 / 60))
    found = cold.judged(two, Policy(0.0, None))
    assert found.short == 0
    assert found.usd == pytest.approx(2 * 2 + 6 * 2 + 4 * 30)
    assert cold.judged(
        two, Policy(0.0, None), replace(two, rate=np.array([2.0, 2.0, 3.0, 3.0]))
    ).short == pytest.approx(6 / 16)


def test_servers_are_the_cheapest_first_with_pairs_as_one_way_and_spot_within_its_share() -> None:
    mixed = Kind("m", 1.0, 1.5, 5)
    prefill = Kind("p", np.array([[4.0], [0.0]]), 1.0, 4, of="n")
    decode = Kind("d", np.array([[0.0], [2.0]]), 1.0, 4, of="n")
    fleet = Fleet(Problem((mixed, prefill, decode), np.array([[4.0], [4.0]]), 1.0))
    assert fleet.ways == [(1, 2), (0,)]
    n = fleet.servers(np.array([4.0, 8.0]), np.array([0, 0]))
    assert n[:, 0].tolist() == [0, 1, 2]
    assert fleet.carried(n, np.array([0, 0]))[0] == 4.0
    assert n[1, 1] + n[2, 1] <= 4
    assert fleet.carried(n, np.array([0, 0]))[1] >= 8.0
    for most in ((1, 4), (4, 2)):  # of a pair of two sorts of machines
        pair = replace(prefill, most=most[0]), replace(decode, most=most[1], of="o")
        few = Fleet(Problem((mixed, *pair), np.array([[8.0], [8.0]]), 1.0))
        assert (few.servers(np.array([8.0]), np.array([0]))[1:, 0] <= most).all()
    spot = (Kind("s", 1.0, 0.5, 99, risky=True), Kind("a", 1.0, 1.0, 99))
    n = Fleet(Problem(spot, [10.0], 1.0, safe=0.7)).servers(np.array([10.0]), np.array([0]))
    assert n[:, 0].tolist() == [3, 7]


def test_the_day_before_is_tried_on_each_day() -> None:
    """The second day is half as much again: its table needs 50 % and misses a third without."""
    rates = [10.0] * 24 + [15.0] * 24
    kinds = (Kind("a", 0.01, 1.0, 99999),)
    found = forecast(Fleet(Problem(kinds, rates, 1.0)), rates, 3600.0, 0.001)
    assert found is not None
    assert found.days == pytest.approx(1.0)
    assert found.bare.short == pytest.approx(1 / 3, rel=0.05)
    assert found.fixed.short == pytest.approx(0.2, rel=0.05)
    assert found.table.policy.margin == 0.5
    assert found.both.usd <= min(found.table.usd, found.alone.usd) * 1.001
    assert forecast(Fleet(Problem(kinds, rates[:40], 1.0)), rates[:40], 3600.0, 0.001) is None


def test_where_none_is_good_enough_the_least_bad_is_told() -> None:
    tried = [ONE.judged(load(2, 2, 9, 9), Policy(None, head)) for head in (0.0, 0.5)]
    assert cheapest(tried, 0.0).policy.head == 0.5
