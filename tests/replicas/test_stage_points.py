"""Stages as the pipeline program knows them: bytes as lines in the layers, seconds by batch, hops."""

from dataclasses import replace
from functools import cache
from math import sqrt

import numpy as np
import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from planner.candidates.ask import Freedom
from planner.candidates.mix import Mix
from planner.cost.attention import Load
from planner.cost.memory import room_by_stage
from planner.cost.reserve import device_bytes
from planner.designs.shape import like
from planner.inputs.workload import Bucket, Workload
from planner.replicas import stage_points, unlike_stages
from planner.replicas.stage_points import memory_lines, points
from solvers.pipeline.types import ALONE, FIRST, LAST, MIDDLE
from tests.candidates.samples import CHAT, ask
from tests.cost.samples import LLAMA_8B

BUDGET, LAYERS = 2048, 32
HIDDEN = 4096


@cache
def posed(zones=("z", "z"), linked=False, isl=1000, osl=201):
    """One H100 and two L40S, each class in a zone."""
    forms = [
        Node(name="h", device="h100-sxm", gpus_per_node=1, zone=zones[0], nic_gb_per_s=10.0),
        Node(name="l", device="l40s", gpus_per_node=2, zone=zones[1], nic_gb_per_s=5.0),
    ]
    links = [Link(between=zones, gb_per_s=2.0, latency_ms=4.0)] if linked else []
    cluster = resolve(Cluster(nodes=forms, links=links))
    load = CHAT.model_copy(update={"buckets": [Bucket(isl=isl, osl=osl)]})
    asked = ask(LLAMA_8B, load, engines=("vllm",))
    found = unlike_stages.pose(cluster.classes, cluster.links, asked, "vllm", Freedom())
    assert found is not None
    return found


def kind(of, group: str, tp: int) -> int:
    """Where a kind of stage stands."""
    return [(k.group, k.gpus) for k in of.problem.kinds].index((group, tp))


@pytest.mark.parametrize("layers", [1, 5, 20, 31])
@pytest.mark.parametrize("tp", [1, 2])
def test_room_is_a_line_in_the_number_of_layers(layers, tp):
    """As memory has it of a stage of so many layers with the embedding before it, neither, or the LM head."""
    own = posed()
    model = own.models[1]
    lines = memory_lines(model, np.array([1, 2]), "vllm", BUDGET, own.mix)
    at, size = tp - 1, device_bytes(model.node_class.device)

    def left(ranges):
        used = (model.card, size, like(1, tp, len(ranges)), model.precisions, "vllm", BUDGET)
        return room_by_stage(*used, layers=ranges).kv_bytes[0]

    def line(role):
        return lines.free[at, role] - layers * lines.layer[at]

    first, last = (
        left([(0, layers), (layers, LAYERS)]),
        left([(0, LAYERS - layers), (LAYERS - layers, LAYERS)]),
    )
    middle = left([(0, 0), (0, layers), (layers, LAYERS)])
    assert line(FIRST) == pytest.approx(first[0], rel=1e-6)
    assert line(LAST) == pytest.approx(last[1], rel=1e-6)
    assert line(MIDDLE) == pytest.approx(middle[1], rel=1e-6)
    assert lines.free[at, ALONE] - LAYERS * lines.layer[at] == pytest.approx(
        room_by_stage(model.card, size, like(1, tp), model.precisions, "vllm", BUDGET).kv_bytes[0, 0]
    )


def test_a_layer_has_its_weights_and_cache_over_its_gpus():
    """Llama-8B: 218,112,000 weights a layer in 16 bits (norms included), 4 KiB of cache a token and layer;
    vLLM holds the prompt and half of the answer in the mean."""
    own = posed()
    lines = memory_lines(own.models[1], np.array([1, 2]), "vllm", BUDGET, own.mix)
    weights = 2 * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * 1024 + 3 * HIDDEN * 14336 + 2 * HIDDEN)

    assert lines.layer == pytest.approx([weights, weights / 2], rel=1e-3)
    assert lines.cache == pytest.approx([4096 * (1000 + 201 / 2), 4096 * (1000 + 201 / 2) / 2], rel=0.02)


def mix(*buckets: Bucket) -> Mix:
    return Mix.of(Workload(buckets=list(buckets)))


def test_sequences_of_one_bucket_differ_by_how_far_they_have_come():
    """Between prompt and whole request alike: a width of 200 of 1,200 over the root of 12."""
    assert stage_points._spread(mix(Bucket(isl=1000, osl=200)), False) == pytest.approx(200 / 1200 / sqrt(12))


def test_sequences_of_several_buckets_differ_by_their_bucket_too():
    """Weights are steps: 101 - 1 and 301 - 1 of 400. Held: 150.5 and 550.5 in the mean, each with its own
    width."""
    found = stage_points._spread(
        mix(Bucket(isl=100, osl=101, share=0.5), Bucket(isl=400, osl=301, share=0.5)), False
    )
    held, weight = np.array([150.5, 550.5]), np.array([0.25, 0.75])
    width = np.array([101 / 201, 301 / 701])
    mean = held @ weight

    assert found == pytest.approx(sqrt((held**2 * (1 + width**2 / 12)) @ weight - mean**2) / mean)


def test_room_that_is_reserved_for_the_whole_answer_counts_it_all():
    wide = mix(Bucket(isl=100, osl=100, share=0.5), Bucket(isl=100, osl=900, share=0.5))

    assert stage_points._spread(wide, True) > stage_points._spread(wide, False)


def test_points_are_those_whose_micro_batches_keep_the_token_budget():
    """A sequence brings 1 + 1000 / 200 = 6 tokens a step: 2,048 / 6 = 341 of them a micro-batch."""
    own = posed()
    most = own.token_budget / 6.0
    grid = [(1, int(most)), (1, int(most) + 1), (2, int(2 * most)), (2, int(2 * most) + 1), (2, 1), (2, 1)]
    found = points(own, grid)

    assert [(p.stages, p.sequences) for p in found] == [(1, int(most)), (2, 1), (2, int(2 * most))]
    assert points(own, [(1, 10**6)]) == []


def test_with_hardly_a_prompt_a_layer_takes_as_long_as_its_decode():
    """64 sequences in two micro-batches of 32, at the mean context."""
    own = posed(isl=1, osl=20_001)
    (point,) = points(own, [(2, 64)])
    for group, tp in (("h", 1), ("l", 2)):
        model = own.models[0 if group == "h" else 1]
        load = Load.of(np.array([32.0]), own.mix.context)
        alone = float(model.mean_layer_s(load, like(1, tp, 2))[0])

        assert point.layer_s[kind(own, group, tp)] == pytest.approx(alone, rel=0.01)


def test_prompts_lengthen_layers_by_as_much_as_they_are_many():
    """32 sequences bring 0.16 prompts a step, 64 twice as many; beside them the decode of so many."""
    own, at = posed(), kind(posed(), "h", 1)
    few, many = points(own, [(1, 32), (1, 64)])
    load = Load.of(np.array([32.0, 64.0]), own.mix.context)
    alone = own.models[0].mean_layer_s(load, like(2, 1))
    prompts = np.array([few.layer_s[at], many.layer_s[at]]) - alone

    assert prompts[0] > 0
    assert prompts[1] == pytest.approx(2 * prompts[0], rel=0.1)
    assert few.layer_s[kind(own, "l", 2)] < few.layer_s[kind(own, "l", 1)]  # of two GPUs each takes a half


def test_only_the_last_stage_has_the_head():
    own = posed()
    (point,) = points(own, [(2, 64)])
    for at, tp in ((kind(own, "l", 1), 1), (kind(own, "l", 2), 2)):
        head = float(own.models[1].layers.head_s(np.array([32.0]), like(1, tp))[0])

        assert point.extra_s[at, [FIRST, MIDDLE]].tolist() == [0.0, 0.0]
        assert point.extra_s[at, [LAST, ALONE]] == pytest.approx([head, head])
        assert head > 0


def test_engines_take_their_own_seconds_each_stage_and_sequence():
    """And what launching each prompt's chunk that passes takes beyond its kernels: 64 / 200 prompts a round,
    often alone. All of it where they are nothing beside it."""
    own = posed()
    (point,) = points(own, [(2, 64)])
    model = own.models[0]
    chunk = float(stage_points._chunk(own, np.array([2]), np.array([64]))[0])
    lumps = 64 / 200 * 1000 / chunk
    engine = 2 * model.tuning.step_s + 64 * model.tuning.sequence_s
    hidden = point.round_s[kind(own, "h", 1)] - engine
    launching_s, model.launching_s = model.launching_s, 1e4
    (slow,) = points(own, [(2, 64)])

    assert 0.01 * lumps * launching_s < hidden < 0.9 * lumps * launching_s
    assert slow.round_s[kind(own, "h", 1)] == pytest.approx(lumps * 1e4, rel=1e-3)
    assert 2 * 1000 <= chunk <= 2 * 1200  # 0.16 prompts a micro-batch: rarely two together


def test_launching_takes_less_where_steps_with_prompts_are_replayed_from_graphs():
    own = posed()
    model = own.models[0]
    model.launching_s, model.graphs_alone, model.graph_tokens = 1e4, False, 1e9
    model.tuning = replace(model.tuning, captured=0.1)
    (replayed,) = points(own, [(2, 64)])
    model.graph_tokens = 0.0
    (point,) = points(own, [(2, 64)])
    at = kind(own, "h", 1)

    assert replayed.round_s[at] == pytest.approx(0.1 * point.round_s[at], rel=1e-3)


def message() -> float:
    """Bytes of a micro-batch of 32 sequences with their prompts' share: 6 tokens each, in 16 bits."""
    return 2.0 * HIDDEN * 6 * 32


def test_activations_go_over_the_slower_nic_of_two_classes():
    own = posed()
    (point,) = points(own, [(2, 64)])
    widest = max(
        {k.gpus for k in own.problem.kinds if k.group == "h"}
        & {k.gpus for k in own.problem.kinds if k.group == "l"}
    )
    parts = widest if own.models[0].shares_hops else 1
    over = [float(m.links.far_s(np.array([message()]), np.array([parts]))[0]) for m in own.models]
    near = [float(m.links.hop_s(np.array([message()]), np.array([1]))[0]) for m in own.models]

    assert point.hop_s == pytest.approx(np.array([[near[0], max(over)], [max(over), near[1]]]))
    assert over[1] > over[0] > near[0]


def test_a_declared_link_comes_on_top_and_without_one_zones_are_endlessly_far():
    (near,), (far,), (none,) = (
        points(posed(*where), [(2, 64)]) for where in ((), (("a", "b"), True), (("a", "b"), False))
    )

    assert far.hop_s[0, 1] - near.hop_s[0, 1] == pytest.approx(0.004 + message() / 2e9)
    assert np.isinf(none.hop_s[0, 1])
    assert np.isinf(none.hop_s[1, 0])
    assert none.hop_s[0, 0] == near.hop_s[0, 0]


def test_nodes_of_one_class_are_near_inside_a_scale_up_domain_and_else_over_nics():
    own = posed()
    apart = replace(own, classes=tuple(replace(c, scale_up_gpus=0) for c in own.classes))
    joined, over = (points(each, [(2, 64)])[0] for each in (own, apart))

    assert joined.far_s[1] == joined.hop_s[1, 1]
    assert over.far_s[1] > over.hop_s[1, 1]
