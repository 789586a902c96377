"""Which device of the catalog a source's spelling means."""

from __future__ import annotations

import pytest

from cluster_configs.devices import find
from planner.clusters.found import Gpus, differs, known_device, others


def means(model: str | None, memory_mib: float | None = None) -> str | None:
    device = known_device(Gpus(model, 1, memory_mib))
    return device.name if device else None


@pytest.mark.parametrize(
    ("model", "memory_mib", "name"),
    [
        ("NVIDIA L40S", None, "l40s"),
        ("NVIDIA A100-SXM...", 40960, "a100-sxm-40gb"),  # cut by a table
        ("NVIDIA A100-SXM...", 81920, "a100-sxm"),
        ("NVIDIA GH200 480GB", 97871, "gh200-96gb"),  # 480 GB is the CPU's
        ("NVIDIA H100 80GB HBM3", 81559, "h100-sxm"),
        ("NVIDIA L40S", 46068, "l40s"),
        ("NVIDIA GeForce FX 5200", 256, None),
        (None, 81920, None),
    ],
)
def test_a_spelling_means_the_device_of_its_memory(
    model: str | None, memory_mib: float | None, name: str | None
):
    assert means(model, memory_mib) == name


def test_a_drivers_name_means_one_device_and_a_bare_one_may_mean_several():
    assert others(Gpus("NVIDIA H100 80GB HBM3", 1)) == []
    assert "h100-pcie" in others(Gpus("H100", 1))
    assert others(Gpus("FX 5200", 1)) == others(Gpus(None, 1)) == []


def test_memory_that_is_told_rules_out_devices_with_another():
    for mib in (40960, 81920):
        left = [*others(Gpus("A100", 1, mib)), means("A100", mib)]
        assert left
        assert not any(differs(find(name), mib) for name in left if name)


def test_a_driver_tells_a_little_less_than_the_label():
    """H100: 80 GiB on the label, 81,559 MiB of the driver; 94 GB is another card."""
    h100 = find("h100-sxm")

    assert not differs(h100, 81559)
    assert differs(h100, 95830)
    edge = 1e9 * h100.memory_gb / 2**20
    assert not differs(h100, 1.029 * edge)
    assert differs(h100, 1.031 * edge)
