"""What the planner says to a problem: a plan with its bound, that nothing can, or nothing in time.

`Comparison.of` sets the figure of one fleet against the bound of another problem that this fleet solves, too:
whoever claims that no fleet does better must not be beaten by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal

from benchmarks.honest.problems import Problem
from planner import plan as planned
from planner.check import check
from planner.cost.student import deviations
from planner.errors import Infeasible, MeshwrightError, OutOfTime
from planner.inputs.workload import Slo
from planner.plans.schema import Plan

TOLERANCE = 1e-6
"""Relative: what a solver's rows hold to."""

NORMAL90 = 1.2815515655
"""Of a band's edges, in standard deviations: a plan states the middle 80 %."""

Outcome = Literal["planned", "infeasible", "no answer"]


@dataclass(frozen=True)
class Effort:
    """What a problem may take: branch-and-bound nodes, seconds, and the gap asked for."""

    work: int = 200
    seconds: float = 60.0
    gap: float = 0.0

    @property
    def arguments(self) -> dict[str, Any]:
        """For `planner.plan`. What explains a plan takes most of its time and is of no use here."""
        quick = {"explain": False} if "explain" in signature(planned).parameters else {}
        return {"work_limit": self.work, "time_limit_s": self.seconds, "gap": self.gap, **quick}


@dataclass(frozen=True)
class Answer:
    """A problem and what came of it; `plan` where the outcome is one, else `words` say why not."""

    problem: Problem
    outcome: Outcome
    plan: Plan | None = None
    words: str = ""

    @property
    def value(self) -> float | None:
        """The plan's own figure of its goal."""
        return None if self.plan is None else figure(self.plan, self.problem)

    @property
    def bound(self) -> float | None:
        """What no fleet is better than by the planner's word; None where it gives none. Of a problem called
        infeasible: no fleet at all."""
        if self.outcome == "infeasible":
            return 0.0 if self.problem.objective == "throughput" else math.inf
        return None if self.plan is None else self.plan.proof.bound


def ask(problem: Problem, effort: Effort) -> Answer:
    """The planner's answer. Any other error than those that are answers is the planner's own mistake, or the
    problem's: "no answer"."""
    try:
        found = planned(None, problem.model, **problem.arguments, **effort.arguments)
    except Infeasible as error:
        return Answer(problem, "infeasible", words=error.message)
    except OutOfTime as error:
        return Answer(problem, "no answer", words=f"out of time: {error.message}")
    except MeshwrightError as error:
        return Answer(problem, "no answer", words=f"failed: {error.message}")
    except Exception as error:
        return Answer(problem, "no answer", words=f"failed: {type(error).__name__}: {error}")
    return Answer(problem, "planned", found)


def figure(plan: Plan, problem: Problem) -> float:
    """What the plan itself says of the problem's goal: what its fleet does, whichever fleet the proof is
    of."""
    predicted = plan.predicted
    if problem.objective == "throughput":
        return predicted.rps.value
    if problem.objective == "cost":
        assert predicted.usd_per_hour is not None
        return predicted.usd_per_hour.value
    if problem.objective == "energy":
        return predicted.watts.value
    if problem.objective == "gpus":
        return float(sum(r.count * sum(stage.gpus for stage in r.stages) for r in plan.replicas))
    if len(problem.buckets) > 1:  # whose percentiles of TPOT differ, where a plan states one
        return plan.proof.own
    return (predicted.ttft_ms.value + (problem.buckets[0].osl - 1) * predicted.tpot_ms.value) / 1e3


def caution(plan: Plan, risk: float) -> tuple[float, float]:
    """Factors on TTFT and TPOT under which the limits must hold for the risk asked for, out of the plan's
    bands: those of the replica that is known least."""
    score = deviations(1 - risk)
    bands = plan.predicted.ttft_ms, plan.predicted.tpot_ms
    sigmas = [math.log(b.high / b.value) / NORMAL90 if b.value > 0 else 0.0 for b in bands]
    return math.exp(score * sigmas[0]), math.exp(score * sigmas[1])


def under(plan: Plan, slo: Slo) -> Plan:
    """The plan with other limits written into its problem; the odds of its own are no part of it."""
    workload: Mapping[str, Any] = {**plan.problem.workload, "slo": slo.model_dump()}
    predicted = plan.predicted.model_copy(update={"chance_ttft": None, "chance_tpot": None})
    problem = plan.problem.model_copy(update={"workload": workload})
    return plan.model_copy(update={"problem": problem, "predicted": predicted})


def sound(plan: Plan, slo: Slo) -> bool:
    """Whether the verifier finds nothing wrong with the plan under other limits."""
    return not check(under(plan, slo))


@dataclass(frozen=True)
class Comparison:
    """A fleet against a bound that should hold for it. `excess`: the share by which it is better than the
    bound, infinite where nothing was to exist; `bounded` and `found`: how to ask for either again."""

    kind: str
    excess: float
    bounded: str
    found: str
    words: str

    @property
    def refuted(self) -> bool:
        return self.excess > TOLERANCE

    @staticmethod
    def of(kind: str, claim: Answer, value: float, found: str, words: str = "") -> Iterator[Comparison]:
        """`value` of a fleet that solves the claim's problem, too; none where nothing is claimed."""
        if claim.bound is None:
            return
        said = "called infeasible" if claim.outcome == "infeasible" else f"bound {claim.bound:.6g}"
        if claim.outcome == "infeasible":
            over = math.inf
        elif claim.problem.objective == "throughput":
            over = value / claim.bound - 1 if claim.bound else math.inf
        else:
            over = 1 - value / claim.bound if claim.bound else -math.inf
        text = f"{said}, a fleet has {value:.6g}" + (f" ({words})" if words else "")
        yield Comparison(kind, over, claim.problem.command, found, text)
