"""Pairs of prefill and decode servers: what engines refuse, what was measured, generations that meet."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cluster_configs import devices
from model_zoo import catalog
from model_zoo.schema import ModelCard
from planner.designs.precision import precisions
from planner.errors import InputError, MeshwrightError
from planner.rules.pairs import Cached, Role, Side, no_role, unpaired

RUNS = Path(__file__).resolve().parents[2] / "shared" / "data" / "silicon_train.csv.gz"
LLAMA, DEEPSEEK, QWEN_NEXT = "llama-3.1-70b", "deepseek-v3", "qwen3-next-80b-a3b"


def model(name: str) -> ModelCard:
    return catalog.find(name)[0]


def side(card: ModelCard, engine: str, device: str, kv: str | None = None, **shape: int) -> Side:
    sizes = {"tp": 1, "pp": 1, "attn_dp": 1, "cp": 1} | shape
    four = (sizes["tp"], sizes["pp"], sizes["attn_dp"], sizes["cp"])
    return Side.of(engine, devices.find(device), four, precisions(card, kv=kv))


def why_unpaired(prefill: Side, decode: Side, card: ModelCard) -> str | None:
    return unpaired(prefill, decode, Cached.of(card))


def why_no_role(role: Role, server: Side, card: ModelCard) -> str | None:
    return no_role(role, server, Cached.of(card))


def told(name: str, engine: str, prefill: dict[str, Any], decode: dict[str, Any]) -> str | None:
    card = model(name)
    ends = [side(card, engine, **{"device": "h100-sxm", **end}) for end in (prefill, decode)]
    return why_unpaired(ends[0], ends[1], card)


@pytest.mark.parametrize(
    ("name", "engine", "prefill", "decode", "reason"),
    [
        # published: vllm issues 40674, 52913; pull 45880 hands over from a pipeline to none
        (LLAMA, "vllm", {"tp": 4}, {"tp": 4, "pp": 2}, "no decode server with pp=2"),
        (LLAMA, "vllm", {"tp": 4, "pp": 2}, {"tp": 4, "pp": 2}, "no decode server with pp=2"),
        (LLAMA, "vllm", {"tp": 2, "pp": 2}, {"tp": 2}, None),
        (LLAMA, "vllm", {"tp": 2, "pp": 2}, {"tp": 4}, None),
        ("gpt-oss-120b", "vllm", {"tp": 2, "pp": 2}, {"tp": 2}, None),
        ("gpt-oss-120b", "vllm", {"tp": 2, "pp": 2}, {"tp": 4}, "windows of a pipeline between like tp"),
        ("gpt-oss-120b", "vllm", {"tp": 2}, {"tp": 4}, None),
        (QWEN_NEXT, "vllm", {"tp": 2, "pp": 2}, {"tp": 2}, "recurrent caches from pp=1 only"),
        ("deepseek-v4-flash", "vllm", {"pp": 2}, {}, "compressed caches from pp=1 only"),
        (
            LLAMA,
            "vllm",
            {"device": "gaudi3", "pp": 2},
            {"device": "gaudi3"},
            "pushes no caches, as pp=2 needs",
        ),
        (LLAMA, "vllm", {"device": "gaudi3", "tp": 2}, {"device": "gaudi3", "tp": 2}, None),
        (LLAMA, "vllm", {"device": "mi300x", "pp": 2}, {"device": "mi300x"}, None),
        # vllm base_worker.py: one tp divides the other; repeated KV heads only to as many ranks or more
        (LLAMA, "vllm", {"tp": 1}, {"tp": 8}, None),
        (LLAMA, "vllm", {"tp": 8}, {"tp": 1}, None),
        (LLAMA, "vllm", {"tp": 2}, {"tp": 3}, "needs one to be a multiple of the other"),
        (LLAMA, "vllm", {"tp": 16}, {"tp": 8}, "no repeated KV heads, of 8, to fewer"),
        (LLAMA, "vllm", {"tp": 16}, {"tp": 16}, None),
        (LLAMA, "vllm", {"tp": 8}, {"tp": 16}, None),
        (LLAMA, "vllm", {"tp": 16}, {"tp": 32}, None),
        (DEEPSEEK, "vllm", {"tp": 8}, {"attn_dp": 16}, None),  # a latent is whole on every rank
        (QWEN_NEXT, "vllm", {"tp": 4}, {"tp": 2}, "recurrent states between like tp"),
        (QWEN_NEXT, "vllm", {"tp": 4}, {"tp": 4}, None),
        (LLAMA, "vllm", {"device": "tpu-v6e", "tp": 4}, {"device": "tpu-v6e", "tp": 8}, "caches of TPUs"),
        (LLAMA, "vllm", {"device": "tpu-v6e", "tp": 4}, {"device": "tpu-v6e", "tp": 4}, None),
        # vllm-gaudi, heterogeneous_pd.md
        (LLAMA, "vllm", {"tp": 4}, {"device": "gaudi3", "tp": 4}, None),
        (LLAMA, "vllm", {"tp": 4}, {"device": "gaudi3", "tp": 8}, "to Gaudi for plain attention"),
        (LLAMA, "vllm", {"tp": 4, "pp": 2}, {"device": "gaudi3", "tp": 4}, "to Gaudi for plain attention"),
        (LLAMA, "vllm", {"device": "mi300x", "tp": 4}, {"device": "gaudi3", "tp": 4}, "says nothing"),
        ("llama-3.1-8b", "vllm", {"tp": 2, "cp": 2}, {"tp": 2}, "divided by context, cp=2"),
        ("llama-3.1-8b", "vllm", {"tp": 2}, {"tp": 2, "cp": 2}, "divided by context, cp=2"),
        # sglang conn.py: pp of decode is that of prefill or 1; issue 38552: windows between like tp
        (LLAMA, "sglang", {"pp": 2}, {"tp": 2}, None),
        (LLAMA, "sglang", {"pp": 4}, {"pp": 4}, None),
        (LLAMA, "sglang", {"pp": 4}, {"pp": 2}, "prefill's pp=4 or 1, not 2"),
        (LLAMA, "sglang", {}, {"pp": 2}, "prefill's pp=1 or 1, not 2"),
        (LLAMA, "sglang", {"tp": 2}, {"tp": 3}, "needs one to be a multiple of the other"),
        ("gpt-oss-120b", "sglang", {"tp": 1}, {"tp": 4}, "windows and indexes at one tp"),
        ("gpt-oss-120b", "sglang", {"tp": 4}, {"tp": 4}, None),
        ("minimax-m3", "sglang", {"tp": 4}, {"tp": 2}, "windows and indexes at one tp"),
        ("deepseek-v3.2", "sglang", {"tp": 4}, {"tp": 2}, None),  # latents are whole on every rank
        (QWEN_NEXT, "sglang", {"tp": 4}, {"tp": 2}, None),
        (LLAMA, "sglang", {"tp": 2, "cp": 2}, {"tp": 2}, None),
        (LLAMA, "sglang", {"tp": 2}, {"tp": 2, "cp": 2}, "decode servers of a pair have no context"),
        # TensorRT-LLM: tp and pp may differ, powers of two; heads of all layers alike
        (LLAMA, "trtllm", {"tp": 2}, {"pp": 2}, None),
        (LLAMA, "trtllm", {"pp": 3}, {"tp": 8}, None),
        (LLAMA, "trtllm", {"tp": 5}, {"tp": 5}, "a power of two, not 5"),
        ("gemma-4-31b-nvfp4", "trtllm", {"device": "b200-sxm"}, {"device": "b200-sxm"}, "not 4 and 16"),
        (LLAMA, "trtllm", {"cp": 2}, {}, "prefill servers of a pair have no context"),
        (LLAMA, "trtllm", {}, {"cp": 2}, None),
        (LLAMA, "llama.cpp", {}, {}, "llama.cpp has no prefill and decode servers"),
    ],
)
def test_shapes_pair_as_the_engines_say(
    name: str, engine: str, prefill: dict[str, Any], decode: dict[str, Any], reason: str | None
):
    found = told(name, engine, prefill, decode)

    assert found is None if reason is None else found is not None and reason in found


@pytest.mark.parametrize(
    ("name", "engine", "prefill", "decode", "reason"),
    [
        (LLAMA, "vllm", "h100-sxm", "h200-sxm", None),
        (LLAMA, "vllm", "h100-sxm", "a100-sxm", None),  # FLASH_ATTN on both
        (LLAMA, "vllm", "l40s", "rtx-pro-6000-server", None),
        (LLAMA, "vllm", "b200-sxm", "h100-sxm", "FLASHINFER on blackwell_dc, FLASH_ATTN on hopper"),
        (LLAMA, "vllm", "t4", "a100-sxm", "says nothing of pairs of turing and ampere"),
        (LLAMA, "vllm", "mi300x", "mi355x", "says nothing"),
        (LLAMA, "vllm", "h100-sxm", "mi300x", "says nothing"),
        (LLAMA, "vllm", "h100-sxm", "gaudi3", None),
        (LLAMA, "vllm", "gaudi3", "h100-sxm", "says nothing"),
        (DEEPSEEK, "vllm", "h100-sxm", "gaudi3", "plain attention in 16 bits"),
        (DEEPSEEK, "vllm", "h100-sxm", "a100-sxm", "FLASH_ATTN_MLA on hopper, TRITON_MLA on ampere"),
        (DEEPSEEK, "vllm", "l40s", "a100-sxm", None),
        (QWEN_NEXT, "vllm", "h100-sxm", "a100-sxm", "says nothing"),
        ("gpt-oss-120b", "vllm", "h100-sxm", "a100-sxm", "TRITON_ATTN on ampere"),
        ("gemma-4-31b-nvfp4", "vllm", "h100-sxm", "l40s", "says nothing"),  # heads of 512
        (LLAMA, "sglang", "h100-sxm", "h200-sxm", None),
        (LLAMA, "sglang", "h100-sxm", "a100-sxm", "says nothing of pairs of ampere and hopper"),
        (LLAMA, "trtllm", "h100-sxm", "b200-sxm", None),
        (DEEPSEEK, "trtllm", "h100-sxm", "b200-sxm", "64 tokens of a latent on hopper, not on blackwell_dc"),
        (DEEPSEEK, "trtllm", "b200-sxm", "gb300", None),
    ],
)
def test_generations_meet_where_a_page_says_so(
    name: str, engine: str, prefill: str, decode: str, reason: str | None
):
    found = told(name, engine, {"device": prefill}, {"device": decode})

    assert found is None if reason is None else found is not None and reason in found


def test_the_cache_s_precision_decides_the_backend():
    card = model(LLAMA)
    hopper, ada, dc = (side(card, "vllm", d, kv="fp8") for d in ("h100-sxm", "l40s", "b200-sxm"))

    assert "FLASH_ATTN on hopper, FLASHINFER on ada" in str(why_unpaired(hopper, ada, card))
    assert why_unpaired(ada, dc, card) is None
    assert "in 16 bits" in str(why_unpaired(hopper, side(card, "vllm", "gaudi3", kv="fp8"), card))


def test_precisions_and_engines_are_alike_on_both_sides():
    card = model(LLAMA)
    own, fp8 = side(card, "vllm", "h100-sxm"), side(card, "vllm", "h100-sxm", kv="fp8")

    assert "the same precision" in str(why_unpaired(own, fp8, card))
    assert "no connector in common" in str(why_unpaired(own, replace(own, engine="sglang"), card))


def test_a_role_is_refused_by_itself():
    card = model(LLAMA)
    piped = side(card, "vllm", "h100-sxm", tp=4, pp=2)

    assert why_no_role("mixed", piped, card) is None
    assert why_no_role("prefill", piped, card) is None
    assert "pp=2" in str(why_no_role("decode", piped, card))
    assert all(why_no_role(r, replace(piped, engine="llama.cpp"), card) for r in ("prefill", "decode"))


def test_every_refusal_of_a_role_refuses_all_pairs():
    sizes = [
        dict(zip(("tp", "pp", "cp"), three, strict=True)) for three in product((1, 3, 8), (1, 2), (1, 2))
    ]
    for name, engine in product((LLAMA, DEEPSEEK, QWEN_NEXT), ("vllm", "sglang", "trtllm", "llama.cpp")):
        card = model(name)
        ends = [side(card, engine, "h100-sxm", **shape) for shape in sizes]
        for p, d in product(ends, ends):
            alone = why_no_role("prefill", p, card) or why_no_role("decode", d, card)
            assert alone is None or why_unpaired(p, d, card) == alone


def test_an_unknown_engine_is_refused():
    with pytest.raises(InputError, match="unknown engine"):
        side(model(LLAMA), "tgi", "h100-sxm")


def test_cards_say_what_is_cached():
    assert Cached.of(model(LLAMA)).kind == "heads"
    assert Cached.of(model("gpt-oss-20b")).kind == "sinks"
    assert Cached.of(model("kimi-k2")).kind == "latent"
    assert Cached.of(model("kimi-k3")).recurrent
    assert Cached.of(model("deepseek-v4-pro")).compressed
    assert Cached.of(model("gemma-4-26b-a4b")).heads == (2, 8)
    assert {Cached.of(model(n)).kind for n in ("kimi-k3", "deepseek-v3.2", "mimo-v2-flash")} == {"other"}


def test_every_measured_pair_is_one():
    if not RUNS.exists():
        pytest.skip("shared/data/silicon_train.csv.gz is not beside the repository")
    with gzip.open(RUNS, "rt") as file:
        runs = [r for r in csv.DictReader(file) if r["mode"] == "disagg" and not r["suspect"]]
    different = {tuple(r[k] for k in COLUMNS): r for r in runs}.values()
    refused = {key: reason for r in different for key, reason in [_told_of(r)] if reason}

    assert len(different) > 50
    assert not refused


COLUMNS = (
    *("backend", "model_path", "system", "prefill_attn_tp", "prefill_attn_dp"),
    *("decode_attn_tp", "decode_attn_dp"),
)


def _told_of(run: dict[str, str]) -> tuple[str, str | None]:
    try:
        card, device = model(run["model_path"]), run["system"]
    except MeshwrightError:
        return "", None
    sizes = [
        {"tp": int(float(run[f"{end}_attn_tp"])), "attn_dp": int(float(run[f"{end}_attn_dp"]))}
        for end in ("prefill", "decode")
    ]
    p, d = (side(card, run["backend"], device, **size) for size in sizes)
    return " ".join(run[k] for k in COLUMNS), why_unpaired(p, d, card)
