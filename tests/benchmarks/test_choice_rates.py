"""Whole steps over the best product of their device, by hand."""

from __future__ import annotations

import pytest

from benchmarks.choice.rates import PLANS, of_random, read, shipped, whole_share
from benchmarks.roofline import BEYOND, Ratio
from planner.check.case import Case, open_case
from tests.check.plans import dense, pipeline

BEST = 794.5e12
"""FLOP/s of the best bf16 product that was measured on an H100."""


def case_of(plan) -> Case:
    case = open_case(plan)
    assert isinstance(case, Case)
    return case


def test_a_group_is_as_quick_as_its_requests_need_while_it_is_busy():
    """Llama-3.1-8B has 6.98e9 parameters in its layers: two FLOPs each a token, and attention of at most a
    tenth of that at these lengths."""
    case = case_of(dense())
    replica = case.plan.replicas[0]
    load = case.loads[replica.id]
    flops = sum(rate * 2 * 6.98e9 * (b.isl + b.osl - 1) for b, rate in load.buckets)
    by_hand = flops / BEST / replica.count / replica.utilisation

    share = whole_share(case, replica)

    assert share is not None
    assert 1.0 < share / by_hand < 1.1


def test_half_the_busy_time_is_twice_the_rate():
    case = case_of(dense())
    replica = case.plan.replicas[0]
    half = replica.model_copy(update={"utilisation": replica.utilisation / 2})

    assert whole_share(case, half) == pytest.approx(2 * whole_share(case, replica))


def test_the_fullest_stage_of_unlike_ones_counts():
    """48 layers on H100 against 32 on L40S, which reach a fifth of the FLOP/s: the second stage."""
    case = case_of(pipeline())
    replica = case.plan.replicas[0]
    second = replica.model_copy(update={"stages": [replica.stages[1]]})
    first = replica.model_copy(update={"stages": [replica.stages[0]]})

    assert whole_share(case, replica) == whole_share(case, second) > whole_share(case, first)


def test_every_shipped_plan_is_asked():
    assert {name.split(",")[0] for name, _ in shipped()} <= {path.stem for path in PLANS.glob("*.json")}
    assert len(dict(shipped())) > 30


def test_a_golden_plan_is_read_without_its_seconds():
    form = dense().model_dump(mode="json", by_alias=True)
    del form["proof"]["seconds"]

    assert read(form).proof.seconds == 0


def test_designs_beyond_the_best_product_are_counted():
    found = [Ratio({"role": "mixed"}, {"compute": x}) for x in (0.5, 1.5)]

    assert of_random(found, 3).splitlines()[1].split() == ["mixed", "2", "1", "1.00", "1.50"]


def test_no_shipped_plan_computes_faster_than_anything_that_was_measured():
    assert [name for name, share in shipped() if share > BEYOND] == []
