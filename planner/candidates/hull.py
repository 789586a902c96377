"""The lower convex hull of a curve of which samples are known, and that need not be convex between them.

What a curve y(x) does between two samples is unknown: it may jump, bend either way, fall to a kink and rise
again. Taken for sure is that it does nothing there that it does not do nearby, too, and each sample is
lowered until a line below two neighbours is below all that this allows between them. Where curves are smooth
that is little, of the second order in the samples' distance.
"""

from __future__ import annotations

import numpy as np

from planner.designs.shape import Floats

SURE = 2e-5
"""Share by which lines are lowered besides: the batch of a rate is only found to `NEAR`
(`planner/operating/steps.py`)."""

SAME = 1e-9
"""Share of a column's rate within which two samples are one: a slope between them would be of noise, and
beyond what a program can hold."""


def sure_of(x: Floats, y: Floats, per: Floats) -> Floats:
    """What is sure of a cost `y` at samples (m, k): between two it does not rise faster before the second,
    nor fall faster after the first, than nearby; nor is it lower, as `per`, than `_lowest` says."""
    step, chord = _chords(x, y)
    ends = [np.pad(chord, ((0, 0), (2, 2)), mode="edge")[:, i : i + step.shape[1]] for i in range(5)]
    low, level = y.copy(), _lowest(x, y / np.maximum(per, 1e-30))
    low[:, 1:] = np.minimum(low[:, 1:], y[:, :-1] + np.min(ends, axis=0) * step)
    low[:, :-1] = np.minimum(low[:, :-1], y[:, 1:] - np.max(ends, axis=0) * step)
    around = np.pad(level, ((0, 0), (1, 1)), mode="edge")
    return np.asarray((1 - SURE) * np.maximum(low, per * np.minimum(around[:, :-1], around[:, 1:])))


def _lowest(x: Floats, level: Floats) -> Floats:
    """The lowest that a level can be, (m, k - 1), between samples (m, k): as at one of them; where it falls
    before and rises after, as both chords go on; where it leaps between two that rise or that fall, as the
    one goes on that comes lower."""
    step, chord = _chords(x, level)
    around = np.pad(chord, ((0, 0), (1, 1)))
    before, after, low = around[:, :-2], around[:, 2:], np.minimum(level[:, :-1], level[:, 1:])
    falls, rises = level[:, :-1] + before * step, level[:, 1:] - after * step
    kink, fall, leap = (before < 0) & (after > 0), (before >= 0) & (chord < 0), (after <= 0) & (chord > 0)
    going_on = np.select([kink, fall, leap], [np.maximum(falls, rises), rises, falls], low)
    return np.asarray(np.minimum(low, going_on))


def _chords(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Steps in x and slopes dy/dx, (m, k - 1), between samples (m, k); both 0 where x is the SAME."""
    step = np.diff(x, axis=1)
    step = np.where(step > SAME * x[:, -1:], step, 0.0)
    return step, np.where(step > 0, np.diff(y, axis=1) / np.where(step > 0, step, 1.0), 0.0)


def edges(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Intercept and slope, (m, k) each, of the edge to the right of each of the points (m, k), of the lower
    convex hull of those and of all to the left of them as high: no slope is below 0."""
    y = np.minimum.accumulate(y[:, ::-1], axis=1)[:, ::-1]
    k, apart = np.arange(x.shape[1]), SAME * x[:, -1:]
    a, slope = y[:, :1] + np.zeros_like(y), np.zeros_like(y)
    rows, at = np.arange(len(x)), np.zeros(len(x), dtype=np.int64)  # of those that go on: where they are
    while len(rows):
        here = x[rows, at, None], y[rows, at, None]
        step = x[rows] - here[0]
        wide = step > apart[rows]
        chord = np.where(wide, (y[rows] - here[1]) / np.where(wide, step, 1.0), np.inf)
        least = chord.min(axis=1, keepdims=True)
        on, beyond = np.isfinite(least), k >= at[:, None]
        slope[rows] = np.where(on & beyond, least, slope[rows])
        a[rows] = np.where(on & beyond, here[1] - np.where(on, least, 0.0) * here[0], a[rows])
        rows, at = rows[on[:, 0]], chord.argmin(axis=1)[on[:, 0]]
    return a, slope
