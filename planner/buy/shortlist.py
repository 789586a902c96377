"""The offers that a first plan is made with, where there are too many to plan with all of them in half of the
time: those that have most for what they take."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from cluster_configs import devices
from cluster_configs.schema import Device, Node
from planner.buy.market import Market
from planner.errors import InputError

MANY = 100
"""Offers from which on a first plan is made with a few of them."""

HOLDING_GB = (0.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
"""Memory of nodes' GPUs: for each the offer that takes least, of those that have so much."""

LARGE_GB = 320.0
"""Memory from which on nodes hold large models; of these the best is looked at, too."""


def shortlist(offered: Market) -> Market:
    """The market with a few offers: those that take least, of nodes that hold so much, and those with most
    for what they take: rate of memory, FLOP/s. The market itself where it is small."""
    names = offered.offers.keys() - offered.dearer
    if len(names) < MANY:
        return offered
    known = {name: d for name in sorted(names) if (d := _device(offered, offered.offers[name])) is not None}
    return offered.only(set(_best(offered, known))) if known else offered


def _best(offered: Market, known: dict[str, Device]) -> Iterator[str]:
    def gpus(name: str) -> int:
        return offered.offers[name].gpus_per_node or known[name].gpus_per_node

    for held in HOLDING_GB:
        holding = [name for name in known if gpus(name) * known[name].memory_gb >= held]
        yield from sorted(holding, key=lambda name: offered.takes[name])[:1]
    large = [name for name in known if gpus(name) * known[name].memory_gb >= LARGE_GB]
    for names, rate in ((known, _memory_rate), (large, _memory_rate), (known, _flops)):
        ranked = sorted(names, key=lambda name: -gpus(name) * rate(known[name]) / offered.takes[name])
        yield from ranked[:1]


def _memory_rate(device: Device) -> float:
    return device.memory_gb_per_s


def _flops(device: Device) -> float:
    return max(device.tflops.values())


def _device(offered: Market, node: Node) -> Device | None:
    """The device of an offer; None of one that the catalog has not, or that the list changes."""
    changed = {*offered.form.device_overrides, *(offered.form.devices or {})}
    return None if node.device is None or node.device in changed else _found(node.device)


@lru_cache(maxsize=256)
def _found(name: str) -> Device | None:
    try:
        return devices.find(name)
    except InputError:
        return None
