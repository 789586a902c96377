"""Context parallelism: what a rank holds and does, and plans for prompts of a million tokens."""

import time
from dataclasses import replace

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from model_zoo import catalog
from planner import api, plan
from planner.check import check
from planner.cost.attention import Load
from planner.cost.memory import kv_bytes_per_seq
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import Designs
from planner.fleet.finish import finish
from planner.fleet.solve import Posed, Solved
from planner.question.asked import read
from planner.question.posed import pose
from planner.rules.designs import valid_designs, why_invalid
from planner.search.find import find
from planner.search.simple import Simple, kinds
from solvers.linear import Limits
from tests.cost.memory_cases import room


def design(tp: int, cp: int, pp: int = 1) -> Designs:
    sizes = (tp, pp, 1, tp * cp, 1, 0, cp)
    return Designs(*(np.array([size]) for size in sizes))


def model(name: str, gpus: str = "16xh100") -> CostModel:
    card = catalog.find(name)[0]
    return CostModel(card, from_gpus(gpus).classes[0], "vllm", precisions(card))


def test_every_group_keeps_its_part_of_each_cache():
    """Llama 70B: 80 layers, 8 KV heads of 128, K and V, 2 bytes: 327,680 bytes a token over all ranks."""
    card = catalog.find("llama-3.1-70b")[0]
    used = precisions(card)
    for tp, cp in ((8, 1), (8, 2), (4, 4)):
        held = kv_bytes_per_seq(card, design(tp, cp), used, "vllm", np.array([100_000.0]))[0, 0]
        assert held == pytest.approx(327_680 * 100_000 / (tp * cp))


def test_weights_are_repeated_in_every_group_and_activations_divided():
    card = catalog.find("llama-3.1-70b")[0]
    one, two = (room(card, 80e9, design(8, cp), precisions(card), "vllm", 65536) for cp in (1, 2))

    assert two.weights_bytes[0] == one.weights_bytes[0]
    assert two.activation_bytes[0] < one.activation_bytes[0]


def test_a_prompt_takes_less_on_more_groups_and_its_messages_cost():
    m = model("llama-3.1-8b", "8xh100")
    took = [m.step_s(design(1, cp), Load.of(0.0, 1.0, 8192.0, 4096.0))[0] for cp in (1, 2, 4)]

    assert took[0] > took[1] > took[2]
    assert took[2] > took[0] / 4  # keys and values pass the groups


def test_the_ring_is_slower_where_it_leaves_the_node():
    links = model("llama-3.1-8b").links
    inside = links.ring_s(np.array([1e9]), np.array([2]), np.array([4]))[0]
    across = links.ring_s(np.array([1e9]), np.array([8]), np.array([2]))[0]

    assert inside == pytest.approx(0.75 * 1e9 / (links.flat["hop"]["share"] * links.intra), rel=0.05)
    assert across > inside
    assert links.ring_s(np.array([1e9]), np.array([8]), np.array([1]))[0] == 0


def test_decoding_reads_a_part_of_the_cache_on_every_group():
    m = model("llama-3.1-70b")
    one, two = (m.peaks_s(design(8, cp), Load.of(4.0, 500_000.0))[1][0] for cp in (1, 2))
    weights = m.peaks_s(design(8, 1), Load.of(4.0))[1][0]

    assert two - weights == pytest.approx((one - weights) / 2, rel=0.02)


def test_only_vllm_divides_prompts_and_caches_alike():
    card = catalog.find("llama-3.1-70b")[0]

    assert why_invalid(card, "vllm", tp=8, moe_tp=16, cp=2) is None
    assert "vLLM only" in str(why_invalid(card, "sglang", tp=8, moe_tp=16, cp=2))
    hybrid = catalog.find("nemotron-h-56b")[0]
    assert "recurrent" in str(why_invalid(hybrid, "vllm", tp=8, moe_tp=16, cp=2))
    found = valid_designs(card, "vllm", 16, 16, 8, contexts=(1, 2, 4))
    assert set(found.cp.tolist()) == {1, 2, 4}
    assert (found.tp * found.cp * found.pp <= 16).all()
    assert (found.tp * found.attn_dp * found.cp == found.moe_tp * found.ep).all()


def test_short_prompts_are_not_divided():
    made = plan(None, "llama-3.1-70b", gpus="8xh100", engine="vllm")

    assert all(r.cp == 1 for r in made.replicas)
    assert not any("context parallelism" in a.what for a in made.alternatives)


def test_plans_with_context_parallelism_are_sound():
    asked = read(
        None, "llama-3.1-70b", "16xh100", "chat", {"isl": 100_000, "osl": 200}, {"engine": "vllm"}, False
    )
    asked, pool, question = pose(api.with_loads(replace(asked, contexts=(2, 4)), None))
    found = find(question, pool, Limits(gap=0.01, seconds=20.0))
    simple = Simple(found, found, ((kinds(found), found.solution.objective),))
    made = finish(Solved(Posed(asked, pool, question), simple, Limits(seconds=0.5)), time.perf_counter())

    assert all(r.cp > 1 for r in made.replicas)
    assert all(s.gpus == r.tp * r.attn_dp * r.cp for r in made.replicas for s in r.stages)
    assert not check(made)
