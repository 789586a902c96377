"""Links of a cluster file: what joins what, and what cannot be, named where it stands."""

from __future__ import annotations

import pytest

from cluster_configs.schema import declared_link
from tests.cluster_configs.test_reading import SMALL, cluster, refused

NETWORK = """\
nodes:
  - {name: h, count: 3, device: h100-sxm, zone: east}
  - {name: l, count: 2, device: l40s, zone: west}
  - {name: t, device: t4, zone: west}
links:
  - {between: [east, west], gb_per_s: 1.25, latency_ms: 4}
"""


def test_links_are_in_si_units_with_sorted_ends():
    found = cluster(SMALL.replace("[a, b]", "[b, a]"))

    (link,) = found.links
    assert (link.between, link.bytes_per_s, link.latency_s) == (("a", "b"), 1.25e9, 0.004)


def test_a_repeated_link_is_counted_once_with_a_warning():
    found = cluster(SMALL + "  - {between: [b, a], gb_per_s: 1.25, latency_ms: 4}\n")

    assert len(found.links) == 1
    assert found.warnings == ("links[1] repeats links[0] (a to b): counted once",)


@pytest.mark.parametrize(
    ("link", "message", "where", "hint"),
    [
        ("{between: [east, h-1], gb_per_s: 0}", "`gb_per_s` must be greater than 0, got 0", "7:38", ""),
        ("{between: [east, h-1], gb_per_s: -3}", "`gb_per_s` must be greater than 0, got -3", "7:38", ""),
        ("{between: [east, h-1], gb_per_s: 1, latency_ms: -1}", "at least 0, got -1", "7:53", ""),
        ("{between: [east, h-1], gb_per_s: .nan}", "not a finite number", "7:38", ""),
        ("{between: [east, h-1], gb_per_s: 10 Gbit}", 'must be a number, got text "10 Gbit"', "7:38", "GB/s"),
        ("{between: [east, h-1], gbit_per_s: 10}", "unknown field `gbit_per_s`", "7:28", "`gb_per_s: 1.25`"),
        ("{between: [east, h-1]}", "`gb_per_s` is missing", "7:5", "add `gb_per_s:`"),
        ("{between: east-west, gb_per_s: 1}", "two zones or nodes, as in [a, b]; got east-west", "7:15", ""),
        ("{between: [east], gb_per_s: 1}", "two zones or nodes", "7:15", ""),
        ("{between: [east, west, h], gb_per_s: 1}", "two zones or nodes", "7:15", ""),
        ("{between: [east, 1], gb_per_s: 1}", "must be text, got 1", "7:22", 'write "1" in quotes'),
        ("{between: [wset, h-1], gb_per_s: 1}", "no zone or node is called `wset`", "7:16", "mean `west`"),
        ("{between: [east, north], gb_per_s: 1}", "no zone or node is called `north`", "7:22", "you mean"),
        ("{between: [h-3, west], gb_per_s: 1}", "no node is called `h-3`", "7:16", "`h` has `h-0` to `h-2`"),
        ("{between: [t-1, east], gb_per_s: 1}", "no node is called `t-1`", "7:16", "`t` has `t-0`"),
        ("{between: [west, east], gb_per_s: 2, latency_ms: 4}", "different figures: 2 GB/s and 4 ms here",
         "7:5", "1.25 GB/s and 4 ms at lab.yaml:6:5, links[0]"),
        ("{between: [west, east], gb_per_s: 1.25}", "linked twice", "7:5", "4 ms at lab.yaml:6:5"),
        ("{between: [east, east], gb_per_s: 1}", "a link from `east` to itself", "7:15", "nic_gb_per_s"),
        ("{between: [t, t-0], gb_per_s: 1}", "a link from `t` to itself", "7:15", "nic_gb_per_s"),
        ("{between: [east, h], gb_per_s: 1}", "which are the same nodes", "7:15", "nic_gb_per_s"),
    ],
)  # fmt: skip
def test_links_that_make_no_sense_are_refused_where_they_stand(
    link: str, message: str, where: str, hint: str
):
    error = refused(NETWORK + f"  - {link}\n")

    assert message in error.message
    assert (error.where or "").startswith(f"lab.yaml:{where}")
    assert hint in (error.hint or "")
    assert error.exit_code == 2


def test_a_link_that_leads_out_of_the_only_zone_is_left_out_with_its_line():
    found = cluster("nodes: [{device: t4, zone: east}]\nlinks:\n  - {between: [east, moon], gb_per_s: 1}\n")

    assert found.links == ()
    assert found.warnings == ("lab.yaml:3:5, links[0] is left out: no zone or node is called `moon`",)


def test_zones_that_nothing_joins_are_named_with_the_line_that_would_join_them():
    apart = NETWORK.split("links")[0] + "  - {name: x, device: l4, zone: '3'}\n"
    west, third = cluster(apart).warnings
    start = (
        "no link joins zone `west` with `east`: `l`, `t` cannot share a replica, a chain or a prefill/decode"
    )

    assert west.startswith(f"{start} pair with `h`. To join them")
    assert west.endswith("- {between: [east, west], gb_per_s: 1.25, latency_ms: 1}")
    assert third.endswith('- {between: [east, "3"], gb_per_s: 1.25, latency_ms: 1}')
    lines = [warning[warning.index("- {") :] for warning in (west, third)]
    assert cluster(apart + "links:\n" + "".join(f"  {line}\n" for line in lines)).warnings == ()


def test_zones_joined_over_a_third_or_by_single_nodes_are_not_apart():
    ring = NETWORK + "  - {between: [t, far], gb_per_s: 1}\n"
    far = "nodes:\n  - {name: x, count: 2, device: l4, zone: far}\n"

    assert cluster(ring.replace("nodes:\n", far)).warnings == ()
    assert cluster(ring.replace("[t, far]", "[t, x-1]").replace("nodes:\n", far)).warnings == ()


def test_of_many_zones_apart_a_few_are_named():
    nodes = "".join(f"  - {{device: t4, name: n{i}, zone: z{i}}}\n" for i in range(9))

    assert len(cluster(f"nodes:\n{nodes}").warnings) == 4
    assert cluster(f"nodes:\n{nodes}").warnings[-1] == "5 more groups of zones are joined with no other"


def test_the_most_particular_link_between_two_classes_counts():
    found = cluster(
        NETWORK + "  - {between: [h-1, west], gb_per_s: 9}\n  - {between: [h-1, t], gb_per_s: 5}\n"
    )
    of = {c.id: c for c in found.classes}

    def speed(a: str, b: str) -> float:
        return next(link.bytes_per_s for link in found.links if link.joins(of[a], of[b]))

    assert (speed("h", "l"), speed("h-1", "l"), speed("h-1", "t")) == (1.25e9, 9e9, 5e9)


def test_a_link_of_a_class_with_the_rest_of_its_zone_is_none_within_the_class():
    found = cluster(NETWORK.split("links:")[0] + "links:\n  - {between: [l, west], gb_per_s: 9}\n")
    low = next(c for c in found.classes if c.id == "l")

    assert declared_link(found.links, low, low) is None


def test_a_name_for_an_entry_and_a_node_of_another_cannot_be_linked():
    """`h-1` is the second node of `h` too."""
    error = refused(NETWORK.replace("name: t", "name: h-1") + "  - {between: [h-1, east], gb_per_s: 1}\n")

    assert error.message == "`h-1` is the name of an entry of `nodes` and a node of another entry: rename one"


def test_a_name_for_a_zone_and_a_node_cannot_be_linked():
    message = "`b` is the name of a zone and an entry of `nodes`: rename one"

    assert refused(SMALL.replace("name: h", "name: b")).message == message
