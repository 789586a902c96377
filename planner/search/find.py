"""From candidates to a solved fleet: two problems, one in the fleet's favour and one sound, and the one
model of a server to judge what they find.

The bound's problem (`problems/fleet.py`) cannot miss a fleet: its optimum is the bound. Its own fleet is
judged by the one model, with as much of its traffic as keeps every limit. Where that falls short of the
bound by more than the gap asked for, the sound problem is solved, too; then columns are split where the two
differ, and all again. What is left is printed as gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import inf

from planner.candidates.candidate import Candidate
from planner.candidates.deadline import in_time, left_s
from planner.candidates.needs import Counts
from planner.candidates.pairing import Edges
from planner.candidates.tangents import Line, touching
from planner.errors import OutOfTime
from planner.plans.found import Found, groups
from planner.plans.operation import index_of
from planner.plans.strain import SLACK
from planner.replicas.pool import Pool
from planner.search.changes import judged
from planner.search.intervals import Cuts, Interval, cut, further, joined, lines_of, may_cut
from planner.search.limits import closer, left
from planner.search.question import Question
from planner.search.shortlists import LITTLE, ROUNDED, close_to, nearby
from planner.search.sound import sound_fleet
from planner.search.starts import best_start
from planner.search.traffic import realised
from solvers import fleet
from solvers.fleet.costs import highest
from solvers.fleet.types import FleetProblem
from solvers.linear import Limits, gap

ROUNDS = 8
"""Rounds of splitting columns at most, once there is a fleet."""

LINES = 12
"""Rounds of adding lines to what columns cost."""

CUTS = 12
"""Rounds of cutting columns at loads, where watts are minimised."""

LINE = 1e-3
"""Lines that lift a column's cost by less than this share are not added."""

FIRST = 0.5
"""Share of the time left that the bound's problem gets: the rest is for a plan, where it ends without."""

ROUNDS_OVER = f"columns were split {ROUNDS} times, and servers at their real load still differ from them"
"""Why a gap is left where there was time."""

WHOLE = "no further split of columns brings the bound nearer to a fleet of whole replicas"
"""The same."""

NARROW = 2e-3
"""Edges nearer to each other than this share of the TTFT promise are not split."""


def find(question: Question, pool: Pool, limits: Limits) -> Found:
    """The best fleet of the pool's candidates, its traffic spread evenly; `solution.objective` None where
    there is none. Ctrl-C ends the search: what was found stays, and says so. Raises KeyboardInterrupt where
    nothing was."""
    until, best, bound = time.monotonic() + limits.seconds, None, None
    rounds, lines, stopped, least, of_all = 0, 0, False, dict[str, float](), dict[str, float]()
    unclosed, known, times_cut = ROUNDS_OVER, dict[str, Interval](), 0
    cuts: Cuts = {}
    try:
        while rounds < ROUNDS or best is None:
            began = time.monotonic()
            near = pool if best is None else nearby(question, pool, least, best.solution.objective)
            bounding = question.state(near, "bound")
            stated = cut(bounding, near, cuts, known)
            s = fleet.solve(stated, closer(left(limits, until, FIRST)))
            stopped = s.status == "interrupted"
            empty = Found(question.cluster, question.workload, question.objective, near, bounding, s)
            empty, drawn = joined(empty, stated, known) if cuts else (empty, lines_of(stated, s))
            took_s, least = time.monotonic() - began, {**least, **empty.solution.least}
            of_all = least if near is pool else of_all  # others know of no fleets but those near the best
            bound = s.bound if bound is None or s.bound is None else _tighter(question, bound, s.bound)
            if s.objective is None and s.status != "time_limit":
                best = best or replace(empty, solution=replace(s, objective=None))
                break
            judged_, unclosed = None, ""  # where the loop ends here, time is why
            try:
                if s.objective is not None:
                    judged_ = realised(question, empty, left(limits, until), took_s)
                    if not rounds and not lines:
                        best = _better(question, best, best_start(question, empty, left(limits, until)))
            except OutOfTime:
                if best is None:
                    raise
                break
            best = _better(question, best, judged_)
            stopped = stopped or _stopped(judged_)
            if _enough(question, best, bound, limits) or stopped:
                break
            if not left_s() and (best is not None or s.bound is None):
                break  # where not even the bound's program was stated in time, none of the plan's would be
            if question.most_kinds and s.status == "time_limit":
                break  # one of so few kinds that is sound, too, is harder to find
            there = s.objective is not None
            sharper = _sharper(question, empty, pool, cuts) if there and lines < LINES else None
            fewer = near if best is None else nearby(question, near, least, best.solution.objective)
            again_s = 2 * (time.monotonic() - began) * len(fewer.candidates) / max(len(near.candidates), 1)
            if sharper is not None and time.monotonic() + again_s < until:
                pool, lines = sharper, lines + 1
                continue
            more = further(empty, drawn, cuts, fewer, known) if there and may_cut(question) else None
            if more is not None and times_cut < CUTS and time.monotonic() + again_s < until:
                cuts, times_cut = more, times_cut + 1
                continue
            rounds += 1
            kept = judged_ is not None and not question.objective.more  # then costs alone differ
            edges = None if s.objective is None or kept else edges_between(question, empty)
            late = time.monotonic() + 2 * (time.monotonic() - began) > until
            sound = question.state(fewer)
            last = edges is None or late or rounds >= ROUNDS
            if best is None or last or _may_do(question, sound, bound, left(limits, until)):
                own = sound_fleet(question, fewer, sound, left(limits, until), took_s)
                best, stopped = _better(question, best, own), _stopped(own)
            late = time.monotonic() + 2 * (time.monotonic() - began) > until
            if edges is None and sharper is None and not late and s.status != "time_limit":
                unclosed = WHOLE
            if _enough(question, best, bound, limits) or stopped or edges is None or late:
                break
            try:
                pool = question.finer(pool, edges)
            except OutOfTime:
                break
            unclosed = "" if s.status == "time_limit" else ROUNDS_OVER
    except KeyboardInterrupt:
        if best is None:
            raise
        stopped = True
    if best is None:
        return replace(empty, solution=replace(s, objective=None))
    if stopped:
        best = best.interrupted()
    if near is not pool or stopped:
        bounding = question.state(pool, "bound")
    proven = _proven(question, best, pool, bounding, bound, limits)
    return replace(proven, solution=replace(proven.solution, least=of_all), unclosed=unclosed)


def _stopped(found: Found | None) -> bool:
    """Whether Ctrl-C ended the search for a fleet."""
    return found is not None and found.solution.status == "interrupted"


def _proven(
    question: Question, best: Found, pool: Pool, bounding: FleetProblem, bound: float | None, limits: Limits
) -> Found:
    """`best` under the bound, in the pool that the bound speaks of. Where it beats its bound by more than
    rounding, the bound is false, and `check` says so."""
    s = best.solution
    if s.objective is not None and bound is not None:
        beaten = question.sign * (bound - s.objective)
        rounded = 0 < beaten <= ROUNDED * abs(bound)
        s = judged(replace(s, bound=s.objective if rounded else bound), limits)
    return replace(best, pool=holding(pool, best), bounding=bounding, solution=s)


def holding(pool: Pool, found: Found) -> Pool:
    """The pool with those candidates of a fleet that it lacks."""
    known = {c.id for c in pool.candidates}
    more = (c for c in found.pool.candidates if c.id not in known and c.id in found.solution.replicas)
    return replace(pool, candidates=(*pool.candidates, *more))


def _enough(question: Question, best: Found | None, bound: float | None, limits: Limits) -> bool:
    """Whether `best` is proven as well as was asked."""
    value = None if best is None else best.solution.objective
    return value is not None and bound is not None and _near(question, value, bound, limits)


def _near(question: Question, value: float, bound: float, limits: Limits) -> bool:
    return question.sign * (value - bound) <= 0 or gap(value, bound) <= max(limits.gap, SLACK)


def _may_do(question: Question, sound: FleetProblem, bound: float | None, limits: Limits) -> bool:
    """Whether fleets of the sound problem may be as near to the bound as is asked for, by its relaxation."""
    value = None if bound is None else fleet.relaxed(sound, limits)
    return value is None or bound is None or _near(question, value, bound, limits)


def _tighter(question: Question, one: float, other: float) -> float:
    return min(one, other) if question.objective.more else max(one, other)


def _better(question: Question, one: Found | None, other: Found | None) -> Found | None:
    """The one with the better objective; the first of equals."""
    if one is None or other is None or other.solution.objective is None:
        return one or other
    if one.solution.objective is None:
        return other
    return other if question.sign * (other.solution.objective - one.solution.objective) < 0 else one


def _sharper(question: Question, found: Found, pool: Pool, cuts: Cuts) -> Pool | None:
    """`pool` with a line more for each column of the bound's fleet, of those not in `cuts`, whose cost lies
    above the lines that it has; None where there is none, or nothing that grows with the load counts."""
    what = Counts.of(question.objective.goal, question.budget.watts is not None).grows
    if what is None:
        return None
    more, s = dict[str, Line](), found.solution
    for g in groups(found):
        c, column = g.candidate, found.problem.columns[g.candidate.id]
        if not column.tangents or not s.replicas.get(c.id) or c.id in cuts:
            continue
        rate = sum(g.served.values())
        line = touching(c, g.setup, index_of(g.setup, c), rate / g.count, what)
        lifted = highest(replace(column, tangents=[line]), c.id, s)
        if lifted > highest(column, c.id, s) + LINE * abs(lifted):
            more[c.id] = line
    if not more:
        return None
    longer = (replace(c, tangents=(*c.tangents, more[c.id])) if c.id in more else c for c in pool.candidates)
    return replace(pool, candidates=tuple(longer))


def edges_between(question: Question, found: Found) -> Edges | None:
    """Edges between those at which the bound's fleet stands and the ones before; None where they are as near
    as matters."""
    edges, promise = found.pool.edges, question.traffic.ttft_s
    if promise == inf:
        return None
    more: dict[str, set[float]] = {"prefill": set(), "decode": set()}
    for c in found.solution.replicas:
        own = found.candidates[c]
        if own.role != "mixed" and own.late_s:
            before = edges.before(own.late_s, own.role)
            if own.late_s - before > NARROW * promise:
                more[own.role].add((own.late_s + before) / 2)
    return edges.finer(more["prefill"], more["decode"]) if more["prefill"] or more["decode"] else None


def restricted(
    question: Question, best: Found, keep: Callable[[Candidate], bool], limits: Limits
) -> Found | None:
    """The best fleet of some of the candidates; None where that leaves none. First of those of which fleets
    may lose little against `best`: where one is found that does, no other candidate is in a better one.
    A fleet at its real load may stand between the columns that it has here: those that a design which is not
    kept makes pointless are not in the pool, and then the bound on all fleets is the one that holds. Raises
    OutOfTime."""

    def kept(pool: Pool) -> Pool:
        return replace(pool, candidates=tuple(c for c in pool.candidates if keep(c)))

    def bounded(found: Found) -> Found:
        s, of_all = found.solution, best.solution.bound
        if (
            s.objective is None
            or s.bound is None
            or of_all is None
            or question.sign * (s.bound - s.objective) <= 0
        ):
            return found
        return replace(found, solution=judged(replace(s, bound=of_all), limits))

    in_time()

    def finer(pool: Pool, edges: Edges) -> Pool:
        return kept(question.finer(pool, edges))

    pool, asked, value = kept(best.pool), replace(question, finer=finer), best.solution.objective
    near, until = kept(close_to(question, best)), time.monotonic() + limits.seconds
    if value is not None and 0 < len(near.candidates) < len(pool.candidates):
        found = bounded(find(asked, near, left(limits, until)))
        theirs = found.solution.objective
        if theirs is not None and question.sign * (theirs - value) <= LITTLE * abs(value):
            return found
        in_time()
    return bounded(find(asked, pool, left(limits, until))) if pool.candidates else None
