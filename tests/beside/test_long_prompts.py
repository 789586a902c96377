"""Ways to compute a long prompt that are shown beside a plan, and cache that replicas would lend."""

import pytest

from planner import plan
from planner.beside.contexts import other_contexts
from planner.beside.long_prompts import long_prompts
from planner.check import check
from planner.errors import Infeasible
from tests.beside.solved import alone

told = alone(long_prompts, other_contexts)


def ways(made):
    return {w.what.split(":")[0]: w for w in made.long_prompts}


@pytest.fixture(scope="module")
def million():
    """A plan for prompts of a million tokens on two nodes."""
    return plan(None, "llama-4-scout", gpus="16xh100", isl=1_000_000, osl=500, ttft_ms=60_000, engine="vllm")


def test_a_million_tokens_on_two_nodes(million):
    assert not check(million)
    other = next(a for a in million.alternatives if a.what.endswith("context parallelism"))
    assert other.loss is not None
    assert million.predicted.ttft_ms.value <= 60_000
    assert all(r.kv_tokens >= 1_000_500 for r in million.replicas)


def test_a_million_tokens_on_two_nodes_say_way_first_token_and_room(million):
    found = ways(million)

    assert list(found) == [
        "the plan",
        "pipeline or tensor parallel",
        "context parallel, a ring",
        "Ulysses",
    ]
    assert found["Ulysses"].started_by is None
    assert all(w.started_by for name, w in found.items() if name != "Ulysses")
    assert found["Ulysses"].ttft_ms < found["context parallel, a ring"].ttft_ms
    assert found["pipeline or tensor parallel"].ttft_ms <= found["the plan"].ttft_ms
    assert found["the plan"].ttft_ms <= million.predicted.ttft_ms.value
    assert all(w.kv_tokens >= 1_000_000 for w in found.values())
    assert found["the plan"].kv_tokens == pytest.approx(million.replicas[0].kv_tokens, rel=1e-3)


def test_what_no_engine_starts_is_silent_where_it_is_no_sooner():
    made = plan(None, "llama-3.1-8b", gpus="4xh100,4xl40s", isl=100_000, osl=200, ttft_ms=60_000)
    soonest = min(w.ttft_ms for w in made.long_prompts if w.started_by)

    assert all(w.started_by or w.ttft_ms < soonest or "borrowed" in w.what for w in made.long_prompts)
    assert "context parallel, unlike shares" not in ways(made)  # 1.7 s, a pipeline 1.5 s
    assert not check(made)


def test_parts_of_servers_left_over_hold_another_request():
    """Two replicas hold 11.6 requests each, 11 whole ones: 23.2 in all."""
    load = {"isl": 96_000, "osl": 8000, "ttft_ms": 200_000, "tpot_ms": 100, "engine": "vllm"}
    made = plan(None, "llama-3.1-8b", gpus="8xl40s", loop="closed", **load)
    way = next(w for w in made.long_prompts if w.what.startswith("cache borrowed"))
    replica = made.replicas[0]
    whole = replica.kv_tokens / (100_000 + 7.5)  # blocks of 16 half empty

    gain = whole / int(whole) - 1
    assert f"{gain:.0%} more requests/s" in way.why
    assert way.kv_tokens == pytest.approx(replica.count * replica.kv_tokens, rel=1e-3)


def test_a_request_that_only_replicas_together_hold_is_told_so():
    with pytest.raises(Infeasible, match=r"fits with borrowed memory of 2 replicas \(tp2 on a100-sxm \+ tp2"):
        plan(None, "llama-3.1-70b", gpus="2xh100,2xa100", isl=100_000, osl=500, engine="trtllm")


def test_short_prompts_have_no_such_ways():
    assert plan(None, "llama-3.1-8b", gpus="2xh100").long_prompts == []
