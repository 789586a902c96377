"""Among fleets of one price the surer one is the plan."""

import pytest

from planner import plan
from planner.check import check
from planner.fleet import solve
from planner.fleet import surer as surer_fleets
from planner.fleet.surer import SURE, is_better, surest

ASKED = {
    "gpus": "8xH100",
    "model": "qwen3-32b",
    "rate": 28.0,
    "tpot_ms": 50.0,
    "percentile": "p95",
    "risk": 0.5,
}


def sureness(made):
    return min(made.predicted.chance_ttft, made.predicted.chance_tpot)


def gpus(made):
    return sum(r.count * stage.gpus for r in made.replicas for stage in r.stages)


@pytest.fixture(scope="module")
def surer():
    return plan(None, **ASKED)


@pytest.fixture(scope="module")
def first_found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "surest", lambda asked, question, simple, limits: simple)
        return plan(None, **ASKED)


def test_it_keeps_its_limits_more_often_for_the_same_price_and_kinds(surer, first_found):
    """Of the eight GPUs of the node six would do, with a chance of 71 %."""
    assert sureness(surer) > sureness(first_found) + 0.1
    assert surer.predicted.usd_per_hour.value == pytest.approx(first_found.predicted.usd_per_hour.value)
    assert len(surer.replicas) == len(first_found.replicas)
    assert surer.proof.own == pytest.approx(first_found.proof.own)
    assert gpus(first_found) < gpus(surer) == 8


def test_where_gpus_are_the_goal_a_surer_fleet_uses_no_more_of_them(first_found):
    assert gpus(plan(None, **ASKED, objective="gpus")) == gpus(first_found)


def test_it_passes_its_check_and_says_the_same_of_the_best(surer, first_found):
    assert check(surer) == []
    assert surer.proof.bound == pytest.approx(first_found.proof.bound)
    assert surer.proof.given_up == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("other", [{"rate": 5.0}, {"rate": None, "percentile": "mean"}])
def test_nothing_is_looked_for_where_a_fleet_is_sure_or_costs_are_not_minimised(other, monkeypatch):
    left = []

    def kept(asked, question, simple, limits):
        left.append(surest(asked, question, simple, limits) is simple)
        return simple

    monkeypatch.setattr(solve, "surest", kept)
    made = plan(None, **(ASKED | other))

    assert left == [True]
    assert sureness(made) > SURE or made.problem.options["objective"] == "throughput"


def test_of_equals_the_surer_then_the_quicker_then_fewer_kinds_then_fewer_watts(monkeypatch):
    for place, name in enumerate(("sureness", "latency_s", "kinds", "watts")):
        monkeypatch.setattr(surer_fleets, name, lambda fleet, *_, at=place: fleet[at])
    monkeypatch.setattr(surer_fleets, "groups", lambda fleet: fleet)
    usual = (0.9, 1.0, 2, 1000.0)

    assert is_better((0.95, 2.0, 2, 2000.0), usual)
    assert not is_better((0.85, 0.5, 1, 500.0), usual)
    assert is_better((0.895, 0.9, 2, 2000.0), usual)  # as sure
    assert not is_better((0.905, 1.1, 1, 500.0), usual)
    assert is_better((0.9, 1.005, 1, 2000.0), usual)  # as quick
    assert not is_better((0.9, 0.995, 3, 500.0), usual)
    assert is_better((0.9, 1.005, 2, 990.0), usual)
    assert not is_better(usual, usual)
