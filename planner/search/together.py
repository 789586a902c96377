"""The bound, and better fleets, where limits are of all requests of a bucket, whatever route they take.

`find` looks for fleets every route of which keeps the limits by itself. One that is quick on some routes may
be late on others, and keep the mean that was promised. So the bound is found once more: of columns that may
be loaded until they carry no more, the mean of what all of a bucket wait for limited by a row
(`solvers/fleet/waits.py`). Its fleets, with as much of their traffic as keeps the means, are fleets for the
plan, too.

What a column's requests wait for is told by lines (`planner/candidates/waits.py`), and where the fleet found
stands above them, lines are added and all is solved again. Where its fleets stay behind the bound, the plan's
program is solved alike, with as much less of the limits as the one model found them exceeded by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from planner.candidates.candidate import Candidate, Key
from planner.candidates.deadline import in_time
from planner.candidates.tangents import Line
from planner.candidates.waits import lines_of, name_of
from planner.plans.found import Found, Group, groups, paths
from planner.plans.operation import index_of
from planner.plans.strain import SLACK, used_together
from planner.problems.fleet import Together
from planner.problems.pairs import Side
from planner.replicas.pool import Pool
from planner.search.changes import judged
from planner.search.limits import closer, left
from planner.search.question import Question
from planner.search.shortlists import ROUNDED
from planner.search.traffic import carrying
from solvers import fleet
from solvers.fleet.types import FleetProblem, FleetSolution, Wait
from solvers.linear import Limits, Status, gap

ROUNDS = 12
"""Rounds of adding lines at most."""

SLOW = 0.1
"""Share of the gap asked for by which a round has to bring the bound nearer, for another one to follow."""

LOOSE = "no fleet was found that comes nearer to what the mean over all routes allows"
"""Why a gap is left then."""

Lines = dict[str, dict[str, tuple[Line, ...]]]


def may(question: Question, pool: Pool) -> bool:
    """Whether fleets may keep means together that their routes do not keep by themselves, as far as this is
    looked for."""
    made = next(iter(pool.made.values()), None)
    if made is None or pool.late or question.survive is not None or question.objective.spends in APART:
        return False
    if len(question.traffic.share) > 1:  # whose requests wait for each other: lines hold for no mix but one
        return False
    promise = made.setup.promise
    capped = any(node.power_cap_watts is not None for node in question.cluster.classes)
    limited = min(promise.ttft_s, promise.tpot_s) < np.inf
    return promise.percentile == "mean" and limited and not capped and question.budget.watts is None


def alone(question: Question, pool: Pool) -> bool:
    """Whether no two replicas find room: then there is one route."""
    smallest = [
        int(m.setup.designs.gpus[m.setup.fitting].min()) for m in pool.made.values() if len(m.setup.fitting)
    ]
    gpus = sum(node.gpus for node in question.cluster.classes)
    return bool(smallest) and gpus < 2 * min(smallest)


APART = ("watts", "latency")
"""What an objective may spend that grows with the load of each replica."""


def together(question: Question, best: Found, unhurried: Callable[[], Pool], limits: Limits) -> Found:
    """`best`, or a better fleet that keeps the limits in the mean over all its routes alone, under a bound
    that holds for all such fleets. Raises OutOfTime and KeyboardInterrupt."""
    until = time.monotonic() + limits.seconds
    search, bound, last = _Search.of(question, best, unhurried()), None, None
    for _ in range(ROUNDS):
        s = search.solved("bound", closer(left(limits, until, SHARE)))
        if s.bound is not None:
            bound = s.bound if bound is None else _tighter(question, bound, s.bound)
        nothing = s.objective is None or (s.status == "optimal" and s.rate <= 0)
        if nothing and best.solution.objective is None:
            return replace(best, solution=replace(s, objective=None), apart=False)
        if s.objective is None or bound is None or _near(question, best, bound, limits):
            break
        best = search.better(s, best, left(limits, until))
        if _near(question, best, bound, limits) or not search.sharper(s) or _late(until):
            break
        if last is not None and abs(bound - last) <= SLOW * limits.gap * abs(bound):
            break
        last = bound
    if bound is None:
        return best
    for _ in range(ROUNDS):
        if _near(question, best, bound, limits) or _late(until):
            break
        s = search.solved("plan", closer(left(limits, until, SHARE)))
        if s.objective is None or not _worth(question, s, best):
            break
        best = search.better(s, best, left(limits, until))
        if not (search.sharper(s) | search.tighter(s)):
            break
    if best.solution.objective is None:  # nor is it proven that there is none
        open_: Status = "time_limit" if _late(until) else "within_gap"
        return replace(best, solution=replace(best.solution, status=open_, bound=bound), apart=False)
    unclosed = "" if _late(until) or _near(question, best, bound, limits) else LOOSE
    return _proven(question, replace(best, apart=False), bound, unclosed, limits)


SHARE = 0.5
"""Part of the time left that a solve gets."""


def _late(until: float) -> bool:
    in_time()
    return time.monotonic() > until


def _worth(question: Question, s: FleetSolution, best: Found) -> bool:
    """Whether a fleet of the program, whose lines are in its favour, may be better than the best."""
    a, b = s.objective, best.solution.objective
    return a is not None and (b is None or question.sign * (b - a) > ROUNDED * abs(b))


@dataclass
class _Search:
    """Candidates that need not keep the limits, the problems of their columns without lines, what is limited
    by kind and bucket, and the lines so far. `judging`: setups as they are judged; `kept`: share of each
    limit that the plan's program may use; `found` and `made`: the last fleet and its groups."""

    question: Question
    pool: Pool
    stated: Mapping[Side, FleetProblem]
    limits: Mapping[tuple[int, int], float]
    judging: Pool
    lines: Lines = field(default_factory=dict)
    kept: dict[str, float] = field(default_factory=dict)
    found: Found = field(init=False)
    made: list[Group] = field(default_factory=list)

    @staticmethod
    def of(question: Question, best: Found, pool: Pool) -> _Search:
        """Before there are lines. Raises OutOfTime."""
        promise = next(iter(best.pool.made.values())).setup.promise
        pool = replace(pool, candidates=tuple(replace(c, id=f"{c.id} in all") for c in pool.candidates))
        limits = {}
        for w, b in enumerate(question.workload.buckets):
            for kind, limit_s in enumerate((promise.ttft_s, promise.tpot_s)):
                if limit_s < np.inf and (kind == 0 or b.osl > 1):
                    limits[kind, w] = limit_s
        waits = {name_of(kind, w): Wait(str(w), s, moves=kind == 0) for (kind, w), s in limits.items()}
        sides: tuple[Side, Side] = ("bound", "plan")
        stated = {side: question.state(pool, side, Together(waits)) for side in sides}
        made = {
            key: replace(own, setup=replace(own.setup, promise=promise)) for key, own in pool.made.items()
        }
        search = _Search(question, pool, stated, limits, replace(pool, made=made))
        search._begin((promise.ttft_s, promise.tpot_s))
        return search

    def _begin(self, most_s: tuple[float, float]) -> None:
        """Lines of every column to begin with. Raises OutOfTime."""
        alike: dict[tuple[Key, str], list[Candidate]] = {}
        for c in self.pool.candidates:
            if any(c.id in problem.columns for problem in self.stated.values()):
                alike.setdefault((c.key, c.role), []).append(c)
        for own in alike.values():
            in_time()
            s = self.pool.setup(own[0])
            index = np.array([index_of(s, c) for c in own])
            found = lines_of(own, s, index, self.limits, most_s)
            self.lines |= {c.id: lines for c, lines in zip(own, found, strict=True)}

    def problem(self, side: Side) -> FleetProblem:
        """With all lines that there are; the plan's within shares of the limits."""
        stated = self.stated[side]
        columns = {c: replace(k, waits=self.lines.get(c, {})) for c, k in stated.columns.items()}
        kept = self.kept if side == "plan" else {}
        waits = {
            name: replace(x, seconds=x.seconds * kept.get(name, 1.0)) for name, x in stated.waits.items()
        }
        return replace(stated, columns=columns, waits=waits)

    def solved(self, side: Side, limits: Limits) -> FleetSolution:
        """A fleet of the problem. Raises KeyboardInterrupt."""
        problem = self.problem(side)
        s = fleet.solve(problem, limits).unbroken()
        q = self.question
        self.found = Found(q.cluster, q.workload, q.objective, self.judging, problem, s, together=True)
        return s

    def better(self, s: FleetSolution, best: Found, limits: Limits) -> Found:
        """The fleet just found, with as much of its traffic as keeps the means, or `best`."""
        self.made = groups(self.found) if s.rate > 0 else []
        better = carrying(self.question, self.found, limits, self.made) if self.made else None
        return self.known(better, best) if better and _worth(self.question, better.solution, best) else best

    def sharper(self, s: FleetSolution) -> bool:
        """Whether lines were added: where replicas of the fleet stand, and more waits than lines say."""
        added, promise = False, next(iter(self.judging.made.values())).setup.promise
        for g in self.made:
            own, index = self.pool.setup(g.candidate), np.array([index_of(g.setup, g.candidate)])
            rates = np.array([sum(g.served.values()) / g.count])
            limits = promise.ttft_s, promise.tpot_s
            (touching,) = lines_of([g.candidate], own, index, self.limits, limits, rates)
            known = self.lines[g.candidate.id]
            for name, more in touching.items():
                told, lifted = (_told(x, g.candidate.id, s) for x in (known[name], more))
                if lifted > told * (1 + LIFTED) + TINY * s.rate:
                    known[name] = (*known[name], *more)
                    added = True
        return added

    def tighter(self, s: FleetSolution) -> bool:
        """Whether the fleet exceeds limits by what lines leave out: of those the next may use less."""
        over = False
        for (kind, w), used in used_together(self.found, paths(self.found, self.made)).items():
            if np.isfinite(used) and used > 1 + SLACK:
                name = name_of(kind, w)
                self.kept[name] = max(self.kept.get(name, 1.0) / min(used, MOST_OVER), LEAST_KEPT)
                over = True
        return over

    def known(self, better: Found, best: Found) -> Found:
        """`better` in the pool of `best`; that one where it has stages that are not among its designs."""
        used = [c for c in better.pool.candidates if c.id in better.solution.replicas]
        for c in used:
            there = best.pool.made.get(c.key)
            if c.design.stages and there and c.design.stages not in there.setup.model.stagings:
                return best
        made = {**{c.key: better.pool.made[c.key] for c in used}, **best.pool.made}
        pool = replace(best.pool, candidates=(*best.pool.candidates, *used), made=made)
        s = replace(better.solution, point=None, among=(), least=best.solution.least)
        return replace(better, pool=pool, solution=s, bounding=best.space)


MOST_OVER, LEAST_KEPT = 1.02, 0.5
"""Times a limit that is taken off its share in one round at most, and the least share of it."""

LIFTED = 1e-3
"""Lines that lift what waits at a column by less than this share are not added."""

TINY = 1e-9
"""Seconds a request that are nothing."""


def _told(lines: tuple[Line, ...], c: str, s: FleetSolution) -> float:
    """How many requests wait at the replicas of a column by its highest line."""
    own = (a * s.replicas[c] + sum(x * s.flows.get((c, w), 0.0) for w, x in b.items()) for a, b in lines)
    return max(0.0, *own)


def _tighter(question: Question, one: float, other: float) -> float:
    return min(one, other) if question.objective.more else max(one, other)


def _near(question: Question, best: Found, bound: float, limits: Limits) -> bool:
    value = best.solution.objective
    return value is not None and (question.sign * (value - bound) <= 0 or gap(value, bound) <= limits.gap)


def _proven(question: Question, best: Found, bound: float, unclosed: str, limits: Limits) -> Found:
    """`best` under the bound on all fleets; where it beats that by no more than rounding it is the best."""
    s = best.solution
    if s.objective is None:
        return best
    beaten = question.sign * (bound - s.objective)
    bound = s.objective if 0 < beaten <= ROUNDED * abs(bound) else bound
    s = judged(replace(s, bound=bound), limits)
    return replace(best, solution=s, unclosed=unclosed or best.unclosed)
