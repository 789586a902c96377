"""How GPUs of a node are joined: rates from NVLinks and PCIe lanes, and what a cluster file cannot say."""

from __future__ import annotations

import pytest

from cluster_configs.devices import find
from planner.clusters.topology import (
    Topology,
    intra_fields,
    nic_fields,
    nvlink_gb_per_s,
    pcie_gb_per_s,
    read_topology,
    remarks_of,
)


def matrix(ways: list[list[str]], homes: str = "", nics: int = 0) -> Topology:
    """Of GPUs alone, `homes` a digit each; `nics` far columns."""
    n = len(ways)
    head = [f"GPU{i}" for i in range(n)] + [f"NIC{k}" for k in range(nics)]
    lines = [" ".join(head) + " CPU Affinity NUMA Affinity"]
    for i, row in enumerate(ways):
        home = f"0-9 {homes[i]}" if homes else ""
        lines.append(f"GPU{i} {' '.join(row)} {'SYS ' * nics}{home}")
    found = read_topology("     " + "\n".join(lines))
    assert found is not None
    return found


def full(n: int, way: str, homes: str = "") -> Topology:
    return matrix([["X" if i == j else way for j in range(n)] for i in range(n)], homes)


def pairs(way: str, other: str, homes: str = "") -> Topology:
    """Four GPUs, joined by twos."""
    rows = [["X" if i == j else way if i // 2 == j // 2 else other for j in range(4)] for i in range(4)]
    return matrix(rows, homes)


@pytest.mark.parametrize(("generation", "lanes", "rate"), [(3, 16, 16), (4, 16, 32), (4, 8, 16), (5, 16, 64)])
def test_a_slot_carries_its_lanes(generation: int, lanes: int, rate: float):
    assert pcie_gb_per_s(generation, lanes) == rate


def test_a_slot_that_is_not_told_has_no_rate():
    assert pcie_gb_per_s(None, 16) is pcie_gb_per_s(4, None) is pcie_gb_per_s(9, 16) is None


def test_a_gpu_has_all_its_links_and_no_more_than_its_generation():
    """A6000: 4 links of 14.0625; V100 6 of 25; behind a switch each pair shows all 18 of an H100."""
    assert nvlink_gb_per_s(full(2, "NV4"), find("a6000")) == 56.25
    assert nvlink_gb_per_s(full(2, "NV2"), find("a6000")) == 28.125
    assert nvlink_gb_per_s(full(4, "NV2"), find("v100-sxm2-32gb")) == 6 * 25
    assert nvlink_gb_per_s(full(8, "NV18"), find("h100-sxm")) == 450


def test_the_gpu_with_the_fewest_links_counts():
    """Three in a line: the ends have two links each, the middle four."""
    line = matrix([["X", "NV2", "SYS"], ["NV2", "X", "NV2"], ["SYS", "NV2", "X"]])

    assert nvlink_gb_per_s(line, find("a100-sxm")) == 2 * 25


def test_links_that_do_not_join_all_give_no_rate():
    assert nvlink_gb_per_s(pairs("NV4", "SYS"), find("a6000")) is None
    assert nvlink_gb_per_s(full(2, "PHB"), find("a6000")) is None
    assert nvlink_gb_per_s(full(1, "X"), find("a6000")) is None
    assert nvlink_gb_per_s(full(2, "NV4"), find("mi300x")) is None


def test_a_field_is_written_only_where_the_node_differs_from_its_device():
    h100, l40s = find("h100-sxm"), find("l40s")

    assert intra_fields(full(2, "NV18"), h100, 2, None) == {}
    assert intra_fields(full(2, "NV12"), h100, 2, None) == {"intra_gb_per_s": 300}
    assert intra_fields(None, l40s, 2, 16) == {"intra_gb_per_s": 16}
    assert intra_fields(None, l40s, 2, None) == {}
    assert intra_fields(None, l40s, 2, 0.985 * l40s.intra_gb_per_s) == {}  # 2 % is how figures are rounded
    assert intra_fields(None, l40s, 2, 0.97 * l40s.intra_gb_per_s) == {"intra_gb_per_s": 31.04}
    assert intra_fields(None, l40s, 1, 16) == {}  # nobody to talk to
    assert intra_fields(None, None, 2, 16) == {}
    assert intra_fields(None, h100, 2, 16) == {}  # NVLink, as far as anyone says


def test_a_board_whose_nvlinks_are_down_talks_over_pcie():
    h100 = find("h100-sxm")

    assert intra_fields(full(2, "SYS"), h100, 2, 32) == {"intra_gb_per_s": 32}
    assert intra_fields(full(2, "SYS"), h100, 2, None) == {"intra_gb_per_s": h100.pcie_gb_per_s}


PORT = "CA 'mlx5_{}'\n Port 1:\n  State: {}\n  Rate: {}\n  Link layer: {}\n"


def test_active_ports_add_and_infiniband_counts_before_ethernet():
    """By hand: 2 x 400 Gbit/s over 4 GPUs are 25 GB/s each."""
    slow = PORT.format(2, "Active", 100, "Ethernet")
    two = slow + PORT.format(0, "Active", 400, "InfiniBand") + PORT.format(1, "Active", 400, "InfiniBand")

    assert nic_fields(two + PORT.format(3, "Down", 400, "InfiniBand"), 4) == {
        "nic_gb_per_s": 25,
        "nic": "infiniband",
    }
    assert nic_fields(slow, 2) == {"nic_gb_per_s": 6.25, "nic": "roce"}
    assert nic_fields(PORT.format(0, "Down", 400, "InfiniBand"), 4) == nic_fields(slow, 0) == {}


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        (full(2, "NV4", "00"), []),
        (full(2, "PHB", "00"), []),
        (full(2, "PHB"), []),  # sockets are not told
        (pairs("NV4", "SYS", "0011"), ["NVLink joins GPUs 0, 1 or GPUs 2, 3 only"]),
        (full(2, "SYS", "01"), ["tp=1: each GPU has a socket of its own"]),
        (pairs("PIX", "SYS", "0011"), ["tp=2 on (0,1) or (2,3); tp=4 crosses sockets over PCIe"]),
        (pairs("NODE", "SYS", "0011"), ["tp=2 inside a socket; tp=4 crosses sockets over PCIe"]),
        (pairs("NODE", "SYS", "0001"), ["tp=3 inside a socket; GPU3 only across the sockets"]),
    ],
)
def test_what_no_field_can_say_is_said_in_words(topology: Topology, said: list[str]):
    found = list(remarks_of(topology))

    assert len(found) == len(said)
    assert all(remark.startswith(start) for remark, start in zip(found, said, strict=True))


def test_nics_of_unknown_rate_are_told_unless_another_file_has_it():
    topology = matrix([["X", "NV4"], ["NV4", "X"]], nics=2)

    (said,) = remarks_of(topology)
    assert said.startswith("2 NICs: the matrix does not say how fast")
    assert list(remarks_of(topology, told_nics=True)) == []
    assert list(remarks_of(None)) == []
