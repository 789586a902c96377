"""Parts of a Plan: what is left out where nobody stated it, what follows from the rest, what cannot be."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from planner.plans.schema.beside import Alternative, Survives
from planner.plans.schema.parts import Part, Price
from planner.plans.schema.proof import Band, PlanWarning, Predicted, Proof
from planner.plans.schema.replica import Draft, Launch, Replica, Stage
from planner.plans.schema.served import ExpertMap, Route, Tiered
from tests.reports.samples import ONE_NODE, replica

DRAFT = Draft(kind="mtp", tokens=3, accepted=1.5, weights_bytes=0, option="--draft")


def written(part: Part) -> set[str]:
    return set(part.model_dump())


def test_a_stage_is_of_the_class_that_its_first_node_is_named_after():
    told = {"device": "h100-sxm", "gpus": 8, "tp": 8, "layers": (0, 80)}

    assert Stage(nodes=["gpu-node-12"], **told).node_class == "gpu-node"
    assert Stage(nodes=["gpu-node-12"], node_class="h", **told).node_class == "h"


def test_drafted_tokens_that_are_kept_shorten_a_token():
    fast = replica(draft=DRAFT)

    assert (replica().emitted, replica().token_s) == (1.0, 0.041)
    assert (fast.emitted, fast.token_s) == (2.5, pytest.approx(0.041 / 2.5))


def test_a_replica_writes_what_it_keeps_drafts_and_starts_with_only_where_there_is_any():
    launch = Launch(argv=["vllm"])

    assert not {"kept", "draft", "launch"} & written(replica())
    assert {"draft", "launch"} <= written(replica(draft=DRAFT, launch=launch))
    assert Replica.model_validate(replica().model_dump()) == replica()


def test_chances_are_written_only_of_limits_that_there_are():
    none = ONE_NODE.predicted.model_copy(update={"chance_ttft": None})

    assert "chance_ttft" not in written(none)
    assert "chance_tpot" in written(none)
    assert "usd_per_hour" in written(none)  # unknown is said: null
    assert Predicted.model_validate(none.model_dump()) == none


def test_an_alternative_writes_how_it_ended_only_where_it_is_known():
    old = Alternative(what="tp1", objective=None, loss=None, why="")

    assert written(old) == {"what", "objective", "loss", "why"}
    assert "bound" in written(old.model_copy(update={"bound": 3.0}))


@pytest.mark.parametrize(
    ("status", "code"),
    [("optimal", 0), ("within_gap", 0), ("time_limit", 4), ("not_closed", 4), ("interrupted", 130)],
)
def test_a_command_exits_as_the_search_ended(status: str, code: int):
    assert ONE_NODE.proof.model_copy(update={"status": status}).exit_code == code


def test_a_plans_own_objective_is_the_chosen_one_where_a_simpler_fleet_was_taken():
    proof = ONE_NODE.proof

    assert proof.own == proof.objective == 3180
    assert proof.model_copy(update={"chosen": 3100.0}).own == 3100
    assert proof.model_copy(update={"chosen": 0.0}).own == 0


def test_what_was_not_asked_is_not_written():
    assert not {"survives", "assumptions"} & written(ONE_NODE)
    told = Survives(nodes=1, share=1.0, standing=[], losses=[])
    assert "survives" in written(ONE_NODE.model_copy(update={"survives": told}))
    assert "model_id" not in written(ONE_NODE.problem)
    assert "model_id" in written(ONE_NODE.problem.model_copy(update={"model_id": "meta/llama"}))


def test_a_warning_carries_fields_of_its_own_and_is_written_by_its_short_name():
    told = PlanWarning.model_validate({"code": "idle", "message": "m", "class": "h", "gpus": 3})

    assert told.node_class == "h"
    assert told.model_dump(by_alias=True)["gpus"] == 3


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        (Band, {"value": -1, "low": 0, "high": 0}),
        (Band, {"value": float("inf"), "low": 0, "high": 0}),
        (Band, {"value": 1, "low": 0, "high": 0, "middle": 0}),
        (Route, {"bucket": 0, "share": 1.1}),
        (Price, {"limit": "gpus", "one_more": "1", "worth": float("nan"), "unit": "tok/s"}),
        (Tiered, {"replica": "r1", "tier": "tape", "what": "cache", "layers": [], "bytes": 1}),
        (ExpertMap, {"replica": "r", "ep": 1, "redundant": 0, "slots_per_rank": 1, "placement": "map",
                     "hottest": 0.9, "in_order": 1.0}),
        (Proof, {**ONE_NODE.proof.model_dump(), "gap": -0.1}),
        (Draft, {**DRAFT.model_dump(), "tokens": 0}),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(part: type[Part], fields: dict[str, object]):
    with pytest.raises(ValidationError):
        part.model_validate(fields)


def test_rounding_may_bring_a_share_beyond_one_by_a_millionth():
    assert Route(bucket=0, share=1.0000005).share > 1
