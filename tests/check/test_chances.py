"""The chance that a limit is kept, against the band it follows from and the risk that was asked for."""

from __future__ import annotations

from math import log
from statistics import NormalDist
from typing import Any

import pytest

from planner.check import check
from planner.plans.schema import Plan
from tests.check.plans import moe, pair

SIGMA = 0.2


def stated(make: Any, name: str, chance: float, over: float = 1.3, risk: float = 0.5) -> Plan:
    """A plan with a band of 20 % around TTFT or TPOT, a limit `over` times the figure, and a chance."""
    d = make().model_dump(mode="json", by_alias=True)
    band = d["predicted"][f"{name}_ms"]
    reach = NormalDist().inv_cdf(0.9) * SIGMA
    band["low"], band["high"] = (band["value"] * 2.718281828 ** (sign * reach) for sign in (-1, 1))
    d["problem"]["workload"]["slo"][f"{name}_ms"] = over * band["value"]
    d["problem"]["options"]["risk"] = risk
    d["predicted"][f"chance_{name}"] = chance
    return Plan.model_validate(d)


def codes(plan: Plan) -> list[str]:
    return [violation.code for violation in check(plan)]


OWN = NormalDist().cdf(log(1.3) / SIGMA)
"""0.905: of keeping 1.3 times the median."""


@pytest.mark.parametrize("name", ["ttft", "tpot"])
def test_a_chance_that_follows_from_its_band_is_sound(name: str) -> None:
    assert codes(stated(moe, name, OWN)) == []


@pytest.mark.parametrize("name", ["ttft", "tpot"])
@pytest.mark.parametrize("chance", [0.8, 0.99])
def test_another_chance_is_not(name: str, chance: float) -> None:
    assert codes(stated(moe, name, chance)) == ["chance_wrong"]


def test_the_worst_of_several_ways_may_be_less_sure_than_their_mean_but_not_surer() -> None:
    assert codes(stated(pair, "ttft", 0.8)) == []
    assert codes(stated(pair, "ttft", 0.99)) == ["chance_wrong"]


def test_a_chance_below_what_the_risk_allows_is_named() -> None:
    assert codes(stated(moe, "tpot", OWN, risk=0.2)) == []
    assert codes(stated(moe, "tpot", OWN, risk=0.05)) == ["chance_below_risk"]


def test_a_chance_without_a_limit_is_named() -> None:
    d = stated(moe, "ttft", OWN).model_dump(mode="json", by_alias=True)
    d["problem"]["workload"]["slo"]["ttft_ms"] = None

    assert codes(Plan.model_validate(d)) == ["chance_wrong"]


def test_a_chance_follows_from_the_side_of_the_band_where_the_limit_is() -> None:
    """Times of servers that are nearly full may be longer by more than shorter."""
    d = stated(moe, "ttft", NormalDist().cdf(log(1.3) / (3 * SIGMA))).model_dump(mode="json", by_alias=True)
    band = d["predicted"]["ttft_ms"]
    band["high"] = band["value"] * (band["high"] / band["value"]) ** 3

    assert codes(Plan.model_validate(d)) == []
    d["predicted"]["chance_ttft"] = OWN
    assert codes(Plan.model_validate(d)) == ["chance_wrong"]
