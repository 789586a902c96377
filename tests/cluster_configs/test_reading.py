"""Clusters from files and from one line: defaults, names, classes, links, overrides."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cluster_configs
from cluster_configs.devices import find, names
from cluster_configs.reading import FORM, as_document, from_document, from_gpus, read_cluster, resolve
from cluster_configs.schema import Cluster, ResolvedCluster
from planner.errors import InputError
from planner.reading.documents import Document, read_text
from planner.reading.validation import validate

EXAMPLES = sorted((Path(cluster_configs.__file__).parent / "examples").glob("*.yaml"))
GOLDEN = Path(__file__).parents[1] / "golden" / "cluster.yaml"

SMALL = """\
nodes:
  - {name: h, count: 2, device: h100-sxm, zone: a}
  - {name: l, device: l40s, zone: b}
links:
  - {between: [a, b], gb_per_s: 1.25, latency_ms: 4}
"""


def cluster(text: str) -> ResolvedCluster:
    return from_document(read_text(text, "lab.yaml"))


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        cluster(text)
    return caught.value


def shape(found: ResolvedCluster) -> list[tuple[str, int, int]]:
    """(class, nodes, GPUs a node)"""
    return [(c.id, c.node_count, c.gpus_per_node) for c in found.classes]


def test_the_frozen_example_reads_as_written():
    lab = read_cluster(GOLDEN)
    (h,) = lab.classes

    assert (lab.name, h.id, list(h.nodes)) == ("lab", "h", ["h-0", "h-1", "h-2"])
    assert (h.gpus_per_node, h.gpus, h.scale_up_gpus, h.zone, h.nic) == (8, 24, 8, "a", "infiniband")
    assert (h.price_usd_per_hour, h.power_cap_watts, h.spot, h.availability) == (24.0, 9000, False, 0.999)
    assert (h.intra_bytes_per_s, h.nic_bytes_per_s, h.device.memory_gb) == (450e9, 50e9, 94)
    assert h.host is not None
    assert (h.host.memory_gb, h.host.gpus_per_pcie_root, h.tiers[0].read_gb_per_s) == (1024, 2, 12)
    assert lab.links == ()
    (warning,) = lab.warnings
    assert warning.startswith(f"{GOLDEN}:")
    assert warning.endswith("links[0] is left out: no zone or node is called `b`")
    assert lab.defaulted == ()


def test_absent_fields_come_from_the_device():
    (h,) = cluster("nodes: [{device: H100}]").classes
    device = find("h100-sxm")

    assert (h.id, list(h.nodes), h.gpus_per_node, h.zone) == ("h100-sxm", ["h100-sxm-0"], 8, "default")
    assert (h.intra_bytes_per_s, h.nic_bytes_per_s) == (
        1e9 * device.intra_gb_per_s,
        1e9 * device.nic_gb_per_s,
    )
    assert h.price_usd_per_hour == pytest.approx(8 * 2.4)
    assert cluster("nodes: [{device: t4}]").classes[0].price_usd_per_hour is None


def test_what_was_defaulted_is_told():
    defaulted = cluster(
        "nodes: [{device: h100, gpus_per_node: 8, price_usd_per_hour: 20, nic: roce}]"
    ).defaulted

    assert defaulted == tuple(
        f"cluster.nodes.{f}" for f in ("zone", "scale_up_gpus", "intra_gb_per_s", "nic_gb_per_s")
    )


def test_unnamed_entries_are_numbered_from_two():
    text = "nodes: [{device: t4}, {device: t4, spot: true}, {name: t4-3, device: l4}, {device: t4, zone: z}]"

    assert [c.id for c in cluster(text).classes] == ["t4", "t4-2", "t4-3", "t4-4"]


def test_identical_entries_are_one_class_and_different_ones_are_not():
    merged = cluster(
        "nodes: [{name: a, count: 2, device: h100}, {name: b, device: h100-sxm, nic_gb_per_s: 50}]"
    )
    apart = cluster("nodes: [{name: a, device: h100}, {name: b, device: h100, price_usd_per_hour: 1}]")

    assert shape(merged) == [("a", 3, 8)]
    assert list(merged.classes[0].nodes) == ["a-0", "a-1", "b-0"]
    assert shape(apart) == [("a", 1, 8), ("b", 1, 8)]


def test_a_link_to_one_node_sets_it_apart_from_its_like():
    found = cluster(
        "nodes: [{name: h, count: 3, device: h100, zone: a}]\nlinks: [{between: [a, h-1], gb_per_s: 1}]"
    )

    assert [(c.id, list(c.nodes)) for c in found.classes] == [("h", ["h-0", "h-2"]), ("h-1", ["h-1"])]
    assert found.links[0].between == ("a", "h-1")


def test_a_blank_zone_is_refused():
    assert "`zone` is blank" in refused("nodes: [{device: t4, zone: ' '}]").message


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("nodes: [{device: h100-sxn}]", "unknown GPU `h100-sxn`", "lab.yaml:1:18, nodes[0].device"),
        (
            "nodes: [{device: t4, name: a}, {device: t4, name: a}]",
            "used twice",
            "lab.yaml:1:51, nodes[1].name",
        ),
        ("nodes: [{device: t4, name: ' '}]", "`name` is blank", "lab.yaml:1:28, nodes[0].name"),
        ('nodes: [{device: t4, name: "a\\nb"}]', "`name` has a character", "lab.yaml:1:28, nodes[0].name"),
        ('nodes: [{device: t4, zone: "a\\nb"}]', "`zone` has a character", "lab.yaml:1:28, nodes[0].zone"),
        ("nodes: [{device: t4, name: a/b}]", "`name` has a slash", "lab.yaml:1:28, nodes[0].name"),
        ("nodes: [{device: t4, nic_gb_per_s: '1,5 GB/s'}]", 'got text "1,5 GB/s"', "lab.yaml:1:36"),
        (
            "nodes: [{device: t4}]\ndevice_overrides: {t4: {tflops: {bf17: 8}}}",
            "unknown field `bf17`",
            "lab.yaml:2:34, device_overrides.t4.tflops.bf17",
        ),
        ("nodes: [{device: gb200, scale_up_gpus: 70}]", "multiple of `gpus_per_node` (4)", "lab.yaml:1:40"),
        ("nodes: [{device: t4, gpus_per_node: 2000}]", "at most 1024", "lab.yaml:1:37"),
        ("nodes: [{device: t4, count: 1000001}]", "more than 1,000,000 nodes", "lab.yaml:1:29"),
        ("nodes: [{device: t4}]\ndevice_overrides: {t5: {}}", "unknown GPU `t5`", "lab.yaml:2:20"),
        (
            "nodes: [{device: t4}]\ndevice_overrides: {t4: {memory: 8}}",
            "unknown field `memory`",
            "lab.yaml:2:25",
        ),
        ("nodes: [{device: t4}]\ndevice_overrides: {t4: {memory_gb: 80m}}", 'text "80m"', "lab.yaml:2:36"),
        ("nodes: [{device: t4}]\ndevice_overrides: {t4: {memory_gb: 0}}", "greater than 0", "lab.yaml:2:36"),
        ("nodes: [{device: t4}]\ndevice_overrides: {t4: {name: x}}", "cannot be overridden", "lab.yaml:2:25"),
        ("nodes: [{device: t4}]\ndevice_overrides: {t4: {}, T4: {}}", "overridden twice", "lab.yaml:2:28"),
    ],
)
def test_clusters_that_cannot_be_are_refused_with_their_place(text: str, message: str, where: str):
    error = refused(text)

    assert message in error.message
    assert (error.where or "").startswith(where)


def test_overrides_hold_for_every_spelling_and_only_where_written():
    found = cluster(
        "nodes: [{device: H100}, {device: h200}]\ndevice_overrides: {h100: {tflops: {bf16: 500}}}"
    )
    h100, h200 = (c.device for c in found.classes)

    assert (h100.tflops["bf16"], h100.tflops["fp8"]) == (500, find("h100").tflops["fp8"])
    assert "tflops" in h100.sources["overrides"]
    assert h200 == find("h200")


def test_an_override_of_an_absent_device_is_a_warning():
    found = cluster("nodes: [{device: t4}]\ndevice_overrides: {l4: {tdp_watts: 50}}")

    assert found.warnings == ("device_overrides names l4, but no node has this device",)


def test_a_network_figure_in_gigabits_is_suspected():
    (warning,) = cluster("nodes: [{device: h100, nic_gb_per_s: 400}]").warnings

    assert "a 400 Gbit/s NIC is written 50" in warning


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("8xH100,16xL40S", [("h100-sxm", 1, 8), ("l40s", 2, 8)]),
        ("20*h100", [("h100-sxm", 2, 8), ("h100-sxm-2", 1, 4)]),
        ("8 x h100 , H100", [("h100-sxm", 1, 8), ("h100-sxm-2", 1, 1)]),
        ("72xGB200", [("gb200", 18, 4)]),
        ("3xRTX4090", [("rtx-4090", 1, 3)]),
        ("8xRTX-4090", [("rtx-4090", 1, 8)]),
        ("18xRTX-5090", [("rtx-5090", 2, 8), ("rtx-5090-2", 1, 2)]),
        ("8xh100,8xH100", [("h100-sxm", 2, 8)]),
        ("4090", [("rtx-4090", 1, 1)]),
    ],
)
def test_a_line_of_gpus_is_a_cluster_of_usual_nodes(line: str, expected: list[tuple[str, int, int]]):
    found = from_gpus(line)

    assert shape(found) == expected
    assert {c.zone for c in found.classes} == {"default"}


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("", FORM), ("8xH100,,", FORM), ("8x", FORM), ("8", FORM), ("0xH100", FORM), ("-1xH100", FORM),
        ("3.5xH100", FORM), ("8H100", "write 8xH100"), ("H100:8", "write 8xH100"), ("H100x8", "write 8xH100"),
        ("8xH10", "`h100-"), ("9" * 40 + "xT4", ""), ("8xH100-40GB", "`h100-sxm` (80 GB)"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_cluster_shows_how_to_write_one(line: str, hint: str):
    with pytest.raises(InputError) as caught:
        from_gpus(line)

    assert hint in (caught.value.hint or "")
    assert (caught.value.where or "").startswith("--gpus")


def test_a_million_nodes_are_one_class_with_names_on_demand():
    (big,) = from_gpus("8000000xH100").classes

    assert (big.node_count, big.gpus) == (1_000_000, 8_000_000)
    assert (big.nodes[0], big.nodes[-1], big.nodes[5:7]) == (
        "h100-sxm-0",
        "h100-sxm-999999",
        ("h100-sxm-5", "h100-sxm-6"),
    )
    with pytest.raises(IndexError):
        big.nodes[1_000_000]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_each_shipped_cluster_reads_without_a_warning_under_its_own_name(path: Path):
    found = read_cluster(path)

    assert found.name == path.stem
    assert found.warnings == ()
    assert path.read_text().startswith("# ")


def test_shipped_clusters_have_the_sizes_they_claim():
    gpus = {path.stem: sum(c.gpus for c in read_cluster(path).classes) for path in EXAMPLES}
    ten_thousand, zones = (read_cluster(p) for p in EXAMPLES if p.stem in ("ten-thousand", "three-zones"))

    assert len(EXAMPLES) >= 12
    assert (gpus["ten-thousand"], len(ten_thousand.classes)) == (10_000, 7)
    assert sum(c.node_count for c in zones.classes) == 24
    assert len({c.zone for c in zones.classes}) == 3
    assert (gpus["gb200-nvl72"], gpus["h100-8"], gpus["h200-2x8"]) == (72, 8, 16)


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, object]:
    """Cluster forms with several entries, some alike, over two zones."""
    entry = st.fixed_dictionaries(
        {"device": st.sampled_from(["h100-sxm", "l40s", "gb200", "t4"])},
        optional={
            "count": st.integers(1, 5),
            "gpus_per_node": st.sampled_from([1, 2, 4, 8]),
            "price_usd_per_hour": st.sampled_from([1.0, 24.5]),
            "zone": st.sampled_from(["a", "b"]),
            "spot": st.booleans(),
            "nic_gb_per_s": st.sampled_from([12.5, 50.0]),
        },
    )
    nodes = draw(st.lists(entry, min_size=1, max_size=6))
    both = {"a", "b"} <= {node.get("zone") for node in nodes}
    return {"nodes": nodes, "links": [{"between": ["a", "b"], "gb_per_s": 1.25}] if both else []}


def resolved(form: dict[str, object]) -> ResolvedCluster:
    return resolve(validate(Document(form, "x"), Cluster), Document(form, "x"))


@settings(max_examples=60)
@given(form=clusters())
def test_the_written_out_form_reads_as_the_same_cluster(form: dict[str, object]):
    first = resolved(form)
    again = resolved(as_document(first))

    assert again.defaulted == ()
    assert replace(again, defaulted=first.defaulted) == first


@settings(max_examples=60)
@given(form=clusters(), data=st.data())
def test_order_of_entries_and_splitting_one_change_no_class_but_in_name(
    form: dict[str, object], data: st.DataObject
):
    nodes = list(form["nodes"])  # type: ignore[call-overload]
    split = [
        half
        for n in nodes
        for half in ([n] if n.get("count", 1) == 1 else [n | {"count": n["count"] - 1}, n | {"count": 1}])
    ]
    other = resolved(form | {"nodes": data.draw(st.permutations(split))})

    def facts(found: ResolvedCluster) -> list[str]:
        return sorted(repr((c.node_count, replace(c, id="", nodes=None))) for c in found.classes)  # type: ignore[arg-type]

    assert facts(other) == facts(resolved(form))


@settings(max_examples=100)
@given(
    line=st.one_of(
        st.text(max_size=30),
        st.lists(st.sampled_from(["8", "x", ",", "H100", "-", " ", "*", "l4", "0"])).map("".join),
    )
)
def test_any_line_is_a_cluster_or_an_input_error(line: str):
    with suppress(InputError):
        assert sum(c.gpus for c in from_gpus(line).classes) > 0


def test_embedded_devices_stand_for_the_catalog():
    first = cluster(SMALL + "device_overrides: {h100: {memory_gb: 94}}")
    own = {c.device.name: c.device for c in first.classes}
    again = resolve(validate(Document(as_document(first), "plan.json"), Cluster), devices=own)

    assert again.classes == first.classes
    with pytest.raises(InputError, match="not among the embedded ones"):
        resolve(Cluster.model_validate({"nodes": [{"device": "t4"}]}), devices=own)


def test_all_devices_make_a_cluster():
    found = from_gpus(",".join(f"8x{name}" for name in names()))

    assert {c.device.name for c in found.classes} == set(names())


@pytest.mark.parametrize(
    ("beside", "where", "what"),
    [
        ("host: {memory_gb: 128}", "nodes[0].host", "gb_per_s"),
        ("host: {memory_gb: -1, gb_per_s: 90}", "nodes[0].host.memory_gb", "greater than 0"),
        ("host: {memory_gb: 128, gb_per_s: 0}", "nodes[0].host.gb_per_s", "greater than 0"),
        ("host: {memory_gb: 128, gb_per_s: 90, sockets: 0}", "nodes[0].host.sockets", ""),
        ("host: {memory_gb: 128, gb_pers: 90}", "nodes[0].host.gb_pers", "unknown field"),
        (
            "tiers: [{kind: nvme, gb: 100, read_gb_per_s: 0, write_gb_per_s: 1}]",
            "nodes[0].tiers[0].read_gb_per_s",
            "greater than 0",
        ),
        (
            "tiers: [{kind: nvme, gb: -5, read_gb_per_s: 1, write_gb_per_s: 1}]",
            "nodes[0].tiers[0].gb",
            "greater than 0",
        ),
        (
            "tiers: [{kind: tape, gb: 5, read_gb_per_s: 1, write_gb_per_s: 1}]",
            "nodes[0].tiers[0].kind",
            "nvme",
        ),
    ],
)
def test_a_host_or_tier_that_cannot_be_is_refused_at_its_line(beside: str, where: str, what: str):
    error = refused(f"nodes:\n  - device: rtx-4090\n    {beside}\n")

    assert where in str(error.where)
    assert "lab.yaml:3:" in str(error.where)
    assert what in f"{error.message} {error.hint}"


BOX = """\
nodes:
  - name: box
    device: {device}
    host: {host}
    tiers: [{tiers}]
"""
HOST = "{memory_gb: 64, gb_per_s: 80}"
CXL = "{kind: cxl, gb: 100, read_gb_per_s: 20, write_gb_per_s: 20}"


def box(tiers: str, device: str = "rtx-4090", host: str = HOST) -> str:
    return BOX.replace("{device}", device).replace("{host}", host).replace("{tiers}", tiers)


@pytest.mark.parametrize(
    ("text", "message", "where", "hint"),
    [
        (box(CXL.replace("cxl", "clx")), "`kind` must be", "5:20", "did you mean `cxl`?"),
        (box(CXL.replace("gb: 100", "gb: -1")), "`gb` must be greater than 0", "5:29", ""),
        (box(CXL.replace("s: 20", "s: 0", 1)), "`read_gb_per_s` must be greater than 0", "5:49", ""),
        (box(CXL[:-1] + ", shared_by: nod}"), "`shared_by` must be", "5:84", "did you mean `node`?"),
        (box(CXL, host="null"), "CXL memory stands beside host memory", "5:20", "add `host: {memory_gb"),
        (box(f"{CXL}, {CXL[:-1]}, shared_by: gpu}}"), "the same cxl memory", "5:145", "keep one"),
        (box("", "m3-ultra"), "m3-ultra has unified memory", "4:23", "device_overrides: {m3-ultra"),
        (box(CXL, "m3-ultra", "{tflops: 3}"), "m3-ultra has unified memory", "5:20", ""),
    ],
)
def test_memory_that_cannot_be_as_written_is_refused_with_its_place(text, message, where, hint):
    error = refused(text)

    assert error.message.startswith(message)
    assert (error.where or "").startswith(f"lab.yaml:{where}")
    assert hint in (error.hint or "")


def test_two_tiers_of_one_size_and_other_rates_are_told():
    (warning,) = cluster(box(f"{CXL}, {CXL.replace('read_gb_per_s: 20', 'read_gb_per_s: 30')}")).warnings

    assert "taken as two that add" in warning
    assert cluster(box(f"{CXL}, {CXL}")).warnings == ()


def test_the_cards_of_a_desktop_share_one_port_of_10_gbit_per_second():
    """Whatever their number: eight cards in a box have no more network than two."""
    boxes = from_gpus("8xrtx-4090,3xrtx-3090,1xrtx-4080")

    assert [c.gpus_per_node for c in boxes.classes] == [8, 3, 1]
    assert [c.gpus_per_node * c.nic_bytes_per_s for c in boxes.classes] == pytest.approx([1.25e9] * 3)
    assert "cluster.nodes.nic_gb_per_s" in boxes.defaulted


def test_a_network_rate_that_is_given_for_a_desktop_card_stays():
    own = cluster("nodes: [{device: rtx-4090, gpus_per_node: 8, nic_gb_per_s: 12.5}]")
    device = cluster(
        "nodes: [{device: rtx-4090, gpus_per_node: 8}]\ndevice_overrides: {rtx-4090: {nic_gb_per_s: 12.5}}"
    )

    assert own.classes[0].nic_bytes_per_s == device.classes[0].nic_bytes_per_s == 12.5e9
