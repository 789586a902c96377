"""Experts as numbers: GPUs as typed, groups, loads of a model, the start of engines, what a token visits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_configs.reading import from_gpus
from model_zoo.catalog import load
from model_zoo.schema import ModelCard
from planner.errors import Infeasible, InputError
from planner.inputs.expert_loads import ExpertLoads
from planner.problems import experts

MODEL = ModelCard(
    name="made-up",
    source="made up: experts in layers 1, 2 and 4 of 5, the last of another number",
    hidden=16,
    vocab=32,
    max_context=64,
    mixers={"a": {"kind": "attention", "heads": 2, "kv_heads": 1, "head_dim": 8}},
    ffns={
        "dense": {"kind": "dense", "inner": 32},
        "moe": {"kind": "moe", "experts": 4, "top_k": 2, "inner": 8, "precision": {"expert_down": "fp8"}},
        "few": {"kind": "moe", "experts": 2, "top_k": 1, "inner": 8},
    },
    layers=[{"times": 1, "of": ["a/dense", "a/moe", "a/moe", "a/dense", "a/few"]}],
)


def loads(layers: int, count: int, named: tuple[int, ...] | None = None) -> ExpertLoads:
    return ExpertLoads(np.ones((1, layers, count)), named)


@pytest.mark.parametrize(
    ("text", "per_node", "slots", "each", "nodes"),
    [
        ("4", None, None, [4] * 4, [0] * 4),  # 16 experts over 4 GPUs
        ("5", None, None, [4] * 5, [0] * 5),  # rounded up: 3.2 a GPU
        ("16", None, None, [1] * 16, [0] * 8 + [1] * 8),  # a node is 8 where nobody says
        ("4", 2, "5", [5] * 4, [0, 0, 1, 1]),
        ("2xH100,2xH20", None, "5,3", [5, 5, 3, 3], [0, 0, 1, 1]),
        ("4xH100", 2, None, [4] * 4, [0, 0, 1, 1]),
        (" 2xH100 , 2xH20 ", 1, " 6 ", [6] * 4, [0, 1, 2, 3]),
    ],
)
def test_gpus_have_slots_and_nodes_as_they_were_typed(text, per_node, slots, each, nodes):
    gpus = experts.read_gpus(text, per_node, slots, 16)

    assert (gpus.slots.tolist(), gpus.node.tolist()) == (each, nodes)
    assert (gpus.count, gpus.nodes) == (len(each), nodes[-1] + 1)


def test_speed_is_memory_bandwidth_over_the_fastest_ones():
    classes = from_gpus("1xH100,1xH20").classes
    slow, fast = sorted(c.device.memory_gb_per_s for c in classes)
    gpus = experts.read_gpus("1xH100,1xH20", None, None, 4)

    assert sorted(gpus.speed) == pytest.approx([slow / fast, 1.0])
    assert gpus.nic.tolist() == [c.nic_bytes_per_s for c in classes]
    assert gpus.intra.tolist() == [c.intra_bytes_per_s for c in classes]
    assert not gpus.alike


def test_gpus_without_a_name_have_no_links():
    gpus = experts.read_gpus("4", None, None, 8)

    assert (gpus.intra, gpus.nic, gpus.what, gpus.alike) == (None, None, "4 GPUs", True)
    assert not experts.read_gpus("2xH100,2xH100", None, "3,4", 8).alike  # of one speed, of unlike slots


@pytest.mark.parametrize(
    ("text", "per_node", "slots", "where", "words"),
    [
        ("0", None, None, "--gpus", "from 1 to 10,000"),
        ("10001", None, None, "--gpus", "from 1 to 10,000"),
        ("9" * 400, None, None, "--gpus", "from 1 to 10,000"),
        ("8xH100,8", None, None, "--gpus", "without a GPU's name"),
        ("6", 4, None, "--gpus-per-node", "6 GPUs do not divide into nodes of 4"),
        ("4", None, "17", "--slots", "from 1 to 16 a GPU"),
        ("4", None, "0", "--slots", "from 1 to 16 a GPU"),
        ("4", None, "four", "--slots", "from 1 to 16 a GPU"),
        ("4", None, "5,5", "--slots", "2 numbers, and --gpus 1 parts"),
        ("1xH100,1xH20,1xL40S", None, "8,8", "--slots", "2 numbers, and --gpus 3 parts"),
        ("4", None, "3", "--slots", "16 experts want 16 slots, and 4 GPUs have 12"),
    ],
)
def test_what_cannot_be_is_refused_by_its_option(text, per_node, slots, where, words):
    with pytest.raises(InputError) as error:
        experts.read_gpus(text, per_node, slots, 16)

    assert error.value.where == where
    assert words in error.value.message


def test_too_few_slots_are_told_how_many_would_do():
    with pytest.raises(InputError) as error:
        experts.read_gpus("3", None, "5", 16)

    assert error.value.hint == "give at least 6 slots a GPU"  # 16 / 3, rounded up
    assert experts.read_gpus("3", None, "6", 16).slots.sum() == 18


@pytest.mark.parametrize("whole", [True, False])
def test_groups_are_equal_runs(whole):
    gpus = experts.read_gpus("4", 2, "2", 8)

    assert experts.groups_of(4, 8, gpus, whole).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("groups", "slots", "error", "words"),
    [
        (3, "2", InputError, "8 experts do not divide into 3 groups"),
        (1, "4", InputError, "1 groups cannot be kept whole on 2 nodes"),
        # groups of 4 on nodes of 2 GPUs x 3 slots: one a node, and so 2 fit; groups of 2: three a node
        (2, "3", None, ""),
        (4, "3", None, ""),
        # on nodes of 2 x 2 slots groups of 4 fit once each
        (2, "2", None, ""),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups, slots, error, words):
    gpus = experts.read_gpus("4", 2, slots, 8)
    if error is None:
        assert len(experts.groups_of(groups, 8, gpus, True)) == 8
    else:
        with pytest.raises(error) as found:
            experts.groups_of(groups, 8, gpus, True)
        assert words in found.value.message
        assert found.value.where == "--groups"


def test_whole_groups_need_room_on_a_node_and_not_only_in_all():
    """Three nodes of 2 GPUs with 3 slots: 18 slots, 16 experts, but groups of 4 fit once a node."""
    gpus = experts.read_gpus("6", 2, "3", 16)

    with pytest.raises(Infeasible, match="4 groups of 4 experts do not fit whole on 3 nodes of 6 slots"):
        experts.groups_of(4, 16, gpus, True)
    assert experts.groups_of(4, 16, gpus, False).max() == 3


def test_loads_get_the_numbers_of_the_models_layers():
    assert experts.moe_layers(MODEL) == (1, 2, 4)
    assert experts.of_model(loads(2, 4, (1, 2)), MODEL, "f").layers == (1, 2)
    assert experts.of_model(loads(58, 256), load("deepseek-v3"), "f").layers == tuple(range(3, 61))


@pytest.mark.parametrize(
    ("given_loads", "words"),
    [
        (loads(2, 4), "loads of 2 layers of 4 experts, but made-up has 3 of 2/4"),
        (loads(1, 4, (3,)), "layer 3 of made-up has no experts"),
        (loads(1, 4, (99,)), "layer 99 of made-up has no experts"),
        (loads(3, 4), "layer 4: made-up has 2 experts, and the loads 4"),
        (loads(1, 8, (1,)), "layer 1: made-up has 4 experts, and the loads 8"),
    ],
)
def test_loads_of_another_model_are_refused_by_their_file(given_loads, words):
    with pytest.raises(InputError) as error:
        experts.of_model(given_loads, MODEL, "loads.csv")

    assert error.value.where == "loads.csv"
    assert words in error.value.message


def test_a_model_without_experts_needs_no_loads():
    with pytest.raises(InputError, match="has no experts") as error:
        experts.of_model(loads(1, 4), load("llama-3.1-8b"), "f")
    assert error.value.where == "--model"


def test_bytes_of_an_expert_by_hand():
    """Gate and up 16 x 8 in bf16 (2 x 128 x 2 bytes), down 8 x 16 in fp8 as an exception (128 bytes)."""
    assert experts.expert_bytes(MODEL, 1) == 2 * 128 * 2 + 128
    assert experts.expert_bytes(MODEL, 4) == 3 * 128 * 2
    assert experts.expert_bytes(MODEL, 0) == 0


@pytest.mark.parametrize(
    ("slots", "place"),
    [
        ("2", [[0, 1], [2, 3], [4, 5]]),
        ("3", [[0, 1, 2], [3, 4, 5], [0, 1, 2]]),  # the first ones again
    ],
)
def test_engines_start_in_order_and_fill_up_with_the_first(slots, place):
    assert experts.linear(experts.read_gpus("3", None, slots, 6), 6) == place


def test_unlike_slots_keep_the_order():
    gpus = experts.read_gpus("1xH100,1xH20", None, "4,3", 6)

    assert experts.linear(gpus, 6) == [[0, 1, 2, 3], [4, 5, 0]]


def test_time_over_the_mean_by_hand():
    """Loads 4, 2, 2; expert 0 twice, so 2 a copy. GPUs carry 2 + 2 and 2 + 2 of 8; at speeds 1 and 1/2 their
    times are 4 and 8, and that of both as one 8 / 1.5."""
    load, place = np.array([4.0, 2.0, 2.0]), [[0, 1], [2, 0]]

    assert experts.time_over_mean(load, place, np.ones(2)) == pytest.approx([1.0, 1.0])
    assert experts.time_over_mean(load, place, np.array([1.0, 0.5])) == pytest.approx([0.75, 1.5])


@given(
    st.lists(st.floats(0.01, 100), min_size=4, max_size=4),
    st.lists(st.floats(0.1, 1), min_size=2, max_size=2),
    st.permutations(range(4)),
)
def test_times_weighed_by_speed_mean_one_and_order_of_gpus_changes_nothing(load, speed, order):
    place = [list(order[:3]), [order[3], order[0]]]
    times = experts.time_over_mean(np.array(load), place, np.array(speed))

    assert np.average(times, weights=speed) == pytest.approx(1.0)
    assert experts.time_over_mean(np.array(load), place[::-1], np.array(speed[::-1])) == pytest.approx(
        times[::-1]
    )


@pytest.mark.parametrize(
    ("place", "visited"),
    [
        ([[0], [1], [2], [3]], 2.0),  # two GPUs a node; tokens take experts 0 and 2: one on each
        ([[0], [2], [1], [3]], 1.0),  # both on the first
        # expert 2 on both nodes: the first always, the second with a chance of 1/2
        ([[0], [2], [2], [3]], 1.5),
        ([[0, 2], [2], [2], [3]], 1 + 1 / 3),  # two of its three copies on the first
    ],
)
def test_a_token_visits_the_nodes_of_its_experts(place, visited):
    everywhere = [[*held, 1, 3] for held in place]  # the others have a place, too, and no token

    tokens = np.array([[0, 2]])
    assert experts.nodes_per_token(tokens, everywhere, np.array([0, 0, 1, 1]), 4) == pytest.approx(visited)


def test_a_token_visits_one_node_where_there_is_one_and_no_more_than_its_experts():
    place, tokens = [[0, 1], [2, 3]], np.array([[0, 2], [1, 3], [0, 1]])

    assert experts.nodes_per_token(tokens, place, np.array([0, 0]), 4) == 1.0
    assert experts.nodes_per_token(tokens, place, np.array([0, 1]), 4) == pytest.approx((2 + 2 + 1) / 3)
