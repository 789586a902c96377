"""Rows of what requests wait for in the mean: no fleet that keeps the limits beats the bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import fleet
from solvers.fleet.goals import GPUS, THROUGHPUT
from solvers.fleet.types import Column, FleetProblem, Stock, Transfer, Wait
from solvers.linear import Limits

LIMITS = Limits(gap=1e-6, seconds=20)


def lines_of(scale: float, full: float) -> list[tuple[float, dict[str, float]]]:
    """Lines under r scale / (1 - r / full), what r requests/s of a server of `full` wait for together."""
    at = full * np.linspace(0.05, 0.95, 7)
    slope = scale / (1 - at / full) ** 2
    y = at * scale / (1 - at / full)
    return [(float(a), {"w": float(b)}) for a, b in zip(y - slope * at, slope, strict=True)]


def waits(scale: float, full: float, rate: float) -> float:
    return float(scale / (1 - rate / full))


def problem(servers: list[tuple[float, float]], limit: float) -> FleetProblem:
    """A class of two GPUs for each server, which takes one: (seconds when idle, requests/s when full)."""
    columns = {
        f"c{i}": Column(f"g{i}", 1, {"busy": {"w": 1 / full}}, waits={"first": lines_of(scale, full)})
        for i, (scale, full) in enumerate(servers)
    }
    stocks = {f"g{i}": Stock(1, 2) for i in range(len(servers))}
    return FleetProblem(columns, stocks, {"w": 1.0}, THROUGHPUT, waits={"first": Wait("w", limit)})


SERVER = st.tuples(st.floats(0.1, 3.0), st.floats(1.0, 5.0))


@settings(max_examples=25, deadline=None)
@given(st.lists(SERVER, min_size=2, max_size=2), st.floats(0.5, 4.0))
def test_no_mixture_of_quick_and_slow_servers_beats_the_bound(servers, limit):
    """Any loads of two servers of each of two designs that keep the mean."""
    found = fleet.solve(problem(servers, limit), LIMITS)
    assert found.bound is not None
    grid = np.linspace(0.0, 0.97, 12)
    own = [server for server in servers for _ in range(2)]
    for shares in product(grid, grid[::3], grid, grid[::3]):
        rates = [share * full for share, (_, full) in zip(shares, own, strict=True)]
        waiting = sum(r * waits(scale, full, r) for r, (scale, full) in zip(rates, own, strict=True))
        if waiting <= limit * sum(rates):
            assert sum(rates) <= found.bound * (1 + 1e-6)


@pytest.mark.parametrize("objective", [THROUGHPUT, GPUS])
def test_a_late_server_serves_as_much_as_the_early_ones_make_up_for(objective):
    """One answers at once, one takes 3 s; 1 s in the mean allows the second half of what the first serves."""
    quick = Column("g0", 1, {"busy": {"w": 0.25}}, waits={"first": [(0.0, {"w": 0.0})]})
    slow = Column("g1", 1, {"busy": {"w": 0.25}}, waits={"first": [(0.0, {"w": 3.0})]})
    p = FleetProblem(
        {"quick": quick, "slow": slow},
        {"g0": Stock(1, 1), "g1": Stock(1, 1)},
        {"w": 1.0},
        objective,
        demand=None if objective.more else 6.0,
        waits={"first": Wait("w", 1.0)},
    )
    found = fleet.solve(p, LIMITS)

    assert found.rate == pytest.approx(6.0, rel=1e-6)
    assert found.flows["slow", "w"] == pytest.approx(2.0, rel=1e-6)
    if not objective.more:
        assert fleet.solve(replace(p, demand=6.1), LIMITS).objective is None


@pytest.mark.parametrize(("moves", "rate"), [(True, 0.0), (False, 4.0)])
def test_what_a_move_takes_counts_where_it_is_told_to(moves, rate):
    """1.5 s from prefill to decode, under a limit of 1 s on what nothing else takes any of."""
    ends = {
        role: Column("g0", 1, {"busy": {"w": 0.25}}, group=role, waits={"first": [(0.0, {"w": 0.0})]})
        for role in ("p", "d")
    }
    p = FleetProblem(
        ends,
        {"g0": Stock(1, 2)},
        {"w": 1.0},
        THROUGHPUT,
        pairs={("p", "d", "w"): Transfer(1.0, latency=1.5, on_nic=False)},
        waits={"first": Wait("w", 1.0, moves=moves)},
    )

    assert fleet.solve(p, LIMITS).rate == pytest.approx(rate, abs=1e-6)


def test_columns_that_lose_too_much_are_left_out_under_the_same_bound():
    """Of many designs, most of which are pointless."""
    servers = [(0.2 + 0.01 * i, 3.0 - 0.01 * i) for i in range(12)]
    p = problem(servers, 1.0)
    whole = fleet.solve(p, LIMITS)
    known = fleet.fleet_prices.prices(fleet.build(p), LIMITS)

    assert known is not None
    few = fleet.fleet_prices.searched(p, known, LIMITS, fleet._solve)
    assert few.bound == pytest.approx(whole.bound, rel=1e-5)
    assert few.objective == pytest.approx(whole.objective, rel=1e-5)
