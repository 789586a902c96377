"""Which phase a fleet's rate hangs on, and the band that follows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import exp, hypot, log
from typing import Any

import pytest

from planner.cost.bands import Z80
from planner.cost.measured import widths
from planner.plans import binding
from planner.plans.bands import Edges
from planner.plans.binding import growth, phase_sigmas, prompt_share, rate_edges, rate_sigma
from planner.plans.found import Found, Group, Path, groups, paths
from planner.plans.operation import operate
from planner.question.asked import read
from planner.question.posed import pose
from planner.search.find import find
from solvers.linear import Limits


@cache
def solved(gpus: str, model: str, **loads: Any) -> tuple[Found, tuple[Group, ...], tuple[Path, ...]]:
    """Of a closed loop, where nothing else is asked: its columns are full."""
    loads = {"loop": "closed"} | loads
    asked = read(None, model, gpus, "chat", loads, {"engine": "vllm", "gap": 0.0, "risk": 0.5})
    _, pool, question = pose(asked)
    found = find(question, pool, Limits(gap=0.0, work=500))
    made = groups(found)
    return found, tuple(made), tuple(paths(found, made))


def split(model: str = "llama-3.1-70b", **limits: float) -> tuple[dict[str, Group], tuple[Path, ...]]:
    """Two prefill replicas, busy for 95 % of the time, and a decode one with room to spare."""
    _, made, ways = solved("8xH100", model, **limits)
    return {g.candidate.role: g for g in made}, ways


def test_seconds_of_prompts_are_further_off_than_those_of_decode_steps():
    by_role, _ = split()
    prompts, decodes = phase_sigmas(by_role["prefill"])
    told, piped = by_role["prefill"].setup.model, by_role["prefill"].candidate.design.pp > 1
    wider = widths()["pipeline"][1] if piped else 0.0

    assert decodes == pytest.approx(hypot(told.sigma_tpot, wider))
    assert prompts == pytest.approx(hypot(2 * told.calibration.sigma("tpot", told.traits), wider))


def test_a_fleet_bound_by_prefill_has_the_band_of_prefill():
    by_role, ways = split()
    prompts, decodes = phase_sigmas(by_role["prefill"])
    edges = rate_edges(list(by_role.values()), ways)

    assert edges.low == pytest.approx(exp(-Z80 * prompts), rel=1e-3)
    assert edges.low < exp(-Z80 * decodes) * 0.97


def test_a_fleet_bound_by_decode_has_the_band_of_decode(monkeypatch):
    """The same fleet, were its prefill servers the ones with room to spare."""
    by_role, ways = split()
    room = {by_role["prefill"].id: 3.0, by_role["decode"].id: 1.0}
    monkeypatch.setattr(binding, "growth", lambda g, ways: room[g.id])
    _, decodes = phase_sigmas(by_role["decode"])

    assert rate_edges(list(by_role.values()), ways).low == pytest.approx(exp(-Z80 * decodes), rel=1e-3)


def test_where_both_phases_bind_either_may_disappoint(monkeypatch):
    by_role, ways = split()
    monkeypatch.setattr(binding, "growth", lambda g, ways: 1.0)
    prompts, decodes = phase_sigmas(by_role["prefill"])
    edges = rate_edges(list(by_role.values()), ways)

    assert edges.low < exp(-Z80 * max(prompts, decodes))
    assert 1 < edges.high < exp(Z80 * min(prompts, decodes))


@pytest.mark.parametrize(
    ("role", "limits"),
    [("prefill", {"tpot_ms": 20.0}), ("decode", {"tpot_ms": 40.0}), ("decode", {"tpot_ms": 30.0})],
)
def test_a_load_may_grow_as_far_as_the_column_that_promised_the_limits(role: str, limits: dict[str, float]):
    """Prefill: to where TTFT is at its limit, a little beyond the column's 95 % of the time; decode: to the
    batch of the column, at which the cache is full, or TPOT at its limit."""
    by_role, ways = split("qwen3-32b", **limits)
    g = by_role[role]
    filled = max(sum(row[w] * rate for w, rate in g.served.items()) for row in g.candidate.use.values())
    times = growth(g, ways)

    assert times == pytest.approx(g.count / filled, rel=0.03)
    assert not in_time(g, ways, 1.03 * times)
    assert in_time(g, ways, times)


def in_time(g: Group, ways: tuple[Path, ...], times: float) -> bool:
    op = operate(g.setup, g.candidate, {w: times * rate for w, rate in g.served.items()}, g.count)
    beside = max(way.ttft_s for way in ways) - float(g.operation.ttft_s.max())
    promise = g.setup.promise
    if op.utilisation > 1:
        return False
    if g.candidate.role == "decode":
        return bool(op.tpot_s.max() <= promise.tpot_s)
    return bool(op.ttft_s.max() + beside <= promise.ttft_s)


@pytest.mark.parametrize("loop", ["closed", "open"])
@pytest.mark.parametrize(
    ("isl", "osl", "least", "most"), [(200, 1500, 0.0, 0.1), (1000, 200, 0.1, 0.6), (6000, 20, 0.8, 1.0)]
)
def test_of_replicas_that_do_both_phases_prompts_have_their_share(
    isl: int, osl: int, least: float, most: float, loop: str
):
    """Of the time that the server works: random arrivals leave it idle."""
    _, made, ways = solved("1xH100", "llama-3.1-8b", isl=isl, osl=osl, loop=loop)
    (g,) = made
    share = prompt_share(g)
    prompts, decodes = phase_sigmas(g)

    assert least <= share <= most
    assert rate_sigma(g) == pytest.approx(hypot(share * prompts, (1 - share) * decodes))
    assert rate_edges(made, ways) == Edges.of(rate_sigma(g))


def test_side_by_side_errors_count_as_one(monkeypatch):
    """Half of the requests at a fleet that is off by 10 %, half at one that is off by 30 %."""
    _, (g,), (way,) = solved("1xH100", "llama-3.1-8b", isl=1000, osl=200)
    other = replace(g, id="r2")
    monkeypatch.setattr(binding, "rate_sigma", lambda g: {"r1": 0.1, "r2": 0.3}[g.id])
    edges = rate_edges([g, other], [way, replace(way, first=other)])

    assert edges.low == pytest.approx((exp(-0.1 * Z80) + exp(-0.3 * Z80)) / 2)
    assert edges.high == pytest.approx((exp(0.1 * Z80) + exp(0.3 * Z80)) / 2)


def test_what_choosing_flatters_lowers_both_edges_but_not_below_the_figure():
    edges = Edges.of(0.1)

    assert log(edges.flattered(0.05).low) == pytest.approx(-0.1 * Z80 - 0.05)
    assert edges.flattered(1.0).high == pytest.approx(1.0)
