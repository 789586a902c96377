"""The Plan's form is frozen: the contract's example, filled in, is read and written back unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from planner.check import check
from planner.plans.schema import Plan

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "plan.json"

BAND = {"value": 0, "low": 0, "high": 0}
CONTRACT: dict[str, Any] = {
    "meshwright_version": "0.1.0",
    "schema_version": 1,
    "problem": {
        "cluster": {},
        "devices": {},
        "model": {},
        "workload": {},
        "options": {},
        "defaulted": ["slo.tpot_ms"],
        "calibration": {},
    },
    "replicas": [
        {
            "id": "r1",
            "role": "mixed",
            "count": 4,
            "engine": "vllm",
            "precision": {"weights": "fp8", "experts": "fp8", "kv": "bf16"},
            "tp": 4,
            "pp": 2,
            "attn_dp": 1,
            "moe_tp": 4,
            "ep": 1,
            "cp": 1,
            "stages": [
                {"device": "h100-sxm", "nodes": ["h-0"], "gpus": 4, "tp": 4, "layers": [0, 40]},
                {"device": "l40s", "nodes": ["l-0", "l-1"], "gpus": 4, "tp": 4, "layers": [40, 80]},
            ],
            "max_batch": 96,
            "kv_tokens": 412000,
            "step": {"decode_s": 0.021, "prefill_s": 0.35, "engine_s": 0.002},
            "memory": [
                {
                    "stage": 0,
                    "weights_bytes": 0,
                    "kv_bytes": 0,
                    "activation_bytes": 0,
                    "reserve_bytes": 0,
                    "capacity_bytes": 0,
                }
            ],
        }
    ],
    "routing": [
        {"bucket": 0, "replica": "r1", "share": 0.7},
        {"bucket": 0, "prefill": "p1", "decode": "d1", "share": 0.3, "kv_gb_per_s": 1.9},
    ],
    "chains": [],
    "experts": None,
    "tiers": [],
    "predicted": dict.fromkeys(
        (
            "out_tok_per_s",
            "total_tok_per_s",
            "rps",
            "ttft_ms",
            "tpot_ms",
            "utilisation",
            "usd_per_hour",
            "usd_per_mtok",
            "watts",
            "joules_per_tok",
        ),
        BAND,
    ),
    "proof": {
        "objective": 0,
        "bound": 0,
        "gap": 0.004,
        "status": "within_gap",
        "seconds": 0.4,
        "solver": "HiGHS 1.12",
        "seed": 0,
        "chosen": 23.3,
        "given_up": 0.025,
        "kinds": [
            {"kinds": 1, "objective": 21.0},
            {"kinds": 2, "objective": 23.3},
            {"kinds": 4, "objective": 23.9},
        ],
        "space": {
            "considered": 1840,
            "kept": 212,
            "complete": True,
            "what": "all designs up to 64 GPUs, any load",
            "caps": [{"what": "utilisation", "value": 0.95, "binds": False}],
        },
    },
    "prices": [
        {
            "limit": "gpus h100-sxm",
            "one_more": "8 GPUs (a node)",
            "worth": 412.0,
            "unit": "tok/s",
            "marginal": 48.0,
        }
    ],
    "warnings": [{"code": "idle_gpus", "message": "…", "class": "l40s", "count": 2, "reason": "…"}],
    "alternatives": [
        {
            "what": "prefill/decode split",
            "objective": 0,
            "loss": 0.06,
            "why": "KV transfer saturates the link",
        }
    ],
}


def test_the_contracts_example_is_read_as_it_stands() -> None:
    plan = Plan.model_validate_json(json.dumps(CONTRACT), strict=True)

    assert plan.replicas[0].stages[1].layers == (40, 80)
    assert plan.warnings[0].node_class == "l40s"


def test_a_stage_without_a_class_takes_the_name_its_nodes_share() -> None:
    plan = Plan.model_validate(CONTRACT)

    assert [stage.node_class for stage in plan.replicas[0].stages] == ["h", "l"]


def test_a_plan_from_before_the_price_list_is_the_best_itself() -> None:
    old = json.loads(json.dumps(CONTRACT))
    for name in ("chosen", "given_up", "kinds"):
        del old["proof"][name]
    del old["proof"]["space"]["caps"]
    proof = Plan.model_validate(old).proof

    assert proof.own == proof.objective
    assert (proof.chosen, proof.given_up, proof.kinds, proof.space.caps) == (None, 0.0, [], [])


def test_a_plan_s_own_objective_is_the_chosen_one() -> None:
    assert Plan.model_validate(CONTRACT).proof.own == 23.3


def test_every_name_of_the_contract_is_written_back() -> None:
    written = Plan.model_validate(CONTRACT).model_dump(by_alias=True, mode="json")

    def missing(form: Any, found: Any, where: str) -> list[str]:
        if isinstance(form, dict):
            absent = [f"{where}.{key}" for key in form if key not in found]
            kept = [key for key in form if key in found]
            return absent + [m for key in kept for m in missing(form[key], found[key], f"{where}.{key}")]
        if isinstance(form, list):
            pairs = zip(form, found, strict=True)
            return [m for i, (a, b) in enumerate(pairs) for m in missing(a, b, f"{where}[{i}]")]
        return [] if form == found else [f"{where}: {form} -> {found}"]

    assert missing(CONTRACT, written, "plan") == []


def test_the_golden_plan_is_read_and_written_back_unchanged() -> None:
    text = GOLDEN.read_text()
    plan = Plan.model_validate_json(text, strict=True)

    assert json.loads(plan.model_dump_json(by_alias=True)) == json.loads(text)


def test_the_golden_plan_is_sound() -> None:
    assert check(Plan.model_validate_json(GOLDEN.read_text())) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("replicas", 0, "tp"), 0),
        (("replicas", 0, "count"), 10**12),
        (("replicas", 0, "step", "decode_s"), -1.0),
        (("replicas", 0, "step", "decode_s"), float("nan")),
        (("replicas", 0, "role"), "both"),
        (("replicas", 0, "colour"), "blue"),
        (("routing", 0, "share"), 1.1),
        (("proof", "status"), "perfect"),
        (("proof", "objective"), float("inf")),
        (("proof", "given_up"), -0.01),
        (("proof", "kinds", 0, "kinds"), 0),
        (("proof", "space", "caps", 0, "binds"), None),
        (("schema_version",), 2),
    ],
)
def test_what_no_plan_can_be_is_refused(path: tuple[Any, ...], value: Any) -> None:
    broken = json.loads(json.dumps(CONTRACT))
    holder = broken
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value

    with pytest.raises(ValidationError):
        Plan.model_validate(broken)
