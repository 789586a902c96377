"""Tensor-parallel groups over two classes: every division of the heads, found again by trying all; equal
shares are the cost model's tp, every GPU has its part."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from model_zoo import catalog
from model_zoo.schema import Attention, DenseFfn
from planner.candidates.ask import Freedom
from planner.candidates.candidate import Key
from planner.cost.attention import Load
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import like
from planner.replicas.kind import Space
from planner.replicas.uneven_heads import MOST, Shard, UnevenModel, designs_of, groups, made
from tests.candidates.samples import ask
from tests.cost.samples import KINDS, LLAMA_8B, card

DENSE = DenseFfn(inner=14336)
QWEN = catalog.find("qwen3-32b-fp8")[0]
DECODING = Load(*(np.array([x]) for x in (16.0, 1000.0, 0.0, 0.0)))


def classes(a: int, b: int, **more):
    """`a` H100 in a node and `b` A100, in one zone unless told."""
    zones = more.pop("zones", ("z", "z"))
    forms = [
        Node(name="a", device="h100-sxm", gpus_per_node=a, zone=zones[0]),
        Node(name="b", device=more.pop("other", "a100-sxm-80gb"), gpus_per_node=b, zone=zones[1]),
    ]
    return resolve(Cluster(nodes=forms)).classes


def heads(of: int):
    return card(Attention(heads=4 * of, kv_heads=of, head_dim=128), DENSE, layers=32)


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 8), st.integers(1, 8))
def test_the_groups_are_those_of_trying_every_division(of, a, b):
    """n GPUs with x heads each and m with y: n x + m y heads, at most MOST GPUs, everybody some."""
    every = {
        (n, x, m, y)
        for n, m in product(range(1, a + 1), range(1, b + 1))
        for x, y in product(range(1, of + 1), repeat=2)
        if n + m <= MOST and n * x + m * y == of
    }
    found = set()
    for first, second in groups(classes(a, b), heads(of)):
        assert (first.node_class, second.node_class) == ("a", "b")
        found.add((first.tp, first.heads, second.tp, second.heads))

    assert found == every


def test_a_shard_has_all_layers_and_its_part_of_the_heads():
    """8 heads: 5 on one H100 and 3 on one A100 is one way."""
    own = [g for g in groups(classes(1, 1), heads(8)) if g[0].heads == 5]

    assert len(own) == 1
    assert [(s.node_class, s.heads, s.of, s.layers, s.tp) for s in own[0]] == [
        ("a", 5, 8, (0, 32), 1),
        ("b", 3, 8, (0, 32), 1),
    ]


@pytest.mark.parametrize(
    ("nodes", "model"),
    [
        (classes(2, 2, zones=("here", "there")), LLAMA_8B),  # no group over zones
        (classes(2, 4, other="h100-sxm"), LLAMA_8B),  # the same device: even groups do
        (classes(2, 2), KINDS["mla"]),  # latents are not divided by heads
        (classes(2, 2), KINDS["linear"]),
        (classes(1, 1), heads(1)),  # one head is on one GPU
    ],
)
def test_there_are_none_where_nothing_can_be_divided(nodes, model):
    assert list(groups(nodes, model)) == []


def test_layers_that_differ_in_their_heads_are_not_divided():
    two = {
        "m": Attention(heads=32, kv_heads=8, head_dim=128),
        "n": Attention(heads=32, kv_heads=4, head_dim=128),
    }
    mixed = LLAMA_8B.model_copy(update={"mixers": two})
    alike = LLAMA_8B.model_copy(update={"mixers": {"m": two["m"], "n": two["m"]}})

    assert list(groups(classes(1, 1), mixed)) == []
    assert len(list(groups(classes(1, 1), alike))) == 7  # 1 + 7, …, 7 + 1


def space(nodes, **more) -> Space:
    asked = ask(LLAMA_8B, engines=("vllm",), **{"freedom": Freedom(shares=True), **more})
    return Space(nodes, (), asked, False)


def test_a_setup_for_each_engine_has_all_groups_under_its_key():
    (own,) = made("uneven heads", space(classes(2, 2)))

    assert own.key == Key("", "vllm", "uneven heads")
    assert own.node is None
    assert own.roles == ["mixed"]
    assert len(own.setup.designs) == len(list(groups(classes(2, 2), LLAMA_8B)))
    assert own.setup.designs.tp.tolist() == [a.tp + b.tp for a, b in groups(classes(2, 2), LLAMA_8B)]


@pytest.mark.parametrize(
    "changes", [{"freedom": Freedom(shares=False)}, {"freedom": None}, {"offload": True}]
)
def test_groups_are_made_where_they_are_asked_for(changes):
    assert list(made("uneven heads", space(classes(2, 2), **changes))) == []
    assert list(made("uneven heads", replace(space(classes(2, 2)), classes=classes(2, 2)[:1]))) == []


def of_qwen(cluster, n: int, heads: int, m: int, others: int):
    """A group on the first two classes of a cluster, as a model of one design."""
    a, b = cluster.classes[:2]
    layers = (0, len(QWEN.stack))
    both = (Shard(a.id, n, layers, heads, 8), Shard(b.id, m, layers, others, 8))
    model = UnevenModel(QWEN, cluster.classes, cluster.links, [both], "vllm", precisions(QWEN))
    return model, designs_of([both])


def test_equal_shares_take_as_long_as_tp_without_its_messages():
    cluster = from_gpus("2xrtx-4090,2xl40s")
    m, d = of_qwen(cluster, 2, 2, 2, 2)
    slower = CostModel(QWEN, cluster.classes[1], "vllm", precisions(QWEN))
    message = m._message(DECODING)
    sent = slower.links.all_reduce_s(message, np.array([4]))
    kernels = slower._stages_s(like(1, 4), DECODING)[0] - 2 * 64 * sent

    assert m._stages_s(d, DECODING)[0] == pytest.approx(kernels + 2 * 64 * m._meet_s(d, message), rel=0.02)
    assert [int(gpus[0]) for _, gpus in m.by_class(d)] == [2, 2]


def test_weights_and_cache_are_divided_by_the_shares():
    m, d = of_qwen(from_gpus("1xrtx-4090,1xrtx-5090"), 1, 3, 1, 5)
    weights = m.memory_by_stage(d, 2048).weights_bytes[0]
    held = [m.cache_bytes(d, np.array([1000.0]), np.array([i]))[0, 0] for i in (0, 1)]

    assert held[1] / held[0] == pytest.approx(5 / 3, rel=1e-6)
    assert weights[1] > weights[0]
    assert weights.sum() == pytest.approx(33e9, rel=0.1)


def test_both_gpus_keep_buffers_for_collectives():
    """5 of 8 heads lie between a GPU by itself, which has none, and a half."""
    m, d = of_qwen(from_gpus("1xrtx-4090,1xrtx-5090"), 1, 3, 1, 5)
    reserved = m.memory_by_stage(d, 2048).reserve_bytes[0, 1]
    half = m.of_class["rtx-5090"].memory_by_stage(like(1, 2), 2048).reserve_bytes[0, 0]

    assert reserved == pytest.approx(half, rel=1e-6)


def test_all_bytes_of_a_gpu_are_something():
    """Of one that would be by itself, and of one that would not."""
    m, d = of_qwen(from_gpus("1xrtx-4090,1xrtx-5090"), 1, 3, 1, 5)
    own = m.memory_by_stage(d, 2048)

    used = own.weights_bytes + own.activation_bytes + own.reserve_bytes + own.kv_bytes
    assert used == pytest.approx(own.capacity_bytes)


def test_the_faster_gpu_with_more_heads_makes_the_group_faster():
    cluster = from_gpus("1xl4,1xrtx-5090")
    seconds = [
        float(m._stages_s(d, DECODING)[0][0])
        for m, d in (of_qwen(cluster, 1, k, 1, 8 - k) for k in range(1, 8))
    ]

    assert int(np.argmin(seconds)) + 1 < 4  # the L4 has a sixth of the bandwidth
    assert seconds[-1] > 1.9 * min(seconds)


def test_classes_meet_over_their_slowest_nic():
    """Each over the NICs of its nodes, whatever joins the GPUs of one of them."""
    nodes = [Node(name=n, device=n, nic_gb_per_s=x) for n, x in (("rtx-4090", 12), ("rtx-5090", 1))]
    cluster, message = resolve(Cluster(nodes=nodes)), np.array([1e6])
    m, d = of_qwen(cluster, 1, 4, 1, 4)
    slow = m.of_class["rtx-5090"].links

    assert m._meet_s(d, message)[0] == pytest.approx(2 * slow.hop_s(message, np.array([slow.domain + 1]))[0])
    assert m._meet_s(d, message)[0] > 2e-3


def test_a_declared_link_between_the_classes_slows_what_they_exchange():
    nodes = [Node(name=name, device=name, nic_gb_per_s=12) for name in ("rtx-4090", "rtx-5090")]
    link = Link(between=("rtx-4090", "rtx-5090"), gb_per_s=1, latency_ms=0.1)
    near, far = (resolve(Cluster(nodes=nodes, links=links)) for links in ([], [link]))
    message = np.array([1e6])
    (one, d), (two, _) = (of_qwen(cluster, 1, 4, 1, 4) for cluster in (near, far))

    assert two._meet_s(d, message)[0] - one._meet_s(d, message)[0] == pytest.approx(2 * (1e-4 + 1e6 / 1e9))
