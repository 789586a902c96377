"""The matrix of `nvidia-smi topo -m`, and what it says of NVLinks, sockets, NICs and PCIe."""

from __future__ import annotations

import pytest

from planner.clusters.topology import Topology, read_topology

SMALL = """\
        GPU0 GPU1 GPU2 NIC0 NIC1 CPU Affinity NUMA Affinity
GPU0     X   NV4  SYS  PIX  SYS  0-15  0
GPU1    NV4   X   SYS  NODE SYS  0-15  0
GPU2    SYS  SYS   X   SYS  PHB  16-31 1
NIC0    PIX  NODE SYS   X   SYS
NIC1    SYS  SYS  PHB  SYS   X

Legend:
  X    = Self
NIC Legend:
  NIC0: mlx5_0
  NIC1: mlx5_3
"""


def read(text: str = SMALL) -> Topology:
    found = read_topology(text)
    assert found is not None
    return found


def test_gpus_and_nics_are_the_columns_before_those_of_cpus():
    found = read()

    assert found.gpus == [0, 1, 2]
    assert found.nics == ["NIC0", "NIC1"]
    assert found.nic_names == ("mlx5_0", "mlx5_3")
    assert found.cut is None


def test_pairs_are_told_once_with_the_number_of_their_nvlinks():
    found = read()

    assert found.pairs == {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"}
    assert found.nvlinks == {(0, 1): 4, (0, 2): 0, (1, 2): 0}
    assert found.at("SYS") == [[0, 2], [1, 2]]


def test_islands_are_joined_by_nvlinks_sockets_by_memory_and_domains_by_pcie():
    found = read()

    assert found.islands == [[0, 1], [2]]
    assert found.sockets == [[0, 1], [2]]
    assert found.domains == [["GPU0", "GPU1", "NIC0"], ["GPU2", "NIC1"]]


def test_a_ring_of_nvlinks_is_one_island():
    """0-1, 1-2, 2-3: no GPU reaches all others directly."""
    lines = ["     GPU0 GPU1 GPU2 GPU3"]
    for i in range(4):
        cells = ["X" if i == j else "NV2" if abs(i - j) == 1 else "PHB" for j in range(4)]
        lines.append(f"GPU{i} {' '.join(cells)}")

    assert read("\n".join(lines)).islands == [[0, 1, 2, 3]]


def test_near_nics_share_a_host_bridge_and_of_these_the_nearest_count():
    assert [read().near_nics(gpu) for gpu in (0, 1, 2)] == [[0], [], [1]]
    both = SMALL.replace("PIX  SYS  0-15", "PHB  PXB  0-15")
    assert read(both).near_nics(0) == [1]


@pytest.mark.parametrize("word", ["PIX", "PXB", "PSB", "PHB"])
def test_a_nic_behind_the_same_bridge_is_near_and_one_beyond_the_socket_never(word: str):
    assert read(SMALL.replace("PIX  SYS  0-15", f"{word}  SYS  0-15")).near_nics(0) == [0]
    for far in ("NODE", "SYS", "SOC"):
        assert read(SMALL.replace("PIX  SYS  0-15", f"{far}  SYS  0-15")).near_nics(0) == []


def test_columns_that_a_terminal_glued_are_told_apart():
    text = "     GPU0 GPU1 NIC0NIC1 CPU Affinity\nGPU0 X SYS NODEPXB 0-9\nGPU1 SYS X PIX SYS 0-9\n"

    assert read(text).header == ("GPU0", "GPU1", "NIC0", "NIC1")
    assert read(text).near_nics(0) == [1]


def test_columns_of_a_container_are_empty_and_sockets_unknown():
    text = "     GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X SYS\nGPU1 SYS X\n"

    assert read(text).sockets is None
    assert read(text.replace("GPU1 SYS X", "GPU1 SYS X 0-9 0")).sockets is None  # one of two tells nothing


@pytest.mark.parametrize(
    ("head", "tail", "home"),
    [
        ("CPU Affinity NUMA Affinity", "0-15 0", "0"),
        ("CPU Affinity NUMA Affinity GPU NUMA ID", "0-15 0 N/A", "0"),
        ("CPU Affinity NUMA Affinity GPU NUMA ID", "0-15 N/A N/A", "0-15"),
        ("CPU Affinity NUMA Affinity", "0-15", "0-15"),
        ("CPU Affinity", "0-15", "0-15"),
    ],
)
def test_a_home_is_the_numa_node_else_the_cpus(head: str, tail: str, home: str):
    assert read(f"     GPU0 {head}\nGPU0 X {tail}\n").affinity == {0: home}


def test_rows_that_are_missing_are_counted():
    found = read("     GPU0 GPU1 GPU2\nGPU0 X NV4 NV4\nGPU1 NV4\n")

    assert found.rows == [0]
    assert found.cut == "the matrix is cut: its header names 3 GPUs, 1 of their rows are there"
    assert found.near_nics(1) == []


def test_a_nic_whose_cell_was_cut_off_is_not_near():
    assert read(SMALL.replace("PIX  SYS  0-15  0", "PIX")).near_nics(0) == [0]
    assert read(SMALL.replace("PIX  SYS  0-15  0", "")).near_nics(0) == []


def test_the_first_matrix_counts_and_text_without_one_has_none():
    assert read("Mon Nov 23\n" + SMALL + "\n     GPU0\nGPU0 X\n").gpus == [0, 1, 2]
    assert read_topology("GPU 0: NVIDIA L40S\nGPU0 X SYS\n") is None
