"""The answer in plain words, for people who have never seen a plan: what runs, what it does, what it costs,
how good that is. The figures that stand first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.plans.schema import Plan
from planner.reports import words as say
from planner.reports.figures import owned, used
from planner.reports.proven import SAME, given_up

LOOSE = 0.5
"""A gap from which on a bound says nothing to people who decide."""


@dataclass(frozen=True)
class Fact:
    """A figure that stands first, what it is, and a word on it."""

    label: str
    figure: str
    note: str = ""


def title(plan: Plan) -> str:
    """`llama-3.1-70b on lab`."""
    return f"{plan.problem.model['name']} on {plan.problem.cluster.get('name', 'cluster')}"


def sentences(plan: Plan) -> Iterator[str]:
    """The answer."""
    p, servers = plan.predicted, sum(r.count for r in plan.replicas)
    on = f"on {used(plan):,} of {owned(plan):,} GPUs"
    who = f"{servers:,} servers {on} answer" if servers > 1 else f"1 server {on} answers"
    if plan.chains:
        who = f"Nodes with some of the layers each, {servers:,} in all, {on} answer"
    tokens = f"{say.number(p.out_tok_per_s.value)} output tokens a second"
    yield f"{who} {say.number(p.rps.value)} requests a second, {tokens}."
    yield _waits(plan)
    if p.usd_per_hour:
        million = f", {say.money(p.usd_per_mtok.value)} for a million output tokens" if p.usd_per_mtok else ""
        yield f"That costs {say.money(p.usd_per_hour.value)} an hour{million}."
    yield how_good(plan)


def _waits(plan: Plan) -> str:
    """When tokens come."""
    p, percentile = plan.predicted, plan.problem.workload.get("slo", {}).get("percentile", "mean")
    whose = "on average" if percentile == "mean" else f"for {percentile.removeprefix('p')} of 100 requests"
    buckets = plan.problem.workload["buckets"]
    lengths = f" of {buckets[0]['isl']:,} tokens" if len(buckets) == 1 else ""
    first = (
        f"The first token of an answer comes {say.milliseconds(p.ttft_ms.value)} after its prompt{lengths}"
    )
    if not p.tpot_ms.value:
        return f"{first} ({whose})."
    return f"{first}, every further one {say.milliseconds(p.tpot_ms.value)} after the last ({whose})."


def how_good(plan: Plan) -> str:
    """The proof in a sentence without words of the trade."""
    p = plan.proof
    if p.status == "joint":
        return "It was planned with other models: the proof is of all together, in their document."
    if p.gap > LOOSE:
        return "How far a better plan could go is not known: the bound is too loose to say."
    near = "0.1 %" if p.gap < 0.0005 else say.percent(p.gap)
    if p.gap <= SAME:
        best = "It is proven that no other plan among those considered does better"
        if p.given_up > SAME:
            best = "The best plan of those considered is known, with proof"
    else:
        best = f"It is proven that no plan among those considered beats the best found by more than {near}"
    return f"{best}; {given_up(plan)}." if p.given_up > SAME else f"{best}."


def facts(plan: Plan) -> list[Fact]:
    """What stands first: most is said of what was asked for."""
    p, slo = plan.predicted, plan.problem.workload.get("slo", {})
    which = slo.get("percentile", "mean")
    rate = "asked for" if plan.problem.workload.get("rate_rps") is not None else "as much as possible"
    found = [
        Fact("Requests", f"{say.number(p.rps.value)} /s", rate),
        Fact("Output tokens", f"{say.number(p.out_tok_per_s.value)} /s"),
        Fact(f"First token, {which}", say.milliseconds(p.ttft_ms.value), _limit(slo.get("ttft_ms"))),
    ]
    if p.tpot_ms.value:
        each = Fact(
            f"Each further token, {which}", say.milliseconds(p.tpot_ms.value), _limit(slo.get("tpot_ms"))
        )
        found.append(each)
    if p.usd_per_hour:
        million = f"{say.money(p.usd_per_mtok.value)} for 1M output tokens" if p.usd_per_mtok else ""
        found.append(Fact("Cost", f"{say.money(p.usd_per_hour.value)}/h", million))
    energy = f"{say.number(p.joules_per_tok.value)} J an output token"
    found.append(Fact("Power", say.power(p.watts.value), energy))
    found.append(Fact("GPUs", f"{used(plan):,}", f"of {owned(plan):,}"))
    if plan.proof.status != "joint":
        found.append(Fact("From the best possible", *_proven(plan.proof.gap)))
    return found


def _proven(gap: float) -> tuple[str, str]:
    if gap <= SAME:
        return "0 %", "proven"
    return ("not known", "the bound is loose") if gap > LOOSE else (_near(gap), "proven, at most")


def _near(gap: float) -> str:
    return "under 0.1 %" if gap < 0.0005 else say.percent(gap)


def _limit(ms: float | None) -> str:
    return "no limit" if ms is None else f"limit {say.milliseconds(ms)}"
