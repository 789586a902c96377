"""A cluster from `nvidia-smi`: of each node its GPUs, and how they are joined where `topo -m` is given.

Files of one form are nodes of their own; files of other forms tell more of the same nodes, in their order.
Slices of a GPU (MIG) are no GPUs of a plan. PCIe generations fall to 1 at idle: the highest one with the
width that the card has now is what it carries under load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.clusters.found import Found, Gpus, Input, Machine, known_device, unreadable
from planner.clusters.nvidia_cards import Card, Cards, read_cards
from planner.clusters.peers import peer_fields, read_peers, without_peers
from planner.clusters.topology import (
    Topology,
    intra_fields,
    nic_fields,
    pcie_gb_per_s,
    read_topology,
    remarks_of,
)
from planner.reading.units import counted

RUN = "`nvidia-smi -q`, with `nvidia-smi topo -m`, `topo -p2p r` and `ibstat` for what joins GPUs and nodes"
IN_USE = 0.05
"""A GPU of whose memory more than this share is taken serves something already (a desktop takes 1 to 4 %)."""
_ARCHITECTURES = {
    "pascal": "pascal", "volta": "volta", "turing": "turing", "ampere": "ampere", "ada lovelace": "ada",
    "hopper": "hopper", "blackwell": "blackwell_dc",
}  # fmt: skip
"""Generations of the cluster file by "Product Architecture" of `nvidia-smi -q`."""


@dataclass(frozen=True)
class _Node:
    """What the files say of one node; `peers`: whether its GPUs read each other's memory, where told."""

    name: str
    cards: Cards | None
    topology: Topology | None
    ports: str = ""
    peers: bool | None = None


def read(inputs: tuple[Input, ...]) -> Found:
    """The nodes that the inputs describe. Raises InputError where they are nothing of `nvidia-smi`."""
    nodes = _nodes(inputs)
    if not nodes:
        raise unreadable(inputs, "nvidia-smi", RUN)
    machines, warnings = [], []
    left_out: dict[str, str] = {}
    for node in nodes:
        machine = _machine(node)
        warnings += list(_warnings(node))
        if machine.gpus:
            machines.append(machine)
        else:
            left_out[node.name] = "split by MIG: it has no whole GPU"
    lacking = None if machines else "switch MIG off (`nvidia-smi -mig 0`) to plan with the whole GPUs"
    facts = _facts(nodes[0]) if len(nodes) == 1 else {"nodes": {n.name: _facts(n) for n in nodes}}
    return Found(tuple(machines), tuple(warnings), (), left_out, facts, lacking)


def _nodes(inputs: tuple[Input, ...]) -> list[_Node]:
    cards = [(i.name, found) for i in inputs if (found := read_cards(i.text, i.name))]
    matrices = [(i.name, matrix) for i in inputs if (matrix := read_topology(without_peers(i.text)))]
    peers = [told for i in inputs if (told := read_peers(i.text))]
    by_form: dict[str, list[tuple[str, Cards]]] = {}
    for name, found in cards:
        by_form.setdefault(found.form, []).append((name, found))
    fullest = max(by_form.values(), key=len, default=[])
    count = max(len(fullest), len(matrices))
    ports = [i.text for i in inputs if re.search(r"^CA '", i.text, re.MULTILINE)]  # of `ibstat`
    named = fullest if len(fullest) == count else matrices
    return [
        _Node(
            "node" if count == 1 else Path(named[i][0]).stem,
            fullest[i][1] if i < len(fullest) else None,
            _of_node(matrices, i, count, fullest),
            ports[min(i, len(ports) - 1)] if ports else "",
            _peers_of_node(peers, i, count, fullest),
        )
        for i in range(count)
    ]


def _of_node(
    matrices: list[tuple[str, Topology]], at: int, count: int, cards: list[tuple[str, Cards]]
) -> Topology | None:
    """The matrix of a node: its own, or the only one there is where it has as many GPUs."""
    if len(matrices) == count:
        return matrices[at][1]
    if len(matrices) == 1 and at < len(cards) and len(matrices[0][1].gpus) == len(cards[at][1].cards):
        return matrices[0][1]
    return None


def _peers_of_node(
    told: list[tuple[int, bool]], at: int, count: int, cards: list[tuple[str, Cards]]
) -> bool | None:
    """What a matrix of peers says of a node: its own, or the only one where it has as many GPUs."""
    if len(told) == count:
        return told[at][1]
    if len(told) == 1 and at < len(cards) and told[0][0] == len(cards[at][1].cards):
        return told[0][1]
    return None


def _machine(node: _Node) -> Machine:
    if node.cards is None:
        assert node.topology is not None
        gpus: tuple[Gpus, ...] = (Gpus(None, len(node.topology.gpus)),)
        whole: list[Card] = []
    else:
        whole = [card for card in node.cards.cards if not _sliced(card)]
        gpus = tuple(_kinds(whole))
    topology = None if node.topology is None or node.topology.cut else node.topology
    fields: dict[str, Any] = {}
    if len(gpus) == 1:
        device = known_device(gpus[0])
        fields |= intra_fields(topology, device, gpus[0].count, _slowest_pcie(whole))
        fields |= peer_fields(topology, device, gpus[0].count, node.peers)
    fields |= nic_fields(node.ports, sum(kind.count for kind in gpus))
    capped = [
        c for c in whole if c.limit_watts and c.default_watts and c.limit_watts < 0.99 * c.default_watts
    ]
    if capped and all(card.limit_watts for card in whole):
        fields["power_cap_watts"] = sum(card.limit_watts or 0.0 for card in whole)
    return Machine(node.name, gpus, None, tuple(fields.items()), tuple(remarks_of(topology, "nic" in fields)))


def _sliced(card: Card) -> bool:
    return card.mig == "Enabled" or card.slices > 0


def _kinds(cards: Sequence[Card]) -> Iterator[Gpus]:
    """Cards alike, together, in the order of the first."""
    groups: dict[tuple[str, float | None], list[Card]] = {}
    for card in cards:
        groups.setdefault((card.name, card.memory_mib), []).append(card)
    for (name, memory), alike in groups.items():
        card = alike[0]
        told = {
            "generation": _ARCHITECTURES.get((card.architecture or "").lower()),
            "tdp_watts": card.default_watts or card.limit_watts,
            "pcie_gb_per_s": pcie_gb_per_s(card.pcie_gen_max, card.pcie_width_now),
        }
        yield Gpus(name, len(alike), memory, tuple((k, v) for k, v in told.items() if v is not None))


def _slowest_pcie(cards: Sequence[Card]) -> float | None:
    rates = [pcie_gb_per_s(card.pcie_gen_max, card.pcie_width_now) for card in cards]
    return min((rate for rate in rates if rate is not None), default=None)


def _warnings(node: _Node) -> Iterator[str]:
    """What a reader must know before planning with the node."""
    if node.topology is not None and node.topology.cut:
        yield f"{node.name}: {node.topology.cut}; what joins the GPUs is left to the device's usual figures"
    if node.cards is None:
        return
    cards = node.cards.cards
    if node.cards.attached > len(cards):
        yield (
            f"{node.name}: the driver counts {counted(node.cards.attached, 'GPU')}, only {len(cards)} "
            f"{'is' if len(cards) == 1 else 'are'} described: the others are not in this cluster"
        )
    for i, card in enumerate(cards):
        if _sliced(card):
            slices = f" into {counted(card.slices, 'slice')}" if card.slices else ""
            yield (
                f"{node.name}: GPU {i} ({card.name}) is split by MIG{slices}: a plan cannot use slices, "
                "so this "
                "GPU is left out"
            )
        elif card.used_mib and card.memory_mib and card.used_mib > IN_USE * card.memory_mib:
            yield (
                f"{node.name}: GPU {i} ({card.name}) is in use: {card.used_mib:,.0f} of "
                f"{card.memory_mib:,.0f} "
                "MiB are taken; a plan takes the whole GPU"
            )
    if node.topology is not None and len(node.topology.gpus) not in (len(cards), node.cards.attached):
        yield (
            f"{node.name}: the matrix has {counted(len(node.topology.gpus), 'GPU')}, the other input "
            f"{len(cards)}"
        )


def _facts(node: _Node) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if node.topology is not None:
        facts |= topology_facts(node.topology)
    if node.cards is None:
        return facts | {"device": None}
    cards = node.cards.cards
    names = list(dict.fromkeys(card.name for card in cards))
    first = cards[0] if cards else Card("")
    told = {
        "gpus": len(cards),
        "gpu_elements": len(cards),
        "attached_gpus": node.cards.attached,
        "device": names[0] if len(names) == 1 else names,
        "memory_mib": _plain([card.memory_mib for card in cards]),
        "default_power_limit_w": _plain([card.default_watts for card in cards], whole=False),
        "power_limit_w": _plain([card.limit_watts for card in cards], whole=False),
        "mig": _plain([card.mig for card in cards]),
        "mig_devices": sum(card.slices for card in cards),
        "mig_memory_mib": _plain([m for card in cards for m in card.mig_memory_mib]),
        "fabric_state": first.fabric,
        "pcie_gen_max": first.pcie_gen_max,
        "pcie_gen_now": first.pcie_gen_now,
        "pcie_width_now": first.pcie_width_now,
    }
    return facts | {key: value for key, value in told.items() if value is not None}


def _plain(values: Sequence[Any], whole: bool = True) -> Any:
    """One value where all are alike, else the list; whole numbers as such."""
    plain = [int(v) if whole and isinstance(v, float) and v.is_integer() else v for v in values]
    return plain[0] if plain and all(v == plain[0] for v in plain) else plain or None


def topology_facts(t: Topology) -> dict[str, Any]:
    """What a matrix says, by the names that `--facts` has."""
    links = sorted({*t.nvlinks.values()})
    uniform = len(links) == 1
    if not t.nvlinks:
        words = "one GPU" if len(t.gpus) == 1 else "unknown"
    elif links == [0]:
        words = "no NVLink"
    elif uniform:
        words = f"every pair NV{links[0]}" + (" (NVSwitch)" if len(t.gpus) > 2 and links[0] >= 6 else "")
    else:
        words = "NVLink between some pairs"
    facts: dict[str, Any] = {
        "gpus": len(t.gpus),
        "gpus_in_header": len(t.gpus),
        "gpu_rows": len(t.rows),
        "gpu_links": words,
        "nvlinks_per_pair": links[0]
        if uniform
        else {f"{a}-{b}": n for (a, b), n in t.nvlinks.items()} or None,
        "numa_groups": t.sockets or "unknown (columns empty: container view)",
        "nics": len(t.nics),
        "nic_names": list(t.nic_names) or [nic for nic in t.nics if not nic.startswith("NIC")],
        "near_nics": {str(gpu): t.near_nics(gpu) for gpu in t.rows} if t.nics else {},
        "pcie_domains": len(t.domains),
    }
    facts |= {f"pairs_{way}": found for way in ("PIX", "PXB", "PHB", "NODE", "SYS") if (found := t.at(way))}
    if t.cut:
        facts["cut"] = t.cut
    advice = next((r for r in remarks_of(t) if r.startswith("tp=")), None)
    return facts | ({"tp_advice": advice} if advice else {})
