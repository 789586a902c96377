"""What a plan says of its cache, broken figure by figure."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cluster_configs.reading import read_cluster
from planner import plan
from planner.check import check
from planner.plans.schema import Plan

ASKED: dict[str, dict[str, Any]] = {
    "closed": {"gpus": "2xl40s", "model": "llama-3.1-8b", "engine": "vllm", "loop": "closed"},
    "open": {"gpus": "2xl40s", "model": "llama-3.1-8b", "engine": "vllm", "rate": 4.0},
    "reserving": {"gpus": "1xh100", "model": "llama-3.1-8b", "engine": "trtllm"},
    "full": {
        "gpus": "1xl4",
        "model": "llama-3.1-8b",
        "engine": "sglang",
        "osl": 2000,
        "tpot_ms": 500,
        "ttft_ms": 60_000,
        "loop": "closed",
    },
    "alone": {"gpus": "1xl4", "model": "llama-3.1-8b", "isl": 30_000, "engine": "vllm", "loop": "closed"},
}


@cache
def planned(name: str) -> dict[str, Any]:
    return plan(None, **ASKED[name], explain=False).model_dump()


def codes(document: dict[str, Any]) -> set[str]:
    return {violation.code for violation in check(Plan.model_validate(document))}


def changed(name: str, **figures: float) -> set[str]:
    """Codes where figures of the first cache are other ones."""
    document = copy.deepcopy(planned(name))
    group = next(r for r in document["replicas"] if r["cache"])
    group["cache"].update(figures)
    return codes(document)


@pytest.mark.parametrize("name", ASKED)
def test_plans_as_made_are_sound(name: str):
    assert codes(planned(name)) == set()


def test_a_server_with_room_for_one_request_is_planned_for_few_random_arrivals():
    document = plan(None, **ASKED["alone"] | {"loop": "open"}, explain=False).model_dump()

    assert codes(document) == set()
    assert document["replicas"][0]["cache"]["sequences"] < 0.5


def batched(name: str, sequences: float) -> set[str]:
    """Codes where the first decoding group may have so many sequences in flight."""
    document = copy.deepcopy(planned(name))
    next(r for r in document["replicas"] if r["role"] != "prefill")["max_batch"] = int(sequences)
    return codes(document)


@pytest.mark.parametrize(
    ("name", "held"), [("closed", 1024 + 128), ("open", 1024 + 128), ("reserving", 1280)]
)
def test_a_batch_may_fill_the_cache_and_no_more(name: str, held: float):
    """Requests of 1,024 + 256 tokens halfway through their answers; TensorRT-LLM holds room for the whole."""
    group = next(r for r in planned(name)["replicas"] if r["role"] != "prefill")

    assert batched(name, group["kv_tokens"] / held) == set()
    assert batched(name, 1.1 * group["kv_tokens"] / held) == {"batch_beyond_cache"}


def test_a_batch_beyond_the_cache_is_sound_as_far_as_requests_come():
    """Where the cache holds one of 30,000 tokens and no second, those that come may wait in the engine: with
    a burst of three deviations on top, and not a hundred of them."""
    document = copy.deepcopy(planned("alone"))
    group = document["replicas"][0]
    held = group["kv_tokens"] / (30_000 + 128)

    assert 1 < held < 2
    assert batched("alone", group["max_batch"] + 3) == set()
    assert batched("alone", 100) == {"batch_beyond_cache"}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("factor", [0.5, 0.9, 1.2, 30.0])
def test_other_rooms_are_found(name: str, factor: float):
    stated = next(r["cache"] for r in planned(name)["replicas"] if r["cache"])

    assert "cache_room_wrong" in changed(name, tokens_per_gpu=factor * stated["tokens_per_gpu"])


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("factor", [0.3, 4.0])
def test_other_sequences_are_found(name: str, factor: float):
    stated = next(r["cache"] for r in planned(name)["replicas"] if r["cache"])

    assert changed(name, sequences=factor * stated["sequences"]) & {
        "cache_sequences_wrong",
        "cache_used_wrong",
    }


@pytest.mark.parametrize("name", ASKED)
def test_room_used_in_words_only_is_found(name: str):
    stated = next(r["cache"] for r in planned(name)["replicas"] if r["cache"])

    assert "cache_used_wrong" in changed(name, used=0.7 * stated["used"])
    assert "cache_blocks_wrong" in changed(name, block_waste=0.7 * stated["block_waste"] + 1e-4)


def test_of_next_to_no_sequences_nobody_tells_how_much_room_they_hold():
    """A request in thirty years: figures of a plan have nine digits, and zero is as good as 1e-21."""
    assert "cache_used_wrong" not in changed("open", sequences=1e-15, used=0.0)


@pytest.mark.parametrize("name", ["closed", "open", "full", "alone"])
def test_chances_from_nowhere_are_found(name: str):
    assert "cache_delayed_wrong" in changed(name, delayed=0.4)
    assert "cache_preempted_wrong" in changed(name, preempted=0.4)


def test_an_engine_that_reserves_preempts_nobody():
    assert changed("reserving", preempted=0.001) == {"cache_preempted_wrong"}


def test_who_must_wait_is_not_left_out():
    """Twice as many sequences as there is room for."""
    document = copy.deepcopy(planned("full"))
    group = document["replicas"][0]
    group["kv_tokens"] /= 2
    group["cache"]["tokens_per_gpu"] /= 2
    group["memory"][0]["kv_bytes"] /= 2

    assert "cache_delayed_wrong" in codes(document)


def test_a_request_larger_than_the_room_is_found():
    document = copy.deepcopy(planned("alone"))
    document["problem"]["workload"]["buckets"][0]["isl"] = 100_000

    assert "request_over" in codes(document)


@pytest.mark.parametrize(
    "asked",
    [
        {"gpus": "1xh200-nvl", "model": "gemma-3-4b", "engine": "trtllm", "rate": 0.1, "workload": "rag"},
        {"gpus": "16xh20", "model": "mimo-v2-flash", "engine": "sglang"},
        {
            "gpus": "16xmi300x",
            "model": "deepseek-v4-pro",
            "engine": "sglang",
            "rate": 2.0,
            "workload": "code",
        },
    ],
)
def test_engines_may_hold_room_beyond_windows(asked: dict[str, Any]):
    """TensorRT-LLM whole contexts, SGLang 0.8 of them: four times what the windows take."""
    made = plan(None, **asked, explain=False)

    assert check(made) == []
    document = made.model_dump()
    cache = document["replicas"][0]["cache"]
    cache["used"] *= 3
    assert "cache_used_wrong" in codes(document)


def test_those_who_come_at_random_meet_as_many_as_there_are(tmp_path: Path):
    """Half a request in flight on average, room for two: one of ten meets two others. Counted without the
    one that comes, the cache would be full for one of thirty."""
    nodes = "[{name: box, gpus: [{device: rtx-3090}, {device: rtx-4060-ti-16gb}], host: {HOST}}]"
    file = tmp_path / "box.yaml"
    file.write_text("name: unlike\nnodes: " + nodes.replace("HOST", "memory_gb: 64, gb_per_s: 80"))
    asked = {"precision": "int4_wo", "engine": "llama.cpp", "rate": 0.01, "ttft_ms": "none"}
    document = plan(read_cluster(file), "llama-3.1-70b", **asked, explain=False).model_dump()

    assert codes(document) == set()
    assert document["replicas"][0]["cache"]["delayed"] > 0.07
    document["replicas"][0]["cache"]["delayed"] = 0.2
    assert codes(document) == {"cache_delayed_wrong"}


def test_of_a_server_that_is_nearly_always_busy_many_find_the_cache_full():
    """Random arrivals at 99.75 % of what it serves: how many are inside varies by half of their mean, and one
    of seven finds the cache full. By what 99 % brings, one of 23 would."""
    asked = {"isl": 493, "osl": 128, "loop": "open", "engine": "trtllm"}
    document = plan(None, "qwen3-0.6b", gpus="1xB200", **asked, explain=False).model_dump()
    (replica,) = document["replicas"]

    assert replica["utilisation"] > 0.995
    assert replica["cache"]["delayed"] > 0.08
    assert codes(document) == set()
    replica["cache"]["delayed"] = 0.5
    assert codes(document) == {"cache_delayed_wrong"}
