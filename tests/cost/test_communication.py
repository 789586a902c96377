"""Messages: measured anchors, alpha-beta defaults, and what lies beyond the scale-up domain."""

from dataclasses import replace

import numpy as np
import pytest

from cluster_configs.reading import from_gpus
from planner.cost.communication import Links
from planner.cost.efficiency.reading import Efficiency

MIB = 2.0**20


def links(device="h100-sxm", **changes):
    node_class = replace(from_gpus(f"8x{device}").classes[0], **changes)
    return Links(node_class, Efficiency(node_class.device, "vllm"))


def all_reduce_us(some, megabytes, gpus):
    return 1e6 * some.all_reduce_s(np.array([megabytes * 1e6]), np.array([gpus]))[0]


@pytest.mark.parametrize(
    ("gpus", "bytes_", "microseconds"), [(2, 2**20, 5.89), (4, 2**26, 328), (8, 2**30, 4010)]
)
def test_measured_all_reduces_are_met(gpus, bytes_, microseconds):
    """H100, fastest graph-captured implementation (aiconfigurator tables)."""
    assert all_reduce_us(links(), bytes_ / 1e6, gpus) == pytest.approx(microseconds, rel=0.02)


def test_one_gpu_sends_nothing():
    assert all_reduce_us(links(), 10, 1) == 0
    assert links().exchange_s(np.array([8.0]), np.array([1e4]), 8, np.array([1]), "dispatch")[0] == 0


def test_nothing_to_send_takes_no_time():
    assert all_reduce_us(links(), 0, 8) == 0


@pytest.mark.parametrize("device", ["h100-sxm", "l40s", "mi300x", "gb200", "rtx-4090"])
@pytest.mark.parametrize("gpus", [2, 3, 4, 6, 8, 16, 72])
def test_longer_messages_take_longer(device, gpus):
    sizes = np.geomspace(64, 4e9, 60)
    times = links(device).all_reduce_s(sizes, np.full(60, gpus))

    assert (np.diff(times) >= 0).all()
    assert times[-1] > 100 * times[0]


def test_eight_l40s_share_two_gigabytes_a_second():
    """Measured on a PCIe host: 8 GPUs reach 2.1 GB/s of bus bandwidth of a 32 GB/s link, so the link rate is
    no guide."""
    seconds = 1e-6 * all_reduce_us(links("l40s"), 100, 8)

    assert 2 * 7 / 8 * 0.1 / seconds == pytest.approx(2.1, rel=0.15)


def test_unmeasured_pcie_is_far_below_its_link_rate():
    seconds = 1e-6 * all_reduce_us(links("rtx-4090"), 100, 8)

    assert 2 * 7 / 8 * 1e8 / seconds < 0.3 * links("rtx-4090").intra


def test_slower_links_in_the_cluster_slow_large_messages_only():
    usual, half = links(), links(intra_bytes_per_s=225e9)

    assert all_reduce_us(half, 500, 8) == pytest.approx(2 * all_reduce_us(usual, 500, 8), rel=0.01)
    assert all_reduce_us(half, 0.001, 8) == pytest.approx(all_reduce_us(usual, 0.001, 8), rel=0.2)


def test_two_nodes_send_an_eighth_over_each_nic():
    """By hand: 80 MB over 16 GPUs: inside 8 as measured, then 80/8 MB at 0.8 of 50 GB/s = 250 us and 20 us of
    wait."""
    inside, across = (all_reduce_us(links(), 80, gpus) for gpus in (8, 16))

    assert across - inside == pytest.approx(270, rel=0.01)


def test_tokens_cross_to_a_node_once():
    """64 GPUs on 8 nodes, top 8: a token reaches 7*(1 - (7/8)^8) = 4.6 other nodes, not 7 other copies."""
    some, tokens, size = links(), np.array([128.0]), np.array([7168.0])
    near = some.exchange_s(tokens, size, 8, np.array([8]), "dispatch")
    far = some.exchange_s(tokens, size, 8, np.array([64]), "dispatch")[0]
    copies = 7 * (1 - (7 / 8) ** 8)
    network = 60e-6 + copies * 128 * 7168 / (0.8 * 50e9)

    assert far - near[0] == pytest.approx(network, rel=0.1)


def test_a_hop_inside_the_domain_is_faster_than_over_the_nic():
    inside, across = links().hop_s(np.full(2, 1e7), np.array([8, 16]))

    assert across > inside


def test_only_boundaries_between_nodes_are_far():
    """Stages of two GPUs on nodes of eight: four fit one, eight cross once; a token's id comes back."""
    own, message, two = links(), np.full(1, 1e8), np.array([2])
    near, far = own.hop_s(message, np.array([8])), own.hop_s(message, np.array([16]))

    none = np.zeros(1)
    back, home = own.hop_s(none, np.array([8])), own.hop_s(none, np.array([16]))

    def round_s(stage_gpus, pp):
        return own.round_s(message, stage_gpus, np.array([pp]), np.array([1]))

    assert round_s(two, 1) == 0
    assert round_s(two, 4) == pytest.approx(3 * near + back)
    assert round_s(two, 8) == pytest.approx(6 * near + far + home)
    assert round_s(8 * two, 2) == pytest.approx(far + home)


def test_a_message_in_parts_goes_over_as_many_nics_and_is_gathered_inside_the_node():
    own, message = links(), np.full(1, 1e8)
    whole, parts = (own.far_s(message, np.array([ranks])) for ranks in (1, 4))
    quarter, gathered = own.hop_s(message / 4, np.array([16])), own.hop_s(0.75 * message, np.array([8]))

    assert whole == own.hop_s(message, np.array([16]))
    assert parts == pytest.approx(quarter + gathered)
    assert parts < whole / 2
