"""Plans of several models in a terminal: the headline, a row a model, prices, the proof of all, warnings."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from planner.plans.schema import Cap, Plan, PlanWarning
from planner.plans.schema.several import Demand, Several, Takes, Total
from planner.reports import several as report
from tests.reports.samples import ONE_NODE, band, replica


def plan_of(model: str, rps: float, **changes: Any) -> Plan:
    """ONE_NODE as the plan of another model."""
    problem = ONE_NODE.problem.model_copy(update={"model": {"name": model}})
    predicted = ONE_NODE.predicted.model_copy(update={"rps": band(rps)})
    return ONE_NODE.model_copy(update={"problem": problem, "predicted": predicted, **changes})


SMALL = plan_of("qwen3-8b", 3.0, replicas=[replica(count=1)])
LARGE = plan_of("llama-3.1-70b", 1.5, replicas=[replica(count=3)])
SERVED = Several(
    meshwright_version="0",
    models=[Demand(model="qwen3-8b", part=0.75), Demand(model="llama-3.1-70b", part=0.25)],
    plans=[SMALL, LARGE],
    total=Total(rps=4.5, out_tok_per_s=1150.0, gpus=8),
    proof=ONE_NODE.proof.model_copy(update={"objective": 4.5, "bound": 4.6, "gap": 0.021, "unit": "req/s"}),
)
"""Two models share eight GPUs, three quarters of the requests for the small one; as many as possible."""

RATED = [
    Demand(model=d.model, part=d.part, rate_rps=r) for d, r in zip(SERVED.models, (4.0, 2.0), strict=True)
]
CHEAPEST = SERVED.proof.model_copy(update={"sense": "min", "unit": "usd_per_hour"})


def several(**changes: Any) -> Several:
    return SERVED.model_copy(update=changes)


def printed(part: RenderableType) -> list[str]:
    console = Console(file=StringIO(), width=160)
    console.print(part)
    return [" ".join(x.split()) for x in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "second"),
    [
        ({}, "4.50 requests/s · 1,150 output tok/s"),
        (
            {"total": SERVED.total.model_copy(update={"share": 0.75, "usd_per_hour": 31.2})},
            "75 % of every model's rate · 4.50 requests/s · 1,150 output tok/s · $31.20/h",
        ),
        (
            {"total": SERVED.total.model_copy(update={"share": 1.0}), "proof": CHEAPEST},
            "4.50 requests/s, every model's rate · 1,150 output tok/s",
        ),
    ],
)
def test_the_headline_says_on_what_and_what_comes_of_all(changes: dict[str, Any], second: str):
    assert printed(report.headline(several(**changes))) == ["2 models on 8xH100, 8 of 8 GPUs", second]


def test_a_row_a_model_has_its_own_figures():
    assert printed(report.models(SERVED)) == [
        "model of all served/s GPUs on TTFT TPOT",
        "qwen3-8b 75 % 3.00 2 2 h100-sxm 812 ms 41.3 ms",
        "llama-3.1-70b 25 % 1.50 6 6 h100-sxm 812 ms 41.3 ms",
    ]
    assert printed(report.models(several(models=RATED)))[:2] == [
        "model asked/s served/s GPUs on TTFT TPOT",
        "qwen3-8b 4.00 3.00 2 2 h100-sxm 812 ms 41.3 ms",
    ]


def test_gpus_of_a_model_are_counted_by_device_over_all_its_stages():
    stage = replica().stages[0]
    unlike = replica(
        id="r2", count=2, pp=2, stages=[stage, stage.model_copy(update={"device": "l40s", "gpus": 4})]
    )

    assert report.on(plan_of("m", 1.0, replicas=[replica(count=500), unlike])) == ["1,004 h100-sxm", "8 l40s"]


def takes(**changes: Any) -> Takes:
    base = {"model": "qwen3-8b", "without": 20.0, "bound": 20.0, "status": "optimal", "costs": 11.2}
    return Takes.model_validate(base | {"unit": "usd_per_hour"} | changes)


@pytest.mark.parametrize(
    ("proof", "price", "said"),
    [
        (CHEAPEST, takes(), ["qwen3-8b costs $11.20/h: the others alone take $20.00/h"]),
        (
            CHEAPEST,
            takes(per_request=0.00078, marginal=2.8),
            [
                "qwen3-8b costs $11.20/h, $0.78 per 1,000 requests: the others alone take $20.00/h",
                "one more request/s of it: about 2.8 usd_per_hour (with parts of GPUs)",
            ],
        ),
        (
            CHEAPEST,
            takes(bound=18.0, status="time_limit"),
            ["qwen3-8b costs $11.20/h to $13.20/h: the others alone take at most $20.00/h"],
        ),
        (
            SERVED.proof,
            takes(unit="req/s", without=5.0, bound=5.5, costs=0.5, status="time_limit"),
            ["without qwen3-8b the others would serve 0.500 req/s to 1.00 req/s more in the same proportion"],
        ),
        (
            CHEAPEST.model_copy(update={"unit": "gpus"}),
            takes(unit="gpus", costs=1.0, without=7.0),
            ["qwen3-8b costs 1 GPU: the others alone take 7 GPUs"],
        ),
        (
            SERVED.proof,
            takes(unit="req/s", costs=-2.5, without=7.0, marginal=0.0),
            [
                "without qwen3-8b the others would serve 2.50 req/s more in the same proportion",
                "one more request/s of it: about 0 requests/s of all (with parts of GPUs)",
            ],
        ),
    ],
)
def test_what_a_model_takes_from_the_others(proof: Any, price: Takes, said: list[str]):
    assert printed(report.prices(several(proof=proof, prices=[price]))) == said


@pytest.mark.parametrize(
    ("changes", "first", "second"),
    [
        (
            {},
            "2.1 % from the best possible among 1,840 designs, 0.41 s (HiGHS 1.12)",
            "found 4.5 req/s, bound 4.6 req/s",
        ),
        (
            {"gap": 0.0, "bound": 4.5, "status": "optimal"},
            "the best possible among 1,840 designs, 0.41 s (HiGHS 1.12)",
            "found 4.5 req/s, bound 4.5 req/s",
        ),
        (
            {"gap": 0.0004, "objective": 12345.6, "bound": 12350.1, "status": "time_limit", "seconds": 60.2},
            "out of time: less than 0.1 % from the best possible among 1,840 designs, 60 s (HiGHS 1.12)",
            "found 12,346 req/s, bound 12,350 req/s",
        ),
        (
            {"gap": 0.031, "objective": 128.0, "bound": 124.0, "status": "time_limit", "seconds": 12.0},
            "the bound is loose: 3.1 % from the best possible among 1,840 designs, 12 s (HiGHS 1.12)",
            "found 128 req/s, bound 124 req/s",
        ),
        (
            {
                "status": "interrupted",
                "space": SERVED.proof.space.model_copy(update={"complete": False}),
            },
            "interrupted: 2.1 % from the best possible among 1,840 designs, not all there are,"
            " 0.41 s (HiGHS 1.12)",
            "found 4.5 req/s, bound 4.6 req/s",
        ),
    ],
)
def test_the_proof_is_of_all_and_the_best_only_where_the_bound_says_so(
    changes: dict[str, Any], first: str, second: str
):
    proof = SERVED.proof.model_copy(update=changes)

    assert printed(report.proof(several(proof=proof))) == [first, second]


def caps(*told: tuple[str, bool]) -> Several:
    made = [Cap(what=what, value=0.98, binds=binds) for what, binds in told]
    space = SERVED.proof.space.model_copy(update={"caps": made})
    return several(proof=SERVED.proof.model_copy(update={"space": space}))


def test_a_cap_that_holds_all_models_stands_once_one_of_some_names_them():
    one = report.held(caps(("qwen3-8b: utilisation", True), ("llama-3.1-70b: utilisation", False)))
    all_ = report.held(caps(("qwen3-8b: utilisation", True), ("llama-3.1-70b: utilisation", True)))

    assert len(one) == len(all_) == 1
    assert one == [f"qwen3-8b: {all_[0]}"]
    assert report.held(caps(("qwen3-8b: utilisation", False))) == []
    assert printed(report.proof(caps(("qwen3-8b: utilisation", True))))[2:] == one


def test_warnings_name_their_model_and_idle_gpus_are_told_of_all_alone():
    idle = PlanWarning(code="idle_gpus", message="2 of 8 h100-sxm idle")
    coarse = PlanWarning(code="quantised", message="experts run in mxfp4")
    console = Console(file=StringIO(), width=160)
    plans = [SMALL.model_copy(update={"warnings": [idle, coarse]}), LARGE]
    report.warnings(
        several(plans=plans, warnings=[idle.model_copy(update={"message": "1 GPU idle"})]), console
    )

    assert console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "warning: 1 GPU idle",
        "warning: qwen3-8b: experts run in mxfp4",
    ]


@pytest.mark.parametrize("prices", [[], [takes()]])
def test_each_models_own_plan_comes_below_all_together(prices: list[Takes]):
    console = Console(file=StringIO(), width=100)
    report.render(several(proof=CHEAPEST, prices=prices), console)
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    heads = ["Models", "What each costs the others", "Proof of all together"]
    own = [i for i, x in enumerate(shown) if x.startswith(("qwen3-8b ─", "llama-3.1-70b ─"))]

    assert [x for x in shown[: own[0]] if x in heads] == [heads[0], *heads[1:2] * len(prices), heads[2]]
    assert [shown[i].split()[0] for i in own] == ["qwen3-8b", "llama-3.1-70b"]
    assert all("Proof" in part for part in (shown[own[0] : own[1]], shown[own[1] :]))
