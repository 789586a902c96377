"""Schedules made cheaper: a window of slots after another is planned anew, all else as it is.

Small windows first, which are solved in hundredths of a second, from the first slot to the last; once a sweep
brings nothing more, wider ones. A window's plan is taken only where the whole is cheaper and keeps all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from solvers import highs
from solvers.linear import Limits
from solvers.schedule_blocks import Ends
from solvers.schedule_rows import Cut, Stated
from solvers.schedule_types import Problem, reserve

FIRST_SLOTS = 6
"""Of the first windows."""

WIDER = 1.6

WINDOW_S = 0.3
"""At most for a window of the first width; wider ones in proportion."""

NEAR = 1e-4
"""Gap within which a window is planned."""

BETTER = 1e-9

Tell = Callable[[np.ndarray], bool]
"""Is told of every better plan; whether that is good enough."""


def improve(
    p: Problem, n: np.ndarray, cuts: Sequence[Sequence[Cut]], limits: Limits, ends: Ends, tell: Tell
) -> np.ndarray:
    """Counts (k, t) made cheaper until the end, until `tell` is content, or all slots are one window."""
    width = min(FIRST_SLOTS, p.slots)
    seconds = WINDOW_S
    best, turn = p.cost(n, reserve(p, n)), 0
    while not ends.over():
        before = best
        step = max(width // 2, 1)
        for first in range(-(turn * step // 3 % step), p.slots, step):
            window = range(max(first, 0), min(first + width, p.slots))
            if ends.over() or not window:
                break
            own = Limits(NEAR, min(seconds, ends.share(1)), limits.work, seed=limits.seed)
            trial = _anew(p, n, window, cuts, own)
            if trial is None:
                continue
            value = p.cost(trial, reserve(p, trial))
            if value < best - BETTER:
                n, best = trial, value
                if tell(n):
                    return n
        turn += 1
        if best > before * (1 - 1e-6):
            if width >= p.slots:
                break
            width, seconds = min(int(width * WIDER) + 1, p.slots), seconds * WIDER
    return n


def _anew(
    p: Problem, n: np.ndarray, window: range, cuts: Sequence[Sequence[Cut]], limits: Limits
) -> np.ndarray | None:
    """Counts with a window planned anew; None where none was found that keeps all rows. Raises
    KeyboardInterrupt."""
    part = Stated(p, window, n, reserve(p, n))
    part.after(n)
    part.take(cuts)
    found = highs.solve(part.m, limits, None)
    if found.status == "interrupted":
        raise KeyboardInterrupt
    if found.values is None:
        return None
    trial = n.copy()
    trial[:, window.start : window.stop] = part.counts(found.values)
    return trial if p.keeps(trial) else None
