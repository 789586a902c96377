"""Peers: the matrix of `nvidia-smi topo -p2p r`, alone and beside that of `topo -m`."""

import pytest

from cluster_configs.devices import find
from planner.clusters.found import Input
from planner.clusters.nvidia_smi import read
from planner.clusters.peers import peer_fields, read_peers, without_peers
from planner.clusters.topology import read_topology
from tests.clusters.test_wires import full

LEGEND = "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n"
CARDS = "GPU 0: NVIDIA L40S (UUID: GPU-a)\nGPU 1: NVIDIA L40S (UUID: GPU-b)\n"


def peers(*cells: str) -> str:
    """The matrix of two GPUs as it is printed."""
    return f" \tGPU0\tGPU1\t\n GPU0\tX\t{cells[0]}\t\n GPU1\t{cells[-1]}\tX\t\n" + LEGEND


def links() -> str:
    return "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-7\t0\nGPU1\tSYS\t X \t8-15\t1\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (peers("OK"), (2, True)),
        (peers("CNS"), (2, False)),
        (peers("OK", "NS"), (2, False)),
        (peers("U"), None),
        (peers("OK").replace(" GPU1\tOK\tX", ""), None),
        (links(), None),
        ("", None),
    ],
)
def test_gpus_are_peers_where_every_cell_says_so(text, told):
    assert read_peers(text) == told


def test_neither_matrix_is_taken_for_the_other():
    both = peers("OK") + links()

    assert read_peers(both) == read_peers(peers("OK"))
    assert read_topology(without_peers(both)) == read_topology(links())
    assert read_topology(without_peers(peers("OK"))) is None


@pytest.mark.parametrize(
    ("device", "way", "told", "fields"),
    [
        ("l40s", "SYS", True, {"peer_to_peer": True}),
        ("l40s", "SYS", False, {}),
        ("l40s", "SYS", None, {}),
        ("a6000", "NV4", None, {"peer_to_peer": True}),  # a bridge
        ("h100-sxm", "NV18", None, {}),
        ("h100-sxm", "NV18", False, {"peer_to_peer": False}),
    ],
)
def test_the_field_is_written_where_the_node_is_other_than_its_device(device, way, told, fields):
    assert peer_fields(full(2, way), find(device), 2, told) == fields


def test_a_node_has_what_its_matrix_says():
    files = [Input.of(name, text) for name, text in (("q", CARDS), ("p", peers("OK")), ("t", links()))]
    (machine,) = read(tuple(files)).machines

    assert dict(machine.fields)["peer_to_peer"] is True
    assert "peer_to_peer" not in dict(read(tuple(files[::2])).machines[0].fields)
