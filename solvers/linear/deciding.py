"""Few integers that decide: branch and bound on them alone, by relaxations; where all of them are fixed, at a
point, HiGHS finds the other integers. A fleet's nodes are such: what it costs is what they cost.

    box      limits of the deciding integers; the one with the lowest relaxation is split first, at its most
             fractional integer, else around the whole numbers that the relaxation has
    step     where only integers have costs, the greatest common divisor of these: the relaxation of a box is
             rounded up to a multiple of it
    bound    the lowest relaxation of all boxes not yet split and all points not yet refuted
    room     of a point: the most that one column, fixed in the model, could be there by the relaxation

By turns one of the lowest points is refuted, those with little room first, and one of those that cost up to
half of the way to the best plan is tried for a better one, those with much room first. A point gets some
nodes of HiGHS, more the next time. With many integers, or a fine step, there are too many boxes, and the
search ends: HiGHS, which branches on all integers alike, does better there.

Measured: docs/decisions/0048-nodes-first.md. Source: best-first branching, Land and Doig, Econometrica 28,
1960, with priorities of integers as in any textbook; room and turns are ours.
"""

from __future__ import annotations

import heapq
import math
import time
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from solvers.linear import highs
from solvers.linear.program import (
    INF,
    Floats,
    Limits,
    Outcome,
    Program,
    Status,
    better,
    ended,
    judge,
    met,
    standing,
)

QUICK = 250
"""Nodes in which HiGHS proves most fleets by itself."""

FIRST = 0.3
"""Part of the time that these get at most."""

BOXES = 4000
"""Relaxations of boxes at most: about two seconds."""

POINTS = 400
"""Points known at a time at most."""

NODES, TIMES = 1000, 5
"""Nodes of HiGHS that a point gets the first time it is looked at, and so many times as many the next."""

WIDE = 0.02
"""Part of the bound by which the next plan may be above it."""

WHOLE = 1e-6
"""How far an integer of a relaxation may be off."""

ROUNDED = 1e-3
"""Part of a step by which a relaxation may be above a multiple of it and still be taken for that."""

PARTS = 1e6
"""A cost is read as so many parts of one where its greatest common divisor is looked for."""


@dataclass(order=True)
class Box:
    """Limits of the deciding integers; the value of its relaxation, and what they are `at` there."""

    low: float
    number: int
    lower: Floats = field(compare=False)
    upper: Floats = field(compare=False)
    at: Floats = field(compare=False)


@dataclass
class Point:
    """Integers fixed `at`; nothing there is below `low`. Nodes of HiGHS that it is given next."""

    low: float
    room: float
    at: Floats
    nodes: int = NODES


class TooManyError(Exception):
    """There are more boxes or points than this search is for."""


def searched(model: Program, limits: Limits, start: Floats | None) -> Outcome:
    """Minimise a model with integers that decide: by HiGHS in few nodes, or by these; by HiGHS in all the
    time that is left, where boxes are too many."""
    end = time.perf_counter() + limits.seconds
    first = highs.solve(model, replace(limits, seconds=FIRST * limits.seconds), start, nodes=QUICK)
    if ended(first, limits):
        return first
    found = solve(model, replace(limits, seconds=max(end - time.perf_counter(), 0.01)), first)
    if ended(found, limits) or time.perf_counter() > end:
        return found
    start = start if found.values is None else found.values
    rest = replace(limits, seconds=end - time.perf_counter())
    return better(found, highs.solve(model, rest, start), limits)


def solve(model: Program, limits: Limits, known: Outcome) -> Outcome:
    """Minimise `model` from what is `known` of it on; what is returned is never worse."""
    search = Search(model, limits, known)
    try:
        search.run()
    except TooManyError:
        pass
    except KeyboardInterrupt:
        return search.outcome("interrupted")
    return search.outcome()


class Search:
    """A search under way: the best plan, boxes not yet split, points not yet refuted."""

    def __init__(self, model: Program, limits: Limits, known: Outcome) -> None:
        assert model.first
        self.model, self.limits, self.best, self.known = model, limits, known, known
        self.stop = time.perf_counter() + limits.seconds
        self.columns = np.array(model.first, np.int32)
        self.step = step(model)
        self.relaxed = highs.Relaxation(model, model.first)
        self.roomy = highs.Relaxation(model, model.first, model.room)
        self.numbers, self.tried = count(), 0
        self.divided = -INF  # of the box that is being split, of which parts may not be among the boxes yet
        self.boxes: list[Box] = []
        self.points: list[Point] = []

    def run(self) -> None:
        """Until the best plan is proven, or time is over. Raises TooManyError, KeyboardInterrupt."""
        self._add(*(np.array(of)[self.columns] for of in (self.model.lower, self.model.upper)))
        self.divided = INF
        spent = {"plan": 0.0, "bound": 0.0}
        while not self.proven and time.perf_counter() < self.stop:
            aim = self._split()
            if self.proven or not self.points:
                continue
            what, low = min(spent, key=lambda name: spent[name]), self.lowest
            lowest = [p for p in self.points if p.low <= low + WHOLE * abs(low)]
            began = time.perf_counter()
            if what == "bound" and lowest:
                self._look(min(lowest, key=lambda p: (p.nodes, p.room)))
            else:
                likely = [p for p in self.points if p.low <= aim] or self.points
                self._look(min(likely, key=lambda p: (p.nodes, -p.room)))
            spent[what] += time.perf_counter() - began

    @property
    def lowest(self) -> float:
        """What no plan is below."""
        return min(self.divided, *(b.low for b in self.boxes[:1]), *(p.low for p in self.points), self.value)

    @property
    def value(self) -> float:
        """The best plan's."""
        return INF if self.best.value is None else self.best.value

    @property
    def proven(self) -> bool:
        """Whether the best plan is near enough to the bound, or nothing better is left."""
        return self.lowest >= self.value or met(self.value, max(self.lowest, self._floor), self.limits)

    @property
    def _floor(self) -> float:
        """The bound that was known, while no plan refutes it."""
        bound = standing([self.known.bound], self.best.value)
        return -INF if bound is None else bound

    def _split(self) -> float:
        """Split boxes until all that may hold the next plan are points; how much that may cost."""
        while True:
            most = self._aim()
            if not self.boxes or self.boxes[0].low > most or time.perf_counter() > self.stop:
                return most
            box = heapq.heappop(self.boxes)
            self.divided = box.low
            off = np.abs(box.at - np.round(box.at))
            worst = int(off.argmax())
            if off[worst] > WHOLE:
                self._halves(box, worst)
            elif (box.lower == box.upper).all():
                self._point(box)
            else:
                self._around(box)
            self.divided = INF

    def _aim(self) -> float:
        """What the next plan may cost: as little as proves it, or, while boxes are few, half of the way from
        the bound to the best plan."""
        low = max(self.lowest, self._floor)
        proven = low / (1 - max(self.limits.gap, self.limits.enough or 0.0))
        half = min((low + self.value) / 2, (1 + WIDE) * low)
        return min(max(proven, half) if self.tried < BOXES // 2 else proven, self.value)

    def _halves(self, box: Box, i: int) -> None:
        below, above = box.upper.copy(), box.lower.copy()
        below[i], above[i] = math.floor(box.at[i]), math.ceil(box.at[i])
        self._add(box.lower, below)
        self._add(above, box.upper)

    def _around(self, box: Box) -> None:
        """The box in three at the integer with the widest range: below its value, at it, and above."""
        i = int((box.upper - box.lower).argmax())
        at = np.round(box.at)
        low, high = box.lower.copy(), box.upper.copy()
        low[i] = high[i] = at[i]
        heapq.heappush(self.boxes, Box(box.low, next(self.numbers), low, high, at))
        if at[i] > box.lower[i]:
            below = box.upper.copy()
            below[i] = at[i] - 1
            self._add(box.lower, below)
        if at[i] < box.upper[i]:
            above = box.lower.copy()
            above[i] = at[i] + 1
            self._add(above, box.upper)

    def _add(self, lower: Floats, upper: Floats) -> None:
        """A box, where a plan better than the best can be in it. Raises TooManyError."""
        self.tried += 1
        if self.tried > BOXES:
            raise TooManyError
        found = self._within(self.relaxed, lower, upper)
        if found is None:
            return
        low, at = found
        low = math.ceil(low / self.step - ROUNDED) * self.step if self.step else low
        if low < self.value:
            heapq.heappush(self.boxes, Box(low, next(self.numbers), lower, upper, at))

    def _point(self, box: Box) -> None:
        """Raises TooManyError."""
        found = self._within(self.roomy, box.lower, box.upper)
        self.points.append(Point(box.low, INF if found is None else -found[0], box.lower))
        if len(self.points) > POINTS:
            raise TooManyError

    def _within(self, relaxed: highs.Relaxation, lower: Floats, upper: Floats) -> tuple[float, Floats] | None:
        """As `Relaxation.within`; one without an answer ends the search. Raises TooManyError."""
        try:
            return relaxed.within(lower, upper)
        except ArithmeticError as error:
            raise TooManyError from error

    def _look(self, point: Point) -> None:
        """HiGHS on the other integers: a plan, a refutation, or neither in the nodes that the point has."""
        fixed = copy(self.model)
        fixed.lower, fixed.upper = list(self.model.lower), list(self.model.upper)
        for i, x in zip(self.model.first, point.at, strict=True):
            fixed.lower[i] = fixed.upper[i] = float(x)
        spare = replace(self.limits, gap=0.0, enough=None, seconds=max(self.stop - time.perf_counter(), 0.01))
        found = highs.solve(fixed, spare, None, nodes=point.nodes)
        if found.status == "interrupted":
            raise KeyboardInterrupt
        if found.status in ("optimal", "infeasible"):
            self.points.remove(point)
        point.nodes *= TIMES
        if found.value is not None and found.value < self.value:
            self.best = found
            self.points = [p for p in self.points if p.low < found.value]
            self.boxes = [b for b in self.boxes if b.low < found.value]
            heapq.heapify(self.boxes)

    def outcome(self, stopped: Status = "time_limit") -> Outcome:
        """The best plan under the better of the two bounds."""
        bound = min(max(self.lowest, self._floor), self.value)
        if bound == INF:
            return Outcome("infeasible", None, None, None, self.known.solver)
        status, stated = judge(self.best.value, bound, self.limits, stopped), None if bound == -INF else bound
        return replace(self.best, status=status, bound=stated, solver=self.known.solver)


def step(model: Program) -> float:
    """The greatest common divisor of all costs where only integers have any; 0 where there is none.

    >>> m = Program("nodes")
    >>> y = m.integers("y", "ab")
    >>> m.minimise([y["a"] * 10.32, y["b"] * 8.0])
    >>> step(m)
    0.08
    """
    costs = [c for i, c in model.goal if c]
    if not all(model.integer[i] for i, c in model.goal if c):
        return 0.0
    parts = [round(c * PARTS) for c in costs]
    if any(abs(part - c * PARTS) > WHOLE * abs(part) for part, c in zip(parts, costs, strict=True)):
        return 0.0
    return math.gcd(*parts) / PARTS if parts else 0.0
