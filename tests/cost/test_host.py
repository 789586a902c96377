"""The host of a replica: shares, roots, disks."""

from dataclasses import replace

import pytest

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, NodeClass, Tier
from planner.cost.host import HostStage, host_of, host_use
from planner.engine_rules import OFFLOADS

HOST = Host(memory_gb=512, gb_per_s=200, tflops=4, pcie_gb_per_s=32)
DISK = Tier(kind="nvme", gb=4000, read_gb_per_s=7, write_gb_per_s=5)


def node(host: Host | None = HOST, gpus: int = 4, count: int = 2, disk: Tier = DISK) -> NodeClass:
    form = Node(device="rtx-4090", gpus_per_node=gpus, count=count, host=host, tiers=[disk])
    return resolve(Cluster(nodes=[form])).classes[0]


def test_a_replica_has_as_much_of_the_host_as_of_the_gpus():
    half = host_of(node(), 2, 1)

    assert half is not None
    assert (half.memory_bytes, half.bytes_per_s, half.flops_per_s) == (256e9, 100e9, 2e12)
    assert (half.nvme_bytes, half.nvme_read_bytes_per_s, half.nvme_write_bytes_per_s) == (2e12, 3.5e9, 2.5e9)


@pytest.mark.parametrize(
    ("on_root", "gpus", "at_once", "roots"),
    [(None, 1, 1, 1.0), (2, 1, 1, 0.5), (2, 2, 1, 1.0), (2, 2, 2, 1.0), (2, 4, 4, 2.0), (1, 4, 4, 4.0)],
)
def test_gpus_on_one_root_share_it(on_root, gpus, at_once, roots):
    host = host_of(node(HOST.model_copy(update={"gpus_per_pcie_root": on_root})), gpus, at_once)

    assert host is not None
    assert host.pcie_bytes_per_s == pytest.approx(roots * 32e9)


@pytest.mark.parametrize(("shared_by", "share"), [("gpu", 2.0), ("node", 0.5), ("cluster", 0.25)])
def test_a_disk_is_shared_as_it_says(shared_by, share):
    host = host_of(node(disk=DISK.model_copy(update={"shared_by": shared_by})), 2, 1)

    assert host is not None
    assert host.nvme_read_bytes_per_s == pytest.approx(share * 7e9)


def test_without_host_memory_there_is_no_host():
    assert host_of(node(None), 1, 1) is None
    assert host_of(node(Host(pcie_gb_per_s=32)), 1, 1) is None


def test_what_is_not_said_of_a_host_comes_from_the_device_and_the_bandwidth():
    host = host_of(node(Host(memory_gb=64, gb_per_s=80), gpus=1), 1, 1)

    assert host is not None
    assert (host.flops_per_s, host.pcie_bytes_per_s, host.sockets) == (25 * 80e9, 32e9, 1)


def test_every_engine_that_offloads_has_its_shares_of_a_host():
    for engine in OFFLOADS:
        one, two, four = (host_use(engine, sockets) for sockets in (1, 2, 4))
        assert two == four
        assert two.memory < one.memory < 1


def test_a_stage_says_what_lies_on_the_cpu():
    stage = HostStage("box", 1, (0, 61), away=58)

    assert stage.part == "61 (experts of 58 on the CPU)"
    assert replace(stage, kept=4).part == "61 (experts of 58 but 4 on the CPU)"
    assert replace(stage, layers=(20, 61), away=0, before=20).part == "41 (20 before on the CPU)"
