"""From candidates to a solved fleet: two problems, one in the fleet's favour and one sound, and the one
model of a server to judge what they find.

The bound's problem (`problems/fleet.py`) cannot miss a fleet: its optimum is the bound. Its own fleet is
judged by the one model, with as much of its traffic as keeps every limit. Where that falls short of the
bound by more than the gap asked for, the sound problem is solved, too; then columns are split where the two
differ, and all again. What is left is printed as gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from cluster_configs.schema import ResolvedCluster
from planner.candidates.candidate import Candidate
from planner.candidates.dominance import Counts
from planner.candidates.edges import Edges
from planner.candidates.generate import Pool
from planner.candidates.tangents import Line, touching
from planner.inputs.options import Budget, Survive
from planner.inputs.workload import Workload
from planner.objectives import Objective
from planner.plans.carried import as_carried
from planner.plans.found import SLACK, Found, Group, Late, broken, exact_value, groups, scaled, strain, watts
from planner.plans.losses import least_left
from planner.plans.operation import index_of
from planner.problems import fleet as stated
from solvers import fleet
from solvers.fleet import FleetProblem, FleetSolution
from solvers.fleet_costs import highest
from solvers.fleet_extract import value as fleet_value
from solvers.fleet_goals import SPARE
from solvers.fleet_prices import few
from solvers.linear import Limits, Status, gap, judge

ROUNDS = 8
"""Of splitting columns."""

LINES = 12
"""Rounds of adding lines to what columns cost."""

MANY = 100
"""Columns from which on a tidier fleet is looked for among the kinds of the first alone."""

LINE = 1e-3
"""Of a column's cost: lines that lift it by less are not added."""

CUTS = 16
"""Rounds of verify and ease."""

EASINGS = 8
"""Rounds in which a late column is loaded less before it is cut off from what it answers late."""

TINY = 5e-10
"""How much worse a tidier fleet may be: rounding."""

FIRST = 0.5
"""Of the time that is left, what the bound's problem gets: the rest is for a plan, where it ends without."""

ROUNDED = 1e-5
"""How much better than its bound a plan may be: its limits may be exceeded by SLACK."""

LEAST_S = 1.0
"""Seconds that every solve gets."""

TIDY_S = 0.5
"""Seconds for a tidier fleet: these, or as long as the first solve took."""

MORE_LEFT = 0.02
"""Of its share: what the rest is given beyond where it fell short."""

MOST_LEFT = 1.5
"""Times its share, in one round."""

LIGHTEST = 0.3
"""Share of its traffic below which easing a column is not worth while."""

NARROW = 2e-3
"""Of the TTFT promise: edges nearer to each other than this are not split."""

JUST = 0.02
"""Of the gap asked for: how near to all that it carries a fleet's traffic is taken."""

LITTLE = 0.1
"""Of the best fleet's objective: what others may lose that are looked for first where candidates are many."""

FOREMOST = 200
"""Candidates of fleets that prove nothing, where there are many."""


@dataclass(frozen=True)
class Question:
    """What is solved: cluster, load and goal; the candidates come with each call. `finer`: their pool with
    columns of pairs at further edges; `most_kinds` of replica, the worst objective that is of use, and what
    the rest serves where nodes are lost."""

    cluster: ResolvedCluster
    workload: Workload
    traffic: stated.Traffic
    objective: Objective
    budget: Budget
    finer: Callable[[Pool, Edges], Pool]
    most_kinds: int | None = None
    worst: float | None = None
    survive: Survive | None = None

    def state(self, pool: Pool, side: stated.Side = "plan") -> FleetProblem:
        """The numbers of the plan's problem, or of the bound's."""
        problem = stated.state(self.cluster, self.traffic, self.objective.goal, self.budget, side, pool)
        problem = replace(problem, most_kinds=self.most_kinds)
        if self.survive is not None:
            lost = fleet.Survive(self.survive.nodes, self.survive.share, sure=side == "plan")
            problem = replace(problem, survive=lost)
        return problem if self.worst is None else at_least(problem, self.worst)

    @property
    def spread(self) -> bool:
        """Whether replicas may be there for more than the rate needs, and share it then."""
        return self.traffic.rate_rps is not None or self.survive is not None

    @property
    def sign(self) -> float:
        """Of the objective where less is better."""
        return self.objective.sign


def find(question: Question, pool: Pool, limits: Limits) -> Found:
    """The best fleet of the pool's candidates, its traffic spread evenly; `solution.objective` None where
    there is none."""
    until, best, bound = time.monotonic() + limits.seconds, None, None
    rounds, lines, least = 0, 0, dict[str, float]()
    while rounds < ROUNDS:
        began = time.monotonic()
        near = pool if best is None else nearby(question, pool, least, best.solution.objective)
        bounding = question.state(near, "bound")
        s = fleet.solve(bounding, closer(left(limits, until, FIRST)))
        took_s, least = time.monotonic() - began, {**least, **s.least}
        empty = Found(question.cluster, question.workload, question.objective, near, bounding, s)
        bound = s.bound if bound is None or s.bound is None else _tighter(question, bound, s.bound)
        if s.objective is None and s.status != "time_limit":
            best = best or replace(empty, solution=replace(s, objective=None))
            break
        judged_ = None if s.objective is None else _realised(question, empty, left(limits, until), took_s)
        best = _better(question, best, judged_)
        if _enough(question, best, bound, limits) or s.status == "interrupted":
            break
        if question.most_kinds and s.status == "time_limit":
            break  # one of so few kinds that is sound, too, is harder to find
        sharper = _sharper(question, empty, pool) if s.objective is not None and lines < LINES else None
        fewer = near if best is None else nearby(question, near, least, best.solution.objective)
        again_s = 2 * (time.monotonic() - began) * len(fewer.candidates) / max(len(near.candidates), 1)
        if sharper is not None and time.monotonic() + again_s < until:
            pool, lines = sharper, lines + 1
            continue
        rounds += 1
        kept = judged_ is not None and not question.objective.more  # then costs alone differ
        edges = None if s.objective is None or kept else _finer(question, empty)
        late = time.monotonic() + 2 * (time.monotonic() - began) > until
        sound = question.state(fewer)
        if edges is None or late or _may_do(question, sound, bound, left(limits, until)):
            best = _better(question, best, _sound(question, fewer, sound, left(limits, until), took_s))
        late = time.monotonic() + 2 * (time.monotonic() - began) > until
        if _enough(question, best, bound, limits) or edges is None or late:
            break
        pool = question.finer(pool, edges)
    if best is None:
        return replace(empty, solution=replace(s, objective=None))
    if near is not pool:
        bounding = question.state(pool, "bound")
    proven = _proven(question, best, pool, bounding, bound, limits)
    return replace(proven, solution=replace(proven.solution, least=least))


def _proven(
    question: Question, best: Found, pool: Pool, bounding: FleetProblem, bound: float | None, limits: Limits
) -> Found:
    """`best` under the bound, in the pool that the bound speaks of. Where it beats its bound by more than
    rounding, the bound is false, and `check` says so."""
    known = {c.id for c in pool.candidates}
    more = tuple(c for c in best.pool.candidates if c.id not in known and c.id in best.solution.replicas)
    s = best.solution
    if s.objective is not None and bound is not None:
        beaten = question.sign * (bound - s.objective)
        rounded = 0 < beaten <= ROUNDED * abs(bound)
        s = judged(replace(s, bound=s.objective if rounded else bound), limits)
    whole = replace(pool, candidates=(*pool.candidates, *more))
    return replace(best, pool=whole, bounding=bounding, solution=s)


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


def _realised(question: Question, found: Found, limits: Limits, took_s: float) -> Found | None:
    """The bound's fleet as the one model judges it, with as much of its traffic as keeps every limit; None
    where it does not carry a rate that was asked for."""
    problem, s = found.problem, found.solution
    try:
        s = tidied(problem, s, replace(limits, seconds=max(TIDY_S, took_s)))
        if question.spread and s.objective is not None:
            s = fleet.balance(problem, s, limits)
    except KeyboardInterrupt:  # between two solves: what was found stays
        s = replace(s, status="interrupted")
    if s.objective is None or s.rate <= 0:
        return None
    return carrying(question, replace(found, solution=s), limits)


def carrying(
    question: Question, found: Found, limits: Limits, made: Sequence[Group] | None = None
) -> Found | None:
    """`found` with the most of its traffic that keeps every limit, and of which the rest serves its share
    where nodes may be lost: where throughput is asked for more or less than it has (of a rate that must be
    served no less), else just that or nothing. Its objective is what the one model says, less at most a
    fiftieth of the gap asked for. `made`: its groups, where known."""
    made, s = made or groups(found), found.solution
    if not made:
        return None
    if not question.objective.more:
        if not _kept(strain(found, made)) or not _kept(_short(question, found, limits)):
            return None
        return replace(found, solution=replace(s, objective=exact_value(found, made)))
    carried = as_carried(found, made, _close(limits))
    if carried is not None and (short := _short(question, carried, limits)) > 1:
        carried = scaled(carried, 1 / short) if short < inf else None
    least = (question.traffic.rate_rps or 0.0) * (1 - SLACK)
    return None if carried is None or carried.solution.rate < least else carried


def _short(question: Question, found: Found, limits: Limits) -> float:
    """What the rest is to serve after the worst loss, over what it can; 0 where no node may be lost."""
    if question.survive is None:
        return 0.0
    least = least_left(found, question.survive, replace(limits, gap=_close(limits)))
    return question.survive.share * found.solution.rate / least if least > 0 else inf


def _close(limits: Limits) -> float:
    """How near to all that it carries a fleet's traffic is taken."""
    return max(SLACK, JUST * limits.gap)


def _kept(worst: float) -> bool:
    return worst <= 1 + SLACK


def _sharper(question: Question, found: Found, pool: Pool) -> Pool | None:
    """`pool` with a line more for each column of the bound's fleet whose cost lies above the lines that it
    has; None where there is none, or nothing that grows with the load counts."""
    what = Counts.of(question.objective.goal, question.budget.watts is not None).grows
    if what is None:
        return None
    more, s = dict[str, Line](), found.solution
    for g in groups(found):
        c, column = g.candidate, found.problem.columns[g.candidate.id]
        if not column.tangents or not s.replicas.get(c.id):
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


def _finer(question: Question, found: Found) -> Edges | None:
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


def _sound(
    question: Question, pool: Pool, problem: FleetProblem, limits: Limits, quick_s: float
) -> Found | None:
    """The best fleet of the plan's own problem: solve, verify at the real mix, load less what broke its
    promise, solve again."""
    until = time.monotonic() + limits.seconds
    solution = fleet.solve(problem, closer(limits))
    quick_s = max(TIDY_S, quick_s)
    if solution.objective is None and solution.status == "time_limit":
        problem, solution = _plainer(problem, solution, pool, left(limits, until))
    for round_ in range(CUTS):
        try:
            solution = tidied(problem, solution, replace(left(limits, until), seconds=quick_s))
            if solution.objective is not None and question.spread:
                solution = fleet.balance(problem, solution, left(limits, until))
        except KeyboardInterrupt:
            solution = replace(solution, status="interrupted")
        found = Found(question.cluster, question.workload, question.objective, pool, problem, solution)
        if solution.objective is None or solution.rate <= 0:
            return None
        made = groups(found)
        late = broken(found, made) if solution.status != "interrupted" else []
        heavy = _heavier(found, made)
        if not late and heavy is None:
            carried = carrying(question, found, limits, made)
            if carried is not None or question.survive is None:
                return carried
            problem = insured(problem, _short(question, found, limits))
        else:
            problem = eased(heavy or problem, late, round_)
        solution = fleet.solve(problem, closer(left(limits, until)))
    return None


def _heavier(found: Found, made: Sequence[Group]) -> FleetProblem | None:
    """The problem with what the fleet's replicas draw at their load, where a budget of watts counted them at
    rest and is exceeded."""
    problem, most = found.problem, found.problem.budget.get("watts")
    if most is None or found.objective.spends != "latency" or watts(found, made) <= most * (1 + SLACK):
        return None
    drawn = {g.candidate.id: g.operation.watts for g in made}
    if all(problem.columns[c].watts >= own for c, own in drawn.items()):
        return None
    columns = {c: replace(k, watts=max(k.watts, drawn.get(c, 0.0))) for c, k in problem.columns.items()}
    return replace(problem, columns=columns)


def closer(limits: Limits) -> Limits:
    """`limits` with a quarter of the gap: the rest is for what easing costs."""
    return replace(limits, gap=limits.gap / 4)


def _plainer(
    problem: FleetProblem, empty: FleetSolution, pool: Pool, limits: Limits
) -> tuple[FleetProblem, FleetSolution]:
    """Out of time without a plan: a fleet of the largest batch of each layout alone, under the bound that was
    reached."""
    roomiest: dict[tuple[str, str, str, str], tuple[float, str]] = {}
    for c in pool.candidates:
        if c.id in problem.columns and c.role == "mixed":
            key = c.node_class, c.engine, str(c.design), ",".join(c.ttft_s)
            roomiest[key] = max(roomiest.get(key, (0.0, "")), (c.batch, c.id))
    kept = {i for _, i in roomiest.values()}
    columns = {c: k for c, k in problem.columns.items() if c in kept}
    small = replace(problem, columns=columns, pairs={}, nic={})  # stages of one replica use links, too
    s = fleet.solve(small, replace(limits, gap=max(limits.gap, 0.05)))
    bound = empty.bound if empty.bound is not None else fleet.relaxed(problem, limits)
    if s.objective is None or bound is None:
        return problem, empty
    return small, replace(s, bound=bound, status="time_limit")


def restricted(
    question: Question, best: Found, keep: Callable[[Candidate], bool], limits: Limits
) -> Found | None:
    """The best fleet of some of the candidates; None where that leaves none. First of those of which fleets
    may lose little against `best`: where one is found that does, no other candidate is in a better one."""

    def kept(pool: Pool) -> Pool:
        return replace(pool, candidates=tuple(c for c in pool.candidates if keep(c)))

    def finer(pool: Pool, edges: Edges) -> Pool:
        return kept(question.finer(pool, edges))

    pool, asked, value = kept(best.pool), replace(question, finer=finer), best.solution.objective
    near, until = kept(close_to(question, best)), time.monotonic() + limits.seconds
    if value is not None and 0 < len(near.candidates) < len(pool.candidates):
        found = find(asked, near, left(limits, until))
        theirs = found.solution.objective
        if theirs is not None and question.sign * (theirs - value) <= LITTLE * abs(value):
            return found
    return find(asked, pool, left(limits, until)) if pool.candidates else None


def close_to(question: Question, best: Found) -> Pool:
    """The pool of `best` with those candidates alone that fleets may have which lose `LITTLE` of it at most;
    all where the question has a limit of its own."""
    value, least = best.solution.objective, best.solution.least
    if value is None or question.worst is not None:
        return best.pool
    return nearby(question, best.pool, least, value * (1 + question.sign * LITTLE))


def nearby(question: Question, pool: Pool, least: Mapping[str, float], worst: float | None) -> Pool:
    """The pool with those candidates alone that a fleet no worse than `worst` may have; `least`: the best
    objective of fleets with a candidate, where that is known."""
    if worst is None or not least:
        return pool

    def may(c: Candidate) -> bool:
        return question.sign * (least.get(c.id, worst) - worst) <= ROUNDED * abs(worst)

    return replace(pool, candidates=tuple(c for c in pool.candidates if may(c)))


def foremost(pool: Pool, least: Mapping[str, float], sign: float) -> Pool:
    """The pool with the `FOREMOST` candidates that the best fleets could have, where `least` tells."""
    known = sorted((c for c in pool.candidates if c.id in least), key=lambda c: sign * least[c.id])
    return replace(pool, candidates=tuple(known[:FOREMOST])) if known else pool


def left(limits: Limits, until: float, share: float = 1.0) -> Limits:
    """`limits` with a `share` of the time that is left until `until` (monotonic clock): never nothing,
    so that a started answer is finished."""
    return replace(limits, seconds=max(share * (until - time.monotonic()), LEAST_S))


def tidied(problem: FleetProblem, s: FleetSolution, limits: Limits) -> FleetSolution:
    """Of the fleets exactly as good as `s`, one with fewer GPUs and less work on them: a second solve with
    the first's answer as a row, of many columns among those of its kinds. Where watts or latency are the goal
    hardly two fleets are alike."""
    if s.objective is None or s.rate <= 0 or s.status == "interrupted":
        return s
    if problem.objective.spends in ("watts", "latency"):
        return s
    worst = s.objective * (1 + problem.objective.sign * TINY)
    own, point = few(problem, s.among) if s.among else problem, s.point
    if len(own.columns) >= MANY:
        there = {problem.kind(c) for c in s.replicas}
        own, point = few(own, [c for c in own.columns if problem.kind(c) in there]), None
    same = replace(at_least(own, worst), objective=SPARE, demand=s.rate * (1 - TINY))
    quick = replace(limits, gap=max(limits.gap, 0.005))
    best = fleet.solve(same, quick, point)
    if best.status == "interrupted":
        return replace(s, status="interrupted")
    if best.objective is None:
        return s
    among = () if own is problem else tuple(own.columns)
    value = fleet_value(problem, best)
    return replace(best, objective=value, bound=s.bound, status=s.status, solver=s.solver, among=among)


def at_least(problem: FleetProblem, worst: float) -> FleetProblem:
    """`problem` with fleets of a worse objective left out."""
    name = problem.objective.spends
    if name is None:
        return replace(problem, demand=max(worst, problem.demand or 0.0))
    return replace(problem, budget={**problem.budget, name: min(worst, problem.budget.get(name, worst))})


def judged(s: FleetSolution, limits: Limits) -> FleetSolution:
    """`s` with the status that its objective deserves against its bound."""
    if s.objective is None or s.bound is None:
        return s
    stopped: Status = "interrupted" if s.status == "interrupted" else "time_limit"
    return replace(s, status=judge(s.objective, s.bound, limits, stopped))


def eased(problem: FleetProblem, late: Sequence[Late], rounds: int) -> FleetProblem:
    """The problem with each late column charged more for its traffic, or cut off from the bucket where no
    load is light enough."""
    columns, lighter = dict(problem.columns), set[str]()
    for bad in late:
        if bad.candidate not in columns or bad.bucket not in columns[bad.candidate].buckets:
            continue
        if bad.candidate in lighter:  # for a worse bucket
            continue
        use = columns[bad.candidate].use
        if bad.share > LIGHTEST and rounds < EASINGS:
            use = {j: {w: u / bad.share for w, u in row.items()} for j, row in use.items()}
            lighter.add(bad.candidate)
        else:
            use = {j: {w: u for w, u in row.items() if w != bad.bucket} for j, row in use.items()}
        if next(iter(use.values())):
            columns[bad.candidate] = replace(columns[bad.candidate], use=use)
        else:
            del columns[bad.candidate]
    return replace(problem, columns=columns)


def insured(problem: FleetProblem, short: float) -> FleetProblem:
    """The problem with more left for the rest, whose fleet was `short` times of what it has to serve."""
    assert problem.survive is not None
    more = min(max(short * (1 + MORE_LEFT), 1 + MORE_LEFT), MOST_LEFT)
    return replace(problem, survive=replace(problem.survive, share=more * problem.survive.share))


def unserved(problem: FleetProblem) -> list[int]:
    """Buckets that no column and no pair may serve on the nodes there are (columns of one node more are
    priced, not run)."""
    there = [c for c in problem.columns.values() if problem.most(c) > 0]
    served = {w for c in there if c.group is None for w in c.buckets}
    ends = {(c.group, w) for c in there if c.group is not None for w in c.buckets}
    served |= {w for p, d, w in problem.pairs if {(p, w), (d, w)} <= ends}
    return sorted(int(w) for w in problem.share if w not in served)
