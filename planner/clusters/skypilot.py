"""A cluster from `sky show-gpus` (`sky gpus list`) of a Kubernetes or SSH infrastructure.

Two tables: GPUs in all, and of each node. Names of GPUs get lost in the second one; where only the first is
there, the largest quantity that can be asked for is a node's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.clusters.found import (
    Found,
    Gpus,
    Input,
    Machine,
    grouped,
    limited,
    squeezed,
    unreadable,
)
from planner.reading.units import counted

RUN = "`sky show-gpus --infra k8s`"
Row = Mapping[str, str]


def read(inputs: tuple[Input, ...]) -> Found:
    """The nodes with GPUs. Raises InputError where an input is no such table, or one of clouds' offers."""
    text = "\n".join(each.text for each in inputs)
    totals = _in_all(_rows(text, "GPU", "QTY_PER_NODE"))
    nodes = [row for row in _rows(text, "NODE", "GPU") if _free(row)[1]]
    if not totals and not nodes:
        raise unreadable(
            inputs, "sky show-gpus of one's own cluster", f"{RUN}; clouds' offers are no cluster"
        )
    machines, assumed, left_out = _of_nodes(nodes, totals)
    counts_of = [(name, *_free(row)) for name, row in totals.items()] or [
        (n["GPU"], *_free(n)) for n in nodes
    ]
    free = {name: sum(f for n, f, _ in counts_of if n == name) for name, _, _ in counts_of}
    gpus = {name: sum(t for n, _, t in counts_of if n == name) for name in free}
    counts: dict[str, Any] = {"nodes": _quantities(machines)}
    if nodes:
        counts = {"gpu_nodes": len(nodes), "per_node": _per_node(machines)}
    facts = {"gpus": gpus, "free": free, **counts}
    warnings = [
        f"{name}: {gpus[name] - free[name]} of {counted(gpus[name], 'GPU')} are in use; a plan takes "
        "all of them"
        for name in gpus
        if free[name] < gpus[name]
    ]
    warnings += grouped(left_out.items(), "{names}: left out: {said}")
    return Found(
        tuple(machines),
        tuple(warnings),
        tuple(assumed),
        left_out,
        facts,
        None if machines else "this table has no GPU",
    )


def _in_all(rows: list[Row]) -> dict[str, Row]:
    """A row a type of GPU: of several contexts the sum, which may stand above them already."""
    found: dict[str, Row] = {}
    for name in dict.fromkeys(row["GPU"] for row in rows):
        own = [row for row in rows if row["GPU"] == name]
        counts = [_free(row) for row in own]
        if len(own) > 1 and counts[0][1] == sum(total for _, total in counts[1:]):
            own, counts = own[:1], counts[:1]
        sums = {"FREE_GPUS": str(sum(f for f, _ in counts)), "TOTAL_GPUS": str(sum(t for _, t in counts))}
        sizes = ", ".join(row["QTY_PER_NODE"] for row in own)
        found[name] = {"GPU": name, "QTY_PER_NODE": sizes, **sums}
    return found


def _rows(text: str, *columns: str) -> list[Row]:
    """Rows of the tables that have these columns, under names that all versions share."""
    found: list[Row] = []
    heads: list[str] | None = None
    for line in text.splitlines():
        cells = squeezed(line)
        if cells and cells[0] in ("GPU", "NODE", "NODE_NAME", "CONTEXT", "COMMON_GPU"):
            heads = [_head(cell) for cell in cells]
            heads = heads if {*columns} <= {*heads} and (columns[0] != "GPU" or "NODE" not in heads) else None
        elif heads and len(cells) == len(heads):
            found.append(dict(zip(heads, cells, strict=True)))
        elif not line.strip() or len(cells) == 1:
            heads = None
    return found


def _head(cell: str) -> str:
    """One name for what versions call a column.

    >>> [_head(c) for c in ("REQUESTABLE_QTY_PER_NODE", "NODE_NAME", "GPU_NAME", "TOTAL_FREE_GPUS")]
    ['QTY_PER_NODE', 'NODE', 'GPU', 'FREE_GPUS']
    """
    names = {"REQUESTABLE_QTY_PER_NODE": "QTY_PER_NODE", "NODE_NAME": "NODE", "GPU_NAME": "GPU"}
    names |= {"TOTAL_FREE_GPUS": "FREE_GPUS", "GPU UTILIZATION": "UTILIZATION"}
    return names.get(cell, cell)


def _free(row: Row) -> tuple[int, int]:
    """Free GPUs and all: two columns, or "3 of 4 free" in one."""
    if match := re.match(r"(\d+) of (\d+) free", row.get("UTILIZATION", "")):
        return int(match[1]), int(match[2])
    total, free = row.get("TOTAL_GPUS", "0"), row.get("FREE_GPUS", "0")
    return int(free) if free.isdigit() else 0, int(total) if total.isdigit() else 0


def _of_nodes(nodes: list[Row], totals: Mapping[str, Row]) -> tuple[list[Machine], list[str], dict[str, str]]:
    """Machines, what was assumed, nodes left out."""
    left_out = {
        row["NODE"]: row["NODE STATUS"].lower()
        for row in nodes
        if row.get("NODE STATUS", "Healthy") not in ("Healthy", "Ready", "-")
    }
    named = [r for r in nodes if r["NODE"] not in left_out and r["GPU"] not in ("None", "-")]
    machines = [Machine(row["NODE"], (Gpus(row["GPU"], _free(row)[1]),)) for row in named]
    known = {g.model: 0 for m in machines for g in m.gpus}
    for m in machines:
        known[m.gpus[0].model] += m.gpus[0].count
    assumed = []
    for name, row in totals.items():
        left = _free(row)[1] - known.get(name, 0)
        if left <= 0 or (nodes and all(row["GPU"] not in ("None", "-") for row in nodes)):
            continue
        most = max((int(q) for q in re.findall(r"\d+", row["QTY_PER_NODE"])), default=1)
        what = "its nodes are not named" if nodes else "the number of nodes is not in this table"
        sizes = [most] * limited(left // max(most, 1)) + ([left % most] if most and left % most else [])
        machines += [Machine("node", (Gpus(name, size),)) for size in sizes]
        dealt = ", ".join(f"{counted(sizes.count(s), 'node')} of {s}" for s in dict.fromkeys(sizes))
        assumed.append(f"{name}: {what}: {counted(left, 'GPU')} were taken as {dealt}")
    return machines, assumed, left_out


def _per_node(machines: list[Machine]) -> dict[str, Any]:
    """GPUs a node by type; a list where nodes of a type differ."""
    sizes: dict[str, set[int]] = {}
    for m in machines:
        sizes.setdefault(m.gpus[0].model or "unknown", set()).add(m.gpus[0].count)
    return {name: min(s) if len(s) == 1 else sorted(s) for name, s in sizes.items()}


def _quantities(machines: list[Machine]) -> dict[str, str]:
    """ "2 of 4": two nodes of four GPUs each."""
    found: dict[str, list[int]] = {}
    for m in machines:
        found.setdefault(m.gpus[0].model or "unknown", []).append(m.gpus[0].count)
    return {
        name: ", ".join(f"{sizes.count(s)} of {s}" for s in dict.fromkeys(sizes))
        for name, sizes in found.items()
    }
