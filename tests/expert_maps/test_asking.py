"""What an expert map is asked for: what belongs together, what is refused, what moves and what stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from model_zoo import catalog
from planner.errors import Infeasible, InputError
from planner.expert_maps.asking import ask
from planner.expert_maps.moving import moves, near
from planner.problems.experts import (
    expert_bytes,
    groups_of,
    linear,
    moe_layers,
    nodes_per_token,
    of_model,
    read_gpus,
    time_over_mean,
)
from tests.expert_maps.loads import EXPERTS, LAYERS, drawn, saved


@pytest.fixture
def loads(tmp_path):
    return saved(tmp_path / "loads.npz", drawn())


def refused(path, **asked) -> InputError:
    with pytest.raises(InputError) as caught:
        ask(path, **{"gpus": "4", **asked})
    return caught.value


def test_a_question_is_its_files_and_its_numbers(loads):
    a = ask(loads, gpus="4", slots="5", gap=0.1, time_limit_s=7.0, seed=3, max_balance=1.5, keep_within=0.2)

    assert a.loads.tokens.shape == (1, LAYERS, EXPERTS)
    assert (a.gpus.count, a.gpus.slots.tolist()) == (4, [5] * 4)
    assert (a.limits.gap, a.limits.seconds, a.limits.seed) == (0.1, 7.0, 3)
    assert (a.aim.grouped, a.keep_within, a.group) == (False, 0.2, None)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("traffic_weight", -1),
        ("max_balance", 0.9),
        ("keep_within", -0.1),
        ("gb_per_s", 0.0),
        ("gap", -0.1),
        ("time_limit_s", 0.0),
    ],
)
def test_numbers_out_of_range_are_refused_by_their_option(loads, option, value):
    name = {"time_limit_s": "--time-limit"}.get(option, "--" + option.replace("_", "-"))

    assert name in str(refused(loads, **{option: value}))


def test_what_cannot_be_asked_together_is_refused(loads, tmp_path):
    file = tmp_path / "any"

    assert "wants --tokens" in refused(loads, objective="traffic").message
    assert (
        refused(loads, affinity=file, previous=file).message
        == "--affinity cannot be combined with --previous"
    )
    assert refused(loads, groups=4, robust="mean").message == "--robust cannot be combined with --groups"
    assert "wants loads of several steps, and there is one" in refused(loads, robust="mean").message
    both = refused(loads, previous=file, objective="traffic", tokens=file)
    assert both.message == "--previous cannot be combined with --objective traffic"


def test_affinity_wants_every_expert_once_on_gpus_that_are_alike(loads, tmp_path):
    file = tmp_path / "any"

    assert "replicas cannot be combined" in refused(loads, affinity=file, slots="5").message
    assert "16 experts do not divide among 3 GPUs" in refused(loads, affinity=file, gpus="3").message
    unlike = refused(loads, affinity=file, gpus="2xH100,2xA100")
    assert unlike.message == "--affinity wants GPUs and nodes that are alike"


def test_groups_stay_on_a_node_only_where_balance_is_the_aim(loads):
    whole = ask(loads, gpus="4", gpus_per_node=2, groups=4)

    assert whole.aim.grouped
    assert whole.group.tolist() == [i // 4 for i in range(16)]


# GPUs in words


def test_gpus_are_nodes_of_eight_unless_told():
    plain, told = read_gpus("16", None, None, 16), read_gpus("16", 4, None, 16)

    assert plain.node.tolist() == [0] * 8 + [1] * 8
    assert told.nodes == 4
    assert read_gpus("16xH100", 4, None, 16).nodes == 4
    assert plain.intra is None
    assert plain.what == "16 GPUs"


def test_each_part_has_its_slots_and_its_speed():
    """By hand: H100 3,350 GB/s, H20 4,000."""
    own = read_gpus("2xH100,2xH20", None, "5,3", 16)

    assert own.slots.tolist() == [5, 5, 3, 3]
    assert own.speed == pytest.approx([3350 / 4000] * 2 + [1, 1], rel=0.01)
    assert own.node.tolist() == [0, 0, 1, 1]
    assert not own.alike
    assert read_gpus("4", None, None, 16).alike


@pytest.mark.parametrize(
    ("gpus", "per_node", "slots", "said"),
    [
        ("8xH100,4", None, None, "has a part without a GPU's name"),
        ("0", None, None, "must be a number from 1 to 10,000"),
        ("10001", None, None, "must be a number from 1 to 10,000"),
        ("6", 4, None, "6 GPUs do not divide into nodes of 4"),
        ("4", None, "3", "16 experts want 16 slots, and 4 GPUs have 12"),
        ("4", None, "17", "--slots must be from 1 to 16 a GPU"),
        ("4", None, "5,5", "--slots has 2 numbers, and --gpus 1 parts"),
    ],
)
def test_gpus_that_make_no_sense_are_refused(gpus, per_node, slots, said):
    with pytest.raises(InputError) as caught:
        read_gpus(gpus, per_node, slots, 16)

    assert said in caught.value.message


def test_groups_that_do_not_divide_or_do_not_fit_are_refused():
    two = read_gpus("4", 2, None, 16)
    with pytest.raises(InputError, match="16 experts do not divide into 3 groups"):
        groups_of(3, 16, two, whole=False)
    with pytest.raises(InputError, match="1 groups cannot be kept whole on 2 nodes"):
        groups_of(1, 16, two, whole=True)
    uneven = replace(two, slots=np.array([5, 5, 3, 3]))
    with pytest.raises(Infeasible, match="2 groups of 8 experts do not fit whole on 2 nodes of 6 slots"):
        groups_of(2, 16, uneven, whole=True)
    assert groups_of(2, 16, two, whole=True).tolist() == [0] * 8 + [1] * 8


# what is counted of a map


def test_the_engines_start_with_experts_in_order():
    assert linear(read_gpus("2", None, "3", 4), 4) == [[0, 1, 2], [3, 0, 1]]


def test_a_gpus_time_is_its_part_of_the_load_over_its_speed():
    """By hand: an expert on both GPUs gives each half; one twice as fast takes half as long."""
    load = np.array([4.0, 2.0, 2.0])

    assert time_over_mean(load, [[0, 1], [0, 2]], np.ones(2)) == pytest.approx([1, 1])
    assert time_over_mean(load, [[0], [1, 2]], np.ones(2)) == pytest.approx([1, 1])
    assert time_over_mean(load, [[0, 1], [2]], np.array([1.0, 0.5])) == pytest.approx(
        [6 * 1.5 / 8, 4 * 1.5 / 8]
    )


def test_a_token_visits_the_nodes_of_its_experts():
    """By hand: experts 0 and 1 on one node, 2 on another; 3 on both, each half of the time."""
    place, node = [[0, 1, 3], [2, 3]], np.array([0, 1])

    assert nodes_per_token(np.array([[0, 1]]), place, node, 4) == 1
    assert nodes_per_token(np.array([[0, 2]]), place, node, 4) == 2
    assert nodes_per_token(np.array([[0, 3]]), place, node, 4) == pytest.approx(1.5)


def test_loads_of_another_model_are_refused_and_own_ones_get_its_layers(loads):
    """DeepSeek-V2-Lite has 26 layers of 64 experts, from layer 1 on."""
    card = catalog.load("deepseek-v2-lite")
    a = ask(loads, gpus="4").loads
    tokens = np.ones((1, 26, 64))

    assert moe_layers(card) == tuple(range(1, 27))
    assert of_model(replace(a, tokens=tokens, layers=None), card, "f").layers == moe_layers(card)
    with pytest.raises(InputError, match="loads of 3 layers of 16 experts, but"):
        of_model(replace(a, layers=None), card, "f")
    with pytest.raises(InputError, match="layer 0 of deepseek-v2-lite has no experts"):
        of_model(replace(a, tokens=tokens[:, :1], layers=(0,)), card, "f")
    with pytest.raises(InputError, match="layer 3: deepseek-v2-lite has 64 experts, and the loads 16"):
        of_model(a, card, "f")
    with pytest.raises(InputError, match="has no experts"):
        of_model(a, catalog.load("llama-3.1-8b"), "f")


def test_an_expert_weighs_its_three_matrices():
    """DeepSeek-V2-Lite: 3 x 2,048 x 1,408 in bf16."""
    assert expert_bytes(catalog.load("deepseek-v2-lite"), 1) == 3 * 2048 * 1408 * 2


# moves and hops


def served_by(a, previous, **more):
    """The question with a map in service."""
    return replace(a, previous=[previous] * LAYERS, **more)


def test_copies_come_from_the_node_where_they_are_there_and_else_over_the_network(loads):
    """By hand: a map whose GPUs 0 and 1, of one node, swap an expert; none crosses; at 1 GB/s into a GPU."""
    card = catalog.load("deepseek-v2-lite")
    start = [list(range(4 * g, 4 * g + 4)) for g in range(4)]
    swapped = [[4, 1, 2, 3], [0, 5, 6, 7], *start[2:]]
    a = ask(loads, gpus="4", gpus_per_node=2, keep_within=0.0, gb_per_s=1.0)
    even = replace(a.loads, tokens=np.ones((1, LAYERS, EXPERTS)), layers=(1, 2, 3))
    place, told, balance = moves(served_by(replace(a, loads=even, card=card), start), [swapped] * LAYERS)

    assert told.fresh == 2 * LAYERS
    assert told.copies == 0  # what is in service is as even as the best
    assert (told.bytes, told.pause_s) == (0.0, 0.0)
    assert [[sorted(g) for g in layer] for layer in place] == [start] * LAYERS
    assert balance == pytest.approx([1.0] * LAYERS)


def test_a_pause_is_as_long_as_the_gpu_with_the_most_bytes_takes(loads):
    """By hand: all of one node's load moves to an empty map of the other order: every copy is far."""
    card = catalog.load("deepseek-v2-lite")
    a = ask(loads, gpus="2", gpus_per_node=1, keep_within=0.0, gb_per_s=1.0)
    tokens = np.ones((1, LAYERS, EXPERTS))
    tokens[:, :, :8] = 3.0
    skewed = replace(a, loads=replace(a.loads, tokens=tokens, layers=(1, 2, 3)), card=card)
    best = [[0, 1, 2, 3, 12, 13, 14, 15], [4, 5, 6, 7, 8, 9, 10, 11]]
    start = [list(range(8)), list(range(8, 16))]
    _, told, _ = moves(served_by(skewed, start), [best] * LAYERS)
    weight = expert_bytes(card, 1)

    assert told.fresh == 8 * LAYERS
    assert told.copies == 8 * LAYERS
    assert told.worst_gpu == 4 * LAYERS
    assert told.bytes == pytest.approx(8 * LAYERS * weight)
    assert told.worst_gpu_bytes == pytest.approx(4 * LAYERS * weight)
    assert told.pause_s == pytest.approx(4 * LAYERS * weight / 1e9)
    assert told.links == "1 GB/s into a GPU"
    unnamed = moves(served_by(replace(skewed, gb_per_s=None), start), [best] * LAYERS)[1]
    assert (unnamed.pause_s, unnamed.links) == (None, None)
    named = read_gpus("1xH100,1xA100", None, None, EXPERTS)
    over = moves(
        served_by(replace(skewed, gb_per_s=None, gpus=replace(named, speed=np.ones(2))), start),
        [best] * LAYERS,
    )
    assert over[1].pause_s == pytest.approx(4 * LAYERS * weight / float(named.nic.min()))
    assert "between nodes, into a GPU" in over[1].links


def test_experts_that_follow_each_other_come_to_one_gpu(tmp_path, loads):
    """By hand: expert e is always followed by 15 - e: in order 0 and 15 are on two GPUs, together on one."""
    a = ask(loads, gpus="4", gpus_per_node=2)
    follow = np.zeros((LAYERS - 1, EXPERTS, EXPERTS))
    follow[:, np.arange(EXPERTS), EXPERTS - 1 - np.arange(EXPERTS)] = 1.0
    place, hops, _ = near(replace(a, transitions=follow))

    assert hops.same_gpu == (0.0, 1.0)
    assert hops.same_node == (0.0, 1.0)
    assert hops.before > hops.after == pytest.approx(hops.bound)
    assert all(sorted(e for gpu in layer for e in gpu) == list(range(EXPERTS)) for layer in place)
