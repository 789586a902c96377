"""Random questions, planned, checked, and planned with other flags: `python -m benchmarks.choice sound`.

The questions are small ones at the default risk. Each is asked again with one engine alone where any may be
used, and with a gap of 0.1 % where the plan ends with exit code 4. A fleet of one engine answers the question
of all engines, too, so that it is no better than that plan by more than its gap, and never beyond its bound.
`--problems N --seed S`: how many, and which; `S:NUMBER` names a question, whatever was asked before it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.honest.problems import LENGTHS, Rng, holds
from benchmarks.scores.render import table
from planner import api
from planner.check import check
from planner.errors import Infeasible, InputError, MeshwrightError, OutOfTime
from planner.plans.schema import Plan

PROBLEMS = 20
"""Questions of a run that is not told how many: some five minutes."""

SECONDS = 20.0
"""Time limit of a plan: three times as long as nearly all of these questions take."""

EXACT = 1e-6
"""Relative: what a bound may be beaten by, as solvers' rows hold to that."""

FINE = 1e-3
"""The gap that is asked for where that of a plan was not closed."""

ENGINES = ("vllm", "sglang", "trtllm", "llama.cpp")

KINDS = {"any": 0.5, "vllm": 0.12, "sglang": 0.1, "trtllm": 0.1, "llama.cpp": 0.08, "chains": 0.1}
"""`--engine`, and how often it is asked for."""

MODELS = (
    *("qwen3-0.6b", "llama-3.1-8b", "qwen3-14b", "qwen3-32b", "llama-3.1-70b", "llama-3.1-70b-fp8"),
    *("qwen3-30b-a3b", "gpt-oss-20b", "gpt-oss-120b", "mixtral-8x7b", "qwen3-235b-a22b-fp8"),
)

SERVERS = ("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm", "l40s", "l4", "a10g", "h20", "mi300x", "t4")
DESKTOPS = ("rtx-3090", "rtx-4090", "l4", "t4")
"""For llama.cpp and chains."""

GOALS = {"throughput": 0.4, "cost": 0.12, "gpus": 0.12, "energy": 0.2, "latency": 0.16}


@dataclass(frozen=True)
class Question:
    """What `plan` is asked for; `share`: of the most that is served, the rate that a goal beside throughput
    asks for."""

    name: str
    model: str
    options: Mapping[str, Any]
    share: float = 0.5

    def but(self, **options: Any) -> Question:
        """The same with other options."""
        return replace(self, options={**self.options, **options})

    @property
    def gpus(self) -> int:
        """How many GPUs it is asked of."""
        return sum(int(entry.split("x")[0]) for entry in self.options["gpus"].split(","))

    @property
    def command(self) -> str:
        """The same on the command line."""
        told = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in self.options.items())
        return f"{told} -m {self.model}"


@dataclass(frozen=True)
class Outcome:
    """What came of a question: the plan and the exit code, or `words` on why there is none."""

    question: Question
    plan: Plan | None
    exit_code: int
    words: str = ""


@dataclass(frozen=True)
class Finding:
    """Something that must not be."""

    kind: str
    question: Question
    words: str


KINDS_OF_FINDING = (
    "crash",
    "own check failed",
    "a better plan not shown",
    "a line beside left out",
    "exit 4",
    "exit 4 that another flag solves",
    "another flag better",
    "false bound",
)


def report(problems: int = PROBLEMS, seed: int = 0) -> str:
    """Count what went wrong, and print each with its command."""
    began = time.perf_counter()
    found: list[Finding] = []
    for number in range(problems):
        found += tried(question(seed, number))
        print(f"{number + 1} of {problems}: {len(found)} findings", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - began
    counts = [[kind, str(sum(f.kind == kind for f in found))] for kind in KINDS_OF_FINDING]
    lines = [f"{problems} problems, seed {seed}, {seconds:.0f} s", table(["what", "problems"], counts)]
    return "\n".join(
        [*lines, *(f"{f.kind}: {f.question.name} {f.question.command}\n  {f.words}" for f in found)]
    )


def tried(asked: Question) -> list[Finding]:
    """What goes wrong with a question."""
    first: list[Finding] = []
    if asked.options["objective"] != "throughput":
        most = answer(asked.but(objective="throughput", loop="open"), explain=False)
        if most.plan is None:
            return list(failures(most))
        first = list(failures(most))
        asked = asked.but(rate=round(asked.share * most.plan.predicted.rps.value, 5))
    own = answer(asked)
    others = [answer(other, explain=False) for other in other_flags(asked, own)]
    more = (x for other in others for x in failures(other) if "gap" not in other.question.options)
    return [*first, *failures(own), *more, *compared(own, others)]


def answer(asked: Question, explain: bool = True) -> Outcome:
    """Plan it."""
    try:
        plan = api.plan(None, asked.model, **asked.options, time_limit_s=SECONDS, explain=explain)
    except Infeasible as error:
        return Outcome(asked, None, 3, error.message)
    except OutOfTime as error:
        return Outcome(asked, None, 5, error.message)
    except InputError as error:
        return Outcome(asked, None, 2, error.message)
    except MeshwrightError as error:
        return Outcome(asked, None, 1, f"{error.message} (at {error.where})")
    except Exception as error:
        return Outcome(asked, None, 1, f"{type(error).__name__}: {error}")
    return Outcome(asked, plan, plan.proof.exit_code)


def failures(of: Outcome) -> Iterator[Finding]:
    """What is wrong with an outcome by itself."""
    if of.exit_code == 1:
        yield Finding("own check failed" if "own check" in of.words else "crash", of.question, of.words)
    if of.plan is None:
        return
    for violation in check(of.plan):
        yield Finding("own check failed", of.question, f"{violation.where}: {violation.message}")
    codes = {"unsound": "a better plan not shown", "line_left_out": "a line beside left out"}
    for warning in of.plan.warnings:
        if warning.code in codes:
            yield Finding(codes[warning.code], of.question, warning.message)
    if of.exit_code == 4:
        proof = of.plan.proof
        yield Finding("exit 4", of.question, f"gap {proof.gap:.4f}, {proof.status} {proof.why}")
    if beyond(of.plan, of.plan.proof.objective) > EXACT:
        yield Finding("false bound", of.question, _against(of.plan, of.plan.proof.objective))


def other_flags(asked: Question, own: Outcome) -> Iterator[Question]:
    """The same question in a part of its space, or proven nearer."""
    if asked.options["engine"] == "any":
        yield from (asked.but(engine=engine) for engine in ENGINES[:3])
    if own.exit_code == 4:
        yield asked.but(gap=FINE)


def compared(own: Outcome, others: Sequence[Outcome]) -> Iterator[Finding]:
    """Where another answer to a part of the question is better than the answer to all of it."""
    for other in others:
        if other.plan is None:
            continue
        value = other.plan.proof.objective
        told = f"{_flags(own, other)} gives {value:.6g}"
        if own.plan is None:
            if own.exit_code == 3:
                yield Finding("false bound", own.question, f"said to be infeasible ({own.words}); {told}")
            continue
        if beyond(own.plan, value) > EXACT:
            yield Finding("false bound", own.question, f"{_against(own.plan, value)}: {told}")
        if better(own.plan, value) > own.question.options.get("gap", 0.01):
            yield Finding("another flag better", own.question, f"{own.plan.proof.objective:.6g}; {told}")
        if own.exit_code == 4 and other.exit_code == 0 and better(own.plan, value) >= -EXACT:
            yield Finding("exit 4 that another flag solves", own.question, told)


def better(plan: Plan, value: float) -> float:
    """By how much `value` is better than the best fleet of a plan, as a share of that."""
    sign = 1 if plan.proof.sense == "max" else -1
    return sign * (value - plan.proof.objective) / max(abs(plan.proof.objective), 1e-12)


def beyond(plan: Plan, value: float) -> float:
    """By how much `value` is better than a plan's bound, as a share of that."""
    sign = 1 if plan.proof.sense == "max" else -1
    return sign * (value - plan.proof.bound) / max(abs(plan.proof.bound), 1e-12)


def _against(plan: Plan, value: float) -> str:
    return f"bound {plan.proof.bound:.6g} against {value:.6g}"


def _flags(own: Outcome, other: Outcome) -> str:
    now, then = other.question.options, own.question.options
    return " ".join(f"--{name} {value}" for name, value in now.items() if then.get(name) != value)


def question(seed: int, number: int) -> Question:
    """Question `number` of `seed`."""
    rng = np.random.default_rng([seed, number])
    while True:
        engine = _of_chances(rng, KINDS)
        small = engine in ("llama.cpp", "chains")
        names = rng.choice(DESKTOPS if small else SERVERS, size=1 + int(rng.random() < 0.3), replace=False)
        entries = [(int(rng.choice((1, 2, 4) if small else (2, 4, 8, 16))), str(name)) for name in names]
        model = str(rng.choice(MODELS[: 4 if engine == "chains" else None]))
        if any(holds(model, *entry) for entry in entries):
            break
    isl, osl = LENGTHS[int(rng.integers(len(LENGTHS)))]
    options: dict[str, Any] = {
        "gpus": ",".join(f"{count}x{name}" for count, name in entries),
        "engine": engine,
    }
    options |= {"isl": int(isl * rng.uniform(0.67, 1.33)), "osl": int(osl * rng.uniform(0.67, 1.33))}
    options["objective"] = "throughput" if engine == "chains" else _of_chances(rng, GOALS)
    if rng.random() < 0.5:
        options["ttft_ms"], options["tpot_ms"] = _limit(rng, 600, 8000), _limit(rng, 15, 120)
    if engine != "chains" and rng.random() < 0.4:
        options["percentile"] = str(rng.choice(("p50", "p90", "p95", "p99")))
    if options["objective"] == "throughput" and engine != "chains" and rng.random() < 0.5:
        options["loop"] = "closed"
    return Question(f"{seed}:{number}", model, options, float(rng.uniform(0.05, 0.95)))


def _limit(rng: Rng, low: float, high: float) -> float | str:
    """A limit in ms, or none."""
    return "none" if rng.random() < 0.15 else round(float(np.exp(rng.uniform(np.log(low), np.log(high)))), 1)


def _of_chances(rng: Rng, chances: Mapping[str, float]) -> str:
    return str(rng.choice(list(chances), p=list(chances.values())))
