"""Default limits that each model keeps alone are loosened where all of them at once cannot keep them."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from planner.check.several import check
from planner.errors import Infeasible, OutOfTime
from planner.inputs.workload import Slo
from planner.several import relaxed as module
from planner.several.plan import plan_several
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits

BOTH = ("llama-3.1-8b", "qwen3-8b")
SMALL = {"gpus": "2xL4", "engine": "vllm", "explain": False, "work_limit": 50}


def planned(models=BOTH, **more):
    return plan_several(None, models, **SMALL | more)


def said(plan):
    return [w.message for w in plan.warnings if w.code == "slo_relaxed"]


@pytest.mark.parametrize("rate", [None, 0.05])
def test_what_each_keeps_alone_on_both_gpus_is_loosened_no_more_than_both_need(rate):
    """Alone a model has tensor parallelism over both GPUs; beside the other it has one."""
    found = planned(rate=rate)
    slos = [p.problem.workload["slo"] for p in found.plans]
    limits = {slo["tpot_ms"] for slo in slos}

    assert check(found) == []
    assert {slo["ttft_ms"] for slo in slos} == {2000.0}  # it is no hindrance, and stays
    tpot = max(limits)
    assert tpot > 50
    assert planned(rate=rate, tpot_ms=tpot).total.rps == pytest.approx(found.total.rps)
    with pytest.raises(Infeasible, match="within their limits"):
        planned(rate=rate, tpot_ms=tpot / 1.06)
    for plan, slo in zip(found.plans, slos, strict=True):
        (words,) = said(plan)
        assert words.startswith("nothing meets the default SLO beside the other models; relaxed")
        assert words.endswith(f": TPOT 50 -> {slo['tpot_ms']:g} ms")


def test_a_limit_that_was_asked_for_is_not_loosened():
    with pytest.raises(Infeasible, match="no fleet serves all models at once within their limits"):
        planned(tpot_ms=50)


def test_one_that_was_relaxed_already_is_told_once_against_what_was_the_default():
    """Nor both GPUs of a model alone keep 30 ms, which one GPU misses by more."""
    for plan in planned(workload="reasoning").plans:
        (words,) = said(plan)
        assert words.endswith(f": TPOT 30 -> {plan.problem.workload['slo']['tpot_ms']:g} ms")


def test_one_that_was_relaxed_already_and_no_more_keeps_its_own_words():
    """On three GPUs the larger model keeps no default limit even alone, and the smaller one does."""
    found = planned(("qwen3-14b", "llama-3.1-8b"), gpus="3xL4")
    larger, smaller = (said(p) for p in found.plans)

    assert [w.startswith("nothing meets the default SLO") for w in larger + smaller] == [True, True]
    assert all("TPOT 50 -> " in w for w in larger + smaller)
    assert "beside the other models" in smaller[0]
    assert "beside the other models" not in larger[0]


@pytest.mark.parametrize(
    ("status", "late", "error"),
    [("interrupted", False, KeyboardInterrupt), ("infeasible", True, OutOfTime), ("infeasible", False, None)],
)
def test_what_is_broken_off_or_cut_short_does_not_say_that_no_limit_helps(monkeypatch, status, late, error):
    asked = SimpleNamespace(workload=SimpleNamespace(slo=Slo(tpot_ms=50)), defaulted=["slo.tpot_ms"])
    joint = SimpleNamespace(models=[SimpleNamespace(asked=asked, pool=SimpleNamespace(late=late))])
    monkeypatch.setattr(module, "loosened", lambda *_: joint)
    monkeypatch.setattr(module, "find", lambda *_: (None, FleetSolution(status, None, None, "none")))

    with pytest.raises(error) if error else nullcontext():
        assert module.relaxed(joint, [asked], Limits()) is None
