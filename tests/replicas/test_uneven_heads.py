"""Tensor-parallel groups over two classes: every division of the heads, found again by trying all."""

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Node
from model_zoo.schema import Attention, DenseFfn
from planner.candidates.ask import Freedom
from planner.candidates.candidate import Key
from planner.replicas.kind import Space
from planner.replicas.uneven_heads import MOST, groups, made
from tests.candidates.samples import ask
from tests.cost.samples import KINDS, LLAMA_8B, card

DENSE = DenseFfn(inner=14336)


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


@settings(max_examples=40, deadline=None)
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
    for group in groups(classes(a, b), heads(of)):
        each = Counter((shard.node_class, shard.heads) for shard in group)
        (first, n), (second, m) = sorted(each.items())
        assert (first[0], second[0]) == ("a", "b")
        found.add((n, first[1], m, second[1]))

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
    assert own.setup.designs.tp.tolist() == [len(g) for g in groups(classes(2, 2), LLAMA_8B)]


@pytest.mark.parametrize(
    "changes", [{"freedom": Freedom(shares=False)}, {"freedom": None}, {"offload": True}]
)
def test_groups_are_made_where_they_are_asked_for(changes):
    assert list(made("uneven heads", space(classes(2, 2), **changes))) == []
    assert list(made("uneven heads", replace(space(classes(2, 2)), classes=classes(2, 2)[:1]))) == []
