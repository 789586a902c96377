"""What simplicity costs: the best fleet with at most one, two, three kinds of replica, and the simplest
that is near enough to the best.

A kind is a design on a class, with an engine, in a role. Predictions are 7 to 20 % off, so a fraction of a
per cent for a third kind is noise, and people have to run the thing; a kind beyond the second pays more than
its own band, too (`own_bands.py`). The proof still speaks of the best fleet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.candidates.candidate import Candidate
from planner.plans.found import Found
from planner.replicas.pool import Pool
from planner.search.changes import judged
from planner.search.find import find, holding, restricted
from planner.search.limits import left
from planner.search.own_bands import FEW, own_band
from planner.search.question import Question
from planner.search.shortlists import foremost, nearby
from solvers.linear import Limits

MOST = 8
"""Kinds up to which fleets are looked for among all; of more, among the kinds of the best fleet."""

PRICED = 3
"""Kinds up to which the best fleet is listed where it is not near enough."""

SAME = 1e-5
"""Loss below which two fleets are as good: the one of fewer kinds is the best then."""

EACH = 0.25
"""Share of the time left that each number of kinds gets at most."""


@dataclass(frozen=True)
class Simple:
    """The fleet `chosen`, and the best one of each number of kinds that was looked at, the `best` last; of
    as many kinds as that `chosen` may be one without copies of experts. `unsplit`: the objective of the best
    fleet without a split of prefill and decode, where `chosen` has none and `best` has; then `by_kinds` ends
    with that. `unpaid`: the own band of the kinds that `chosen` does without, where they bring no more than
    that, and more than was asked for."""

    chosen: Found
    best: Found
    by_kinds: tuple[tuple[int, float], ...]
    unsplit: float | None = None
    unpaid: float | None = None

    @property
    def among_all(self) -> Found:
        """The fleet chosen, in the pool of the best one: the few candidates that it was looked for among, of
        one role where it is of one kind, are not all that other fleets may have."""
        least = self.best.solution.least
        return replace(_among(self.best, self.chosen), solution=replace(self.chosen.solution, least=least))


def kinds(found: Found) -> int:
    """Kinds of replica in a fleet that serve anything."""
    known = found.candidates
    return len({known[c].kind for c, _ in found.solution.flows})


def simplest(question: Question, best: Found, share: float, limits: Limits) -> Simple:
    """The fleet of the fewest kinds whose objective is within `share` of the best one's: of each number of
    kinds only fleets as good as that are looked for, which is quick where there are none. In the time that is
    left the best of up to `PRICED` kinds fewer, for the list. Of more kinds than there is time for, it is
    looked for among those of the best."""
    value, stopped = best.solution.objective, best.solution.status == "interrupted"
    assert value is not None
    near = replace(question, worst=value * (1 + question.sign * share))
    fewer = _Fewer(best, limits, time.monotonic() + limits.seconds)
    many = kinds(best) if share > 0 and not stopped else 0
    chosen = fewer.near_enough(near, many) or best
    paid, unpaid = fewer.paying(question, chosen, share) if many else (chosen, None)
    chosen = without_copies(question, best, chosen, share, fewer.left) if unpaid is None else paid
    chosen = chosen if stopped else without_limits(question, best, chosen, fewer.left)
    if chosen is not best and question.objective.loss(value, chosen.solution.objective or value) <= SAME:
        best = by_chance(best, chosen, limits)
        value = best.solution.objective or value
    listed = [(kinds(chosen), chosen.solution.objective or value)]
    few = min(kinds(chosen) - 1, PRICED) if many else 0
    listed = [*fewer.priced(question, few, max(limits.gap, share)), *listed]
    worse = [x for x in listed if question.objective.loss(value, x[1]) > SAME and x[0] <= kinds(best)]
    return Simple(chosen, best, (*worse, (kinds(best), value)), unpaid=unpaid)


def by_chance(best: Found, chosen: Found, limits: Limits) -> Found:
    """`chosen`, which is as good as `best` or better, under the bound and in the pool of that one: all that
    the bound speaks of, not the few candidates that were looked at last."""
    proven = judged(replace(chosen.solution, bound=best.solution.bound), limits)
    return replace(_among(best, chosen), bounding=best.space, solution=proven, apart=best.apart)


def _among(best: Found, chosen: Found) -> Found:
    """`chosen` in the pool of `best`."""
    pool = replace(holding(best.pool, chosen), made={**best.pool.made, **chosen.pool.made})
    return replace(chosen, pool=pool)


@dataclass(frozen=True)
class _Fewer:
    """Fleets of fewer kinds than the `best` one, each looked for in a part of the time until `until`."""

    best: Found
    limits: Limits
    until: float

    @property
    def left(self) -> Limits:
        return left(self.limits, self.until)

    @property
    def late(self) -> bool:
        return time.monotonic() > self.until

    def near_enough(self, near: Question, many: int) -> Found | None:
        """A fleet of the fewest kinds, less than `many`, that is as good as `near` asks: looked for among all
        until one number of kinds takes too long, then among the best fleet's own."""
        least = 0
        for k in range(1, min(many, MOST + 1)):
            found = None if self.late else self.of_all(near, k, self.limits.gap)
            if found is not None and _as_good(near, found):
                return found
            if found is None or found.solution.status == "time_limit":
                break
            least = k
        return self.by_halves(near, least, many)

    def paying(self, question: Question, chosen: Found, share: float) -> tuple[Found, float | None]:
        """`chosen`, or a fleet of fewer of its kinds, `FEW` at most or more, if the others bring no more than
        their own band; and that band, where it decided."""
        value = self.best.solution.objective or 0.0
        for k in range(FEW, kinds(chosen)):
            band = own_band(chosen, k)
            if band > share and not self.late:
                near = replace(question, worst=value * (1 + question.sign * band))
                found = self.of_all(near, k, self.limits.gap)
                if _as_good(near, found):
                    return found, band
        return chosen, None

    def priced(self, question: Question, many: int, gap: float) -> list[tuple[int, float]]:
        """The best fleets of one kind to `many`, with their kinds, as far as there is time to prove them;
        without those that one kind more brings nothing."""
        listed = list[tuple[int, float]]()
        for k in range(1, many + 1):
            found = None if self.late else self.of_all(question, k, gap)
            if found is None or found.solution.status == "time_limit":
                break
            theirs = found.solution.objective
            if theirs is not None and (not listed or question.objective.loss(listed[-1][1], theirs) < -SAME):
                listed.append((kinds(found), theirs))
        return listed

    def of_all(self, asked: Question, k: int, gap: float) -> Found:
        """The best of `k` kinds at most."""
        pool, least = self.best.pool, self.best.solution.least
        near = nearby(asked, pool, least, asked.worst)
        if k == 1:  # pairs are two
            near = replace(near, candidates=tuple(c for c in near.candidates if c.role == "mixed"))
        if asked.worst is None:  # for the list, which proves nothing
            near = foremost(near, least, asked.sign)
        return self._found(asked, near, k, gap)

    def of_own(self, asked: Question, k: int) -> Found:
        """The best of at most `k` of the best fleet's own kinds."""
        pool, known = self.best.pool, self.best.candidates
        own = {known[c].kind for c, _ in self.best.solution.flows}
        few = tuple(c for c in pool.candidates if c.kind in own)
        return self._found(asked, replace(pool, candidates=few), k, self.limits.gap)

    def by_halves(self, near: Question, low: int, high: int) -> Found | None:
        """A fleet of the fewest of the best fleet's own kinds, more than `low` and less than `high`, that is
        near enough."""
        chosen = None
        while high - low > 1:
            k = (low + high) // 2
            found = self.of_own(near, k)
            chosen, low, high = (found, low, k) if _as_good(near, found) else (chosen, k, high)
        return chosen

    def _found(self, asked: Question, pool: Pool, k: int, gap: float) -> Found:
        seconds = max(EACH * (self.until - time.monotonic()), 0.1)
        found = find(replace(asked, most_kinds=k), pool, replace(self.limits, seconds=seconds, gap=gap))
        found.solution.unbroken()
        return found


def _as_good(near: Question, found: Found) -> bool:
    """Whether a fleet is no worse than the worst that is of use."""
    objective = found.solution.objective
    assert near.worst is not None
    return objective is not None and near.sign * (objective - near.worst) <= 0


def without_copies(question: Question, best: Found, chosen: Found, share: float, limits: Limits) -> Found:
    """`chosen`, or one as near to `best` of no more kinds whose replicas have no copies of experts."""
    value = best.solution.objective
    if value is None or share <= 0:
        return chosen
    near = replace(question, worst=value * (1 + question.sign * share))
    return _without(lambda c: bool(c.design.redundant), near, best, chosen, limits)


def without_limits(question: Question, best: Found, chosen: Found, limits: Limits) -> Found:
    """`chosen`, or one as good of no more kinds whose GPUs are told no power limit, which somebody has to
    set."""
    value = chosen.solution.objective
    if value is None:
        return chosen
    near = replace(question, worst=value + question.sign * SAME * abs(value))
    return _without(lambda c: c.key.power > 0, near, best, chosen, limits)


def _without(
    extra: Callable[[Candidate], bool], near: Question, best: Found, chosen: Found, limits: Limits
) -> Found:
    """`chosen`, or a fleet of no more kinds, none of them with something `extra`, that is as good as `near`
    asks."""
    known = chosen.candidates
    if not any(extra(known[c]) for c in chosen.solution.replicas):
        return chosen
    near = replace(near, most_kinds=kinds(chosen))
    pool = nearby(near, best.pool, best.solution.least, near.worst)
    rival = restricted(near, replace(chosen, pool=pool), lambda c: not extra(c), limits)
    return rival if rival is not None and _as_good(near, rival) else chosen
