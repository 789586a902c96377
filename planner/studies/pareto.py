"""A curve's points that no other one beats in both aims, as far as they were found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.errors import Infeasible, OutOfTime
from planner.plans.schema import Plan
from planner.studies.curves import EQUAL, Curve, Point, Solve


@dataclass
class Asking:
    """`solve`, and why questions of it were left `undecided`, as their time was over or nothing was proven:
    another point may lie there."""

    solve: Solve
    undecided: list[OutOfTime] = field(default_factory=list)

    def __call__(self, **more: Any) -> Plan:
        """Raises what `solve` does, KeyboardInterrupt where its search was broken off."""
        try:
            plan = self.solve(**more)
        except OutOfTime as error:
            self.undecided.append(error)
            raise
        if plan.proof.status == "interrupted":
            raise KeyboardInterrupt
        return plan


@dataclass(frozen=True)
class Found:
    """Points of a curve, by x; `undecided`: limits of which it is not known whether a fleet keeps
    them; whether Ctrl-C ended the search for more."""

    points: list[Point]
    undecided: int = 0
    interrupted: bool = False


def pareto(chosen: Curve, solve: Solve, most: int, tell: Callable[[int], None]) -> Found:
    """Points of a curve that no other beats; `tell` hears how many were found. Raises InputError, Infeasible
    where there is none, OutOfTime where that is not known, KeyboardInterrupt where none was before
    Ctrl-C."""
    found, asking, interrupted = list[Point](), Asking(solve), False
    try:
        for point in chosen.points(asking, most):
            found.append(point)
            tell(len(found))
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    if not found and asking.undecided:
        raise asking.undecided[-1]
    if not found:
        raise Infeasible("no fleet keeps the other limits", hint="see what `meshwright plan` says")
    return Found(undominated(found, chosen), len(asking.undecided), interrupted)


def undominated(points: Sequence[Point], of: Curve) -> list[Point]:
    """Those that no other is as good as in both aims and better than in one, by x; of equals the first."""
    signs = (1 if of.x.more else -1, 1 if of.y.more else -1)
    kept: list[Point] = []
    for p in points:
        if not any(_beats(q, p, signs) for q in points) and not any(_same(p, q) for q in kept):
            kept.append(p)
    return sorted(kept, key=lambda p: p.x)


def _beats(q: Point, p: Point, signs: tuple[int, int]) -> bool:
    better = [s * (b - a) / max(abs(a), 1e-12) for s, a, b in zip(signs, (p.x, p.y), (q.x, q.y), strict=True)]
    return min(better) >= -EQUAL and max(better) > EQUAL


def _same(p: Point, q: Point) -> bool:
    return all(abs(a - b) <= EQUAL * max(abs(a), 1e-12) for a, b in ((p.x, q.x), (p.y, q.y)))
