"""Replicas of unlike stages: beside the cost model's own pipelines, stage by stage in memory, and what must
not be."""

from dataclasses import replace

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node, ResolvedCluster
from model_zoo import catalog
from planner.candidates.ask import STOCK, Ask, Freedom
from planner.candidates.candidate import Key
from planner.candidates.mix import Promise
from planner.candidates.points import batched
from planner.cost.memory import kv_bytes_per_seq, room_by_stage
from planner.cost.reserve import device_bytes
from planner.designs.precision import precisions
from planner.designs.shape import Designs
from planner.inputs.workload import Bucket, Slo, Workload
from planner.objectives import THROUGHPUT
from planner.replicas import unlike_stages
from planner.replicas.alike import setup
from planner.replicas.generate import generate
from planner.replicas.pool import Pool
from planner.replicas.stage_points import points

TWO = from_gpus("1xrtx-3090,1xrtx-4090")


def ask(model: str, tpot_ms: float | None = None, isl: int = 1024, osl: int = 256, **more: object) -> Ask:
    card, _ = catalog.find(model)
    slo = Slo(ttft_ms=None, tpot_ms=tpot_ms)
    load = Workload(buckets=[Bucket(isl=isl, osl=osl)], slo=slo)
    used = Ask(card, precisions(card), ["vllm"], load, Promise.of(slo, "closed"), THROUGHPUT)
    return replace(used, **more)  # type: ignore[arg-type]


def made(cluster: ResolvedCluster, asked: Ask) -> Pool:
    return generate(cluster.classes, asked, links=cluster.links)


def over_several(pool: Pool):
    return [c for c in pool.candidates if c.design.stages]


def design(tp: int, pp: int) -> Designs:
    return Designs.plain(*(np.array([x], dtype=np.int64) for x in (tp, pp, 1, tp, 1)))


@pytest.mark.parametrize("model", ["llama-3.1-70b", "qwen3-30b-a3b"])
@pytest.mark.parametrize(("tp", "pp"), [(1, 4), (2, 2), (4, 1), (2, 4)])
def test_pipelines_are_ranked_by_what_the_cost_model_says_of_equal_stages(model, tp, pp):
    """Apart from hops, of which the cost model counts the last stage's, too."""
    cluster, batch = from_gpus("8xh100,1xl4"), 64
    posed = unlike_stages.pose(cluster.classes, (), ask(model), "vllm", Freedom())
    p = replace(posed.problem, points=points(posed, [(pp, batch)]), even=True)
    use = np.array([[pp * (k.gpus == tp and k.group == "h100-sxm") for k in p.kinds]])
    rate = unlike_stages.pipeline.best_ways(p, use).rate[0]

    s = setup(cluster.classes[0], "vllm", ask(model), one_more=False)
    d = s.designs
    at = np.flatnonzero((d.tp == tp) & (d.pp == pp) & (d.attn_dp == 1) & (d.ep == 1))
    budget = replace(s, token_budget=2**20)
    known = batched(budget, at, np.array([float(batch)]), "mixed").rate[0]

    assert rate == pytest.approx(known, rel=0.03 if pp > 1 or tp > 1 else 0.02)


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
    nodes = {c.id: c for c in cluster.classes}
    pool = made(cluster, a)

    assert over_several(pool)
    for c in over_several(pool):
        stages = c.design.stages
        assert [s.layers[0] for s in stages] == [0, *(s.layers[1] for s in stages[:-1])]
        assert stages[-1].layers[1] == len(a.card.stack)
        assert len({s.node_class for s in stages}) > 1
        assert len({s.tp for s in stages}) == 1
        ranges = [s.layers for s in stages]
        for i, s in enumerate(stages):
            d, own = design(s.tp, len(stages)), device_bytes(nodes[s.node_class].device)
            for_all = (a.card, own, d, a.precisions, "vllm", 2048, c.sequences)
            room = room_by_stage(*for_all, layers=ranges).kv_bytes[0, i]
            one = kv_bytes_per_seq(
                a.card, d, a.precisions, "vllm", np.array([1024 + 128.0]), ranges, np.array([i])
            )
            assert (c.batch - 1) * one[0, 0] <= room


def test_the_faster_of_two_cards_takes_more_layers():
    best = max(over_several(made(TWO, ask("qwen3-14b"))), key=lambda c: 1 / c.use["busy"]["0"])
    held = {s.node_class: s.layers[1] - s.layers[0] for s in best.design.stages}

    assert held["rtx-4090"] > held["rtx-3090"]


@pytest.mark.parametrize("freedom", [Freedom(False, False), Freedom(True, False), Freedom(False, True)])
def test_stages_differ_in_what_they_may(freedom):
    pool = made(from_gpus("2xrtx-4090,2xl40s"), ask("qwen3-32b", freedom=freedom))
    layers = [{s.layers[1] - s.layers[0] for s in c.design.stages} for c in over_several(pool)]

    assert layers
    assert all(len({s.tp for s in c.design.stages}) == 1 for c in over_several(pool)) != freedom.tp
    assert (max(max(x) - min(x) for x in layers) > 1) == freedom.layers


def test_one_device_for_all_stages_where_the_engine_builds_for_one():
    assert "trtllm" not in STOCK
    pool = made(from_gpus("2xa100-sxm,2xh100-sxm"), ask("llama-3.1-8b", engines=["trtllm"]))

    assert pool.candidates
    assert not over_several(pool)


@pytest.mark.parametrize("joined", [False, True])
def test_zones_without_a_link_do_not_share_a_replica(joined):
    nodes = [
        Node(device="rtx-3090", gpus_per_node=1, zone="a"),
        Node(device="rtx-4090", gpus_per_node=1, zone="b"),
    ]
    links = [Link(between=("a", "b"), gb_per_s=1.25, latency_ms=1)] if joined else []
    pool = made(resolve(Cluster(nodes=nodes, links=links)), ask("qwen3-14b"))

    assert bool(over_several(pool)) == joined
    assert (Key("", "vllm", "unlike stages") in pool.made) == joined


def test_the_rank_is_by_what_a_replica_loses_against_what_its_gpus_are_worth():
    """The first of the list is in an optimum of the relaxation: it loses nothing."""
    cluster = from_gpus("2xrtx-3090,1xrtx-a6000")
    found = unlike_stages.shortlist(cluster.classes, (), ask("qwen3-32b"), "vllm")

    assert 0 < len(found.stagings) <= found.ranked
    assert len(set(found.stagings)) == len(found.stagings)
    assert {s.node_class for s in found.stagings[0]} == {c.id for c in cluster.classes}
