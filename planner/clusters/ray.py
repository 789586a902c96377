"""A cluster from `ray status`: how many nodes and GPUs there are in all.

It does not say which node has which GPU: `accelerator_type` counts nodes, not GPUs, and only where Ray
knows the type. GPUs a node are those of all, divided evenly, which is said in the file. `ray list nodes
--detail` tells each node's.
"""

from __future__ import annotations

import re
from typing import Any

from planner.clusters.found import Found, Gpus, Input, Machine, grouped, limited, unreadable
from planner.reading.documents import read_text
from planner.reading.units import counted

RUN = "`ray status`, or `ray list nodes --detail`"
_USAGE = re.compile(r"^\s*(\d+(?:\.\d*)?)\s*/\s*(\d+(?:\.\d*)?)\s+(\S+)\s*$", re.MULTILINE)
_TYPE = re.compile(r"accelerator_?type:(.+)", re.IGNORECASE)
_SECTION = re.compile(r"^(?:Active|Healthy|Idle):\s*\n((?:[ \t]+.*\n?)*)", re.MULTILINE)


def read(inputs: tuple[Input, ...]) -> Found:
    """The nodes with GPUs. Raises InputError where an input is nothing of `ray status`."""
    if listed_nodes := [node for each in inputs for node in _listed(each)]:
        return _of_nodes(listed_nodes)
    text = re.split(r"^Node: ", "\n".join(each.text for each in inputs), flags=re.MULTILINE)[0]
    sections = _SECTION.findall(text)
    if not sections:
        raise unreadable(inputs, "ray status", RUN)
    listed = [m for s in sections for m in re.findall(r"^[ \t]+(\d+) (\S.*?)\s*$", s, re.MULTILINE)]
    nodes = sum(int(count) for count, _ in listed)
    usage = {name: (float(used), float(total)) for used, total, name in _USAGE.findall(text)}
    used, total = (int(x) for x in usage.get("GPU", (0, 0)))
    types = {m[1]: limited(int(t)) for name, (_, t) in usage.items() if (m := _TYPE.fullmatch(name))}
    machines, assumed = _machines(nodes, total, types)
    warnings = [*assumed]
    if used:
        free = "none is free" if used >= total else f"{total - used} are free"
        warnings.append(f"{used} of {counted(total, 'GPU')} are taken: {free}; a plan takes all of them")
    if total and len(machines) == total and total > 1:
        assumed.append("one GPU a node: tensor parallelism between them crosses the network")
    pending = re.search(r"^Pending:\s*\n[ \t]+(?!\(no)(\S.*)", text, re.MULTILINE)
    if pending:
        warnings.append("nodes that are pending are not counted")
    facts: dict[str, Any] = {
        "nodes": nodes,
        "gpu_nodes": len(machines),
        "gpus": total,
        "gpus_used": used,
        "device": next(iter(types)) if len(types) == 1 else [*types] or "unknown (no accelerator_type line)",
        "gpus_per_node": sorted({g.count for m in machines for g in m.gpus}),
    }
    lacking = None if machines else "Ray counts no GPU here: start it where the GPUs are, or with --num-gpus"
    return Found(tuple(machines), tuple(warnings), tuple(assumed), {}, facts, lacking)


def _listed(each: Input) -> list[dict[str, Any]]:
    """Nodes of `ray list nodes --detail` (YAML) or `--format json`; [] where the text is none of these."""
    if not re.search(r"node_id[\"']?:", each.text):
        return []
    data = read_text(each.text.replace("\n---", "\n").removeprefix("---"), each.name).data
    rows = data if isinstance(data, list) else [data]
    return [r for r in rows if isinstance(r, dict) and isinstance(r.get("resources_total"), dict)]


def _whole(value: object) -> int:
    """A quantity of Ray's, 0 where it is none.

    >>> _whole(8.0), _whole("8.0"), _whole(None), _whole("many")
    (8, 8, 0, 0)
    """
    match = re.match(r"\d{1,15}", str(value))
    return int(match[0]) if match else 0


def _of_nodes(rows: list[dict[str, Any]]) -> Found:
    """What `ray list nodes` tells node by node."""
    machines, left_out = [], {}
    for row in rows:
        resources = row["resources_total"]
        gpus = _whole(resources.get("GPU"))
        kind = next((m[1] for name in resources if (m := _TYPE.fullmatch(str(name)))), None)
        name = str(row.get("node_name") or row.get("node_ip") or row.get("node_id"))
        if gpus and row.get("state", "ALIVE") != "ALIVE":
            left_out[name] = str(row["state"]).lower()
        elif gpus:
            machines.append(Machine(name, (Gpus(kind, gpus),)))
    kinds = list(dict.fromkeys(g.model for m in machines for g in m.gpus))
    facts = {
        "nodes": len(rows),
        "gpu_nodes": len(machines),
        "gpus": sum(g.count for m in machines for g in m.gpus),
        "device": kinds[0] if len(kinds) == 1 else kinds,
        "gpus_per_node": sorted({g.count for m in machines for g in m.gpus}),
    }
    warnings = grouped(left_out.items(), "{names}: left out: {said}")
    return Found(
        tuple(machines), tuple(warnings), (), left_out, facts, None if machines else "Ray counts no GPU here"
    )


def _machines(nodes: int, gpus: int, types: dict[str, int]) -> tuple[list[Machine], list[str]]:
    """Nodes with GPUs and what was assumed of them: those of a type where types are counted, else all."""
    holders = limited(sum(types.values()) or min(nodes, gpus))
    if not gpus or not holders:
        return [], []
    each, rest = divmod(gpus, holders)
    assumed = []
    if len(types) > 1 and (rest or each > 1):
        assumed.append(
            "how many GPUs each node has is not told, and there are several types: each node was taken "
            "to have the "
            "same number; `ray list nodes --detail` tells"
        )
    elif rest:
        assumed.append(
            f"{gpus} GPUs on {holders} nodes do not divide evenly: `ray list nodes --detail` tells"
        )
    else:
        assumed.append(
            f"how many GPUs each node has is not told: {gpus} on {counted(holders, 'node')} were taken "
            f"as {each} each; "
            "`ray list nodes --detail` tells"
        )
    kinds: list[str | None] = [t for t, count in types.items() for _ in range(count)] or [None] * holders
    machines = [
        Machine("node", (Gpus(kind, each + (i < rest)),)) for i, kind in enumerate(kinds) if each + (i < rest)
    ]
    return machines, assumed
