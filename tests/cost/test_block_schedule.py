"""Seconds and bytes of a block: by hand on a layer of round figures, and as the program needs them."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.offline_runs import tokens_per_s
from cluster_configs.resolving import resolve
from cluster_configs.schema import Cluster, Host, Node, Tier
from model_zoo import catalog
from planner.cost.block import LINKS, Beside, Job, Machine, Reached, Way, job_of, machine_of, reached
from planner.cost.block_axes import CPU, PLAIN, axes
from planner.cost.block_schedule import CPU_COMPUTE, block_bytes, block_seconds

JOB = Job(
    isl=100,
    osl=20,
    layers=10,
    hidden=10,
    inner=40,
    heads=2,
    weight_bytes=2e6,
    weights=1e6,
    flops_per_token=2e6,
    cache_bytes_per_token=40.0,
    cache_per_token=20.0,
)
MACHINE = Machine(1e9, 1e12, 1e9, 1e8, 1e10, 5e8, 1e11, 1e7, 5e6)
FULL = Reached(1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 10.0)
HOME = {("weights", "gpu"): 1.0, ("cache", "gpu"): 1.0, ("activations", "gpu"): 1.0}
AWAY = {("weights", "host"): 1.0, ("cache", "host"): 1.0, ("activations", "host"): 1.0}


def rows(way, shares, batches=1):
    """Seconds of each busy row."""
    x = np.array([*(shares.get(place, 0.0) for place in PLAIN.columns), 1.0])
    seconds = block_seconds(JOB, MACHINE, way, FULL, batches).sum(axis=0) @ x
    return dict(zip(PLAIN.busy, seconds, strict=True))


def test_on_the_gpu_a_layer_computes_and_reads():
    """By hand: 20 prompts are 2000 tokens of 2 MFLOP, and 4 * 2000 * 100 * 10 of attention, 4.008 ms; 5 take
    less than reading 2 MB of weights, 2.002 ms; then 2 MB again and 5 * 110 * 40 bytes of cache, 2.022 ms."""
    found = rows(Way(5), HOME)

    assert rows(Way(20), HOME)["prefill", "compute"] == pytest.approx(4.008e-3)
    assert found["prefill", "compute"] == pytest.approx(2.002e-3)
    assert found["decode", "compute"] == pytest.approx(2.022e-3)
    assert found["decode", "to gpu"] == found["decode", "disk read"] == 0


def test_away_from_the_gpu_weights_cache_and_activations_travel():
    """By hand, two batches of 5 at 100 MB/s: 2 MB of weights, 10 * 110 * 40 bytes of cache, 10 * 20 of
    activations; back 10 * 40 of new cache and the activations."""
    found = rows(Way(5), AWAY, batches=2)

    assert found["decode", "to gpu"] == pytest.approx((2e6 + 44_000 + 200) / 1e8)
    assert found["decode", "from gpu"] == pytest.approx((400 + 200) / 1e8)
    assert found["prefill", "to gpu"] == pytest.approx((2e6 + 20_000) / 1e8)
    assert found["prefill", "from gpu"] == pytest.approx((10 * 101 * 40 + 20_000) / 1e8)


def test_the_cpu_attends_to_the_cache_where_it_lies():
    """By hand: 5 bytes of 500 MB/s for each of 5 * 110 * 40, beside the GPU's 2 ms, and no cache on PCIe."""
    found = rows(Way(5, host_attention=True), AWAY)

    assert found["decode", "compute"] == pytest.approx(2e-3 + 5 * 22_000 / 5e8)
    assert found["decode", "to gpu"] == pytest.approx((2e6 + 100) / 1e8)


def test_the_disk_is_read_for_weights_and_cache():
    found = rows(Way(5), {**HOME, ("weights", "gpu"): 0.5, ("weights", "disk"): 0.5})
    cache = rows(Way(5, True), {**HOME, ("cache", "gpu"): 0.0, ("cache", "disk"): 1.0})

    assert found["decode", "disk read"] == pytest.approx(1e6 / 1e7)
    assert cache["decode", "disk read"] == pytest.approx(22_000 / 1e7)
    assert cache["prefill", "disk write"] == pytest.approx(5 * 101 * 40 / 5e6)


def test_without_overlap_all_that_a_layer_does_adds_up():
    together, apart = rows(Way(5), AWAY), rows(Way(5, overlap=False), AWAY)
    decode = sum(s for (phase, _), s in together.items() if phase == "decode")

    assert all(s == pytest.approx(decode) for (phase, _), s in apart.items() if phase == "decode")


def test_packed_weights_travel_small_and_are_unpacked_for_each_batch():
    """By hand: 0.5625 bytes a value over PCIe, then 10 bytes of traffic a value, twice; nothing overlaps."""
    plain = rows(Way(5, overlap=False), AWAY, batches=2)["decode", "compute"]
    packed = rows(Way(5, packed_weights=True), AWAY, batches=2)["decode", "compute"]

    assert packed - plain == pytest.approx(2 * 1e7 / 1e9 - (2e6 - 562_500) / 1e8)


def test_pageable_memory_is_copied_at_its_own_share():
    pinned, pageable = (rows(Way(1, pinned=p), AWAY)["decode", "to gpu"] for p in (True, False))

    assert pageable - pinned == pytest.approx(2e6 / 1e8)


def test_tokens_per_second_are_of_prompt_and_generation():
    """By hand: 10 layers of 2.002 ms, then 19 steps of 10 layers of 2.022 ms, for 5 * 20 tokens."""
    found = tokens_per_s(JOB, MACHINE, Way(5), FULL, 1, HOME)

    assert found == pytest.approx(100 / (10 * 2.002e-3 + 190 * 2.022e-3))


def test_bytes_at_rest_and_beside_them():
    """By hand, two batches of 5: all weights, cache of 120 tokens, what one batch works in."""
    held = dict(zip(PLAIN.fits, block_bytes(JOB, Way(5), 2), strict=True))
    gpu = dict(zip(PLAIN.columns, held["gpu", "decode"], strict=False))

    assert gpu["weights", "gpu"] == 20e6
    assert gpu["weights", "host"] == gpu["weights", "disk"] == 4e6
    assert gpu["cache", "gpu"] == 10 * 10 * 120 * 40
    assert gpu["cache", "host"] == 2 * 5 * 120 * 40
    assert held["gpu", "decode"][-1] == 2 * 5 * (6 * 10 + 40 + 2 * 2 * 120)
    assert held["disk", "decode"][PLAIN.columns.index(("cache", "disk"))] == 10 * 10 * 120 * 40


@pytest.mark.parametrize("way", [Way(3), Way(3, True), Way(200, packed_weights=True, packed_cache=True)])
def test_rows_are_affine_in_the_number_of_gpu_batches(way):
    for rows_of in (
        lambda k: block_seconds(JOB, MACHINE, way, FULL, k),
        lambda k: block_bytes(JOB, way, k),
    ):
        assert np.allclose(rows_of(7) - rows_of(1), 6 * (rows_of(2) - rows_of(1)))
    assert block_seconds(JOB, MACHINE, way, FULL, 1).shape == (
        len(PLAIN.resources),
        len(PLAIN.busy),
        len(PLAIN.columns) + 1,
    )


def test_a_job_has_the_cards_mean_layer():
    """OPT-30B: 29.97 G parameters in 48 layers, 2 * 7168 values of cache a token and layer."""
    job = job_of(catalog.find("opt-30b")[0], 512, 32)

    assert job.layers * job.weights == pytest.approx(29.97e9, rel=2e-3)
    assert job.weight_bytes == pytest.approx(2 * job.weights)
    assert (job.cache_bytes_per_token, job.cache_per_token) == (4 * 7168, 2 * 7168)
    assert (job.hidden, job.inner, job.heads) == (7168, 28672, 56)


def test_asked_precisions_shrink_weights_and_cache():
    stored = job_of(catalog.find("opt-30b")[0], 512, 32)
    asked = job_of(catalog.find("opt-30b")[0], 512, 32, "int8", "fp8")

    assert asked.weight_bytes == stored.weight_bytes / 2
    assert asked.cache_bytes_per_token == stored.cache_bytes_per_token / 2
    assert asked.cache_per_token == stored.cache_per_token


def node(**changes):
    host = Host(memory_gb=128, gb_per_s=80, pcie_gb_per_s=25, gpus_per_pcie_root=2)
    disk = Tier(kind="nvme", gb=2000, read_gb_per_s=7, write_gb_per_s=5)
    form = Node(device="rtx-4090", gpus_per_node=2, host=host, tiers=[disk]).model_copy(update=changes)
    return resolve(Cluster(name="one", nodes=[form])).classes[0]


def test_a_gpu_has_its_share_of_what_the_node_shares():
    machine = machine_of(node())

    assert machine.gpu_bytes_per_s == pytest.approx(1008e9)
    assert (machine.host_bytes, machine.host_bytes_per_s) == (64e9, 40e9)
    assert machine.pcie_bytes_per_s == 12.5e9
    assert (machine.disk_bytes, machine.disk_read_bytes_per_s) == (1000e9, 3.5e9)


def test_a_node_that_states_no_host_memory_is_no_machine():
    assert machine_of(node(host=None)) is None
    assert machine_of(node(tiers=[])).room["disk"] == 0


def test_shipped_shares_are_shares():
    assert all(0 < share <= 1 for share in list(vars(reached()).values())[:-1])
    assert replace(reached(), disk=1.0).disk == 1.0


FAR = Beside("remote", 1e10, 2e7, 1e7, by_cpu=False)
CXL = Beside("cxl", 1e10, 5e7, 2e7, by_cpu=True)
LARGE = replace(MACHINE, beside=(CXL, FAR), host_flops_per_s=5e9)


def large(way, shares, batches=1):
    """Seconds of each busy row of the machine that has all."""
    on = axes(LARGE, way.cpu_weights)
    x = np.array([*(shares.get(place, 0.0) for place in on.columns), 1.0])
    seconds = block_seconds(JOB, LARGE, way, FULL, batches).sum(axis=0) @ x
    return dict(zip(on.busy, seconds, strict=True))


def resting(tier):
    return {("weights", tier): 1.0, ("cache", tier): 1.0, ("activations", tier): 1.0}


def test_what_a_machine_has_beside_changes_nothing_of_what_does_not_rest_there():
    for way in (Way(5), Way(5, host_attention=True)):
        found, plain = large(way, AWAY), rows(way, AWAY)
        assert {row: found[row] for row in plain} == plain
        assert found["decode", "cxl read"] == found["decode", "remote write"] == 0


def test_cxl_memory_takes_its_link_and_pcie():
    """By hand, 5 requests: 2 MB of weights, 5 * 110 * 40 bytes of cache, 5 * 20 of activations at 80 % of 50
    MB/s; over PCIe as from host memory."""
    found = large(Way(5), resting("cxl"))

    assert found["decode", "cxl read"] == pytest.approx((2e6 + 22_000 + 100) / (LINKS * 5e7))
    assert found["decode", "cxl write"] == pytest.approx((200 + 100) / (LINKS * 2e7))
    assert found["decode", "to gpu"] == large(Way(5), AWAY)["decode", "to gpu"]


def test_the_cpu_reads_cache_in_cxl_memory_once_and_the_rest_of_its_traffic_in_host_memory():
    found = large(Way(5, host_attention=True), resting("cxl"))
    at_home = large(Way(5, host_attention=True), AWAY)
    more = 22_000 / (LINKS * 5e7) - 22_000 / 5e8

    assert found["decode", "compute"] == pytest.approx(at_home["decode", "compute"] + more)
    assert found["decode", "cxl read"] == pytest.approx((2e6 + 100) / (LINKS * 5e7))


def test_memory_far_away_comes_over_its_own_link():
    found = large(Way(5), resting("remote"))

    assert found["decode", "to gpu"] == found["decode", "from gpu"] == 0
    assert found["prefill", "remote read"] == pytest.approx((2e6 + 10_000) / (LINKS * 2e7))


def test_the_cpu_computes_with_its_share_beside_the_gpu():
    """By hand: 2 batches of 5 take 10 * 2 MFLOP at 2 GFLOP/s, more than reading 4 MB; the GPU reads half its
    weights; the other half of the copies takes host memory's time, the prompts' copies all of it."""
    way = Way(5, cpu_weights=True)
    half = AWAY | {("weights", "host"): 0.5, CPU: 0.5}
    found, alone = large(way, half, 2), large(Way(5), AWAY, 2)
    crossing = 4 * 2 * 10 * 10 / 1e8

    assert found["decode", "cpu"] == pytest.approx(0.5 * 10 * 2e6 / (CPU_COMPUTE * 5e9) + 0.5 * 2e6 / 5e8)
    assert found["decode", "to gpu"] == pytest.approx(alone["decode", "to gpu"] - 1e6 / 1e8 + crossing)
    assert found["decode", "compute"] == pytest.approx(alone["decode", "compute"] - 2 * 1e6 / 1e9)
    assert found["prefill", "to gpu"] == pytest.approx(alone["prefill", "to gpu"])
    assert found["prefill", "cpu"] == pytest.approx(2e6 / 5e8)


def test_every_tier_holds_what_rests_on_it():
    on = axes(LARGE, True)
    held = dict(zip(on.fits, block_bytes(JOB, Way(5, cpu_weights=True), 2, on), strict=True))

    for tier in ("cxl", "remote"):
        assert held[tier, "decode"][on.at["cache", tier]] == held["host", "decode"][on.at["cache", "host"]]
    assert held["host", "decode"][on.at[CPU]] == 10 * 2e6


def test_one_memory_holds_what_comes_from_disk_on_its_way():
    own, both = (
        dict(zip(PLAIN.fits, block_bytes(JOB, Way(5), 2, unified=u), strict=True)) for u in (False, True)
    )
    at = PLAIN.columns.index(("weights", "disk"))

    assert both["host", "decode"][at] == 0
    assert both["gpu", "decode"][at] == own["gpu", "decode"][at] + own["host", "decode"][at]


def test_machines_have_the_tiers_of_their_nodes():
    cxl = Tier(kind="cxl", gb=256, read_gb_per_s=50, write_gb_per_s=40)
    far = Tier(kind="remote", gb=100, read_gb_per_s=10, write_gb_per_s=8, shared_by="gpu")
    machine = machine_of(node(tiers=[cxl, far]))
    mac = machine_of(node(device="m3-ultra", gpus_per_node=1, host=None))
    superchip = machine_of(node(device="gh200-96gb", gpus_per_node=1, host=Host(memory_gb=480, gb_per_s=512)))

    assert machine.beside == (
        Beside("cxl", 128e9, 25e9, 20e9, True),
        Beside("remote", 100e9, 10e9, 8e9, False),
    )
    assert mac.unified
    assert mac.room["host"] == 0
    assert (superchip.link, superchip.pcie_bytes_per_s) == ("NVLink-C2C", 450e9)
