"""Unlike GPUs in one node: parts by kind, joined by the node's PCIe; what is shared, and what is refused."""

from __future__ import annotations

import json

import pytest

from cluster_configs.reading import as_document, from_document
from cluster_configs.schema import NodeClass, ResolvedCluster
from planner import api
from planner.check import check
from planner.errors import InputError
from planner.reading.documents import Document, read_text
from planner.reports.figures import gpus_of

PC = """\
nodes:
  - name: pc
    gpus: [{device: rtx-4090, count: 3}, {device: rtx-3090}]
"""
SHARED = """\
    power_cap_watts: 1700
    host: {memory_gb: 400, gb_per_s: 80, pcie_gb_per_s: 20}
    tiers: [{kind: nvme, gb: 4000, read_gb_per_s: 8, write_gb_per_s: 4}]
"""


def cluster(text: str) -> ResolvedCluster:
    return from_document(read_text(text, "lab.yaml"))


def parts(text: str) -> list[NodeClass]:
    return [node for node in cluster(text).classes if node.box]


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        cluster(text)
    return caught.value


def test_each_kind_is_a_part_of_the_one_node_and_pcie_lies_between():
    a, b = parts(PC)

    assert [(n.id, n.device.name, n.gpus, n.box) for n in (a, b)] == [
        ("pc/rtx-4090", "rtx-4090", 3, "pc"),
        ("pc/rtx-3090", "rtx-3090", 1, "pc"),
    ]
    assert (a.zone, a.nic_bytes_per_s) == (b.zone, b.nic_bytes_per_s) == ("pc", 32e9)
    assert (a.price_usd_per_hour, b.price_usd_per_hour) == (None, None)  # a rented part is no offer
    assert cluster(PC).links == ()


def test_the_slower_slot_counts_between_them_unless_the_file_says_otherwise():
    (a, _) = parts(PC.replace("rtx-4090", "rtx-4060"))
    assert a.nic_bytes_per_s == 16e9  # PCIe 4 x8
    (a, _) = parts(PC + "    intra_gb_per_s: 8\n")
    assert (a.nic_bytes_per_s, a.intra_bytes_per_s) == (8e9, 8e9)


def test_memory_and_power_of_the_node_are_dealt_to_the_kinds_and_nothing_is_lost():
    a, b = parts(PC + SHARED)
    assert a.host is not None
    assert b.host is not None

    assert (a.host.memory_gb, b.host.memory_gb) == (300, 100)
    assert (a.host.gb_per_s, b.host.gb_per_s, a.host.pcie_gb_per_s) == (60, 20, 20)
    assert (a.tiers[0].gb, b.tiers[0].gb, b.tiers[0].read_gb_per_s) == (3000, 1000, 2)
    assert (a.power_cap_watts or 0) + (b.power_cap_watts or 0) == pytest.approx(1700)
    assert (a.power_cap_watts or 0) / 1700 == pytest.approx(3 * 450 / (3 * 450 + 350))


def test_other_nodes_of_the_zone_are_reached_over_the_nodes_own_nic():
    found = cluster(PC + "  - {name: h, device: h100-sxm, gpus_per_node: 1}\n")
    (link,) = found.links

    assert link.between == ("default", "pc")
    assert link.bytes_per_s == 1.25e9  # one 10 Gb/s port, whatever number of cards shares it
    assert not [w for w in found.warnings if "no link joins" in w]


def test_identical_nodes_are_boxes_of_their_own_that_meet_over_their_nics():
    found = cluster(PC.replace("name: pc", "name: pc\n    count: 2"))

    assert [n.box for n in found.classes] == ["pc-0", "pc-0", "pc-1", "pc-1"]
    assert [link.between for link in found.links] == [("pc-0", "pc-1")]


def test_one_kind_alone_is_an_entry_as_any_other():
    found = cluster("nodes: [{gpus: [{device: l4}, {device: L4, count: 2}]}]\n")

    assert [(n.id, n.gpus_per_node, n.box) for n in found.classes] == [("l4", 3, None)]


def test_the_form_keeps_the_one_node_and_reads_back_to_the_same_parts():
    found = cluster(PC + SHARED)
    form = as_document(found)

    assert [node["name"] for node in form["nodes"]] == ["pc"]
    assert sum(gpus_of(node, {}) for node in form["nodes"]) == 4
    assert from_document(Document(form, "again")).classes == found.classes


@pytest.mark.parametrize(
    ("added", "message", "where"),
    [
        ("    scale_up_gpus: 4\n", "`scale_up_gpus` is of GPUs of one kind", "lab.yaml:4:20"),
        ("    device: l4\n", "`gpus` names all GPUs of the node", "lab.yaml:2:5"),
        ("    count: 5\n", "at most 4 of them are planned", "lab.yaml:3:11"),
        (
            "    zone: z\n  - {device: l4}\nlinks: [{between: [z, default], gb_per_s: 1}]\n",
            "a link to a node",
            "lab",
        ),
    ],
)
def test_what_cannot_be_said_truly_is_refused_at_its_line(added: str, message: str, where: str):
    error = refused(PC + added)

    assert message in error.message
    assert (error.where or "").startswith(where)
    assert error.hint or "device" in added


def test_an_unknown_gpu_of_a_list_is_named_with_its_line():
    assert (refused(PC.replace("rtx-3090", "rtx-3091")).where or "").startswith("lab.yaml:3:51")
    assert "`device` is missing" in refused("nodes: [{count: 1}]\n").message


def test_a_plan_on_unlike_gpus_of_one_node_is_found_and_checked(tmp_path):
    path = tmp_path / "pc.yaml"
    path.write_text(PC.replace(", count: 3", ""))
    plan = api.plan(str(path), "qwen3-32b-fp8", explain=False)

    assert {stage.node_class for r in plan.replicas for stage in r.stages} == {"pc/rtx-4090", "pc/rtx-3090"}
    assert check(plan) == []
    assert json.loads(plan.model_dump_json())["problem"]["cluster"]["nodes"][0]["name"] == "pc"


def test_the_whole_node_is_paid_once_however_many_of_its_kinds_are_in_use(tmp_path):
    path = tmp_path / "pc.yaml"
    path.write_text(PC + "    price_usd_per_hour: 2\n")
    few, many = (
        api.plan(str(path), "llama-3.1-8b", rate=rate, risk=0.5, explain=False) for rate in (0.5, 9.5)
    )

    assert [len({s.node_class for r in plan.replicas for s in r.stages}) for plan in (few, many)] == [1, 2]
    assert [plan.predicted.usd_per_hour.value for plan in (few, many) if plan.predicted.usd_per_hour] == [
        2,
        2,
    ]
    assert check(few) == check(many) == []


def test_lost_nodes_are_not_planned_beside_such_a_node(tmp_path):
    path = tmp_path / "pc.yaml"
    path.write_text(PC)
    with pytest.raises(InputError, match="lost nodes are not planned beside `pc`"):
        api.plan(str(path), "llama-3.1-8b", survive="node", rate=1.0)


def test_caps_and_zones_come_in_one_order():
    found = cluster(
        "nodes: [{name: b, device: l4}, {name: a, device: l40s}]\npower_caps_watts: {b: 2000, a: 1000}\n"
    )

    assert list(found.source.power_caps_watts) == ["a", "b"]
