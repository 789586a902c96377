"""What bounds the scores: what would be left of errors and losses if more were known than rows tell.

Lines by median errors take off the median error (of TTFT, and of TPOT) of all rows that agree in some
columns, as if an oracle had told those two figures a set; bands are as wide as what is left. Lines by widths
leave predictions as they are, and tell for each set, or row, how far they are off: the best that bands could
do. Repeats of a configuration (repeats.py) tell how far one measurement is from another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.scores.errors import errors
from benchmarks.scores.held import KINDS, Z80, Floats, Held, alike
from benchmarks.scores.picks import FINE, MARKS, least_loss, pick
from benchmarks.scores.render import share, table

GROUP = ("family", "system")
ENGINE = (*GROUP, "backend")
CHECKPOINT = (*ENGINE, "model_path", "precision")
VERSION = (*CHECKPOINT, "backend_version")
MEDIANS: Mapping[str, Sequence[str]] = {
    "median error of a model x device": GROUP,
    "the same of each engine": ENGINE,
    "the same of each checkpoint": CHECKPOINT,
    "the same of each engine version": VERSION,
}
"""Name → columns in which rows agree."""

LEAST = 0.01
"""Of a band's deviation."""


def centred(held: Held, columns: Sequence[str]) -> Held:
    """`held` without the median error of each set of rows that agree in `columns`."""
    log = _log(held)
    for rows in alike(held.rows, columns):
        for off in log.values():
            off[rows] -= np.median(off[rows])
    found = {kind: held.measured(kind) * np.exp(off) for kind, off in log.items()}
    width = {f"sigma_{kind}": np.full(len(off), _sigma(off)) for kind, off in log.items()}
    return replace(held, **found, **width)


def widened(held: Held, columns: Sequence[str] = ()) -> Held:
    """`held` with bands that hold 80 % of each set of rows that agree in `columns`; without any, each row's
    error is one standard deviation."""
    width = {kind: np.maximum(np.abs(off), LEAST) for kind, off in _log(held).items()}
    for rows in alike(held.rows, columns) if columns else ():
        for kind, off in _log(held).items():
            width[kind][rows] = max(_sigma(off[rows]), LEAST)
    return replace(held, **{f"sigma_{kind}": size for kind, size in width.items()})


def floor_table(held: Held) -> str:
    """Errors and the losses of picks, by what is known."""
    known = {"nothing": held} | {name: centred(held, columns) for name, columns in MEDIANS.items()}
    known |= {
        "width of a model x device's errors": widened(held, GROUP),
        "width of each row's": widened(held),
    }
    lines = []
    for name, one in known.items():
        off = [errors(one.predicted(kind), one.measured(kind)) for kind in KINDS]
        curve = [pick(one, risk) for risk in FINE]
        figures = [x for e in off for x in (e.median, e.p90)] + [least_loss(curve, x) for x, _ in MARKS]
        sets = str(len(alike(held.rows, MEDIANS[name]))) if name in MEDIANS else ""
        lines.append([name, sets, *map(share, figures)])
    heads = ["known", "sets", *(f"{kind} {what}" for kind in KINDS for what in ("median", "P90"))]
    return table([*heads, *(f"loss at {name} broken" for _, name in MARKS)], lines)


def _log(held: Held) -> dict[str, Floats]:
    return {kind: np.log(held.predicted(kind) / held.measured(kind)) for kind in KINDS}


def _sigma(log: Floats) -> float:
    """The deviation of a band that holds 80 %."""
    return float(np.quantile(np.abs(log), 0.8)) / Z80
