"""What was found → the text of a cluster file: commented with what was assumed and what was not said.

A GPU that no device is known for gets an entry under `devices:`, with `null` where figures are to be
filled in. From one line of GPUs: every figure that planning would take, with its source, to be changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cluster_configs.devices import names
from cluster_configs.reading import from_gpus
from cluster_configs.schema import NodeClass
from planner.clusters.found import (
    MOST_NAMED,
    Found,
    Gpus,
    Machine,
    differs,
    grouped,
    known_device,
    others,
    shortened,
)
from planner.errors import InputError, nearest, squash

FILL_IN = "fill-in"


@dataclass(frozen=True)
class Written:
    """Text of a cluster file, and what to tell beside it."""

    text: str
    warnings: tuple[str, ...]


def write(found: Found, source: str) -> Written:
    """The cluster file. Raises InputError where there is no whole GPU to plan with."""
    if not found.machines:
        why = "; ".join(grouped(found.left_out.items())[:MOST_NAMED])
        raise InputError(
            f"{source} names no GPU that a plan could use" + (f" ({why})" if why else ""), None, found.lacking
        )
    groups = _alike(found.machines)
    entries = [(machine, alike) for machine, *alike in groups]
    kinds = _kinds(found)
    lines = [f"# A cluster as {source} tells it. GB = 1e9 bytes; rates in one direction, per GPU."]
    lines += [f"# {line}" for line in found.assumed]
    lines += grouped(found.left_out.items(), "# Left out: {names}: {said}.")
    lines += ["nodes:"]
    for machine, alike in entries:
        lines += _entry(machine, alike)
    zones = list(dict.fromkeys(machine.zone for machine in found.machines if machine.zone))
    if len(zones) > 1:
        lines += [
            "# Zones are joined only by links that are written here. With your figures:",
            "# links:",
            *(
                f"#   - {{between: [{_plain(zones[0])}, {_plain(z)}], gb_per_s: 1.25, latency_ms: 1}}"
                for z in zones[1:]
            ),
        ]
    lines += _overrides(kinds)
    lines += _own(kinds)
    return Written("\n".join(lines) + "\n", tuple(dict.fromkeys([*found.warnings, *doubts(found)])))


def doubts(found: Found) -> list[str]:
    """What a reader must know of the devices that names were taken for."""
    return [text for kind in _kinds(found) for text in _doubts(kind)]


def _kinds(found: Found) -> list[Gpus]:
    """Kinds of GPU, the first found first."""
    return list(dict.fromkeys(kind for machine in found.machines for kind in machine.gpus))


def _alike(machines: Sequence[Machine]) -> list[list[Machine]]:
    groups: dict[tuple[Any, ...], list[Machine]] = {}
    for m in machines:
        groups.setdefault((m.gpus, m.zone, repr(m.fields), m.remarks), []).append(m)
    return list(groups.values())


def _entry(machine: Machine, alike: Sequence[Machine]) -> Iterator[str]:
    """Lines of one entry: identical nodes together."""
    called = [m.name for m in (machine, *alike) if m.name != "node"]
    if called:
        yield f"  # {shortened(called)}"
    yield from (f"  # {remark}" for remark in machine.remarks)
    fields: list[tuple[str, str]] = [("count", f"{1 + len(alike)}")]
    if len(machine.gpus) == 1:
        (kind,) = machine.gpus
        fields += [("device", f"{_device(kind)}{_comment(kind)}"), ("gpus_per_node", f"{kind.count}")]
    else:
        listed = ", ".join(f"{{device: {_device(g)}, count: {g.count}}}" for g in machine.gpus)
        fields.append(("gpus", f"[{listed}]"))
    if machine.zone:
        fields.append(("zone", _plain(machine.zone)))
    fields += [(name, value_text(value)) for name, value in machine.fields]
    for i, (name, value) in enumerate(fields):
        yield f"  {'- ' if i == 0 else '  '}{name}: {value}"


def _device(kind: Gpus) -> str:
    """The catalog's name, or the one that the entry under `devices:` has."""
    device = known_device(kind)
    if device is not None:
        return device.name
    return FILL_IN if kind.model is None else _own_name(kind.model)


def _own_name(model: str) -> str:
    """A name for a device of one's own.

    >>> _own_name("NVIDIA GeForce RTX 2060 SUPER")
    'rtx-2060-super'
    """
    words = re.findall(r"[a-z0-9.]+", model.lower())
    kept = [w for w in words if w not in ("nvidia", "geforce", "amd", "intel", "tesla")]
    return "-".join(kept or words) or FILL_IN


def _comment(kind: Gpus) -> str:
    device, further = known_device(kind), others(kind)
    if kind.model is None:
        return "  # not said: one of `meshwright devices`"
    said = [] if device is not None and squash(kind.model) == squash(device.name) else [repr(kind.model)]
    said += [f"or {', '.join(further)}?"] if further else []
    return f"  # {', '.join(said)}" if said else ""


def _doubts(kind: Gpus) -> Iterator[str]:
    device, further = known_device(kind), others(kind)
    if kind.model is None:
        yield "which GPU it is was not said: write its `device`, or give it with --device"
    elif device is None:
        near = " or ".join(f"`{n}`" for n in nearest(kind.model, names(), 2))
        yield (
            f"no device is known for {kind.model!r}: fill in its figures under `devices:`, or write the "
            "device that "
            f"it is nearest to ({near})"
        )
    elif further:
        listed = " or ".join(f"`{name}`" for name in further)
        yield f"{kind.model!r} is taken as `{device.name}`; it may be {listed}, too: change `device` if so"
    if device is not None and kind.memory_mib is not None and differs(device, kind.memory_mib):
        yield (
            f"{kind.model!r} has {kind.memory_mib:,.0f} MiB, {device.name} "
            f"{device.memory_gb * 1e9 / 2**20:,.0f}: the "
            "driver's figure is written under `device_overrides`"
        )


def _overrides(kinds: Sequence[Gpus]) -> Iterator[str]:
    """Memory where the driver tells another than the device has."""
    other: dict[str, float] = {}
    for kind in kinds:
        device = known_device(kind)
        if device is not None and kind.memory_mib is not None and differs(device, kind.memory_mib):
            other[device.name] = min(kind.memory_mib, other.get(device.name, kind.memory_mib))
    if other:
        yield "device_overrides:"
    for name, mib in other.items():
        yield f"  {name}: {{memory_gb: {mib * 2**20 / 1e9:.6g}}}  # {mib:,.0f} MiB, as the driver says"


def _own(kinds: Sequence[Gpus]) -> Iterator[str]:
    """Devices to fill in."""
    unknown = [k for k in kinds if k.model is not None and known_device(k) is None]
    if unknown:
        yield "devices:  # replace every null; what is left out is as usual for the generation"
    for kind in {_own_name(k.model or ""): k for k in unknown}.values():
        told = dict(kind.known)
        yield f"  {_own_name(kind.model or '')}:"
        known = f"{kind.memory_mib * 2**20 / 1e9:.6g}" if kind.memory_mib else "null"
        yield f"    generation: {told.pop('generation', 'null')}"
        yield f"    memory_gb: {known}"
        yield "    memory_gb_per_s: null"
        yield "    tflops: {fp16: null}  # dense; also bf16, fp8, fp4, int8 where it has them"
        yield from (f"    {name}: {value_text(value)}" for name, value in told.items())


def value_text(value: Any) -> str:
    """A value as YAML reads it back exactly."""
    if isinstance(value, float):
        return f"{value:.12g}"
    return _plain(value) if isinstance(value, str) else json.dumps(value)


def _plain(name: str) -> str:
    """A name as YAML takes it for text."""
    bare = re.fullmatch(r"[A-Za-z][\w.-]*", name) and name.lower() not in (
        "true",
        "false",
        "null",
        "yes",
        "no",
        "on",
        "off",
    )
    return name if bare else json.dumps(name)


HEAD = """\
# Written by `meshwright cluster init`. Figures are those that `--gpus` takes: change what is other with you.
# GB = 1e9 bytes; rates in one direction; a line of 10 Gbit/s is 1.25 GB/s. All fields: docs/cluster.md
"""
FOOT = """\
# Zones: nodes of one zone talk over their NICs. Between zones nothing passes but over links written here:
# links:
#   - {between: [default, elsewhere], gb_per_s: 1.25, latency_ms: 1}
"""


def init(line: str) -> str:
    """The text of a cluster file that reads back to the cluster of `--gpus line`. Raises InputError.

    >>> init("2xL40S").splitlines()[3]
    'nodes:'
    """
    cluster = from_gpus(line)
    body = "\n".join(text for node in cluster.classes for text in _commented(node))
    return f"{HEAD}name: {value_text(cluster.name)}\nnodes:\n{body}\n{FOOT}"


def _commented(node: NodeClass) -> Iterator[str]:
    """Lines of one entry, each figure with what it means and where it is from."""
    rows = list(_fields(node))
    width = max(len(field) for field, _ in rows)
    for i, (field, comment) in enumerate(rows):
        yield f"  {'- ' if i == 0 else '  '}{field:<{width}}  # {comment}" if comment else f"    {field}"
    watts = node.device.tdp_watts * node.gpus_per_node
    yield (
        f"    # power_cap_watts: {watts:g}   # of the whole node; without it each GPU may draw its "
        f"{node.device.tdp_watts:g} W"
    )
    if not node.device.unified_memory:
        yield "    # host: {memory_gb: 512, gb_per_s: 300}   # lets weights rest in host memory"
    yield "    # spot: true, availability: 0.99   # where the node may be taken away"


def _fields(node: NodeClass) -> Iterator[tuple[str, str]]:
    d, gib = node.device, node.device.memory_gb * 1e9 / 2**30
    rate = d.tflops.get("bf16") or d.tflops["fp16"]
    yield f"name: {node.id}", "nodes are called " + f"{node.id}-0, {node.id}-1, ..."
    yield f"count: {node.node_count}", "identical nodes"
    yield (
        f"device: {d.name}",
        f"{gib:.4g} GiB at {d.memory_gb_per_s:,g} GB/s, {rate:,.4g} TFLOP/s in 16 bit, {d.tdp_watts:g} W",
    )
    yield f"gpus_per_node: {node.gpus_per_node}", ""
    if node.price_usd_per_hour is None:
        yield (
            "# price_usd_per_hour: 1.0",
            "the whole node; no price is known here, --objective cost needs one",
        )
    else:
        each = f"{node.gpus_per_node} x {d.price_usd_per_gpu_hour:g}"
        yield (
            f"price_usd_per_hour: {value_text(node.price_usd_per_hour)}",
            f"the whole node, {each}: {d.sources.get('price', 'no source')}",
        )
    yield f"scale_up_gpus: {node.scale_up_gpus}", f"GPUs that {d.intra_link} joins"
    yield f"intra_gb_per_s: {value_text(node.intra_bytes_per_s / 1e9)}", "between them, per GPU"
    if d.intra_link == "pcie" and node.gpus_per_node > 1:
        told = "whether they read each other's memory: `nvidia-smi topo -p2p r`"
        yield f"peer_to_peer: {str(node.peer_to_peer).lower()}", told
    gbit = node.nic_bytes_per_s * 8e-9
    source = d.sources.get("nic", "usual for the device")
    yield (
        f"nic_gb_per_s: {value_text(node.nic_bytes_per_s / 1e9)}",
        f"between nodes, per GPU: {gbit:g} Gbit/s, {source}",
    )
    yield f"nic: {node.nic}", "infiniband, roce or ethernet"
    yield f"zone: {node.zone}", ""
