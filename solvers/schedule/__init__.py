"""A fleet over time: how many servers of each kind run in each slot, for the least money.

Sets       k in K   kinds of server            t in 0..T-1   slots of `hours`
           d in D   needs of a slot (one, or prompts and answers)
           g in G   sorts of machines; kinds of one g are roles that the same machines may have
Data       demand[d,t]     what a slot needs   capacity[k,d,t]   of a server
           price[g]        dollars an hour     most[g]           machines there are
           cold[k]         hours until a server that is started serves: paid for
           up[k]           slots that a server stays at least
           reserved[g]     share of the price, all hours, at which machines are reserved (None: not offered)
           risky[g]        may be taken away (spot); `safe`: share of the demand that others must carry
Choose     n[k,t] integer >= 0   servers        s[k,t] >= 0   starts
           r[g]   integer >= 0   reserved       o[g,t] >= 0   machines beyond those reserved

minimise   sum(g) price[g] ( hours sum(t) o[g,t] + reserved[g] hours T r[g] )
           + sum(k) price[g] cold[k] sum(t >= 1) s[k,t]

carry[d,t]   sum(k) capacity[k,d,t] n[k,t]  >= demand[d,t]
safe[d,t]    sum(k not risky) capacity[k,d,t] n[k,t]  >= safe demand[d,t]
stock[g,t]   sum(k of g) n[k,t]  <= most[g]                        (where several kinds run on g)
start[k,t]   s[k,t]  >= n[k,t] - n[k,t-1]                          s[k,0] >= n[k,0]
stay[k,t]    n[k,t]  >= sum(u = t - up[k] + 1 .. t) s[k,u]         (where up[k] > 1)
beyond[g,t]  o[g,t]  >= sum(k of g) n[k,t] - r[g]                  (the sum itself where none are reserved)
hull[t,i]    a[i] n[.,t]  >= 1                                     cuts of `hull.py`

A server that serves whole requests carries both needs at once, one that only prefills (decodes) the first
(second): with M, P, D requests/s of each, y <= P and y <= D go to pairs and the rest to M, so that M + P and
M + D must reach the rate. The first fleet is given: nobody waits for it. Rows `stay` with `start` are the
hull of one kind's minimum up times (Rajan, Takriti 2005, "Minimum up/down polytopes of the unit commitment
problem with start-up costs"); what is left between relaxation and optimum is whole servers against a slot's
demand, which `hull` closes in part.

Two searches run side by side: blocks of slots for the bound (`blocks.py`), ever longer ones, the
last all slots by branch and bound; windows of slots for the plan (`windows.py`). Against HiGHS and
CP-SAT alone: docs/decisions/0036-schedule.md.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from solvers.linear import Floats, Limits, Linear, Outcome, Status, highs, total
from solvers.schedule.blocks import Blocks
from solvers.schedule.race import Ends, Race
from solvers.schedule.rows import Stated
from solvers.schedule.types import Kind, Problem, Solution, reserve
from solvers.schedule.windows import improve

__all__ = ["Kind", "Problem", "Solution", "Stated", "reserve", "solve", "static"]

CUTTING = 0.15
"""Share of the time after which there are no more cuts."""

BEGINNING = 0.3
"""Share of the time that is left for the first blocks, whose plans are where windows begin."""

CLOSE = 1e-3
"""Gap at which a plan with machines reserved is good enough to begin from."""

SMALL, NODES = 300, 200
"""Columns up to which branch and bound tries first, and nodes that it may look at: under a second. Which of
several schedules within the gap a race ends with depends on the machine; that of a search does not."""

LONGER = 1.7
"""How much longer the next blocks are; the first are of one slot."""


def solve(problem: Problem, limits: Limits) -> Solution:
    """The cheapest schedule found, with its bound. Ctrl-C ends the search and keeps what was found."""
    race = Race(problem, limits, Ends(np.inf if limits.work else time.perf_counter() + limits.seconds))
    stated = Stated(problem, range(problem.slots))
    cutting = np.inf if limits.work else time.perf_counter() + CUTTING * limits.seconds
    relaxed = stated.cut(cutting)
    if relaxed.values is None:
        return Solution(None, (), None, None, relaxed.status, relaxed.solver)
    race.bounded(0.0 if relaxed.bound is None else relaxed.bound)  # prices are not below 0
    if race.offer(_rounded(problem, stated, relaxed.values)):
        return race.solution()
    status: Status = "time_limit"
    bounding = None
    try:
        if _alone(race, stated):
            return race.solution()
        blocks = Blocks.of(stated, relaxed)
        width = float(problem.slots) if stated.r else _begin(race, blocks)
        bounding = threading.Thread(target=_bounds, args=(race, blocks, width), daemon=True)
        bounding.start()
        if limits.work is not None:  # nothing may depend on who is first
            bounding.join()
        if stated.r:
            _reserving(race, stated, relaxed.values)
        _first(race, stated)
        improve(race, stated.cuts)
        while bounding.is_alive() and not race.ends.over():  # in short waits: Ctrl-C is heard between them
            bounding.join(0.1)
    except KeyboardInterrupt:
        status = "interrupted"
    race.ends.stopped = True
    if bounding is not None:
        bounding.join(1.0)
    return race.solution(status)


def _offered(race: Race, stated: Stated, found: Outcome) -> bool:
    """Whether the best is good enough with the schedule of a search, if it has one. Raises KeyboardInterrupt
    where it was broken off."""
    enough = race.offer(None if found.values is None else stated.counts(found.values))
    if found.status == "interrupted":
        raise KeyboardInterrupt
    return enough


def _rounded(p: Problem, stated: Stated, values: Floats) -> np.ndarray:
    """Counts rounded up, and as long as servers stay: the optimum where those of the relaxation are whole."""
    near = values.copy()
    for v in stated.n.values():
        near[v.column] = np.ceil(near[v.column] - 1e-6)
    n = stated.counts(near)
    for kind, mine in zip(p.kinds, n, strict=True):
        if kind.up_slots > 1:  # the most of so many slots: nobody leaves sooner
            before = np.concatenate([np.zeros(kind.up_slots - 1, dtype=mine.dtype), mine])
            mine[:] = sliding_window_view(before, kind.up_slots).max(axis=1)
    return n


def _alone(race: Race, stated: Stated) -> bool:
    """Whether branch and bound proves a schedule of few columns before the race. Raises KeyboardInterrupt."""
    if len(stated.m.integer) > SMALL or race.limits.work is not None:
        return False
    found = highs.solve(stated.m, replace(race.limits, work=NODES), None)
    race.infeasible = found.status == "infeasible"
    race.bounded(found.bound)
    return _offered(race, stated, found)


def _begin(race: Race, blocks: Blocks) -> float:
    """Bound and plan of the shortest blocks; the width of the next, in slots."""
    now = time.perf_counter()
    ends = Ends(now + BEGINNING * (race.ends.at - now))
    _blocks(race, blocks, race.problem.slots, ends)
    return LONGER


def _blocks(race: Race, blocks: Blocks, many: int, ends: Ends) -> None:
    """So many blocks: their bound, and their plan."""
    p, stated = race.problem, blocks.stated
    bound, values = blocks.solved(np.linspace(0, p.slots, many + 1).round(), race.limits, ends)
    race.bounded(bound)
    if not np.isnan(values[[v.column for v in stated.n.values()]]).any():
        race.offer(_rounded(p, stated, np.nan_to_num(values)))


def _reserving(race: Race, stated: Stated, values: Floats) -> None:
    """A plan with as many machines reserved as the relaxation has, rounded: they tie all slots together, so
    that blocks, which each reserve their own, begin far off."""
    p, r = race.problem, [0] * len(race.problem.machines)
    for g, v in stated.r.items():
        r[g] = round(float(values[v.column]))
    part = Stated(p, range(p.slots), None, r)
    part.take(stated.cuts)
    seconds = BEGINNING / 2 * race.ends.share(1) if race.limits.work is None else race.limits.seconds
    found = highs.solve(part.m, replace(race.limits, gap=CLOSE, seconds=seconds), None)
    _offered(race, part, found)


def _bounds(race: Race, blocks: Blocks, width: float) -> None:
    """Bounds by ever longer blocks; the last is the whole, which may end with a schedule, too."""
    p, limits, stated = race.problem, race.limits, blocks.stated
    while not race.ends.over():
        many = round(p.slots / width)
        if many <= 1:
            own = replace(limits, seconds=race.ends.share(1)) if limits.work is None else limits
            found = highs.solve(stated.m, own, None)
            race.infeasible = found.status == "infeasible"
            race.bounded(found.bound)
            race.offer(None if found.values is None else stated.counts(found.values))
            return
        _blocks(race, blocks, many, race.ends)
        width *= LONGER


def _first(race: Race, stated: Stated) -> None:
    """A plan to begin from: that of the blocks, or one that never changes, the cheaper; where neither keeps
    all rows what branch and bound finds first."""
    race.offer(_static(race.problem))
    if race.best is None:
        seconds = race.ends.share(2) if race.limits.work is None else race.limits.seconds
        found = highs.solve(stated.m, replace(race.limits, gap=0.5, seconds=seconds), None)
        race.infeasible = race.infeasible or found.status == "infeasible"
        _offered(race, stated, found)


def _static(p: Problem) -> np.ndarray | None:
    """The cheapest counts that carry every slot, the same in all; None where the servers do not do."""
    m = Linear("static")
    n = m.integers("n", range(len(p.kinds)), {k: float(kind.most) for k, kind in enumerate(p.kinds)})
    m.minimise([n[k] * kind.price_usd_per_hour for k, kind in enumerate(p.kinds)])
    for g, own in enumerate(p.machines):
        m.add("stock", g, total([n[k] for k in own]) <= float(p.kinds[own[0]].most))
    worst = _hardest(p)
    for d, t in worst:
        capacity = p.capacity[:, d, t]
        m.add("carry", (d, t), total([n[k] * float(capacity[k]) for k in n]) >= float(p.needs[d, t]))
        sure = [n[k] * float(capacity[k] * p.sure[k]) for k in n]
        m.add("safe", (d, t), total(sure) >= float(p.safe * p.needs[d, t]))
    found = m.solve(Limits(seconds=5.0))
    if not found.has_values:
        return None
    counts = found.counts(n)
    return np.array([[counts.get(k, 0)] * p.slots for k in n], dtype=np.int64)


def _hardest(p: Problem) -> list[tuple[int, int]]:
    """Needs and slots, without those that another slot with the same capacities outdoes."""
    found: dict[tuple[int, bytes], tuple[int, int]] = {}
    for d in range(len(p.needs)):
        for t in range(p.slots):
            key = d, p.capacity[:, d, t].tobytes()
            if key not in found or p.needs[d, t] > p.needs[found[key]]:
                found[key] = d, t
    return list(found.values())


def static(p: Problem) -> Solution:
    """The cheapest fleet that never changes, all of it reserved where that is cheaper."""
    n = _static(p)
    if n is None:
        return Solution(None, (), None, None, "infeasible", "")
    r = reserve(p, n)
    return Solution(n, tuple(r), p.cost(n, r), None, "time_limit", "")
