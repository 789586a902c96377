"""One problem under ever tighter limits: what a loose plan does within a tight limit no tight bound forbids.

The next limit is a little above what the last plan reaches, where that is well below its own limit: then that
plan keeps it by its own figures. Else it is well below the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from benchmarks.honest.answers import Answer, Comparison, Effort, ask, sound
from benchmarks.honest.problems import Problem, Rng
from benchmarks.honest.told import cautious_times, stated
from planner.inputs.workload import Slo

KEEPS = "a looser limit's plan that keeps the tight one"
CALLED = "the same, where the tight one is called infeasible"
TIGHTER = "a tighter limit's plan"

TIGHTENED = (("ttft_ms",), ("tpot_ms",), ("ttft_ms", "tpot_ms"))
CHANCES = (0.6, 0.2, 0.2)
"""Of the limits that a ladder tightens."""

NEAR = 0.97
"""Of a limit, what a plan reaches that is held by it."""

ABOVE, BELOW = (1.0005, 1.08), (0.55, 0.92)
"""Times what a plan reaches, the next limit where the plan keeps it, and where it does not."""


def ladder(problem: Problem, effort: Effort, rng: Rng, rungs: int) -> list[Answer]:
    """Answers from the loosest limits on; the last may be that nothing keeps them. Where nothing keeps the
    problem's own, they are the last of a ladder from no limits on."""
    found = [ask(problem, effort)]
    free = problem.limited(None, None)
    if found[0].outcome == "infeasible" and problem != free:
        return [*ladder(free, effort, rng, rungs), *found]
    names = TIGHTENED[int(rng.choice(len(TIGHTENED), p=CHANCES))]
    while len(found) < rungs and found[-1].plan is not None:
        slo = found[-1].problem.slo
        next_ = {"ttft_ms": slo.ttft_ms, "tpot_ms": slo.tpot_ms}
        for name, reached in zip(next_, _reached(found[-1]), strict=True):
            if name in names:
                next_[name] = _next(next_[name], reached, rng)
        found.append(ask(problem.limited(**next_), effort))
    return found


def _next(limit: float | None, reached: float, rng: Rng) -> float:
    """The next limit [ms] below `limit`, of which a plan takes `reached`."""
    most = math.inf if limit is None else limit
    if reached < NEAR * most and rng.random() < 0.7:
        return float(min(reached * rng.uniform(*ABOVE), most))
    return float(min(reached, most) * rng.uniform(*BELOW))


def _reached(answer: Answer) -> tuple[float, float]:
    """TTFT and TPOT [ms] of the slowest way through the plan's fleet, with the caution asked for; the means
    where ways are not known."""
    plan = answer.plan
    assert plan is not None
    times = cautious_times(plan, answer.problem) or [stated(plan)]
    return 1e3 * max(ttft for ttft, _ in times), 1e3 * max(tpot for _, tpot in times)


def compared(rungs: Sequence[Answer]) -> Iterator[Comparison]:
    """Every plan against the bounds of looser limits, and of tighter ones that it keeps."""
    for loose, tight in combinations(rungs, 2):
        if tight.value is not None:
            yield from Comparison.of(TIGHTER, loose, tight.value, tight.problem.command)
        if loose.value is not None and keeps(loose, tight.problem.slo):
            kind = CALLED if tight.outcome == "infeasible" else KEEPS
            yield from Comparison.of(kind, tight, loose.value, loose.problem.command, _words(loose))


def keeps(answer: Answer, slo: Slo) -> bool:
    """Whether a plan keeps other limits on every way through its fleet, and the verifier agrees."""
    plan = answer.plan
    assert plan is not None
    times = cautious_times(plan, answer.problem)
    first, each = (math.inf if x is None else x / 1e3 for x in (slo.ttft_ms, slo.tpot_ms))
    return (
        times is not None and all(ttft <= first and tpot <= each for ttft, tpot in times) and sound(plan, slo)
    )


def _words(answer: Answer) -> str:
    plan = answer.plan
    assert plan is not None
    return f"TTFT {plan.predicted.ttft_ms.value:.5g} ms, TPOT {plan.predicted.tpot_ms.value:.4g} ms"
