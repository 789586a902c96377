"""Attention and FFNs on different GPUs: the cost model where nothing differs, arithmetic by hand, the line of
micro-batches beside a replay of it, and what more GPUs or faster links must not do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_configs.reading import from_gpus
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Link, Node
from model_zoo import catalog
from planner.cost.afd import AfdModel, attention_only, ffn_only
from planner.cost.afd_layout import Layout, designs_of
from planner.cost.afd_line import Parts, line_s
from planner.cost.attention import Load
from planner.cost.bands import WIDE
from planner.cost.model import CostModel
from planner.designs.precision import precisions
from planner.designs.shape import Designs

NEAR_S = 12e-6
"""Start of a message over scale-up links (datasheet.yaml, hop)."""
FAR_S = 20e-6
"""The same over NICs (network), which reach 0.8 of their bandwidth."""
POINTS = [
    Load.of(64.0, 1500.0, 0.0, 0.0),
    Load.of(1.0, 9000.0),
    Load.of(8.0, 300.0, 2048.0, 1024.0),
]


def both(line: str, model: str, *layouts: Layout, **more: object) -> tuple[AfdModel, Designs]:
    card, _ = catalog.find(model)
    classes = from_gpus(line).classes
    made = AfdModel(card, classes, (), layouts, "vllm", precisions(card), **more)  # type: ignore[arg-type]
    return made, designs_of(layouts)


def plain(line: str, model: str, tp: int, dp: int, moe_tp: int, ep: int) -> tuple[CostModel, Designs]:
    card, _ = catalog.find(model)
    made = CostModel(card, from_gpus(line).classes[0], "vllm", precisions(card))
    return made, Designs.plain(*(np.array([x], dtype=np.int64) for x in (tp, 1, dp, moe_tp, ep)))


def load(sequences: float, context: float) -> Load:
    return Load(*(np.array([x]) for x in (sequences, context, 0.0, 0.0)))


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        ("llama-3.1-70b", (4, 1, 4, 1)),
        ("qwen3-235b-a22b-fp8", (4, 1, 4, 1)),
        ("qwen3-235b-a22b-fp8", (1, 4, 1, 4)),
        ("gpt-oss-120b", (1, 4, 1, 4)),
    ],
)
def test_blocks_alike_that_take_turns_are_the_cost_model_and_the_start_of_each_message(model, sizes):
    """To 1e-9 beside two messages a layer of no bytes: links in the node have endless bandwidth."""
    card, _ = catalog.find(model)
    node = from_gpus("8xh200").classes[0]
    m = AfdModel(
        card, [node], (), [Layout(node.id, node.id, *sizes)], "vllm", precisions(card), micro_batches=(1,)
    )
    links = m.of_class[node.id].links
    m.of_class[node.id].links = _endless(links)
    known, d = plain("8xh200", model, *sizes)
    m.of_class[node.id].launching_s = known.launching_s = 0.0  # else the messages' starts hide some of it
    factor = 1.05 if sizes[1] > 1 else 1.0

    for point in POINTS:
        starts = factor * 2 * NEAR_S * len(card.stack)
        assert m.step_s(designs_of(m.layouts), point) - starts == pytest.approx(
            known.step_s(d, point), rel=1e-9
        )


def _endless(links):
    """`links` with hops that take no time for their bytes."""
    from copy import copy

    made = copy(links)
    made.intra = np.inf
    return made


def line(seconds: list[tuple[float, float, float, float]], m: int, head: float = 0.0) -> float:
    """Of layers (attention, FFN, dispatch, combine) with `m` micro-batches."""
    p = Parts(*(np.array([x]) for x in zip(*seconds, strict=True)), head=np.array([head]))
    return float(line_s(p, range(len(seconds)), (m,))[0, 0])


def test_a_line_of_two_layers_by_hand():
    """A 3, F 2, messages 1/2 each: a way of 6. Alone 6 + 6; two overlap to 6 a layer and drain for 3; three
    are bound by attention, 9 a layer, and the last goes on for 3. All but the last head is hidden."""
    steps = [line([(3.0, 2.0, 0.5, 0.5)] * 2, m, head=0.25) for m in (1, 2, 3)]

    assert steps == pytest.approx([12 + 0.25, 12 + 3 + 0.25, 18 + 3 + 0.25])


@settings(max_examples=200)
@given(st.tuples(*[st.floats(0.05, 3.0)] * 4), st.integers(1, 4), st.integers(1, 40))
def test_equal_layers_take_what_the_formula_says(each, m, layers):
    """All but the last: a way or m on the busiest; then a way and the rest on the busiest."""
    way, busiest = sum(each), max(each)
    told = (layers - 1) * max(way, m * busiest) + way + (m - 1) * busiest

    assert line([each] * layers, m) == pytest.approx(told, rel=1e-9)


@settings(max_examples=200)
@given(st.lists(st.tuples(*[st.floats(0.1, 3.0)] * 4), min_size=1, max_size=12), st.integers(1, 4))
def test_unlike_layers_take_what_a_replay_of_them_takes(layers, m):
    """Event by event: of those that wait the earliest layer goes next, then the earliest micro-batch."""
    assert line(layers, m) == pytest.approx(replayed(layers, m), rel=1e-9)


def replayed(layers: list[tuple[float, float, float, float]], m: int) -> float:
    visits = [(r, x) for a, f, d, c in layers for r, x in enumerate((a, d, f, c))]
    turns = [[(i, k) for i in range(r, len(visits), 4) for k in range(m)] for r in range(4)]
    end: dict[tuple[int, int], float] = {}
    free = [0.0] * 4
    while any(turns):
        for r, waiting in enumerate(turns):
            while waiting and (waiting[0][0] == 0 or (waiting[0][0] - 1, waiting[0][1]) in end):
                i, k = waiting.pop(0)
                start = max(free[r], end.get((i - 1, k), 0.0))
                free[r] = end[i, k] = start + visits[i][1]
    return max(end.values())


def test_resources_that_a_layer_lacks_are_not_waited_for():
    """Of a layer without FFN and one without mixer in turns, attention and FFN still overlap."""
    seconds = [(2.0, 0.0, 0.0, 0.0), (0.0, 2.0, 0.0, 0.0)]

    assert line(seconds, 1) == 4.0
    assert line(seconds, 2) == 6.0


def test_messages_by_hand():
    """DeepSeek-V3, 4 ranks with 64 sequences to 8 GPUs of one node: 256 tokens of 7168 bytes there, 14336
    back; a quarter through each attention NIC of 50 GB/s."""
    m, d = both("8xh20,8xh100", "deepseek-v3", Layout("h20", "h100-sxm", 1, 4, 1, 8))
    p = m.parts(d, load(64.0, 1000.0))
    moe = [k.ffn.kind for k in m.card.kinds[0]].index("moe")

    assert p.dispatch[0, moe] == pytest.approx(FAR_S + 64 * 7168 / (0.8 * 50e9))
    assert p.combine[0, moe] == pytest.approx(FAR_S + 64 * 14336 / (0.8 * 50e9))
    assert p.dispatch[0, 1 - moe] == p.combine[0, 1 - moe] == p.combine[0, moe]  # dense layers: 16 bits


def test_a_link_carries_what_a_token_sends_in_all_layers():
    """61 layers of 7168 results in 16 bits; to two nodes of experts 58 of them go 2 * (1 - 1/2^8) times."""
    one, two = Layout("h20", "h100-sxm", 1, 4, 1, 8), Layout("h20", "h100-sxm", 1, 4, 1, 16)
    m, d = both("8xh20,16xh100", "deepseek-v3", one, two)

    assert m.hop_bytes(d) == pytest.approx([61 * 14336, (3 + 58 * 2 * (1 - 0.5**8)) * 14336])
    assert m.cache_gpus(d).tolist() == [4, 4]


def test_a_token_goes_once_to_every_node_with_one_of_its_experts():
    """8 of 256 experts on 2 nodes of the FFN block: 2 * (1 - 1/2^8) copies."""
    one, two = Layout("h20", "h100-sxm", 1, 4, 1, 8), Layout("h20", "h100-sxm", 1, 4, 1, 16)
    m, d = both("8xh20,16xh100", "deepseek-v3", one, two)
    sent = [m.parts(d.take(np.array([i])), load(64.0, 1000.0)).combine[0, 1] - FAR_S for i in range(2)]

    assert sent[1] / sent[0] == pytest.approx(2 * (1 - 0.5**8))


def test_each_side_is_timed_by_its_own_device():
    m, d = both("8xh20,8xh100", "llama-3.1-70b", Layout("h20", "h100-sxm", 2, 3, 4, 1))
    p, kind = m.parts(d, load(32.0, 2000.0)), m.card.kinds[0][0]
    h20, on_a = plain("8xh20", "llama-3.1-70b", 2, 1, 2, 1)
    h100, on_f = plain("8xh100", "llama-3.1-70b", 4, 1, 4, 1)

    assert p.attention[0] == pytest.approx(h20.layers.mixer_s(kind, load(32.0, 2000.0), on_a))
    assert p.ffn[0] == pytest.approx(h100.layers.ffn_s(kind, load(96.0, 0.0), on_f))
    assert [int(gpus[0]) for _, gpus in m.by_class(d)] == [6, 4]
    assert [(s.node_class, s.tp) for s in m.stagings[0]] == 3 * [("h20", 2)] + [("h100-sxm", 4)]


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b", "nemotron-3-nano-30b-a3b"])
def test_both_blocks_hold_the_model_once_and_attention_all_cache(model):
    m, d = both("1xh200,1xb200", model, Layout("h200-sxm", "b200-sxm", 1, 1, 1, 1))
    known, one = plain("1xh200", model, 1, 1, 1, 1)
    every, whole = m.memory_by_stage(d, 4096), known.memory(one, 4096, 2000.0)

    assert every.weights_bytes.sum() == pytest.approx(whole.weights_bytes[0], rel=1e-3)
    assert m.memory(d, 4096, 2000.0).kv_bytes > whole.kv_bytes
    tokens, stage = np.array([100.0, 5000.0]), np.zeros(1, dtype=np.int64)
    assert m.cache_bytes(d, tokens, stage) == pytest.approx(known.cache_bytes(one, tokens, stage))


def test_experts_that_do_not_fit_leave_no_room():
    """671 GB of experts and more on 8 x 80 GB; on 16 they fit."""
    narrow, wide = Layout("h20", "h100-sxm", 1, 8, 1, 8), Layout("h20", "h100-sxm", 1, 8, 1, 16)
    m, d = both("8xh20,16xh100", "deepseek-v3", narrow, wide)
    room = m.memory(d, 8192, 2000.0).kv_bytes

    assert room[0] < 0 < room[1]


def test_halves_of_a_card_have_only_their_part():
    card, _ = catalog.find("deepseek-v3")

    assert all(layer.ffn is None and layer.mixer for layer in attention_only(card).stack)
    assert all(layer.mixer is None and layer.ffn for layer in ffn_only(card).stack)
    assert all(layer.mixer and layer.ffn for layer in card.stack)


def test_watts_lie_between_idle_and_full_of_both_devices():
    m, d = both("8xl40s,8xh100", "llama-3.1-70b", Layout("l40s", "h100-sxm", 4, 2, 4, 1))
    full = 8 * 350 + 4 * 700
    idle, busy = (m.watts(d, Load.of(64.0, 2000.0), u)[0] for u in (0.0, 1.0))

    assert idle == pytest.approx(0.12 * full)
    assert 2 * idle < busy < full


def test_the_band_is_that_of_the_less_known_class_and_wider():
    m, d = both("8xh20,8xh100", "deepseek-v3", Layout("h20", "h100-sxm", 1, 8, 1, 8))
    one = Designs.plain(*(np.ones(1, dtype=np.int64) for _ in range(5)))
    each = [x.sigmas(one) for x in m.of_class.values()]

    assert m.sigmas(d) == pytest.approx(np.hypot(np.maximum(*each), WIDE))


def test_a_slow_link_between_zones_is_paid_both_ways():
    card, step = catalog.find("llama-3.1-70b")[0], {}
    for gb_per_s in (100.0, 1.0):
        nodes = [Node(device="h20", zone="a"), Node(device="h100-sxm", zone="b")]
        link = Link(between=("a", "b"), gb_per_s=gb_per_s, latency_ms=1)
        cluster = resolve(Cluster(nodes=nodes, links=[link]))
        layout = Layout(cluster.classes[0].id, cluster.classes[1].id, 8, 1, 8, 1)
        m = AfdModel(card, cluster.classes, cluster.links, [layout], "vllm", precisions(card), None, (1,))
        step[gb_per_s] = m.step_s(designs_of([layout]), Load.of(16.0, 500.0))[0]
    message = 16 * 2 * card.hidden

    assert step[100.0] > 80 * 2 * 1e-3
    assert step[1.0] - step[100.0] == pytest.approx(80 * 2 * message * (1 / 1e9 - 1 / 100e9), rel=1e-9)


@settings(max_examples=30)
@given(
    st.sampled_from([("h20", "h100-sxm"), ("l40s", "h200-sxm"), ("h100-sxm", "h20")]),
    st.sampled_from([("qwen3-235b-a22b-fp8", True), ("llama-3.1-70b", False), ("gpt-oss-120b", True)]),
    st.sampled_from([(1, 1), (2, 4), (1, 16)]),
    st.floats(1.0, 1024.0),
    st.floats(10.0, 60000.0),
)
def test_more_ffn_gpus_in_a_node_are_never_slower(pair, model, ranks, sequences, context):
    """To 1 %: a few tokens on more GPUs start their messages a few microseconds later. Beyond a node they may
    be: each token then goes to several."""
    layouts = [Layout(*pair, *ranks, *((1, n) if model[1] else (n, 1))) for n in (2, 4, 8)]
    m, d = both(f"16x{pair[0]},8x{pair[1]}", model[0], *layouts)
    step = m.step_s(d, Load.of(sequences, context))

    assert (step[1:] <= step[:-1] * 1.01).all()


@settings(max_examples=30)
@given(
    st.sampled_from([(1, 1, 1, 8), (2, 4, 1, 16), (8, 2, 8, 1)]),
    st.floats(1.0, 1024.0),
    st.floats(10.0, 60000.0),
    st.floats(1.0, 400.0),
    st.floats(1.0, 10.0),
)
def test_faster_nics_are_never_slower(sizes, sequences, context, gb_per_s, times):
    card, _ = catalog.find("qwen3-235b-a22b-fp8")
    step = []
    for rate in (gb_per_s, gb_per_s * times):
        classes = [replace(c, nic_bytes_per_s=1e9 * rate) for c in from_gpus("16xh20,16xh100").classes]
        layout = Layout("h20", "h100-sxm", *sizes)
        m = AfdModel(card, classes, (), [layout], "vllm", precisions(card))
        step.append(m.step_s(designs_of([layout]), Load.of(sequences, context))[0])

    assert step[1] <= step[0] * (1 + 1e-12)


def test_the_roofline_is_below_every_step_and_more_micro_batches_only_help():
    layouts = [Layout("h20", "h100-sxm", 1, 8, 1, 16), Layout("h100-sxm", "h100-sxm", 2, 2, 1, 4)]
    m, d = both("8xh20,16xh100", "qwen3-235b-a22b-fp8", *layouts)
    turns, _ = both("8xh20,16xh100", "qwen3-235b-a22b-fp8", *layouts, micro_batches=(1,))

    for b in (1.0, 30.0, 500.0):
        point = Load.of(b, 3000.0, 0.0, 0.0)
        assert (m.floor_s(d, point) <= m.step_s(d, point)).all()
        assert (m.step_s(d, point) <= turns.step_s(d, point)).all()
        assert (m.best_micro_batches(d, Load.of(b, 3000.0)) <= min(b, 4)).all()


def test_one_class_in_one_domain_uses_its_links():
    """8 GPUs of a node stand together; 16 talk over NICs; 16 of an NVL72 rack need its domain."""
    small, large = (Layout("h100-sxm", "h100-sxm", 1, n, 1, n) for n in (4, 8))
    m, d = both("16xh100", "gpt-oss-120b", small, large)
    starts = [m.parts(d.take(np.array([i])), load(1e-9, 1.0)).combine[0, 0] for i in range(2)]

    assert starts == pytest.approx([NEAR_S, FAR_S])
    assert m.needs_domain(d).tolist() == [False, False]
    rack, d = both("72xgb200", "gpt-oss-120b", Layout("gb200", "gb200", 1, 8, 1, 8))
    assert rack.needs_domain(d).tolist() == [True]
