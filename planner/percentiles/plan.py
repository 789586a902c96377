"""Plans whose percentiles hold in the replay of real arrivals: what is replayed, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Final

import numpy as np

from planner.errors import Infeasible, OutOfTime
from planner.inputs.trace_columns import Floats
from planner.inputs.traces import Trace
from planner.inputs.workload import Slo, Workload
from planner.percentiles.tighten import Tight, Tightened, Trial, tightened
from planner.plans.schema import Achieved, Plan, Replayed
from planner.question.asked import Asked
from planner.simulate.answer import Ask, Simulated, simulate
from planner.simulate.groups import Servers
from planner.traffic.drawn import MOST, bursty, busiest, resampled
from planner.traffic.lindley import SHARES, WAITING, Needed, needed

LIKE: Final = 4
"""Other traces like the one that was recorded, which the promise must hold in, too: else the plan fits its
accidents."""

AGAINST: Final = ("usd_per_hour", "gpus")
"""What a fleet spends may be: of others the load decides, too, and the replay's is not the plan's."""


def known(asked: Asked) -> bool:
    """Whether a replay is to judge: of a percentile where arrivals are known, of whole requests at any."""
    w = asked.workload
    bursts = asked.trace is not None or bool(w.traffic and w.traffic.dispersion)
    plain = asked.options.survive is None and asked.only is None and asked.objective.spends in AGAINST
    percentile = bursts and w.slo.percentile != "mean"
    return plain and w.rate_rps is not None and (percentile or w.slo.e2e_ms is not None)


@dataclass(frozen=True)
class Arrivals:
    """What is replayed: the `own` trace (or one drawn) at the workload's rate, and others `like` it."""

    workload: Workload
    own: Trace
    like: Sequence[Trace]
    path: str | None

    @staticmethod
    def of(asked: Asked) -> Arrivals:
        """At the rate that is asked for; of a long trace the requests that come fastest."""
        w, seed = asked.workload, asked.options.seed
        assert w.rate_rps is not None
        if asked.trace is None:
            drawn = [bursty(w, seed + i).at_rate(w.rate_rps) for i in range(LIKE + 1)]
            return Arrivals(w, drawn[0], drawn[1:], None)
        whole = asked.trace.at_rate(w.rate_rps)
        own = busiest(replace(whole, arrival_s=whole.arrival_s - whole.arrival_s[0]), MOST)
        return Arrivals(w, own, [resampled(own, seed + i) for i in range(LIKE)], asked.trace.path)

    @cached_property
    def every(self) -> list[Trace]:
        return [self.own, *self.like]

    def needed(self, plan: Plan) -> Needed:
        """The rate that the queue of the plan's servers needs, by their own seconds of each request."""
        slo = self.workload.slo
        wait_s = WAITING * (slo.ttft_ms or 1e9) / 1e3
        return needed(self.own.arrival_s, work_s(plan, self.own), wait_s, SHARES[slo.percentile])

    def replay(self, plan: Plan) -> list[Simulated]:
        """The plan with each of them, until one breaks the promise."""
        found: list[Simulated] = []
        for trace in self.every:
            found.append(simulate(plan, Ask(trace=trace)))
            if not found[-1].kept:
                break
        return found


def work_s(plan: Plan, trace: Trace) -> Floats:
    """Seconds that each request (n,) takes of a server, beside what all in a step share: prompts on servers
    that compute them, answers on those that make them, where these are the ones that queue."""
    servers = Servers(plan)
    groups = [servers.group(r) for r in plan.replicas]
    first = next((g for g in groups if g.role == "prefill"), None) or groups[0]
    isl, osl = trace.isl.astype(float), trace.osl.astype(float)
    s = first.step
    prompts = s.t0_s + s.token_s * isl + s.pair_s * isl * isl / 2
    if first.role == "prefill":
        return np.asarray(prompts)
    steps = np.maximum(osl - 1, 0) / first.emitted
    return np.asarray(prompts + steps * (s.sequence_s + s.context_s * (isl + osl / 2)))


Solve = Callable[[Asked], tuple[Plan, float, Callable[[Replayed], Plan]]]
"""A plan for what is asked, its objective (less is better), and how it is finished: explained, with what was
replayed. Raises Infeasible, OutOfTime."""

Finish = Callable[[Replayed], Plan]


def replayed(asked: Asked, solve: Solve, late: Callable[[], bool], tell: Callable[[str], None]) -> Plan:
    """The cheapest plan found whose percentiles hold in every replay; a search that is broken off is the
    last, and told as that. Raises Infeasible where no plan is found, OutOfTime where none of them holds,
    KeyboardInterrupt."""
    arrivals = Arrivals.of(asked)
    slo, rate = asked.workload.slo, asked.workload.rate_rps
    assert rate is not None
    seen: list[tuple[Trial[Plan], list[Simulated], Finish]] = []
    stopped = False

    def trial(tight: Tight) -> Trial[Plan] | None:
        nonlocal stopped
        tell(f"plan {len(seen) + 1}, sized for {tight.rate_rps:.3g} requests/s, and its replay")
        try:
            plan, objective, finish = solve(tightly(asked, tight))
        except (Infeasible, OutOfTime):
            if not seen:
                raise
            return None
        runs = arrivals.replay(plan)
        seen.append((judged(tight, plan, objective, runs, asked.workload), runs, finish))
        stopped = stopped or plan.proof.status == "interrupted"
        return seen[-1][0]

    first = trial(Tight(rate))
    assert first is not None
    burst = arrivals.needed(first.plan)
    started = [first]

    def again(tight: Tight) -> Trial[Plan] | None:
        return started.pop() if started else trial(tight)

    end = tightened(again, Tight(rate), burst.rate_rps, lambda: stopped or late())
    if end.kept is None and stopped:
        raise KeyboardInterrupt
    if end.kept is None:
        raise none_holds(end, slo)
    _, runs, finish = next(one for one in seen if one[0] is end.kept)
    plan = finish(told(arrivals, end, burst, runs))
    return plan.interrupted() if stopped else plan


def judged(
    tight: Tight, plan: Plan, objective: float, runs: Sequence[Simulated], workload: Workload
) -> Trial[Plan]:
    """The worst of the replays against the workload's limits."""
    ttft, tpot, whole = (
        max(_used(run, workload, name) for run in runs) for name in ("ttft_ms", "tpot_ms", "e2e_ms")
    )
    at = workload.slo.percentile
    first = max(run.ttft_ms[at] / max(run.e2e_ms[at], 1e-9) for run in runs)
    return Trial(tight, plan, objective, ttft, tpot, whole, first)


def tightly(asked: Asked, tight: Tight) -> Asked:
    """The question of a higher rate and tighter limits, none of them loosened by itself: real arrivals would
    break the promise all the more."""
    w = asked.workload
    if tight == Tight(w.rate_rps or 0.0):
        return asked
    limits = {name: limit * share for name, limit, share in _limits(w, tight) if limit < inf}
    slo = w.slo.model_copy(update={**limits, "e2e_ms": None})
    given = [name for name in asked.defaulted if not name.startswith("slo.")]
    return replace(
        asked, workload=w.model_copy(update={"rate_rps": tight.rate_rps, "slo": slo}), defaulted=given
    )


def _limits(workload: Workload, tight: Tight) -> list[tuple[str, float, float]]:
    """Limits in ms (infinite: none) and the shares of them that are asked for. Where whole requests have one,
    no token may take longer on average than that leaves it."""
    slo = workload.slo
    whole = inf if slo.e2e_ms is None else slo.e2e_ms
    osl = sum(share * b.osl for share, b in zip(workload.shares, workload.buckets, strict=True))
    ttft, tpot = min(slo.ttft_ms or inf, whole), min(slo.tpot_ms or inf, whole / osl)
    return [("ttft_ms", ttft, tight.ttft), ("tpot_ms", tpot, tight.tpot)]


def _used(run: Simulated, workload: Workload, name: str) -> float:
    """Share of a limit that a replay takes; of one that only whole requests bring at most 1, as it may be
    exceeded; 0 without."""
    promise, percentile = run.promises.get(name), workload.slo.percentile
    if promise is not None:
        return promise.achieved_ms / promise.limit_ms
    limit = next((x for n, x, _ in _limits(workload, Tight(1.0)) if n == name), inf)
    achieved = (run.ttft_ms if name == "ttft_ms" else run.tpot_ms)[percentile]
    return min(achieved / limit, 1.0)


def told(arrivals: Arrivals, end: Tightened[Plan], burst: Needed, runs: Sequence[Simulated]) -> Replayed:
    """What was replayed, in the Plan's form."""
    assert end.kept is not None
    tight = end.kept.asked
    limits = {n: x * share for n, x, share in _limits(arrivals.workload, tight) if x < inf}
    achieved = {}
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        ran = [run.promises[name] for run in runs if name in run.promises]
        if ran:
            worst = max(ran, key=lambda p: p.achieved_ms)
            achieved[name] = Achieved(
                limit_ms=worst.limit_ms,
                achieved_ms=worst.achieved_ms,
                attained=min(p.attained for p in ran),
            )
    return Replayed(
        trace=arrivals.path,
        requests=len(arrivals.own),
        rate_rps=arrivals.workload.rate_rps or 0.0,
        resamples=len(arrivals.like),
        sized_rps=tight.rate_rps,
        ttft_ms=limits.get("ttft_ms"),
        tpot_ms=limits.get("tpot_ms"),
        needed_rps=burst.rate_rps,
        busy=burst.requests,
        busy_from_s=burst.from_s,
        busy_to_s=burst.to_s,
        achieved=achieved,  # type: ignore[arg-type]
        broke=None if end.broke is None else end.broke.objective,
        tried=end.tried,
    )


def none_holds(end: Tightened[Plan], slo: Slo) -> OutOfTime:
    """What broke it last, and what would help: that there is no plan is not proven."""
    last = end.broke
    assert last is not None
    broken = [
        f"{name} at {100 * used:.0f} % of its limit"
        for name, used in (("TTFT", last.ttft), ("TPOT", last.tpot), ("a whole request", last.whole))
        if used > 1
    ]
    text = (
        f"no plan found keeps its {slo.percentile} limits in the replay: the last of {end.tried} tried has "
    )
    hint = "more nodes, looser limits" + (", or --percentile p90" if slo.percentile in ("p95", "p99") else "")
    if slo.e2e_ms is None:
        hint += "; --percentile mean replays nothing"
    return OutOfTime(text + " and ".join(broken), hint=hint)
