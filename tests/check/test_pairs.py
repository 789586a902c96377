"""Pairs as the verifier knows them: by hand, and the same answer as the planner's own table, which it shares
no line with."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

import pytest

from cluster_configs import devices
from model_zoo import catalog
from planner.check import check, pairs
from planner.check.case import Case, open_case
from planner.designs.precision import precisions
from planner.plans.schema import Plan
from planner.rules.pairs import Cached, Side, unpaired
from tests.check.plans import EIGHT_B, H100, LINK, Scene, Spec, make, pair

SHAPE = {"tp": 1, "pp": 1, "attn_dp": 1, "cp": 1}
End = tuple[str, dict[str, int]]
"""Device and shape of one side."""


@cache
def document() -> str:
    return pair().model_dump_json(by_alias=True)


def found(name: str, engine: str, prefill: End, decode: End, kv: str | None = None) -> list[str]:
    """What the rule by itself finds of such a pair: only what it reads is written into the plan."""
    d: Any = json.loads(document())
    card = catalog.find(name)[0]
    d["problem"]["model"] = card.model_dump(mode="json", exclude_none=True)
    for role, (device, shape) in (("prefill", prefill), ("decode", decode)):
        replica = next(r for r in d["replicas"] if r["role"] == role)
        replica |= {"engine": engine, **SHAPE, **shape}
        replica["precision"]["kv"] = kv or card.weights.kv
        known = d["problem"]["devices"][replica["stages"][0]["device"]]
        known["generation"] = devices.find(device).generation
    case = open_case(Plan.model_validate(d))
    assert isinstance(case, Case)
    return [violation.code for violation in pairs.violations(case)]


def by_the_planner(name: str, engine: str, prefill: End, decode: End, kv: str | None = None) -> str | None:
    card = catalog.find(name)[0]
    sides = [
        Side.of(engine, devices.find(device), tuple((SHAPE | shape).values()), precisions(card, kv=kv))  # type: ignore[arg-type]
        for device, shape in (prefill, decode)
    ]
    return unpaired(sides[0], sides[1], Cached.of(card))


def pipelined(role: str) -> Plan:
    """Llama-3.1-8B prefilled and decoded on H100, one of the two in a pipeline of two stages."""
    scene = Scene({"name": "one", "nodes": [H100], "links": [LINK]}, "llama-3.1-8b", EIGHT_B, {"gap": 0.01})
    stages = {"prefill": ["h"], "decode": ["h"], role: ["h", "h"]}
    specs = [
        Spec("p1", stages["prefill"], count=1, role="prefill"),
        Spec("d1", stages["decode"], count=1, role="decode"),
    ]
    return make(scene, specs)


def test_a_pipeline_may_prefill_and_may_not_decode():
    assert check(pipelined("prefill")) == []
    assert [(v.code, v.where) for v in check(pipelined("decode")) if v.code == "role_refused"] == [
        ("role_refused", "replicas[1].role")
    ]


@pytest.mark.parametrize(
    ("name", "engine", "prefill", "decode", "code"),
    [
        ("llama-3.1-70b", "vllm", ("h100-sxm", {"tp": 2}), ("l40s", {"tp": 4}), None),
        ("llama-3.1-70b", "vllm", ("h100-sxm", {"tp": 2}), ("b200-sxm", {"tp": 2}), "pair_refused"),
        ("llama-3.1-70b", "vllm", ("h100-sxm", {"tp": 2}), ("gaudi3", {"tp": 2}), None),
        ("llama-3.1-70b", "vllm", ("h100-sxm", {"pp": 2}), ("gaudi3", {}), "pair_refused"),
        ("gpt-oss-120b", "vllm", ("h100-sxm", {}), ("a100-sxm", {}), "pair_refused"),
        ("deepseek-v3.1-nvfp4", "vllm", ("l40s", {}), ("rtx-pro-6000-server", {}), None),  # cache in fp8
        ("llama-3.1-70b", "vllm", ("tpu-v6e", {"tp": 2}), ("tpu-v6e", {"tp": 4}), "pair_refused"),
        ("llama-3.1-70b", "vllm", ("h100-sxm", {"cp": 2}), ("h100-sxm", {}), "role_refused"),
        ("llama-3.1-70b", "sglang", ("h100-sxm", {"pp": 4}), ("h100-sxm", {"pp": 2}), "pair_refused"),
        ("llama-3.1-70b", "trtllm", ("h100-sxm", {"tp": 6}), ("h100-sxm", {}), "role_refused"),
        ("deepseek-v3", "trtllm", ("h100-sxm", {}), ("b200-sxm", {}), "pair_refused"),
        ("gpt-oss-120b", "sglang", ("h100-sxm", {"tp": 1}), ("h100-sxm", {"tp": 4}), "pair_refused"),
    ],
)
def test_refusals_are_told_apart(name: str, engine: str, prefill: End, decode: End, code: str | None):
    assert found(name, engine, prefill, decode) == ([code] if code else [])


def test_both_sides_have_one_precision():
    d = json.loads(document())
    next(r for r in d["replicas"] if r["role"] == "decode")["precision"]["weights"] = "fp8"
    case = open_case(Plan.model_validate(d))
    assert isinstance(case, Case)

    assert [v.code for v in pairs.violations(case)] == ["pair_refused"]


MODELS = (
    *("llama-3.1-70b", "deepseek-v3", "qwen3-next-80b-a3b", "gpt-oss-120b", "gemma-4-31b-nvfp4", "kimi-k3"),
    *("deepseek-v3.2", "deepseek-v4-flash", "minimax-m3", "mimo-v2-flash", "nemotron-h-56b", "gemma-3-27b"),
)
DEVICES = (
    *("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm", "l40s", "rtx-pro-6000-server", "t4", "v100-sxm2-32gb"),
    *("mi300x", "mi355x", "gaudi3", "tpu-v6e"),
)
CP = (*[1] * 9, 2)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llama.cpp"])
def test_the_two_tables_say_the_same(engine: str):
    """Of random pairs, half of them on one device."""
    rng, refused, rounds = Random(engine), 0, 600
    nvidia = [name for name in DEVICES if devices.find(name).vendor == "nvidia"]
    on = nvidia if engine == "trtllm" else DEVICES
    for _ in range(rounds):
        name, first = rng.choice(MODELS), rng.choice(on)
        second = first if rng.random() < 0.5 else rng.choice(on)
        ends = [
            (
                d,
                {
                    "tp": rng.choice((1, 1, 2, 2, 4, 6, 16)),
                    "pp": rng.choice((1, 1, 1, 2)),
                    "cp": rng.choice(CP),
                },
            )
            for d in (first, second)
        ]
        kv = rng.choice(("bf16", "fp8"))
        told = by_the_planner(name, engine, ends[0], ends[1], kv)
        refused += told is not None
        assert bool(found(name, engine, ends[0], ends[1], kv)) == (told is not None), (name, ends, kv, told)

    assert engine == "llama.cpp" or 0.2 * rounds < refused < 0.95 * rounds
