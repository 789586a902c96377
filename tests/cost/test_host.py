"""The host of a replica: shares, roots, disks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, NodeClass, Tier
from planner.cost.host import USABLE, HostStage, host_of, host_use
from planner.cost.reserve import device_bytes
from planner.rules.designs import OFFLOADS

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


CXL = Tier(kind="cxl", gb=256, read_gb_per_s=50, write_gb_per_s=40)


def held(used_gb: float, memory_gb: float = 512, tier: Tier = CXL) -> tuple[float, float]:
    """GB in CXL memory, and the rate in GB/s."""
    host = host_of(node(HOST.model_copy(update={"memory_gb": memory_gb}), gpus=1, disk=tier), 1, 1)
    assert host is not None
    return host.behind_cxl(1e9 * used_gb) / 1e9, host.rate(1e9 * used_gb) / 1e9


@pytest.mark.parametrize(
    ("used", "memory", "behind", "rate"),
    [
        (100, 512, 20, 250),  # 200 and 50 GB/s: a fifth behind the link, both read at once
        (600, 512, 139.2, 600 / (139.2 / 50)),  # host memory is full: 0.9 of 512
        (250, 64, 192.4, 250 / (192.4 / 50)),
    ],
)
def test_pages_lie_where_all_are_read_soonest(used, memory, behind, rate):
    assert held(used, memory) == pytest.approx((behind, rate))


@given(st.floats(1, 600), st.floats(8, 512), st.floats(8, 512), st.floats(1, 400))
def test_no_other_ratio_of_pages_is_read_sooner(used, memory, size, rate):
    tier = CXL.model_copy(update={"gb": size, "read_gb_per_s": rate})
    used = min(used, USABLE * (memory + size))
    behind, found = held(used, memory, tier)

    assert behind <= USABLE * size + 1e-6
    assert used - behind <= USABLE * memory + 1e-6
    for other in (USABLE * size * i / 50 for i in range(51)):
        if 0 <= used - other <= USABLE * memory:
            assert used / found <= max((used - other) / 200, other / rate) * (1 + 1e-9)


def test_a_cxl_pool_is_shared_as_it_says_and_devices_add():
    whole = host_of(node(gpus=4, count=2, disk=CXL.model_copy(update={"shared_by": "cluster"})), 4, 1)
    two = node(disk=CXL)
    both = host_of(replace(two, tiers=(CXL, CXL)), 4, 1)

    assert whole is not None
    assert both is not None
    assert (whole.cxl_bytes, whole.cxl_read_bytes_per_s) == (128e9, 25e9)
    assert (both.cxl_bytes, both.cxl_read_bytes_per_s) == (512e9, 100e9)


def mac(**more: object) -> NodeClass:
    form = Node(device="m3-ultra", tiers=[DISK]).model_copy(update=more)
    return resolve(Cluster(nodes=[form])).classes[0]


def test_one_memory_is_counted_once():
    at = mac()
    host = host_of(at, 1, 1)

    assert host is not None
    assert host.memory_bytes + device_bytes(at.device) == pytest.approx(1e9 * at.device.memory_gb)
    assert (host.bytes_per_s, host.pcie_bytes_per_s) == (819e9, 0.0)
    assert host_of(mac(tiers=[]), 1, 1) is None  # nothing lies beyond it
