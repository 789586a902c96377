"""What more room is worth: a small GPU that the cache fills gains, one with room to spare does not."""

from __future__ import annotations

import pytest

from cluster_configs.reading import resolve
from cluster_configs.schema import Cluster, Node
from planner.api import plan
from planner.beside.cache_worth import FP8, memory_tries
from planner.beside.planned import Planned
from planner.beside.prices import priced
from planner.inputs.options import Budget
from planner.question.asked import read
from planner.question.posed import ask_of, pose
from planner.reading.documents import Document
from planner.replicas.again import anew
from planner.search.find import find
from planner.search.simple import simplest
from solvers.linear import Limits

TIGHT = {"loop": "closed", "isl": 4000, "osl": 500, "ttft_ms": 8000, "tpot_ms": 100}


@pytest.fixture(scope="module")
def tight():
    return plan(None, "llama-3.1-8b", gpus="1xRTX4090", engine="vllm", **TIGHT)


def alternative(made):
    return next(a for a in made.alternatives if a.what.startswith(FP8))


def price(made, limit):
    return next(p for p in made.prices if p.limit == limit)


def test_an_fp8_cache_is_shown_and_not_taken(tight):
    assert tight.replicas[0].precision.kv == "bf16"
    assert alternative(tight).objective > 1.2 * tight.proof.objective
    assert "--kv-precision fp8" in alternative(tight).why


def test_the_fp8_cache_shown_is_what_asking_for_it_gives(tight):
    lower = plan(None, "llama-3.1-8b", gpus="1xRTX4090", engine="vllm", kv_precision="fp8", **TIGHT)

    assert alternative(tight).objective == pytest.approx(lower.proof.objective, rel=0.01)
    assert not any(a.what.startswith(FP8) for a in lower.alternatives)


def test_a_gb_is_worth_what_a_device_with_one_more_serves(tight):
    node = Node(device="rtx-4090", gpus_per_node=1)
    more = {"rtx-4090": {"memory_gb": 24 * 1.073741824 + 1}}
    wider = resolve(Cluster(name="wider", nodes=[node], device_overrides=more), Document(None, "wider"))
    found = price(tight, "memory rtx-4090")

    again = plan(wider, "llama-3.1-8b", engine="vllm", **TIGHT)

    assert found.one_more == "1 GB on each GPU"
    assert found.worth == pytest.approx(again.proof.objective - tight.proof.objective, rel=0.05)
    assert found.worth > 0


def test_the_problem_with_a_gb_more_serves_at_least_as_much():
    asked, pool, question = pose(read(None, "llama-3.1-8b", "1xRTX4090", "chat", TIGHT, {"engine": "vllm"}))
    found = find(question, pool, Limits())

    ((more, limit, _),) = memory_tries(Planned(asked, question, found, Limits()))

    assert limit == "memory rtx-4090"
    assert {c.split("|batch")[0] for c in more.columns} >= {
        c.split("|batch")[0] for c in found.solution.replicas
    }


def test_what_a_fleet_of_few_kinds_gives_up_is_not_what_a_gb_is_worth():
    """Four H100 are chosen without the L4 that serves one request/s more beside them: a GB more on each H100
    still runs without it, and is worth what it brings where there is no L4 at all."""
    alone = [Node(name="n", device="h100-sxm", gpus_per_node=1, count=4)]
    mixed = [*alone, Node(name="small", device="l4", gpus_per_node=1)]
    limits, worth = Limits(gap=0.01, seconds=10), list[float]()
    for nodes in (mixed, alone):
        cluster = resolve(Cluster(nodes=nodes), Document(None, "nodes"))
        load = {"tpot_ms": 80.0}
        asked, pool, question = pose(read(cluster, "llama-3.1-8b", None, "chat", load, {"engine": "vllm"}))
        chosen = simplest(question, find(question, pool, limits), 0.03, limits).chosen
        more = memory_tries(Planned(asked, question, chosen, limits))
        prices = {p.limit: p.worth for p in priced(chosen, limits, Budget(), more)}
        worth.append(prices["memory h100-sxm"])

        assert set(chosen.solution.nodes) == {"n"}

    assert worth[0] == pytest.approx(worth[1], rel=0.05)


def test_made_anew_under_the_same_terms_nothing_changes():
    asked, pool, _ = pose(read(None, "llama-3.1-8b", "2xL4", "chat", {}, {"engine": "vllm"}))

    again = anew(pool, asked.cluster.classes, ask_of(asked))

    assert {c.id for c in again.candidates} == {c.id for c in pool.candidates}


def test_a_cache_with_room_to_spare_gains_nothing():
    made = plan(None, "llama-3.1-8b", gpus="1xH200", engine="vllm", isl=256, osl=32)

    assert price(made, "memory h200-sxm").worth == pytest.approx(0.0, abs=1e-6)


def test_the_plan_tells_how_its_cache_is_used(tight):
    r = tight.replicas[0]

    assert r.cache.tokens_per_gpu == r.kv_tokens
    assert 0.8 < r.cache.used <= 1
    assert r.cache.block_waste == pytest.approx(7.5 / (4250 + 7.5))
    assert r.cache.preempted <= r.cache.preempted_limit
