"""How well measurements predict measurements: rows of one configuration, each against the mean of the others.

No prediction is nearer than these are to each other. Rows that agree within 0.1 % in TPOT and TTFT are the
same run told twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.scores.errors import errors
from benchmarks.scores.held import CONFIGURATION, PROBLEM, Held, Indices, alike
from benchmarks.scores.layouts import APART, layout_pairs, ordering
from benchmarks.scores.render import share, table

COPY = np.log(1.001)
ONE_VERSION = ("backend_version",)


def repeats(held: Held, also: Sequence[str] = ()) -> Held:
    """The rows that have another measurement, and the geometric mean of the others as their prediction.

    Others agree in the problem, the configuration and the columns `also`; the bands have no width.
    """
    logs = np.log([held.measured_tpot, held.measured_ttft])
    index: list[int] = []
    means = []
    for rows in alike(held.rows, (*PROBLEM, *CONFIGURATION, *also)):
        for i in rows:
            others = _without_copies(logs, rows, i)
            if len(others):
                index.append(int(i))
                means.append(np.exp(logs[:, others].mean(axis=1)))
    tpot, ttft = np.array(means).reshape(-1, 2).T
    found = held.take(np.array(index, dtype=np.int64))
    flat = np.zeros(len(index))
    return replace(found, tpot=tpot, ttft=ttft, sigma_tpot=flat, sigma_ttft=flat)


def _without_copies(
    logs: np.ndarray[tuple[int, int], np.dtype[np.float64]], rows: Indices, i: int
) -> Indices:
    """Those of `rows` that are not row `i` told again."""
    return np.asarray(rows[np.abs(logs[:, rows] - logs[:, [i]]).max(axis=0) > COPY])


def repeat_table(held: Held) -> str:
    """Repeats of one engine version, and of any."""
    lines = []
    for name, also in (("one engine version", ONE_VERSION), ("any version", ())):
        again = repeats(held, also)
        if not again.rows:
            continue
        tpot, ttft = errors(again.tpot, again.measured_tpot), errors(again.ttft, again.measured_ttft)
        apart = np.abs(np.log(again.tpot / again.measured_tpot)) > np.log(APART)
        order = ordering(again.tpot, again.measured_tpot, layout_pairs(again))
        ends = [share(float(apart.mean())), str(order.pairs), share(order.right)]
        figures = [share(x) for x in (tpot.median, tpot.p90, ttft.median, ttft.p90)]
        lines.append([name, str(tpot.n), *figures, *ends])
    heads = ["", "n", "tpot median", "P90", "ttft median", "P90", "TPOT off by > 5%", "layout pairs", "right"]
    return table(heads, lines)
