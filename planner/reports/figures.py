"""What a plan promises, figure by figure: the same rows in the terminal, on the page and in pictures. With
them what its electricity costs in each zone, in dollars and in carbon, where the cluster file says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.launch.server import machine_of
from planner.plans.schema import Band, Plan
from planner.reports import words as say


@dataclass(frozen=True)
class Figure:
    """One prediction with its 80 % band; the `limit` that it was to keep and the chance that it does, where
    there are any. `more`: whether more of it is better; None where neither is."""

    label: str
    band: Band
    unit: str
    limit: float | None = None
    kept: float | None = None
    more: bool | None = None

    @property
    def shown(self) -> str:
        """The prediction in its unit."""
        return say.amount(self.band.value, self.unit)

    @property
    def edges(self) -> str:
        """The band's ends, "" where it has no width, or begins at 0: so stand times of which only the
        limit is known, with measured designs."""
        low, high = self.band.low, self.band.high
        return "" if low == high or not low else f"{say.number(low)} – {say.number(high)}"

    @property
    def limited(self) -> str:
        """The limit in words, "" without one."""
        return "" if self.limit is None else say.amount(self.limit, self.unit)


def figures(plan: Plan) -> list[Figure]:
    """All predictions that are known; of requests for one token there is no time per further one."""
    p, slo = plan.predicted, plan.problem.workload.get("slo", {})
    which = slo.get("percentile", "mean")
    first, token = f"time to first token, {which}", f"time per output token, {which}"
    rows: list[tuple[str, Band | None, str, float | None, float | None, bool]] = [
        ("output tokens", p.out_tok_per_s, "/s", None, None, True),
        ("requests", p.rps, "/s", None, None, True),
        (first, p.ttft_ms, "ms", slo.get("ttft_ms"), p.chance_ttft, False),
        (token, p.tpot_ms if p.tpot_ms.value else None, "ms", slo.get("tpot_ms"), p.chance_tpot, False),
        ("cost", p.usd_per_hour, "$/h", None, None, False),
        ("cost of 1M output tokens", p.usd_per_mtok, "$", None, None, False),
        ("power of all GPUs", p.watts, "W", None, None, False),
        ("energy of an output token", p.joules_per_tok, "J", None, None, False),
    ]
    rows += [(label, band, unit, None, None, False) for label, band, unit in electricity(plan)]
    return [
        Figure(label, band, unit, limit, kept, more)
        for label, band, unit, limit, kept, more in rows
        if band is not None
    ]


W_PER_KW, S_PER_HOUR, TOKENS = 1e3, 3600.0, 1e6


def electricity(plan: Plan) -> list[tuple[str, Band | None, str]]:
    """Label, figure and unit of the electricity an hour, of cost with it, and of the carbon of a million
    output tokens; None where a zone that draws any does not say."""
    if not plan.problem.cluster.get("energy") or plan.chains:
        return []
    p, watts = plan.predicted, by_zone(plan)
    paid, carbon = (_an_hour(plan, watts, what) for what in ("usd_per_kwh", "gco2_per_kwh"))
    usd = None if paid is None else _scaled(p.watts, paid)
    both = None
    if usd is not None and p.usd_per_hour is not None:
        ends = zip(_ends(usd), _ends(p.usd_per_hour), strict=True)
        both = Band(**dict(zip(("value", "low", "high"), map(sum, ends), strict=True)))
    tokens = p.out_tok_per_s.value * S_PER_HOUR / TOKENS
    grams = None if carbon is None or not tokens else _scaled(p.joules_per_tok, carbon / tokens)
    return [
        ("electricity", usd, "$/h"),
        ("cost with electricity", both, "$/h"),
        ("CO2 of 1M output tokens", grams, "g"),
    ]


def by_zone(plan: Plan) -> Mapping[str, float]:
    """Watts of all GPUs of each zone: of replicas, by their GPUs' limits where a replica lies in several
    zones; and of GPUs at rest, by theirs."""
    zones, left = _gpus(plan)
    watts = defaultdict[str, float](float)
    for replica in plan.replicas:
        parts = [(zones[_entry(s.nodes[0], zones)], s.device, s.gpus) for s in replica.stages]
        limits = [gpus * _limit(plan, device) for _, device, gpus in parts]
        for (zone, device, gpus), limit in zip(parts, limits, strict=True):
            watts[zone] += replica.count * replica.watts * limit / sum(limits)
            left[zone, device] -= replica.count * gpus
    rest = {at: max(gpus, 0) * _limit(plan, at[1]) for at, gpus in left.items()}
    idle = plan.predicted.watts.value - sum(watts.values())
    for (zone, _), limit in rest.items():
        watts[zone] += max(idle, 0.0) * limit / max(sum(rest.values()), 1e-9)
    return watts


def _gpus(plan: Plan) -> tuple[dict[str, str], dict[tuple[str, str], float]]:
    """The zone of each entry of nodes, and GPUs of each device in a zone."""
    zones, gpus = dict[str, str](), defaultdict[tuple[str, str], float](float)
    for node in plan.problem.cluster["nodes"]:
        name, zone = str(node.get("name") or node["device"]), str(node.get("zone") or "default")
        zones[name] = zone
        for device, many in by_device(node, plan.problem.devices):
            gpus[zone, device] += (node.get("count") or 1) * many
    return zones, gpus


def _entry(node: str, zones: Mapping[str, str]) -> str:
    """The entry that a node's name stands for: `h` of `h-0`, `pc` of `pc/rtx-4090-0`."""
    machine = machine_of(node)
    return machine if machine in zones else machine.rpartition("-")[0]


def _limit(plan: Plan, device: str) -> float:
    return float(plan.problem.devices[device]["tdp_watts"])


def _an_hour(plan: Plan, watts: Mapping[str, float], what: str) -> float | None:
    """Dollars or grams an hour; None where a zone does not say."""
    total = 0.0
    for zone, drawn in watts.items():
        said = plan.problem.cluster["energy"].get(zone, {})
        if drawn > 0 and said.get(what) is None:
            return None
        total += drawn * said.get("overhead", 1.0) / W_PER_KW * (said.get(what) or 0.0)
    return total


def _scaled(band: Band, value: float) -> Band:
    """A figure that errs as another does."""
    factor = value / band.value if band.value else 0.0
    return Band(value=value, low=band.low * factor, high=band.high * factor)


def _ends(band: Band) -> tuple[float, float, float]:
    return band.value, band.low, band.high


def used(plan: Plan) -> int:
    """GPUs that something runs on."""
    return sum(r.count * sum(s.gpus for s in r.stages) for r in plan.replicas)


def owned(plan: Plan) -> int:
    """GPUs of the cluster."""
    return sum(gpus_of(node, plan.problem.devices) for node in plan.problem.cluster["nodes"])


def gpus_of(node: dict[str, Any], devices: dict[str, dict[str, Any]]) -> int:
    """GPUs of a `nodes:` entry of the cluster."""
    return int(node.get("count") or 1) * sum(many for _, many in by_device(node, devices))


def by_device(node: dict[str, Any], devices: dict[str, dict[str, Any]]) -> list[tuple[str, int]]:
    """Devices of one node of an entry, and how many GPUs of each."""
    if kinds := node.get("gpus"):
        return [(kind["device"], int(kind.get("count") or 1)) for kind in kinds]
    usual = devices.get(node["device"], {}).get("gpus_per_node", 1)
    return [(node["device"], int(node.get("gpus_per_node") or usual))]
