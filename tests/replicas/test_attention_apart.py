"""Which layouts with attention and FFNs on different GPUs are compared, beside trying each by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from model_zoo import catalog
from planner.candidates.ask import Ask
from planner.candidates.candidate import Candidate, Design
from planner.candidates.largest import most
from planner.candidates.mix import Promise
from planner.cost.attention import Load
from planner.designs.precision import precisions
from planner.inputs.workload import Bucket, Slo, Workload
from planner.objectives import COST, THROUGHPUT
from planner.replicas import attention_apart
from planner.rules.designs import why_not_moe, why_not_tp

TWO = from_gpus("8xh20,8xh100")
ALIKE = {"h20": 1.0, "h100-sxm": 1.0}


def ask(model: str, tpot_ms: float | None = 50, osl: int = 256, **more: object) -> Ask:
    card, _ = catalog.find(model)
    slo = Slo(ttft_ms=None, tpot_ms=tpot_ms)
    load = Workload(buckets=[Bucket(isl=2048, osl=osl)], slo=slo)
    used = Ask(card, precisions(card), ["vllm"], load, Promise.of(slo, "closed"), THROUGHPUT)
    return replace(used, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("engine", "model"), [("vllm", "gpt-oss-120b"), ("sglang", "qwen3-235b-a22b-fp8")])
def test_experts_are_divided_as_the_engine_divides_them(engine, model):
    a = ask(model)
    found = list(attention_apart.space(TWO.classes, (), a, engine))
    ways = {(x.moe_tp > 1, x.ep > 1) for x in found}

    assert all(why_not_tp(a.card, engine, x.tp, a.precisions) is None for x in found)
    assert all(why_not_moe(a.card, x.moe_tp, x.ep, a.precisions) is None for x in found)
    assert ((True, True) in ways) == (engine == "sglang")  # vLLM's expert parallelism is a switch
    assert {(x.attention, x.ffn) for x in found} == {(a, f) for a in ALIKE for f in ALIKE}
    assert len(set(found)) == len(found)


def test_dense_ffns_are_divided_by_tp_inside_a_node():
    found = list(attention_apart.space(from_gpus("16xh20,16xh100").classes, (), ask("llama-3.1-70b"), "vllm"))

    assert {x.ep for x in found} == {1}
    assert {x.ffn_gpus for x in found} == {1, 2, 4, 8}
    assert {x.attention_gpus for x in found if x.tp == 4} == {4, 8, 16}


def test_blocks_stand_inside_nodes_and_within_the_stock():
    classes = {c.id: c for c in from_gpus("16xh20,24xh100").classes}
    a = ask("deepseek-v3")
    every = list(attention_apart.space(list(classes.values()), (), a, "vllm"))
    s = attention_apart.setup(list(classes.values()), every, (), "vllm", a)

    for x, blocks in zip(every, s.model.stagings, strict=True):
        assert sum(b.tp for b in blocks) == x.gpus
        assert all(x.gpus_on(g) <= c.gpus for g, c in classes.items())
        if x.attention != x.ffn:
            assert all(b.tp <= classes[b.node_class].gpus_per_node for b in blocks)


def test_the_rank_is_that_of_trying_each_by_itself():
    """Requests/s of the largest batch within TPOT and KV room, over what the GPUs are worth."""
    a, worth = ask("qwen3-30b-a3b"), {"h20": 0.7, "h100-sxm": 1.3}
    found = attention_apart.shortlist(TWO.classes, (), a, "vllm", worth)
    every = list(attention_apart.space(TWO.classes, (), a, "vllm"))
    tried = {}
    for x in every[:: max(1, len(every) // 12)] + list(found.layouts[:4]):
        s = attention_apart.setup(TWO.classes, [x], (), "vllm", a)
        index, rate = attention_apart.rates(s)
        value = sum(x.gpus_on(g) * w for g, w in worth.items())
        tried[x] = float(rate[0]) / value if len(index) else 0.0

    assert found.ranked == len(every)
    assert max(tried.values()) == pytest.approx(found.gains[0]) == pytest.approx(tried[found.layouts[0]])
    assert list(found.gains) == sorted(found.gains, reverse=True)
    assert len(found.layouts) <= attention_apart.SHORTLIST
    sizes = [(x.attention, x.attention_gpus, x.ffn, x.ffn_gpus) for x in found.layouts]
    assert len(set(sizes)) == len(sizes)


def test_points_keep_tpot_and_room_and_one_more_sequence_would_not():
    a = ask("llama-3.1-70b", tpot_ms=40)
    found = attention_apart.shortlist(TWO.classes, (), a, "vllm", ALIKE)
    s = attention_apart.setup(TWO.classes, found.layouts, (), "vllm", a)
    index, rate = attention_apart.rates(s)
    tpot_s = s.designs.attn_dp[index] * most(s, index, "decode") / (rate * 255)
    batch = rate * 255 * tpot_s / s.designs.attn_dp[index]
    more = s.model.step_s(s.designs.take(index), Load.of(batch + 1, s.mix.context))
    full = (batch + 1) * s.held_bytes[index, 0] > 0.8 * s.memory.kv_bytes[index]  # less the room for spread

    assert len(index) == len(found.layouts)
    assert (tpot_s <= 0.04 * (1 + 1e-9)).all()
    assert (batch * s.held_bytes[index, 0] <= s.memory.kv_bytes[index]).all()
    assert ((more > 0.04 * 0.98) | full).all()


def test_more_gpus_never_rank_worse():
    a = ask("qwen3-235b-a22b-fp8")
    gains = [
        attention_apart.shortlist(from_gpus(line).classes, (), a, "vllm", ALIKE).gains[0]
        for line in ("8xh20,8xh100", "16xh20,8xh100", "16xh20,32xh100")
    ]

    assert gains == sorted(gains)


@pytest.mark.parametrize("joined", [False, True])
def test_zones_without_a_link_do_not_share_a_replica(joined):
    nodes = [Node(device="h20", zone="a"), Node(device="h100-sxm", zone="b")]
    links = [Link(between=("a", "b"), gb_per_s=50, latency_ms=0.02)] if joined else []
    cluster = resolve(Cluster(nodes=nodes, links=links))
    found = attention_apart.space(cluster.classes, cluster.links, ask("llama-3.1-70b"), "vllm")

    assert any(x.attention != x.ffn for x in found) == joined


def test_nothing_where_nothing_decodes_apart():
    single = ask("llama-3.1-70b", osl=1)

    assert attention_apart.shortlist(TWO.classes, (), single, "vllm", ALIKE).layouts == ()
    assert attention_apart.shortlist(TWO.classes, (), ask("llama-3.1-70b"), "llama.cpp", ALIKE).ranked == 0


def candidate(node: str, role: str, gpus: int, busy: float) -> Candidate:
    return Candidate(node, role, node, "vllm", Design(), gpus, {"busy": {"0": busy}}, 1.0)  # type: ignore[arg-type]


def test_gpus_are_worth_what_they_decode_alone_or_cost():
    """8 GPUs that take half a second of themselves a request: a quarter request/s a GPU."""
    found = [
        candidate("h20", "decode", 8, 0.5),
        candidate("h20", "decode", 8, 2.0),
        candidate("h20", "prefill", 1, 0.001),
    ]

    assert attention_apart.worth(TWO.classes, found, ask("llama-3.1-70b")) == {"h20": 0.25, "h100-sxm": 0.0}
    assert attention_apart.worth(TWO.classes, [], ask("llama-3.1-70b")) == ALIKE
    priced = attention_apart.worth(TWO.classes, found, ask("llama-3.1-70b", objective=COST))
    assert priced == {c.id: pytest.approx(c.price_usd_per_hour / 8) for c in TWO.classes}


def test_a_gain_is_over_the_same_gpus_apart():
    a, worth = ask("llama-3.1-70b"), {"h20": 2.0, "h100-sxm": 3.0}
    found = attention_apart.shortlist(TWO.classes, (), a, "vllm", worth)
    s = attention_apart.setup(TWO.classes, found.layouts, (), "vllm", a)
    index, rate = attention_apart.rates(s)
    apart = np.array([sum(x.gpus_on(g) * w for g, w in worth.items()) for x in found.layouts])

    assert np.array(found.gains)[index] == pytest.approx(rate / apart[index])
