"""One problem, tried in every way: a ladder of limits, harder problems, fleets under continuous loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.honest import limits, predicted, relations
from benchmarks.honest.answers import Answer, Comparison, Effort, ask
from benchmarks.honest.continuous import Witness, continuous, judged
from benchmarks.honest.fleets import of_plan
from benchmarks.honest.one_model import of
from benchmarks.honest.problems import FIXED, Problem, Rng, random_problem
from benchmarks.honest.told import told_again

PLANS = "a plan's fleet, loaded as far as the one model allows"
FLEETS = "random fleets under continuous loads"

RUNGS, FEWEST = 5, 3
"""Limits of a ladder: as many less as the problem has kinds of GPU and of request and engines beyond one
each, but no fewer than these."""

FURTHER = 0.3
"""Chance that a problem is asked with lost nodes, and as much that it is asked with drafts."""

LOOSER = (*np.arange(1.01, 1.52, 0.04), 1.6, 2.0, 3.0, 10.0)
"""Times the limit of a fixed problem, those that are tried, too."""


def numbered(seed: int, number: int) -> Problem:
    """The problem of a number; those below zero are the fixed ones."""
    return FIXED[-number - 1] if number < 0 else random_problem(seed, number)


def tried(seed: int, number: int, effort: Effort, fleets: int) -> tuple[list[Comparison], list[str]]:
    """All comparisons of a problem, and what went wrong on the way."""
    problem = numbered(seed, number)
    rng = np.random.default_rng([seed, abs(number), int(number < 0), 1])
    made: list[Comparison] = []
    answers: list[Answer] = []
    most: Answer | None = None
    if problem.objective != "throughput":
        most = relations.largest(problem, effort)
        if most.outcome == "infeasible":
            problem = problem.limited(None, None)
            most = relations.largest(problem, effort)
        answers.append(most)
        if most.value is None:
            return [], _mistakes(answers)
        if problem.objective in ("cost", "gpus"):
            made += relations.served(most, problem, effort)
        problem = replace(problem, rate=problem.share * most.value)
    rungs = _fixed(problem, effort) if number < 0 else limits.ladder(problem, effort, rng, _rungs(problem))
    answers += rungs
    made += limits.compared(rungs)
    made += relations.rates(most, rungs) if most else []
    made += (c for answer in rungs for c in relations.own(answer))
    if number >= 0 and rungs[0].outcome != "no answer":
        made += relations.harder(rungs[int(rng.integers(len(rungs)))], effort, rng, 1)
        made += _further(rungs[0], effort, np.random.default_rng([seed, number, 2]))
    if any(answer.plan is not None for answer in rungs):
        made += _by_the_one_model(rungs, rng, fleets)
    return made, _mistakes(answers)


def _further(easy: Answer, effort: Effort, rng: Rng) -> Iterator[Comparison]:
    """Survival of some problems, drafts of others."""
    way = rng.random()
    if way < FURTHER:
        yield from relations.insured(easy, effort)
    elif way < 2 * FURTHER:
        yield from relations.drafted(easy, effort)


def _rungs(problem: Problem) -> int:
    """Limits that are tried: fewer where a plan takes longer."""
    beyond = len(problem.entries) + len(problem.buckets) - 2 + (problem.engine == "any")
    return max(RUNGS - beyond, FEWEST)


def _fixed(problem: Problem, effort: Effort) -> list[Answer]:
    """Of the table: looser limits first."""
    ttft = problem.slo.ttft_ms
    assert ttft is not None
    limits_ms = [*(round(ttft * times, 3) for times in LOOSER[::-1]), ttft]
    return [ask(problem.limited(limit, problem.slo.tpot_ms), effort) for limit in limits_ms]


def _by_the_one_model(rungs: Sequence[Answer], rng: Rng, fleets: int) -> Iterator[Comparison]:
    """What the one model says of plans, of their fleets at other loads, and of random ones."""
    for answer in rungs:
        if answer.plan is not None:
            yield from told_again(answer)
    model = of(rungs[0].problem)
    fleets_of = [of_plan(model, answer.plan) if answer.plan is not None else None for answer in rungs]
    for i, claim in enumerate(rungs):
        for fleet in dict.fromkeys(fleets_of[max(i - 1, 0) : i + 2]):
            if fleet:
                yield from _against(PLANS, claim, judged(model, claim.problem, fleet))
    known = [fleet for fleet in dict.fromkeys(fleets_of) if fleet]
    claim = rungs[int(rng.integers(len(rungs)))]
    yield from predicted.compared(claim)
    yield from _against(FLEETS, claim, continuous(model, claim.problem, known, rng, fleets))


def _against(kind: str, claim: Answer, found: Witness | None) -> Iterator[Comparison]:
    if found is not None:
        yield from Comparison.of(kind, claim, found.value, claim.problem.command, str(found))


def _mistakes(answers: Sequence[Answer]) -> list[str]:
    """Problems that the planner failed on, or had no time for."""
    return [f"{a.words}: {a.problem.command}" for a in answers if a.outcome == "no answer"]
