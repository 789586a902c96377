"""Mixed replicas: beside the cost model's own pipelines, stage by stage in memory, and what must not be."""

from dataclasses import replace

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from model_zoo import catalog
from planner.candidates import mixed
from planner.candidates.generate import Ask, setup
from planner.candidates.mixed import Freedom
from planner.candidates.points import Promise, batched
from planner.cost.memory import kv_bytes_per_seq, room_by_stage
from planner.cost.precision import precisions
from planner.cost.reserve import device_bytes
from planner.cost.shape import Designs
from planner.inputs.workload import Bucket, Slo, Workload
from solvers.linear import Limits

TWO = from_gpus("1xrtx-3090,1xrtx-4090")
LIMITS = Limits(seconds=30)


def ask(model: str, tpot_ms: float | None = None, isl: int = 1024, osl: int = 256, **more: object) -> Ask:
    card, _ = catalog.find(model)
    slo = Slo(ttft_ms=None, tpot_ms=tpot_ms)
    load = Workload(buckets=[Bucket(isl=isl, osl=osl)], slo=slo)
    used = Ask(card, precisions(card), ["vllm"], load, Promise.of(slo, None), "throughput")
    return replace(used, **more)  # type: ignore[arg-type]


def design(tp: int, pp: int) -> Designs:
    return Designs(*(np.array([x], dtype=np.int64) for x in (tp, pp, 1, tp, 1)))


@pytest.mark.parametrize("model", ["llama-3.1-70b", "qwen3-30b-a3b"])
@pytest.mark.parametrize(("tp", "pp"), [(1, 4), (2, 2), (4, 1), (2, 4)])
def test_equal_stages_of_one_class_are_as_fast_as_the_cost_model_says(model, tp, pp):
    """Apart from hops, of which the cost model counts the last stage's, too."""
    cluster, batch = from_gpus("8xh100"), 64
    posed = mixed.pose(cluster, ask(model), "vllm")
    p = replace(posed.problem, points=mixed.points(posed, [(pp, batch)]), even=True)
    use = np.array([[pp * (k.gpus == tp) for k in p.kinds]])
    rate = mixed.pipeline.best_ways(p, use).rate[0]

    s = setup(cluster.classes[0], "vllm", ask(model), one_more=False)
    d = s.designs
    at = np.flatnonzero((d.tp == tp) & (d.pp == pp) & (d.attn_dp == 1) & (d.ep == 1))
    known = batched(replace(s, token_budget=2**20), at, np.array([float(batch)]), "mixed").rate[0]

    assert rate == pytest.approx(known, rel=0.02)


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("1xrtx-3090,1xrtx-4090", "qwen3-14b"),
        ("4xa100-sxm-40gb,2xa100-sxm", "llama-3.1-70b"),
        ("2xrtx-4090,1xl40s", "gemma-3-27b"),
        ("2xrtx-4090,1xl40s", "qwen3-30b-a3b-fp8"),
    ],
)
def test_every_stage_has_room_for_its_layers_and_the_batch(line, model):
    cluster, a = from_gpus(line), ask(model)
    found = mixed.best(cluster, a, "vllm", LIMITS)
    nodes = {c.id: c for c in cluster.classes}

    assert found.solution.status == "optimal"
    assert found.replicas
    for r in found.replicas:
        assert [s.layers[0] for s in r.stages] == [0, *(s.layers[1] for s in r.stages[:-1])]
        assert r.stages[-1].layers[1] == len(a.card.stack)
        ranges = [s.layers for s in r.stages]
        for i, s in enumerate(r.stages):
            d, own = design(s.tp, len(r.stages)), device_bytes(nodes[s.node_class].device)
            room = room_by_stage(a.card, own, d, a.precisions, "vllm", 2048, layers=ranges).kv_bytes[0, i]
            one = kv_bytes_per_seq(a.card, d, a.precisions, np.array([1024 + 128.0]), ranges, np.array([i]))
            assert r.batch * one[0, 0] <= room * (1.01 if model == "gemma-3-27b" else 1)


def test_the_faster_of_two_cards_takes_more_layers():
    r = mixed.best(TWO, ask("qwen3-14b"), "vllm", LIMITS).replicas[0]
    held = {s.node_class: s.layers[1] - s.layers[0] for s in r.stages}

    assert held["rtx-4090"] > held["rtx-3090"]


def test_each_freedom_can_only_serve_more():
    freedoms = [Freedom(False, False, 1), Freedom(False, False), Freedom(True, False), Freedom()]
    found = mixed.compare(from_gpus("2xrtx-4090,1xl40s"), ask("qwen3-32b"), "vllm", LIMITS, freedoms)
    rates = [f.solution.bound for f in found]

    assert rates == sorted(rates)
    assert rates[-1] > 1.05 * rates[1]


def test_the_promised_tpot_is_kept():
    free = mixed.best(TWO, ask("qwen3-14b"), "vllm", LIMITS)
    kept = mixed.best(TWO, ask("qwen3-14b", tpot_ms=50), "vllm", LIMITS)

    assert free.replicas[0].tpot_s > 0.05
    assert kept.replicas[0].tpot_s <= 0.0501
    assert kept.solution.objective < free.solution.objective


def test_tpot_and_rate_obey_littles_law():
    r = mixed.best(TWO, ask("qwen3-14b"), "vllm", LIMITS).replicas[0]

    assert r.rate * 255 * r.tpot_s == pytest.approx(r.batch, rel=0.02)
    assert np.isfinite(r.ttft_s).all()


@pytest.mark.parametrize("joined", [False, True])
def test_zones_without_a_link_do_not_share_a_replica(joined):
    nodes = [
        Node(device="rtx-3090", gpus_per_node=1, zone="a"),
        Node(device="rtx-4090", gpus_per_node=1, zone="b"),
    ]
    links = [Link(between=("a", "b"), gb_per_s=1.25, latency_ms=1)] if joined else []
    found = mixed.best(resolve(Cluster(nodes=nodes, links=links)), ask("qwen3-14b"), "vllm", LIMITS)

    assert bool(found.replicas) == joined


def test_the_cheapest_nodes_that_carry_a_rate():
    nodes = [
        Node(device="a100-sxm", gpus_per_node=2, price_usd_per_hour=4.0),
        Node(device="h100-sxm", gpus_per_node=2, price_usd_per_hour=7.0),
    ]
    a = ask("llama-3.1-8b", objective="cost")
    a = replace(a, workload=a.workload.model_copy(update={"rate_rps": 5.0}))
    found = mixed.best(resolve(Cluster(nodes=nodes)), a, "vllm", LIMITS)

    assert found.solution.objective == 4.0 == found.solution.bound


def test_a_model_that_no_class_can_serve_is_infeasible():
    assert (
        mixed.best(from_gpus("1xp100-pcie"), ask("qwen3-14b"), "vllm", LIMITS).solution.status == "infeasible"
    )
