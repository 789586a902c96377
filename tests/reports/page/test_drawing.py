"""The cluster as it is drawn: every GPU once, every layer somewhere, nodes that are alike told once."""

from __future__ import annotations

from collections import Counter

import pytest

from planner import api
from planner.errors import InputError
from planner.launch.instances import instances
from planner.plans.schema import Plan
from planner.reports.figures import owned, used
from planner.reports.page import drawing as module
from planner.reports.page.blocks import Box, Drawing
from planner.reports.page.drawing import Seat, drawing, placed, seats_by_node, together
from tests.reports.page.samples import ALL, plan_of


def boxes(d: Drawing) -> list[Box]:
    return [box for site in d.sites for rack in site.racks for box in rack.boxes]


def drawn(box: Box) -> int:
    """GPUs of all nodes of a box that something runs on."""
    return box.times * sum(f.times * len(f.gpus) for f in box.frames)


def places_are_told(plan: Plan) -> bool:
    try:
        return bool(instances(plan))
    except InputError:
        return False


@pytest.mark.parametrize("name", ALL)
def test_every_gpu_is_drawn_once(name, monkeypatch):
    """With every look of a class drawn: of more than a few the page only counts the rest."""
    monkeypatch.setattr(module, "LOOKS", 100)
    plan = plan_of(name)
    if not places_are_told(plan):
        pytest.skip("this plan does not say which GPUs its servers have")
    found = boxes(drawing(plan))

    assert sum(map(drawn, found)) == used(plan)
    assert sum(drawn(box) + box.times * box.idle for box in found) == owned(plan)


@pytest.mark.parametrize("name", ALL)
def test_each_server_has_the_gpus_of_each_of_its_stages(name):
    plan = plan_of(name)
    if not places_are_told(plan):
        pytest.skip("this plan does not say which GPUs its servers have")
    held = Counter(
        (s.replica, stage) for seats in seats_by_node(plan).values() for s in seats for stage in s.stages
    )

    assert held == {(r.id, i): r.count * s.gpus for r in plan.replicas for i, s in enumerate(r.stages)}


@pytest.mark.parametrize("name", ALL)
def test_the_gpus_of_a_group_show_all_its_layers(name, monkeypatch):
    monkeypatch.setattr(module, "LOOKS", 100)
    plan = plan_of(name)
    for r in plan.replicas:
        shown = {
            line
            for box in boxes(drawing(plan))
            for f in box.frames
            if f.name == r.id
            for gpu in f.gpus
            for line in gpu.lines
            if line.startswith("layer")  # not "1/4 of each layer"
        }
        assert shown == {
            f"layers {a}–{b - 1}" if b > a + 1 else f"layer {a}" for a, b in (s.layers for s in r.stages)
        }


def test_ten_thousand_gpus_are_drawn_by_what_nodes_have_in_common():
    found = boxes(drawing(plan_of("ten-thousand")))

    assert len(found) < 20
    assert sum(box.times for box in found) == 1250


def test_a_server_over_several_nodes_shows_its_stages_where_they_are(tmp_path):
    """By hand: 66 GB of weights are four stages of one 24 GB card each, and each is on every fourth of eight
    nodes."""
    file = tmp_path / "cards.yaml"
    file.write_text("name: cards\nnodes:\n  - {name: l4, device: l4, gpus_per_node: 1, count: 8}\n")
    load = {"isl": 500, "osl": 100, "tpot_ms": 300, "ttft_ms": 20_000, "risk": 0.5, "loop": "closed"}
    made = api.plan(file, "qwen3-32b", engine="vllm", explain=False, **load)
    alike = placed(made)["l4"]

    assert [(r.pp, r.count, r.role) for r in made.replicas] == [(4, 2, "mixed")]
    assert [a.names for a in alike] == [tuple(f"l4-{i}" for i in range(k, 8, 4)) for k in range(4)]
    assert [a.seats for a in alike] == [(Seat("r1", (k,), 4),) for k in range(4)]


def test_many_equal_servers_of_a_node_are_drawn_together():
    one, other = Seat("r1", (0,), 1), Seat("r2", (0,), 1)

    assert list(together([one, one, other], 3)) == [(one, 1), (one, 1), (other, 1)]
    assert list(together([one, one, other], 2)) == [(one, 2), (other, 1)]


def test_experts_on_a_rank_are_told():
    lines = {
        line
        for box in boxes(drawing(plan_of("h200-2x8")))
        for f in box.frames
        for g in f.gpus
        for line in g.lines
    }

    assert "all 128 experts" in lines


def test_what_lies_beside_the_gpus_is_told_of_their_node():
    (box,) = boxes(drawing(plan_of("cxl-768gb")))

    assert [line.rpartition(", ")[0] for line in box.beside] == [
        "r1: 63 % of the experts of 48 of 48 layers in host memory",
        "r1: 12 % of the experts of 48 of 48 layers in CXL memory",
    ]
