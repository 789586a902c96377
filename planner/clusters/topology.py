"""The matrix of `nvidia-smi topo -m`: GPUs that NVLink joins, that share a socket, NICs near to them. It
becomes, with what `ibstat` says of ports, fields of a cluster file, and comments in it.

Terminals glue columns together ("NIC8NIC9", "NODEPXB"), so cells are read as words of the legend and never
counted by blanks. Containers leave the columns of CPUs and NUMA nodes empty: that is "unknown", not one
socket."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from cluster_configs.schema import Device

Name = TypeVar("Name", int, str)

_NAMES = r"GPU\d+|NIC\d+|mlx\d+_bond_\d+|mlx\d+_\d+|bnxt_re\d+|irdma\d+|hfi1_\d+|ibp\d+\w*"
_HEADER = re.compile(r"^\s*GPU\d+(?!\d*\s+(?:X|NV\d|SYS|NODE|PHB|PXB|PIX|SOC|PSB)\b)")
_CELL = re.compile(r"\s*(NV\d+|SYS|NODE|PHB|PXB|PIX|SOC|PSB|X)")
_NEARNESS = ("PIX", "PXB", "PSB", "PHB", "NODE", "SYS", "SOC")
"""Distances over PCIe, the nearest first; SOC is the older word for SYS."""
FAR = ("SYS", "SOC")


@dataclass(frozen=True)
class Topology:
    """`header`: names of the columns; `cells`: by name of the row; `affinity`: NUMA node (or CPUs) of a GPU,
    where told; `nic_names`: by NIC, of the legend."""

    header: tuple[str, ...]
    cells: Mapping[str, tuple[str, ...]]
    affinity: Mapping[int, str]
    nic_names: tuple[str, ...]

    @cached_property
    def gpus(self) -> list[int]:
        """Numbers of the GPUs in the header."""
        return [int(name[3:]) for name in self.header if re.fullmatch(r"GPU\d+", name)]

    @cached_property
    def nics(self) -> list[str]:
        return [name for name in self.header if not re.fullmatch(r"GPU\d+", name)]

    @cached_property
    def rows(self) -> list[int]:
        """GPUs whose row is there in full, as far as GPUs go."""
        n = len(self.gpus)
        return [g for g in self.gpus if len(self.cells.get(f"GPU{g}", ())) >= n]

    @property
    def cut(self) -> str | None:
        """What is missing of the matrix, or None."""
        if len(self.rows) == len(self.gpus):
            return None
        rows = f"{len(self.rows)} of their rows are there"
        return f"the matrix is cut: its header names {len(self.gpus)} GPUs, {rows}"

    @cached_property
    def pairs(self) -> dict[tuple[int, int], str]:
        """What joins each two GPUs, as far as rows are there."""
        return {(a, b): self.cells[f"GPU{a}"][k] for a in self.rows for k, b in enumerate(self.gpus) if a < b}

    @cached_property
    def nvlinks(self) -> dict[tuple[int, int], int]:
        """NVLinks of each pair, 0 where there are none."""
        return {pair: int(way[2:]) if way.startswith("NV") else 0 for pair, way in self.pairs.items()}

    @cached_property
    def islands(self) -> list[list[int]]:
        """GPUs that reach each other over NVLinks, directly or by others."""
        return _joined(self.gpus, [pair for pair, links in self.nvlinks.items() if links])

    @cached_property
    def sockets(self) -> list[list[int]] | None:
        """GPUs by NUMA node, None where the columns are empty."""
        if len(self.affinity) < len(self.gpus):
            return None
        groups: dict[str, list[int]] = defaultdict(list)
        for gpu in self.gpus:
            groups[self.affinity[gpu]].append(gpu)
        return sorted(groups.values())

    @cached_property
    def domains(self) -> list[list[str]]:
        """GPUs and NICs that reach each other over PCIe without leaving their socket."""
        near = [
            (row, self.header[k])
            for row, cells in self.cells.items()
            for k, way in enumerate(cells[: len(self.header)])
            if way in _NEARNESS and way not in FAR
        ]
        return _joined(list(self.header), near)

    def near_nics(self, gpu: int) -> list[int]:
        """Numbers of the NICs nearest to a GPU, where they share a PCIe host bridge with it."""
        cells = self.cells.get(f"GPU{gpu}", ())
        ways = {
            k: cells[at] for k, nic in enumerate(self.nics) if (at := self.header.index(nic)) < len(cells)
        }
        for way in _NEARNESS[:4]:
            if found := [k for k, w in ways.items() if w == way]:
                return found
        return []

    def at(self, way: str) -> list[list[int]]:
        """Pairs of GPUs at one distance."""
        return [list(pair) for pair, w in self.pairs.items() if w == way]


def read_topology(text: str) -> Topology | None:
    """The first matrix in a text, or None."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        return None
    named = re.split(r"CPU Affinity|NUMA Affinity|GPU NUMA ID", lines[start])[0]
    header = tuple(name for word in named.split() for name in _unglued(word))
    cells: dict[str, tuple[str, ...]] = {}
    affinity: dict[int, str] = {}
    for line in lines[start + 1 :]:
        name = next(iter(line.split()), "")
        if name not in header or name in cells:
            continue
        rest = line.partition(name)[2]
        ways, end = _ways(rest, len(header))
        cells[name] = ways
        if re.fullmatch(r"GPU\d+", name) and (home := _home(rest[end:], lines[start])):
            affinity[int(name[3:])] = home
    legend = re.findall(r"^\s*NIC\d+\s*:\s*(\S+)", text, re.MULTILINE)
    return Topology(header, cells, affinity, tuple(legend))


def _unglued(word: str) -> list[str]:
    """Names of columns that are glued into one word.

    >>> _unglued("NIC8NIC9"), _unglued("mlx5_0"), _unglued("enp1s0")
    (['NIC8', 'NIC9'], ['mlx5_0'], ['enp1s0'])
    """
    parts = re.findall(_NAMES, word)
    return parts if "".join(parts) == word else [word]


def _ways(rest: str, most: int) -> tuple[tuple[str, ...], int]:
    """Words of the legend at the start of a row, and where they end.

    >>> _ways(" X NV18 NODEPXB 0-55,112-167 0", 9)
    (('X', 'NV18', 'NODE', 'PXB'), 15)
    """
    found: list[str] = []
    at = 0
    while len(found) < most and (match := _CELL.match(rest, at)):
        found.append(match[1])
        at = match.end()
    return tuple(found), at


def _home(tail: str, header: str) -> str | None:
    """The NUMA node that a row ends with, else its CPUs; None where the columns are empty."""
    words = tail.split()
    if "GPU NUMA ID" in header:
        words = words[:-1]
    if not words:
        return None
    told = [words[-1], words[0]] if "NUMA Affinity" in header and len(words) > 1 else words[:1]
    return next((home for home in told if home != "N/A"), None)


def _joined(names: list[Name], pairs: list[tuple[Name, Name]]) -> list[list[Name]]:
    """Groups of names that pairs lead between, in the order of names."""
    group = {name: name for name in names}

    def root(name: Name) -> Name:
        while group[name] != name:
            name = group[name]
        return name

    for a, b in pairs:
        if a in group and b in group:
            group[root(b)] = root(a)
    found: dict[Name, list[Name]] = {}
    for name in names:
        found.setdefault(root(name), []).append(name)
    return list(found.values())


_NVLINKS = {
    "6.0": (4, 20.0), "7.0": (6, 25.0), "7.5": (2, 25.0), "8.0": (12, 25.0), "8.6": (4, 14.0625),
    "9.0": (18, 25.0), "10.0": (18, 50.0), "10.3": (18, 50.0),
}  # fmt: skip
"""By compute capability: NVLinks of a GPU at most, GB/s of one in one direction. NVIDIA's pages: P100 160
GB/s over 4, V100 300 over 6, RTX 2080 Ti 100 over 2, A100 600 over 12, RTX 3090 and A40 112.5 over 4, H100
900 over 18, B200 1,800 over 18, both directions together."""
_LANE_GB_PER_S = {1: 0.25, 2: 0.5, 3: 1.0, 4: 2.0, 5: 4.0, 6: 8.0}
"""A PCIe lane in one direction, by generation, as data sheets round it (x16 of generation 4: 32)."""


def pcie_gb_per_s(generation: int | None, lanes: int | None) -> float | None:
    """One direction of a slot, None where either is unknown.

    >>> pcie_gb_per_s(3, 8), pcie_gb_per_s(4, None)
    (8.0, None)
    """
    if generation not in _LANE_GB_PER_S or lanes is None:
        return None
    return _LANE_GB_PER_S[generation] * lanes


def nvlink_gb_per_s(topology: Topology, device: Device) -> float | None:
    """GB/s of each GPU to its peers, one direction, where NVLinks join all GPUs; None where they don't.

    A pair's links behind a switch are those of all pairs, so no GPU counts more than it has.
    """
    if len(topology.islands) != 1 or device.compute_capability not in _NVLINKS or not topology.nvlinks:
        return None
    most, each = _NVLINKS[device.compute_capability]
    links = [sum(n for pair, n in topology.nvlinks.items() if gpu in pair) for gpu in topology.gpus]
    return each * min(most, *links)


def intra_fields(
    topology: Topology | None, device: Device | None, gpus: int, pcie: float | None
) -> dict[str, Any]:
    """Fields of an entry where the node differs from what is usual for its device."""
    if device is None or gpus < 2:
        return {}
    told = None if topology is None else nvlink_gb_per_s(topology, device)
    over_pcie = device.intra_link == "pcie" or (
        topology is not None and bool(topology.nvlinks) and not any(topology.nvlinks.values())
    )
    if told is None and over_pcie:
        told = pcie or device.pcie_gb_per_s
    if told is None or abs(told / device.intra_gb_per_s - 1) < 0.02:
        return {}
    return {"intra_gb_per_s": told}


def nic_fields(text: str, gpus: int) -> dict[str, Any]:
    """What the active ports in `ibstat` carry, per GPU; InfiniBand's where there are any, else RoCE's.

    >>> port = "CA 'mlx5_{}'\\n Port 1:\\n  State: Active\\n  Rate: 400\\n  Link layer: InfiniBand\\n"
    >>> nic_fields(port.format(0) + port.format(1), gpus=8)
    {'nic_gb_per_s': 12.5, 'nic': 'infiniband'}
    """
    rates: dict[str, float] = {}
    for port in re.split(r"^\s*Port \d+:", text, flags=re.MULTILINE)[1:]:
        told = dict(re.findall(r"^\s*([\w ]+): *(\S.*?)\s*$", port.split("\nCA '")[0], re.MULTILINE))
        if told.get("State") == "Active" and told.get("Rate", "").isdigit():
            layer = told.get("Link layer", "InfiniBand")
            rates[layer] = rates.get(layer, 0.0) + float(told["Rate"])
    if not rates or not gpus:
        return {}
    layer = "InfiniBand" if "InfiniBand" in rates else next(iter(rates))
    return {"nic_gb_per_s": rates[layer] / 8 / gpus, "nic": "infiniband" if layer == "InfiniBand" else "roce"}


def remarks_of(t: Topology | None, told_nics: bool = False) -> Iterator[str]:
    """What a matrix says that the cluster file has no field for."""
    if t is None:
        return
    islands = [i for i in t.islands if len(i) > 1]
    if len(t.islands) > 1 and islands:
        yield (
            f"NVLink joins {_groups(islands)} only. One rate counts for all GPUs of a node here, so that of "
            "PCIe is taken; for replicas inside a group write its scale_up_gpus and intra_gb_per_s"
        )
    if t.sockets is not None and len(t.sockets) > 1 and not islands:
        yield _advice(t, t.sockets)
    if t.nics and not told_nics:
        names = f" ({', '.join(t.nic_names[:8])})" if t.nic_names else ""
        yield (
            f"{len(t.nics)} NICs{names}: the matrix does not say how fast (`ibstat` does); nic_gb_per_s "
            "is the device's usual figure"
        )


def _advice(t: Topology, sockets: list[list[int]]) -> str:
    """Which degrees of tensor parallelism stay inside a socket."""
    inside = max(len(group) for group in sockets)
    alone = [f"GPU{gpu}" for group in sockets for gpu in group if len(group) == 1]
    near = [pair for way in ("PIX", "PXB", "PHB") for pair in t.at(way)]
    if inside == 1:
        return "tp=1: each GPU has a socket of its own, tp=2 crosses sockets over PCIe"
    where = " or ".join(f"({','.join(map(str, pair))})" for pair in near)
    best = f"tp=2 on {where}" if near else f"tp={inside} inside a socket"
    rest = f"{', '.join(alone)} only across the sockets" if alone else ""
    return f"{best}; {rest or f'tp={len(t.gpus)} crosses sockets over PCIe'}"


def _groups(groups: list[list[int]]) -> str:
    shown = [f"GPU {g[0]}" if len(g) == 1 else f"GPUs {', '.join(map(str, g))}" for g in groups]
    return " or ".join(shown)
