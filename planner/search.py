"""From candidates to a solved fleet: state, solve, verify at the real mix, load less what broke its promise,
solve again, spread the load.

The bound printed is the first solve's: easing only removes fleets, so it holds for what is left, and says how
much honesty cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cluster_configs.schema import ResolvedCluster
from planner.candidates.candidate import Candidate
from planner.candidates.generate import Pool
from planner.inputs.options import Budget, Objective
from planner.inputs.workload import Workload
from planner.plans.found import Found, Late, broken, groups
from planner.problems import fleet as stated
from solvers import fleet
from solvers.fleet import FleetProblem, FleetSolution
from solvers.fleet_extract import value as fleet_value
from solvers.linear import Limits, Status, gap, judge

CUTS = 16
"""Rounds of verify and ease."""

EASINGS = 8
"""Rounds in which a late column is loaded less before it is cut off from what it answers late."""

PRUNED = 6
"""Replica groups tried to be done without."""

TINY = 5e-10
"""How much worse a tidier fleet may be: rounding."""

LEAST_S = 1.0
"""Seconds that every solve gets."""

TIDY_S = 0.5
"""Seconds for a tidier fleet: these, or as long as the first solve took."""

LIGHTEST = 0.3
"""Share of its traffic below which easing a column is not worth while."""


@dataclass(frozen=True)
class Question:
    """What is solved: cluster, load and goal; the candidates come with each call."""

    cluster: ResolvedCluster
    workload: Workload
    traffic: stated.Traffic
    objective: Objective
    budget: Budget

    def state(self, candidates: Sequence[Candidate]) -> FleetProblem:
        return stated.state(self.cluster, candidates, self.traffic, self.objective, self.budget)


def find(question: Question, pool: Pool, limits: Limits, problem: FleetProblem | None = None) -> Found:
    """The best fleet of the pool's candidates, its traffic spread evenly; `solution.objective` None where
    there is none."""
    began = time.monotonic()
    until = began + limits.seconds
    whole = problem = problem or question.state(pool.candidates)
    solution = fleet.solve(problem, limits)
    quick_s = max(TIDY_S, time.monotonic() - began)
    if solution.objective is None and solution.status == "time_limit":
        problem, solution = _plainer(problem, solution, pool, left(limits, until))
    bound = solution.bound
    for round_ in range(CUTS):
        try:
            solution = tidied(problem, solution, replace(left(limits, until), seconds=quick_s))
            if solution.objective is not None and question.traffic.rate_rps is not None:
                solution = fleet.balance(problem, solution, left(limits, until))
        except KeyboardInterrupt:  # between two solves: what was found stays
            solution = replace(solution, status="interrupted")
        found = Found(question.cluster, question.workload, question.objective, pool, problem, solution)
        if solution.objective is None or solution.rate <= 0:
            return replace(found, solution=replace(solution, objective=None))
        late = broken(found, groups(found)) if solution.status != "interrupted" else []
        if not late:
            break
        problem = eased(problem, late, round_)
        solution = fleet.solve(problem, closer(left(limits, until)))
    if found.solution.bound == bound:
        return found
    s = judged(replace(found.solution, bound=bound), limits, question.objective)
    if s.status == "time_limit" and time.monotonic() < until:  # easing cost more than the gap left over
        again = fleet.solve(whole, closer(left(limits, until)))
        s = judged(replace(s, bound=again.bound or bound), limits, question.objective)
    return replace(found, solution=s)


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


def simplest(question: Question, best: Found, limits: Limits) -> Found:
    """The simplest fleet within the asked gap of the bound: no copies of experts; one layout everywhere, else
    no prefill/decode split, else `best` without the groups that hardly count.

    A model that is off by ten percent has no business telling apart plans that differ by one; people have to
    run them.
    """
    s = best.solution
    if s.status == "interrupted" or s.bound is None or limits.gap == 0:
        return best
    best = _plain(question, best, limits)
    s = best.solution
    if s.status == "interrupted" or s.bound is None or len(s.replicas) == 1:
        return best
    alone = one_layout(best)
    ways: list[Callable[[Candidate], bool]] = [lambda c: c.id in alone, lambda c: c.role == "mixed"]
    for keep in ways:
        rival = restricted(question, best, keep, limits)
        if (
            rival is None
            or rival.solution.objective is None
            or len(rival.solution.replicas) >= len(s.replicas)
        ):
            continue
        if rival.solution.status == "interrupted":
            return replace(best, solution=replace(s, status="interrupted"))
        if gap(rival.solution.objective, s.bound) <= limits.gap:
            return _instead(best, rival, limits)
    return _pruned(question, best, limits)


def _plain(question: Question, best: Found, limits: Limits) -> Found:
    """`best`, or a fleet without copies of experts within the gap."""
    if not any(best.candidates[c].design.redundant for c in best.solution.replicas):
        return best
    rival = restricted(question, best, lambda c: not c.design.redundant, limits)
    if rival is None or rival.solution.objective is None or best.solution.bound is None:
        return best
    near = gap(rival.solution.objective, best.solution.bound) <= limits.gap
    return _instead(best, rival, limits) if near else best


def _pruned(question: Question, best: Found, limits: Limits) -> Found:
    """`best` without the replica groups it can do without and stay within the gap, the smallest tried
    first."""
    gpus = {c: count * best.candidates[c].gpus for c, count in best.solution.replicas.items()}
    kept = sorted(gpus, key=lambda c: gpus[c])
    if best.objective == "throughput":  # what holds a large share of the GPUs is not done without
        kept = [c for c in kept if gpus[c] <= 10 * limits.gap * sum(gpus.values())]
    for c in kept[:PRUNED]:
        rest = set(best.solution.replicas) - {c}
        rival = restricted(question, best, lambda x, rest=rest: x.id in rest, limits)  # type: ignore[misc]
        if rival is None or rival.solution.objective is None or best.solution.bound is None:
            continue
        if gap(rival.solution.objective, best.solution.bound) <= limits.gap:
            best = _instead(best, rival, limits)
    return best


def _instead(best: Found, rival: Found, limits: Limits) -> Found:
    """`best` with the rival's fleet, under its own bound."""
    same = replace(rival.solution, point=None, bound=best.solution.bound, status="optimal")
    solution = judged(same, limits, best.objective)
    return replace(best, problem=rival.problem, solution=solution, whole=best.space)


def one_layout(best: Found) -> set[str]:
    """Ids of one mixed candidate a class: the one that serves most of the whole mix when it is repeated."""
    most: dict[str, tuple[float, str]] = {}
    for c in best.pool.candidates:
        column = best.space.columns.get(c.id)
        several = c.design.stages or c.role != "mixed"
        if several or column is None or len(column.buckets) < len(best.space.share):
            continue
        need = max(sum(u * best.space.share[w] for w, u in row.items()) for row in column.use.values())
        rate = best.space.stocks[c.node_class].most(c.gpus) / need
        most[c.node_class] = max(most.get(c.node_class, (0.0, "")), (rate, c.id))
    return {c for _, c in most.values()}


def restricted(
    question: Question, best: Found, keep: Callable[[Candidate], bool], limits: Limits
) -> Found | None:
    """The best fleet of some of the candidates; None where that leaves none."""
    pool = replace(best.pool, candidates=tuple(c for c in best.pool.candidates if keep(c)))
    return find(question, pool, limits) if pool.candidates else None


def left(limits: Limits, until: float) -> Limits:
    """`limits` with what is left of the time until `until` (on the monotonic clock): never nothing, so that a
    started answer is finished."""
    return replace(limits, seconds=max(until - time.monotonic(), LEAST_S))


def tidied(problem: FleetProblem, s: FleetSolution, limits: Limits) -> FleetSolution:
    """Of the fleets exactly as good as `s`, one with fewer GPUs and less work on them: a second solve with
    the first's answer as a row."""
    row = {"cost": "usd_per_hour", "energy": "watts", "gpus": "gpus", "throughput": None}
    if s.objective is None or s.rate <= 0 or problem.objective not in row or s.status == "interrupted":
        return s
    name = row[problem.objective]
    budget = dict(problem.budget) if name is None else {**problem.budget, name: s.objective * (1 + TINY)}
    same = replace(problem, objective="spare", demand=s.rate * (1 - TINY), budget=budget)
    quick = replace(limits, gap=max(limits.gap, 0.005))
    best = fleet.solve(same, quick, s.point)
    if best.status == "interrupted":
        return replace(s, status="interrupted")
    if best.objective is None:
        return s
    return replace(
        best, objective=fleet_value(problem, best), bound=s.bound, status=s.status, solver=s.solver
    )


def judged(s: FleetSolution, limits: Limits, objective: Objective) -> FleetSolution:
    """`s` with the status that its objective deserves against its bound."""
    if s.objective is None or s.bound is None:
        return s
    sign = -1.0 if objective == "throughput" else 1.0
    stopped: Status = "interrupted" if s.status == "interrupted" else "time_limit"
    return replace(s, status=judge(sign * s.objective, sign * s.bound, limits, stopped))


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


def unserved(problem: FleetProblem) -> list[int]:
    """Buckets that no column and no pair may serve on the nodes there are (columns of one node more are
    priced, not run)."""
    there = [c for c in problem.columns.values() if problem.most(c) > 0]
    served = {w for c in there if c.group is None for w in c.buckets}
    ends = {(c.group, w) for c in there if c.group is not None for w in c.buckets}
    served |= {w for p, d, w in problem.pairs if {(p, w), (d, w)} <= ends}
    return sorted(int(w) for w in problem.share if w not in served)
