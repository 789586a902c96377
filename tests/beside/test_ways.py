"""A way beside a plan is one function and one line; each goes with its line."""

import pytest

from planner import api
from planner.beside.ways import WAYS
from planner.check import check
from planner.fleet import finish
from planner.plans.schema import Alternative, LongPrompt, Price

ASKED = {
    "gpus": "1xH100,1xL40S",
    "model": "llama-3.1-8b",
    "tpot_ms": 50.0,
    "engine": "vllm",
    "work_limit": 100,
}


def made(monkeypatch, ways):
    monkeypatch.setattr(finish, "WAYS", ways)
    return api.plan(None, **ASKED)


def test_a_toy_way_is_told_beside_the_plan(monkeypatch):
    def toy(planned):
        yield Alternative(what="a toy", objective=planned.fleet.objective, loss=0.0, why="it is one")
        yield LongPrompt(what="a toy", ttft_ms=1.0, kv_tokens=1.0, started_by=None, why="")
        yield Price(limit="toys", one_more="1 toy", worth=0.0, unit="req/s", marginal=None)

    plan = made(monkeypatch, (toy,))

    assert [a.what for a in plan.alternatives] == ["a toy"]
    assert [p.what for p in plan.long_prompts] == ["a toy"]
    assert [p.limit for p in plan.prices] == ["toys"]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_way_needs_no_other(monkeypatch, way):
    plan = made(monkeypatch, (way,))

    assert plan.predicted.rps.value > 0
    assert not check(plan)


def test_what_was_told_before_ctrl_c_stays(monkeypatch):
    def interrupted(planned):
        yield Alternative(what="in time", objective=None, loss=None, why="")
        raise KeyboardInterrupt

    plan = made(monkeypatch, (interrupted,))

    assert [a.what for a in plan.alternatives] == ["in time"]
    assert plan.proof.status == "interrupted"
