"""Plans with drafted tokens: sound as planned, and every lie about them is found."""

import pytest

from model_zoo import catalog
from planner import plan
from planner.check import check, drafts, kv, proof
from planner.check.case import Load, open_case
from planner.check.drafts import least_bytes
from planner.check.roofline import Floors
from planner.inputs.workload import Bucket
from planner.plans.schema import Plan

CARDS = {name: catalog.find(name)[0] for name in ("mimo-7b", "llama-3.1-8b", "llama-3.2-1b")}


@pytest.fixture(scope="module")
def plans():
    load = {
        "gpus": "1xh100-sxm",
        "isl": 1000,
        "osl": 201,
        "engine": "vllm",
        "explain": False,
        "work_limit": 200,
    }
    small = {"speculation": "draft:llama-3.2-1b", "acceptance": 0.6, "draft_tokens": 3}
    return {
        "mtp": plan(None, "mimo-7b", tpot_ms=6, speculation="mtp", acceptance=0.6, draft_tokens=3, **load),
        "draft": plan(None, "llama-3.1-8b", tpot_ms=7, **small, **load),
    }


def lied(sound: Plan, path: str, change) -> list[str]:
    """Codes that `check` finds where the figure at `path` of the first replica (or of the plan, from "/")
    is another."""
    form = sound.model_dump(mode="json", by_alias=True)
    *way, last = path.strip("/").split(".")
    part = form if path.startswith("/") else form["replicas"][0]
    for step in way:
        part = part[int(step)] if step.isdigit() else part[step]
    part[last] = change(part.get(last))
    return [violation.code for violation in check(Plan.model_validate(form))]


def test_plans_with_drafts_are_sound(plans):
    for kind, made in plans.items():
        assert made.replicas[0].draft.kind == kind
        assert check(made) == []


@pytest.mark.parametrize(
    ("kind", "path", "change", "code"),
    [
        ("mtp", "draft.accepted", lambda x: 3.2, "accepted_over"),
        ("mtp", "draft.accepted", lambda x: 1.1 * x, "accepted_wrong"),
        ("mtp", "draft.tokens", lambda x: 4, "draft_not_asked"),
        ("mtp", "/problem.options.speculation", lambda x: None, "draft_not_asked"),
        ("mtp", "/problem.model.mtp_layers", lambda x: 0, "draft_not_started"),
        ("draft", "draft.model", lambda x: {"name": "nothing"}, "draft_unknown"),
        ("draft", "draft.weights_bytes", lambda x: 0.5 * x, "drafter_understated"),
        ("draft", "memory.0.weights_bytes", lambda x: x - 3e9, "weights_understated"),
        ("draft", "step.decode_s", lambda x: 0.4 * x, "decode_below_drafting"),
        ("mtp", "/predicted.tpot_ms.value", lambda x: 0.1 * x, "tpot_below_step"),
    ],
)
def test_every_lie_is_found(plans, kind, path, change, code):
    assert code in lied(plans[kind], path, change)


def test_replicas_that_draft_otherwise_are_of_another_kind(plans):
    case = open_case(plans["mtp"])
    own = case.plan.replicas[0]
    others = [
        own.draft.model_copy(update={"tokens": 1}),
        own.draft.model_copy(update={"kind": "eagle"}),
        None,
    ]

    assert len({proof.kind(case, own.model_copy(update={"draft": d})) for d in [own.draft, *others]}) == 4


@pytest.mark.parametrize("sizes", [{"pp": 2}, {"cp": 2}])
def test_no_engine_is_believed_to_draft_in_a_pipeline_or_over_contexts(plans, sizes):
    replica, case = plans["mtp"].replicas[0].model_copy(update=sizes), open_case(plans["mtp"])
    found = [v.code for v in drafts._counts(case, replica, replica.draft, "")]

    assert found == ["draft_not_started"]


def test_a_pair_whose_prefill_server_has_another_drafter_or_none_is_found():
    load = {"isl": 4000, "osl": 201, "engine": "vllm", "explain": False, "work_limit": 200}
    load |= {"risk": 0.5, "simple": 0.0}
    made = plan(None, "mimo-7b", gpus="2xh100-sxm", ttft_ms=400, tpot_ms=6, speculation="mtp", **load)
    prefill = next(i for i, r in enumerate(made.replicas) if r.role == "prefill")
    form = made.model_dump(mode="json", by_alias=True)
    assert check(made) == []

    for change in ({"accepted": 0.5}, {"tokens": 3, "option": "another"}, None):
        own = form["replicas"][prefill]["draft"]
        form["replicas"][prefill]["draft"] = own | change if change else None
        assert "draft_unpaired" in [v.code for v in check(Plan.model_validate(form))]


def test_a_drafters_layers_are_counted_by_hand(plans):
    """Llama-3.2-1B: 16 layers of 2 x 2048² + 2 x 2048 x 512 + 3 x 2048 x 8192 in 16 bits, and 16 layers of 8
    heads of 64 in its cache beside 32 layers of 8 heads of 128."""
    (replica,), card = plans["draft"].replicas, CARDS["llama-3.1-8b"]
    layer = 2 * 2048**2 + 2 * 2048 * 512 + 3 * 2048 * 8192
    cache = 2 * 8 * 2 * (32 * 128 + 16 * 64)

    assert least_bytes(card, replica) == 2 * 16 * layer
    assert kv.sequence_bytes(card, replica, replica.stages[0], 1.0) == cache


def test_a_step_computes_what_it_verifies():
    """DeepSeek-V2-Lite, three drafted tokens: one sequence meets more experts, a million with next to no
    context compute four times as much."""
    load = {"isl": 1000, "osl": 201, "engine": "vllm", "explain": False, "work_limit": 200}
    asked = {"speculation": "eagle", "draft_tokens": 3, "tpot_ms": 8}
    made = plan(None, "deepseek-v2-lite", gpus="1xh100-sxm", **asked, **load)
    (replica,), case = made.replicas, open_case(made)
    four, one = (
        Floors(case, case.card, replica.model_copy(update=change), Load(((Bucket(isl=1, osl=2), 1.0),)))
        for change in ({}, {"draft": None})
    )

    assert four.step_floor_s(1e6) == pytest.approx(4 * one.step_floor_s(1e6))
    assert four.step_floor_s(1) > 1.3 * one.step_floor_s(1)
