"""Lines of `sinfo` and blocks of `scontrol show node`, whatever columns were asked for.

Columns are known by their heading or, where there is none (-h), by what stands in them. A cell may be empty,
so a line with fewer words than headings is read by where words stand, not by counting them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from planner.clusters.found import MOST_NODES, Input, limited
from planner.errors import InputError
from planner.reading.documents import read_text

_HEADS = {
    "NODELIST": "names", "NODENAME": "names", "NODE_NAME": "names", "HOSTNAMES": "names", "NODEHOST": "names",
    "STATE": "state", "STATECOMPACT": "state", "STATELONG": "state", "ST": "state",
    "GRES": "gres", "GRES_USED": "used", "GRESUSED": "used",
    "PARTITION": "partition", "PARTITIONNAME": "partition", "NODES": "nodes", "NODECOUNT": "nodes",
    "NODES(A/I/O/T)": "counts", "NODEAIOT": "counts",
}  # fmt: skip
_STATES = re.compile(
    r"(idle|mix|mixed|alloc|allocated|down|drain|drained|drng|draining|comp|completing|maint|resv|reserved|fail|"
    r"unk|unknown|boot|plnd|planned|inval|futr|future|npc|pow_dn|pow_up|other)[*~#!%$@^+-]*(\+\w+)*",
    re.IGNORECASE,
)
_GRES = re.compile(r"\(null\)|N/A|(\w+:)?gpu:\S*|\S*,gpu:\S*|[A-Za-z][\w.]*:[\w.]+(:\d+)?(\(\S*\))?(,\S+)*")


@dataclass(frozen=True)
class Line:
    """One line or block. `names`: of its nodes; else `nodes`, as many, or `counts` of allocated, idle and
    other ones. `gres` None: this form does not show it."""

    names: tuple[str, ...] = ()
    state: str | None = None
    gres: str | None = None
    used: str | None = None
    partitions: tuple[str, ...] = ()
    nodes: int | None = None
    counts: tuple[int, int, int] | None = None


def read_scontrol(each: Input) -> list[Line]:
    """Blocks of `scontrol show node`, also with `-o` (one line each) and `--json`."""
    if each.text.lstrip().startswith("{"):
        return list(_of_json(read_text(each.text, each.name).data))
    found = []
    for block in re.split(r"(?=^NodeName=)", each.text, flags=re.MULTILINE)[1:]:
        told = dict(re.findall(r"(\w+)=((?:(?!\s+\w+=).)*)", block.replace("\n", " ")))
        found.append(
            Line(
                (told["NodeName"].strip(),),
                told.get("State", "").strip(),
                told.get("Gres", "(null)").strip(),
                told.get("GresUsed") or _allocated(told.get("AllocTRES", "")),
                tuple(told.get("Partitions", "").strip().split(",")) if told.get("Partitions") else (),
            )
        )
    return found


def _of_json(data: Any) -> Iterator[Line]:
    """Nodes of `scontrol show nodes --json`."""
    nodes = data.get("nodes") if isinstance(data, dict) else None
    for node in nodes if isinstance(nodes, list) else []:
        if isinstance(node, dict) and node.get("name"):
            state, partitions = node.get("state") or [], node.get("partitions") or []
            yield Line(
                (str(node["name"]),),
                "+".join(state) if isinstance(state, list) else str(state),
                str(node.get("gres") or "(null)"),
                str(node.get("gres_used") or ""),
                tuple(map(str, partitions)) if isinstance(partitions, list) else (),
            )


def _allocated(tres: str) -> str | None:
    """AllocTRES=cpu=8,gres/gpu=2 as a GRES field."""
    match = re.search(r"gres/gpu=(\d+)", tres)
    return f"gpu:{match[1]}" if match else None


def read_sinfo(each: Input) -> list[Line]:
    """Lines of `sinfo`. Raises InputError where a list of nodes cannot be read."""
    lines = [line for line in each.text.split("\n") if line.strip()]
    start = (i for i, line in enumerate(lines) if len({*line.upper().split()} & {*_HEADS}) > 1)
    lines = lines[next(start, 0) :]  # `sinfo -l` begins with the date
    if not lines:
        return []
    mark = next((m for m in ("\x1f", "|", "\t") if sum(m in line for line in lines) > len(lines) / 2), None)
    rows = [[c.strip() for c in line.split(mark)] if mark else line.split() for line in lines]
    heads = [cell.upper() for cell in rows[0]]
    if {*heads} & {*_HEADS} and not any(_GRES.fullmatch(c.lower()) and ":" in c for c in rows[0]):
        body = rows[1:] if mark else [_by_place(lines[0], line) for line in lines[1:]]
        columns = {i: _HEADS[head] for i, head in enumerate(heads) if head in _HEADS}
    else:
        body, columns = rows, _guessed(rows)
    if not {"names", "nodes", "counts"} & {*columns.values()}:
        return []
    told = ({kind: row[i] for i, kind in columns.items() if i < len(row)} for row in body if any(row))
    return [_line(cells, each.name) for cells in told]


def _line(cells: dict[str, str], where: str) -> Line:
    counts = re.fullmatch(r"(\d+)/(\d+)/(\d+)/\d+", cells.get("counts", ""))
    nodes = cells.get("nodes", "")
    return Line(
        tuple(expanded(cells["names"], where)) if cells.get("names") else (),
        cells.get("state"),
        cells.get("gres"),
        cells.get("used"),
        (cells["partition"],) if cells.get("partition") else (),
        limited(int(nodes)) if nodes.isdigit() else None,
        (limited(int(counts[1])), limited(int(counts[2])), limited(int(counts[3]))) if counts else None,
    )


def _by_place(heading: str, line: str) -> list[str]:
    """Cells of a line under the headings that they stand under, empty where nothing does.

    >>> _by_place("PARTITION NODES  GRES", "milan        54"), _by_place("A   B", "x   y")
    (['milan', '54', ''], ['x', 'y'])
    """
    heads = [(m.start(), m.end()) for m in re.finditer(r"\S+", heading)]
    words = [(m.start(), m.end(), m[0]) for m in re.finditer(r"\S+", line)]
    if len(words) >= len(heads):
        return [w for _, _, w in words]
    cells = [""] * len(heads)
    for start, end, word in words:
        far = [max(h_start - end, start - h_end, 0) for h_start, h_end in heads]
        at = min(range(len(heads)), key=lambda i: (far[i], cells[i] != ""))
        cells[at] = f"{cells[at]} {word}".strip()
    return cells


def _guessed(rows: Sequence[Sequence[str]]) -> dict[int, str]:
    """Kinds of columns by what stands in them, where there is no heading."""
    width = min((len(row) for row in rows), default=0)
    columns: dict[int, str] = {}
    for i in range(width):
        cells = [row[i] for row in rows]
        taken = {*columns.values()}
        if all(re.fullmatch(r"\d+/\d+/\d+/\d+", c) for c in cells):
            known = next((k for k, v in columns.items() if v == "counts"), None)
            total = sum(int(c.split("/")[3]) for c in cells)
            if known is None or total < sum(int(row[known].split("/")[3]) for row in rows):
                columns = {k: v for k, v in columns.items() if v != "counts"} | {i: "counts"}
        elif "state" not in taken and all(_STATES.fullmatch(c) for c in cells):
            columns[i] = "state"
        elif (
            "gres" not in taken
            and all(_GRES.fullmatch(c) for c in cells)
            and any("gpu" in c or c == "(null)" for c in cells)
        ):
            columns[i] = "gres"
        elif all(re.fullmatch(r"[A-Za-z][\w.-]*\*?", c) for c in cells) and any(
            c.endswith("*") for c in cells
        ):
            columns[i] = "partition"
        elif (
            "names" not in taken
            and all(re.fullmatch(r"[A-Za-z][\w.,\[\]-]*", c) for c in cells)
            and i in (0, width - 1)
        ):
            columns[i] = "names"
    if "counts" in columns.values() and "partition" not in columns.values():
        columns = {k: "partition" if v == "names" else v for k, v in columns.items()}
    elif not {"state", "gres"} & {*columns.values()}:
        return {}
    return columns


def expanded(text: str, where: str = "sinfo") -> list[str]:
    """Names of a list of nodes. Raises InputError for a bracket that is left open.

    >>> expanded("a-[0-1,03],b,c[1-2]-[x]")
    ['a-0', 'a-1', 'a-03', 'b', 'c1-x', 'c2-x']
    """
    found: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        if part.count("[") != part.count("]"):
            raise InputError(
                f"the list of nodes `{text[:60]}` is cut", where, "widen the column: sinfo -o '%100N'"
            )
        found += _one(part)
        if len(found) > MOST_NODES:
            raise InputError(f"more than {MOST_NODES:,} nodes in `{text[:60]}`", where)
    return [name for name in found if name]


def _one(part: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, tail = rest.partition("]")
    tails = _one(tail)
    return [
        f"{head}{number}{end}" for piece in inside.split(",") for number in _numbers(piece) for end in tails
    ]


def _numbers(piece: str) -> list[str]:
    first, dash, last = piece.partition("-")
    if not dash or not (first.isdigit() and last.isdigit()) or int(last) - int(first) > MOST_NODES:
        return [piece]
    return [f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1)]
