"""Whether the 80 % band holds 80 %, and how wide it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.scores.held import KINDS, Z80, Held
from benchmarks.scores.render import share, table
from benchmarks.scores.slices import slices

JUDGED = ("engine", "generation", "ffn")
ROWS, GROUPS = 100, 5
"""A slice of fewer rows or (family, device) groups says nothing about a share."""


@dataclass(frozen=True)
class Coverage:
    """Share of rows inside the central 80 %; means of high / low - 1 and of log(high / low)."""

    n: int
    groups: int
    inside: float
    width: float
    log_width: float


def coverage(held: Held, kind: str) -> Coverage:
    """Of "tpot" or "ttft" over all rows of `held`."""
    low, high, measured = held.edge(kind, -Z80), held.edge(kind, Z80), held.measured(kind)
    return Coverage(
        len(measured),
        len({(row["family"], row["system"]) for row in held.rows}),
        float(((low <= measured) & (measured <= high)).mean()),
        float((high / low - 1).mean()),
        float(np.log(high / low).mean()),
    )


def band_table(held: Held) -> str:
    """Overall, and in every slice by engine, generation and kind of FFN that is large enough to judge."""
    heads = [
        "",
        "n",
        "groups",
        *(f"{kind} {what}" for kind in KINDS for what in ("inside", "width", "log width")),
    ]
    parts = [
        ("all", held),
        *((f"{name} {value}", held.take(m)) for name, value, m in slices(held.rows, JUDGED)),
    ]
    lines = []
    for name, part in parts:
        found = [coverage(part, kind) for kind in KINDS]
        if name == "all" or (found[0].n >= ROWS and found[0].groups >= GROUPS):
            figures = [
                cell for c in found for cell in (share(c.inside), share(c.width), f"{c.log_width:.2f}")
            ]
            lines.append([name, str(found[0].n), str(found[0].groups), *figures])
    return table(heads, lines)
