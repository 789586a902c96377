"""A cluster from Slurm: `sinfo` in its formats, and `scontrol show node`.

A node may stand in several partitions and is counted once. `gpu:h100:8(S:0-1)` is eight GPUs, the sockets in
brackets are dropped; `(null)` is no GPU that Slurm knows of, whatever stands in the machine. Nodes that
are down, drained or reserved for maintenance are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from planner.clusters.found import Found, Gpus, Input, Machine, grouped, unreadable
from planner.clusters.slurm_text import Line, read_scontrol, read_sinfo
from planner.reading.units import counted

RUN = "`sinfo -N -o '%N %t %G'` or `scontrol show node`"
_GONE = (
    "down", "drain", "drained", "draining", "drng", "fail", "failing", "failg", "maint", "unk", "unknown",
    "inval",
    "boot", "reboot", "future", "futr", "no_respond",
    "not_responding", "perfctrs", "npc", "blocked", "other",
)  # fmt: skip
"""States of `sinfo` and `scontrol` in which nothing new starts, short and long."""
_TAKEN = ("alloc", "allocated", "mix", "mixed", "comp", "completing", "resv", "reserved")
_GPU = re.compile(
    r"(?:gres[:/])?(?:gpu|shard|mps)(?::([A-Za-z][\w.+-]*|\d+[gc]\.[\w.+-]+))?(?::|=)(\d+)(?:\([^)]*\))?$"
)
_TYPED = re.compile(r"([A-Za-z][\w.+-]*):(\d+)(?:\([^)]*\))?$")
_SLICE = re.compile(r"\d+[gc]\.\d+gb|.*_\d+g\.\d+gb")


@dataclass(frozen=True)
class _Gres:
    """GPUs of a node: whole ones and slices, by type ("" where Slurm names none)."""

    whole: tuple[tuple[str, int], ...] = ()
    slices: tuple[tuple[str, int], ...] = ()
    shared: bool = False


@dataclass(frozen=True)
class _Node:
    """One node, or one of several that a line counts without naming them."""

    name: str | None
    states: tuple[str, ...]
    gres: _Gres
    partitions: tuple[str, ...]
    used: int = 0


def read(inputs: tuple[Input, ...]) -> Found:
    """The nodes with GPUs. Raises InputError where an input is nothing of Slurm."""
    lines = [line for each in inputs for line in (read_scontrol(each) or read_sinfo(each))]
    if not lines:
        raise unreadable(inputs, "sinfo or scontrol", RUN)
    nodes = _once([node for line in lines for node in _nodes(line)])
    machines, left_out = [], {}
    taken: list[tuple[str, str]] = []
    for at, node in enumerate(nodes):
        name = node.name or f"{'/'.join(node.partitions)}-{at}"
        why = _why_not(node)
        if why is None and _count(node):
            gpus = tuple(Gpus(kind or None, count) for kind, count in node.gres.whole)
            machines.append(Machine(node.name or "node", gpus))
            taken += [(name, said) for said in (_taken(node),) if said]
        elif why is not None and (_count(node) or node.gres.slices):
            left_out[name] = why
    warnings = grouped(taken)
    silent = [n for n in nodes if not _count(n) and not n.gres.slices]
    told = any(line.gres is not None for line in lines)
    if silent and any(line.gres in ("(null)", "N/A") for line in lines) and not machines:
        warnings.append(
            f"no GPU is configured in Slurm for {counted(len(silent), 'node')} (Gres=(null)); what "
            "stands in the "
            "machines is not known: apply gres.conf, or run nvidia-smi there"
        )
    warnings += grouped(left_out.items(), "{names}: left out: {said}")
    lacking = None if machines else _lacking(told)
    facts = _facts(lines, nodes, told)
    return Found(tuple(machines), tuple(warnings), (), left_out, facts, lacking, _bare(nodes))


def _bare(nodes: Sequence[_Node]) -> tuple[str, ...]:
    """Nodes that may be used and show no GPU; only those of partitions called after GPUs where there are
    any."""
    silent = [n for n in nodes if _why_not(n) is None and not _count(n)]
    called = [n for n in silent if any("gpu" in p.lower() for p in n.partitions)]
    return tuple(n.name or "node" for n in called or silent)


def _lacking(told: bool) -> str:
    if told:
        return "no GPU is configured in Slurm: see gres.conf, or read `nvidia-smi -q` of each node"
    return f"this form of sinfo does not show GPUs; run {RUN}, or name them with --device and --gpus-per-node"


def gres_of(text: str | None) -> _Gres:
    """GPUs of a GRES field.

    >>> gres_of("gpu:h100:8(S:0-1)").whole, gres_of("gpu:1g.10gb:7,gpu:h100:3").slices
    ((('h100', 8),), (('1g.10gb', 7),))
    >>> gres_of("(null)").whole
    ()
    """
    whole: dict[str, int] = {}
    slices: dict[str, int] = {}
    shared = False
    for part in re.split(r",(?![^(]*\))", text or ""):
        match = _GPU.match(part.strip()) or (
            _TYPED.match(part.strip()) if "gpu" not in (text or "") else None
        )
        if match is None or part.strip().startswith(("nvme", "tmp", "license", "craynetwork", "bb:")):
            continue
        shared |= part.strip().startswith(("shard", "mps"))
        if part.strip().startswith(("shard", "mps")):
            continue
        kind = match[1] or ""
        into = slices if _SLICE.fullmatch(kind) else whole
        into[kind] = into.get(kind, 0) + int(match[2])
    return _Gres(tuple(whole.items()), tuple(slices.items()), shared)


def _nodes(line: Line) -> Iterator[_Node]:
    """Nodes of a line: by name, or as many as it counts; "1/0/1/2" are allocated, idle, other, all."""
    gres, partitions = gres_of(line.gres), tuple(p.rstrip("*") for p in line.partitions)
    used = sum(count for _, count in gres_of(line.used).whole)
    if line.names:
        for name in line.names:
            yield _Node(name, _states(line.state), gres, partitions, used)
        return
    if line.counts is not None:
        for state, count in zip(("alloc", "idle", "other"), line.counts, strict=True):
            for _ in range(count):
                yield _Node(None, (state,), gres, partitions, used)
        return
    for _ in range(line.nodes or 0):
        yield _Node(None, _states(line.state), gres, partitions, used)


def _states(text: str | None) -> tuple[str, ...]:
    """States without the marks that sinfo and scontrol put to them.

    >>> _states("IDLE+DRAIN"), _states("drain*"), _states("mix~")
    (('idle', 'drain'), ('drain', 'no_respond'), ('mix',))
    """
    told = (text or "").strip().lower()
    marks = re.search(r"[*~#!%$@^+-]*$", told)
    found = tuple(s for s in re.split(r"\+", told.rstrip("*~#!%$@^-")) if s)
    return (*found, "no_respond") if marks and "*" in marks[0] else found


def _once(nodes: Sequence[_Node]) -> list[_Node]:
    """Named nodes once, with all partitions they stand in."""
    found: dict[object, _Node] = {}
    for at, node in enumerate(nodes):
        key = node.name if node.name is not None else at
        known = found.get(key)
        if known is None:
            found[key] = node
        else:
            gres = known.gres if known.gres.whole or known.gres.slices else node.gres
            partitions = tuple(dict.fromkeys((*known.partitions, *node.partitions)))
            states = tuple(dict.fromkeys((*known.states, *node.states)))
            found[key] = _Node(known.name, states, gres, partitions, max(known.used, node.used))
    return list(found.values())


def _why_not(node: _Node) -> str | None:
    gone = [s for s in node.states if s in _GONE]
    if gone:
        words = {"other": "down or drained", "no_respond": "it does not respond"}
        return ", ".join(words.get(s, s) for s in gone)
    if node.gres.slices:
        slices = ", ".join(f"{n} slices {kind}" for kind, n in node.gres.slices)
        whole = ", ".join(f"{n} whole {_spelled(kind).upper()}" for kind, n in node.gres.whole)
        return f"split by MIG: {f'{whole} and ' if whole else ''}{slices}"
    return None


def _count(node: _Node) -> int:
    return sum(count for _, count in node.gres.whole)


def _spelled(kind: str) -> str:
    """A type as Slurm writes it, without the vendor: "nvidia_l40s" → "l40s"."""
    return re.sub(r"^(nvidia|amd|tesla)[_-]", "", kind.lower())


def _taken(node: _Node) -> str | None:
    """What of a node is in use."""
    if node.used:
        return f"{node.used} of {counted(_count(node), 'GPU')} are in use now; a plan takes all of them"
    busy = [s for s in node.states if s in _TAKEN]
    if not busy:
        return None
    part = "part of it is taken" if busy[0].startswith("mix") else "it is taken"
    return f"in use ({busy[0]}): {part} now; a plan takes the whole node"


def _facts(lines: Sequence[Line], nodes: Sequence[_Node], told: bool) -> dict[str, Any]:
    usable: dict[str, list[int]] = {}
    totals: dict[str, int] = {}
    for node in nodes:
        for kind, count in node.gres.whole:
            totals[_spelled(kind)] = totals.get(_spelled(kind), 0) + count
            if _why_not(node) is None:
                usable.setdefault(_spelled(kind), []).append(count)
    partitions = list(dict.fromkeys(p.rstrip("*") for line in lines for p in line.partitions))
    on_gpus = [p for p in partitions if re.search(r"gpu", p, re.IGNORECASE)]
    kinds = list(dict.fromkeys(kind for node in nodes for kind, _ in node.gres.whole))
    gpus: Any = "unknown: plain sinfo shows none; ask for sinfo -N -o '%N %t %G' or scontrol show node"
    if told:
        gpus = sum(totals.values()) if len(totals) < 2 else totals
    holders = [node for node in nodes if _count(node)]
    facts: dict[str, Any] = {
        "partitions": partitions,
        "nodes": len(nodes),
        "distinct_nodes": len(nodes),
        "node_names": [node.name for node in nodes if node.name],
        "gpus": gpus,
        "gpus_seen": sum(totals.values()),
        "gpu_type": kinds[0] if len(kinds) == 1 else kinds or None,
        "gpu_nodes": len(holders) if told else "unknown",
        "usable_gpu_nodes": sum(_why_not(node) is None for node in holders) if told else "unknown",
        "usable": usable,
        "partly": {
            node.name: f"{s}: part of it is taken"
            for node in holders
            for s in node.states
            if node.name and s in ("mix", "mixed")
        },
        "drained": [
            n.name for n in nodes if n.name and any(s.startswith(("drain", "drng")) for s in n.states)
        ],
        "down": [n.name for n in nodes if n.name and any(s.startswith("down") for s in n.states)],
    }
    slices = [
        f"{n.name}: {(_why_not(n) or '').removeprefix('split by MIG: ')}" for n in nodes if n.gres.slices
    ]
    if slices:
        facts["mig"] = slices[0] if len(slices) == 1 else slices
    if on_gpus and not told:
        inside = [n for n in nodes if {*n.partitions} & {*on_gpus}]
        facts |= {
            "gpu_partition": on_gpus[0] if len(on_gpus) == 1 else on_gpus,
            "gpu_nodes_total": len(inside),
            "gpu_nodes_idle": sum("idle" in n.states for n in inside),
        }
    return facts
