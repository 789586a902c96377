"""Replicas of unlike stages: equal stages give what the cost model says of them, and every stage its own."""

from dataclasses import replace

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from model_zoo import catalog
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.cost.unequal import UnequalModel
from planner.designs.precision import precisions
from planner.designs.shape import Designs, Stage, Staging, designs_of
from planner.designs.stages import stage_layers

POINTS = [
    Load.of(64.0, 1500.0, 0.0, 0.0),
    Load.of(8.0, 300.0, 2048.0, 1024.0),
    Load.of(1.0, 9000.0),
]


def alike(name: str, layers: int, tp: int, pp: int) -> Staging:
    return tuple(Stage(name, tp, x) for x in stage_layers(layers, pp))


def one(tp: int, pp: int) -> Designs:
    return Designs.plain(*(np.array([x], dtype=np.int64) for x in (tp, pp, 1, tp, 1)))


@pytest.mark.parametrize("model", ["llama-3.1-70b", "gpt-oss-120b", "deepseek-v3"])
@pytest.mark.parametrize(("tp", "pp"), [(1, 4), (4, 1), (2, 4), (8, 2)])
def test_equal_stages_are_what_the_cost_model_says(model, tp, pp):
    cluster, (card, _) = from_gpus("16xh200"), catalog.find(model)
    node, used = cluster.classes[0], precisions(catalog.find(model)[0])
    plain = CostModel(card, node, "vllm", used)
    both = [alike(node.id, len(card.stack), 1, 2), alike(node.id, len(card.stack), tp, pp)]
    staged = UnequalModel(card, cluster.classes, (), both, "vllm", used)
    d, s = one(tp, pp), designs_of(both).take(np.array([1]))

    for point in POINTS:
        assert staged.step_s(s, point) == pytest.approx(plain.step_s(d, point), rel=1e-9)
        assert staged.watts(s, point, 0.7) == pytest.approx(plain.watts(d, point, 0.7), rel=0.25)
    a, b = staged.memory(s, 8192, 2000.0), plain.memory(d, 8192, 2000.0)
    for name in ("weights_bytes", "activation_bytes", "kv_bytes", "stage"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-9)
    tokens = np.array([100.0, 5000.0])
    assert staged.cache_bytes(s, tokens, a.stage) == pytest.approx(plain.cache_bytes(d, tokens, b.stage))


def test_each_stage_counts_its_own_device_tp_and_layers():
    """20 layers on an L40S take as long as a quarter of 80 on it; the slowest stage sets the pace."""
    cluster, (card, _) = from_gpus("2xl40s,4xh100"), catalog.find("llama-3.1-70b-fp8")
    l40s, h100 = (c.id for c in cluster.classes)
    staging = (Stage(l40s, 1, (0, 20)), Stage(h100, 4, (20, 80)))
    m = UnequalModel(card, cluster.classes, (), [staging], "vllm", precisions(card))
    d = designs_of([staging])
    slow = CostModel(card, cluster.classes[0], "vllm", precisions(card))
    head = slow.layers.head_s(_load().decoded, one(1, 4))
    quarter = slow._stages_s(one(1, 4), _load())[0] - head

    largest, both = m._stages_s(d, _load())

    assert largest == pytest.approx(quarter, rel=1e-9)
    assert both > largest
    assert m.by_class(d)[0][1] == 1
    assert m.by_class(d)[1][1] == 4
    assert d.gpus == 5
    by_stage = m.memory_by_stage(d, 2048)
    assert by_stage.capacity_bytes[0] == pytest.approx([48e9, 80e9], rel=0.1)
    assert by_stage.weights_bytes[0, 0] > by_stage.weights_bytes[0, 1]


def _load():
    from planner.cost.attention import Load

    return Load(*(np.array([x]) for x in (16.0, 1000.0, 0.0, 0.0)))


def test_a_slow_link_is_paid_on_the_way_there_and_its_latency_on_the_way_back():
    (card, _), hop = catalog.find("qwen3-32b"), {}
    for gb_per_s in (10.0, 0.1):
        nodes = [Node(device="h100-sxm", zone="a"), Node(device="l40s", zone="b")]
        link = Link(between=("a", "b"), gb_per_s=gb_per_s, latency_ms=5)
        cluster = resolve(Cluster(nodes=nodes, links=[link]))
        a, b = (c.id for c in cluster.classes)
        staging = (Stage(a, 1, (0, 40)), Stage(b, 1, (40, 64)))
        m = UnequalModel(card, cluster.classes, cluster.links, [staging], "vllm", precisions(card))
        hop[gb_per_s] = m.hops_s(designs_of([staging]), _load())[0]
    message = 2.0 * card.hidden * 16

    assert hop[10.0] > 2 * 5e-3
    assert hop[0.1] - hop[10.0] == pytest.approx(message * (1 / 0.1e9 - 1 / 10e9), rel=1e-6)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_stages_of_a_class_over_several_nodes_are_far_only_where_nodes_part(engine):
    """Four stages of 4 GPUs on two nodes of 8, and one on another class: as the cost model's own where the
    class is alone, and one boundary more."""
    cluster, (card, _) = from_gpus("16xh100,8xl40s"), catalog.find("llama-3.1-70b")
    h100, l40s = (c.id for c in cluster.classes)
    own, more = alike(h100, len(card.stack), 4, 4), (Stage(l40s, 4, (0, 20)), Stage(h100, 4, (20, 80)))
    mixed = (more[0], *(Stage(h100, 4, (20 + 15 * i, 35 + 15 * i)) for i in range(4)))
    m = UnequalModel(card, cluster.classes, (), [own, more, mixed], engine, precisions(card))
    plain = CostModel(card, cluster.classes[0], engine, precisions(card))

    alone, once, both = m.hops_s(designs_of([own, more, mixed]), Load.of(2000.0, 1.0).over(3, 1.0))

    assert alone == pytest.approx(plain.hops_s(one(4, 4), Load.of(2000.0, 1.0).over(1, 1.0))[0], rel=1e-9)
    home = plain.links.hop_s(np.zeros(1), np.array([16]))[0]  # of a token's id, counted in both
    assert both == pytest.approx(once + alone - home, rel=1e-9)


def test_an_engine_that_sends_parts_is_sooner_at_another_node():
    cluster, (card, _) = from_gpus("16xh100"), catalog.find("llama-3.1-70b")
    models = [CostModel(card, cluster.classes[0], e, precisions(card)) for e in ("vllm", "sglang")]
    parts, whole = (m.hops_s(one(8, 2), Load.of(2000.0, 1.0).over(1, 1.0))[0] for m in models)

    assert parts < whole / 2


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_it_takes_what_it_takes_whatever_other_classes_the_model_knows(engine):
    """The slowest host is one of its own, and what first tokens wait for beside the steps is the same; what
    launching takes is each host's."""
    cluster, (card, _) = from_gpus("1xmi300x,1xa100-80,1xb200,1xh100"), catalog.find("llama-3.1-8b")
    ids = [c.id for c in cluster.classes]
    pairs: list[Staging] = [(Stage(a, 1, (0, 24)), Stage(b, 1, (24, 32))) for a in ids for b in ids if a != b]
    used = precisions(card)
    every = UnequalModel(card, cluster.classes, (), pairs, engine, used)

    for i, pair in enumerate(pairs):
        own = [c for c in cluster.classes if c.id in {stage.node_class for stage in pair}]
        alone = UnequalModel(card, own, (), [pair], engine, used)
        for point in POINTS:
            told = every.step_s(designs_of(pairs).take(np.array([i])), point)
            assert told == pytest.approx(alone.step_s(designs_of([pair]), point), rel=1e-9)
        assert replace(every.tuning, prompt_layer_s=0.0) == replace(alone.tuning, prompt_layer_s=0.0)
