"""The device that a source means by its spelling of a GPU, and what else it may mean."""

from __future__ import annotations

import re

from cluster_configs.devices import alike, find
from cluster_configs.schema import Device
from planner.clusters.found import Gpus
from planner.errors import InputError

_OF_DRIVER = re.compile(r"(nvidia|tesla|amd)[ _-]", re.IGNORECASE)
"""How drivers begin a product's name: "NVIDIA H100 80GB HBM3" is the SXM form, "NVIDIA H100 PCIe" the
card."""

OTHER_MEMORY = 0.03
"""Drivers report a little less than the label says (81,559 MiB of 80 GiB): less than this is the same
card."""


def known_device(gpus: Gpus) -> Device | None:
    """The device of the catalog, told apart by memory where the name leaves it open; None where there is
    none."""
    if gpus.model is None:
        return None
    for name in (*_with_memory(gpus), gpus.model):
        try:
            return find(name)
        except InputError:
            continue
    return None


def others(gpus: Gpus) -> list[str]:
    """Names of further devices that the spelling may mean as well; a driver's own product name means one."""
    device = known_device(gpus)
    if device is None or gpus.model is None or _OF_DRIVER.match(gpus.model):
        return []
    names = [name for name in alike(gpus.model) if name != device.name]
    if gpus.memory_mib is None:
        return names
    return [name for name in names if not differs(find(name), gpus.memory_mib)]


def differs(device: Device, memory_mib: float) -> bool:
    """Whether a driver's figure is another memory than the device's."""
    return abs(memory_mib * 2**20 / (1e9 * device.memory_gb) - 1) > OTHER_MEMORY


def _with_memory(gpus: Gpus) -> list[str]:
    """The spelling with the memory that the source tells, in place of the one in the name: a table may cut
    the name, and in "NVIDIA GH200 480GB" it is the CPU's."""
    if gpus.memory_mib is None or gpus.model is None:
        return []
    gib = gpus.memory_mib / 1024
    model = re.sub(r"[ _-]\d+ ?GB\b", "", gpus.model.rstrip("."), flags=re.IGNORECASE)
    sizes = dict.fromkeys((round(gib), round(gib / 8) * 8, round(gib * 1.0737)))
    return [f"{model} {size}GB" for size in sizes]
