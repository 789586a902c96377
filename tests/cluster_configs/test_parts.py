"""Names of links' ends, devices of one's own, overrides and memory beside GPUs, each by itself."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_configs.devices import find
from cluster_configs.links import Ends, Entry, resolve_links
from cluster_configs.overrides import Catalog, nearest_of, own_device, taken_over
from cluster_configs.schema import Cluster, Host, Link, Node, OwnDevice, Tier
from cluster_configs.tiers import check_memory, doubts
from cluster_configs.unlike import MOST_BOXES, expand
from planner.errors import InputError
from planner.reading.documents import Document

ENTRIES = {e.name: e for e in (Entry("h", 3, "east"), Entry("l", 1, "west"), Entry("t", 2, "west"))}
ENDS = Ends(ENTRIES)
PAGE = Document({}, "lab.yaml")
CARD = OwnDevice(generation="hopper", memory_gb=90, memory_gb_per_s=3000, tflops={"bf16": 800})
NVME = Tier(kind="nvme", gb=1000, read_gb_per_s=8, write_gb_per_s=4)


def resolved(*links: Link):
    return resolve_links(links, ENDS, PAGE)


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("east", "east"),
        ("h", "h"),
        ("h-2", "h-2"),
        ("h-3", None),
        ("l-0", "l"),
        ("l-1", None),
        ("h-02", None),
        ("x", None),
    ],
)
def test_an_end_is_a_zone_an_entry_or_one_of_its_nodes(name: str, end: str | None):
    assert ENDS.find(name) == end


def test_an_end_lies_in_the_zone_of_its_entry():
    assert [ENDS.zone(end) for end in ("east", "h", "h-2", "t-1")] == ["east", "east", "east", "west"]


def test_a_zone_of_one_entry_may_share_its_name_and_one_of_two_may_not():
    alone = Ends({"a": Entry("a", 1, "a"), "b": Entry("b", 1, "b")})
    two = Ends({"a": Entry("a", 1, "a"), "b": Entry("b", 1, "a")})

    assert alone.find("a") == "a"
    with pytest.raises(ValueError, match="a zone and an entry"):
        two.find("a")


def test_links_of_entries_stand_before_those_of_zones():
    """Of several between two classes the first counts, so the particular ones come first."""
    found, _ = resolved(
        Link(between=["east", "west"], gb_per_s=1),
        Link(between=["h", "west"], gb_per_s=2),
        Link(between=["h-1", "t"], gb_per_s=3),
    )

    assert [link.bytes_per_s for link in found] == [3e9, 2e9, 1e9]
    assert found[2].between == ("east", "west")


def test_the_nearest_device_is_by_the_ratio_of_bandwidths():
    """3,000 GB/s: nearer to 3,350 than to 2,000 by ratio, and of the same generation."""
    near = nearest_of(CARD)

    assert near.generation == "hopper"
    ratio = max(near.memory_gb_per_s, 3000) / min(near.memory_gb_per_s, 3000)
    assert ratio <= 3350 / 3000


def test_watts_of_ones_own_are_told_apart_from_watts_taken_over():
    assert own_device("x", CARD).sources["tdp"].startswith("as of ")
    told = CARD.model_copy(update={"tdp_watts": 500.0})
    assert own_device("x", told).sources["tdp"] == "the cluster file's own"
    assert own_device("x", told).tdp_watts == 500
    whole = told.model_copy(update={"pcie_gb_per_s": 64.0, "nic_gb_per_s": 50.0})
    assert taken_over("x", whole) is None
    assert "tdp_watts" not in (taken_over("x", told) or "")


def catalog(**told: Any) -> Catalog:
    return Catalog(Cluster(nodes=[Node(device="l4")], **told), PAGE)


def test_an_override_changes_its_fields_and_keeps_the_rest():
    mine = catalog(device_overrides={"H100 SXM": {"memory_gb": 94, "tflops": {"fp8": 1000}}})
    found, base = mine.find("h100-sxm", ()), find("h100-sxm")

    assert (found.memory_gb, found.tflops["fp8"]) == (94, 1000)
    assert found.tflops["bf16"] == base.tflops["bf16"]
    assert found.reached_tflops == base.reached_tflops | {"fp8": 1000}  # measured were cards of other peaks
    assert found.sources["overrides"] == "the cluster's own: memory_gb, tflops"
    assert mine.warnings() == []


def test_the_best_product_of_a_card_of_ones_own_is_the_one_that_is_written():
    mine = catalog(device_overrides={"h100-sxm": {"matmul_tflops": {"bf16": 820}}}).find("h100-sxm", ())

    assert (mine.reached_tflops["bf16"], mine.reached_tflops["fp8"]) == (820, 1402.6)


def test_an_override_that_nobody_uses_is_told_and_one_twice_refused():
    assert catalog(device_overrides={"l40s": {"memory_gb": 40}}).warnings() == [
        "device_overrides names l40s, but no node has this device"
    ]
    with pytest.raises(InputError, match="overridden twice"):
        catalog(device_overrides={"l40s": {"memory_gb": 40}, "L40S": {"memory_gb": 41}})
    with pytest.raises(InputError, match="`name` cannot be overridden"):
        catalog(device_overrides={"l40s": {"name": "x"}})


def node(device: str = "h100-sxm", host: Host | None = None, *tiers: Tier) -> Node:
    return Node(name="h", device=device, host=host, tiers=list(tiers))


HOST = Host(memory_gb=512, gb_per_s=200)
CXL = NVME.model_copy(update={"kind": "cxl"})


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (node("gb10", HOST), "has unified memory"),
        (node("gb10", None, CXL), "has unified memory, which nothing extends"),
        (node("h100-sxm", None, CXL), "this node states none"),
        (node("h100-sxm", HOST, NVME, NVME.model_copy(update={"shared_by": "gpu"})), "the same nvme memory"),
    ],
)
def test_memory_that_contradicts_its_device_or_itself_is_refused(told: Node, message: str):
    with pytest.raises(InputError, match=message):
        check_memory(told, find(told.device or ""), PAGE, ("nodes", 0))


def test_memory_that_can_be_is_left_alone_and_doubts_are_told():
    slower = NVME.model_copy(update={"read_gb_per_s": 5.0})
    check_memory(node("h100-sxm", HOST, CXL, NVME, NVME), find("h100-sxm"), PAGE, ("nodes", 0))

    assert list(doubts(node("h100-sxm", HOST, NVME, NVME))) == []
    (said,) = doubts(node("h100-sxm", HOST, NVME, slower))
    assert "one read at 8 and one at 5 GB/s: taken as two that add" in said


def mixed(count: int = 1, **told: Any) -> Node:
    gpus = [{"device": "l40s", "count": 3}, {"device": "l4", "count": 1}]
    return Node.model_validate({"name": "pc", "count": count, "gpus": gpus, **told})


def expanded(*nodes: Node):
    return expand(Cluster(nodes=list(nodes)), lambda name, at: find(name), PAGE)


def test_parts_of_a_node_add_up_to_it():
    found = expanded(mixed(power_cap_watts=1000, host=HOST))
    parts = found.cluster.nodes

    assert [(n.name, n.gpus_per_node, n.zone) for n in parts] == [("pc/l40s", 3, "pc"), ("pc/l4", 1, "pc")]
    assert sum(n.power_cap_watts or 0 for n in parts) == pytest.approx(1000)
    assert [n.host.memory_gb for n in parts if n.host] == [384, 128]
    assert found.box == ["pc", "pc"]
    assert found.origin == [0, 0]


def test_nodes_alike_are_boxes_of_their_own_joined_by_their_nics():
    found = expanded(mixed(2))

    assert found.box == ["pc-0", "pc-0", "pc-1", "pc-1"]
    (link,) = found.cluster.links
    assert link.between == ["pc-0", "pc-1"]
    l40s, l4 = find("l40s"), find("l4")
    assert link.gb_per_s == pytest.approx(3 * l40s.nic_gb_per_s + l4.nic_gb_per_s)
    assert expanded(mixed(2, zone="a"), mixed(1, name="x", zone="b")).cluster.links == [link]
    with pytest.raises(InputError, match=f"at most {MOST_BOXES}"):
        expanded(mixed(MOST_BOXES + 1))
