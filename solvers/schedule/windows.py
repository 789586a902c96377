"""Schedules made cheaper: a window of slots after another is planned anew, all else as it is.

Small windows first, which are solved in hundredths of a second, from the first slot to the last; once a sweep
brings nothing more, wider ones. A window's plan is taken only where the whole is cheaper and keeps all rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.linear import Limits, highs
from solvers.schedule.race import Race
from solvers.schedule.rows import Cut, Stated
from solvers.schedule.types import Problem, reserve

COUNTS, FEWEST, MOST = 30, 2, 6
"""Of the first windows: counts (slots times kinds and needs), and slots."""

WIDER = 1.6

WINDOW_S = 0.3
"""At most for a window of the first width; wider ones in proportion."""

NEAR = 1e-4
"""Gap within which a window is planned."""

BETTER = 1e-9


def improve(race: Race, cuts: Sequence[Sequence[Cut]]) -> None:
    """The race's best schedule made cheaper until its end, or until all slots are one window. Raises
    KeyboardInterrupt."""
    p, limits, ends = race.problem, race.limits, race.ends
    width, seconds, turn = min(max(COUNTS // p.capacity[..., 0].size, FEWEST), MOST, p.slots), WINDOW_S, 0
    while not ends.over() and race.best is not None:
        before, step = race.value, max(width // 2, 1)
        n = race.best
        for first in range(-(turn * step // 3 % step), p.slots, step):
            window = range(max(first, 0), min(first + width, p.slots))
            if ends.over() or not window:
                break
            own = Limits(NEAR, min(seconds, ends.share(1)), limits.work, seed=limits.seed)
            trial = _anew(p, n, window, cuts, own)
            if trial is not None and p.cost(trial, reserve(p, trial)) < p.cost(n, reserve(p, n)) - BETTER:
                n = trial
                race.offer(n)
        turn += 1
        if race.value > before * (1 - 1e-6):
            if width >= p.slots:
                break
            width, seconds = min(int(width * WIDER) + 1, p.slots), seconds * WIDER


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
