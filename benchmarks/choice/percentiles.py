"""Promises at a percentile, replayed: `python -m benchmarks.choice percentiles`.

The random questions of `sound` that promise a percentile, planned for the most random arrivals with limits
that the median prediction keeps (`--risk 0.5`: a replay has no error of the model that a risk is for), and
replayed at random times: with any server of a group for each request, as formulas have it, and with the one
that has the fewest. Said of each limit is the share of requests within it, of the bucket that keeps it worst,
less the share that was promised; of limits that do not bind (whose predicted time is not within 5 % of the
limit) it says nothing but that they are kept. Then the share within the predicted time itself, of all
requests, which is the promised share where the formulas are right. `--problems N --seed S`, and `--gpus N`
for those of so many GPUs at most, `--named` for those that name an engine: both are soon planned.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.choice.lower_rates import MOST_GPUS, drawn
from benchmarks.choice.sound import Question, answer
from benchmarks.scores.render import table
from planner.errors import InputError
from planner.inputs.workload import LIMITS
from planner.plans.schema import Plan
from planner.queueing.tail import QUANTILE
from planner.simulate.answer import Ask, Simulated, simulate
from planner.simulate.routing import Routing

PROBLEMS = 10
"""Questions where nobody says how many: some three minutes. A long run has 60."""

REQUESTS = 20_000
"""Of a replay: fewer say little of a server that is busy for most of the time."""

POINTS = 0.02
"""Of attainment: what a promise may be off by."""

BATCHES = 20
"""Parts of a replay whose means tell how much chance there is in it."""

ROUTINGS: dict[Routing, str] = {"random": "any server", "planned": "fewest first"}
"""How requests find a server of their group: as formulas have it, and as routers do."""

BINDS = 0.95
"""Share of its limit from which a predicted time binds."""


@dataclass(frozen=True)
class Kept:
    """One limit of a replayed plan: the share of requests promised, and those within the limit and within
    the predicted time; how requests found their servers; `noise`: standard error of the share attained, as
    requests that come together are alike."""

    question: Question
    limit: str
    promised: float
    attained: float
    within_predicted: float
    binds: bool
    routing: Routing = "random"
    noise: float = 0.0

    @property
    def over(self) -> float:
        """Share of requests within the limit, less what was promised."""
        return self.attained - self.promised


def report(problems: int = PROBLEMS, seed: int = 0, gpus: int = MOST_GPUS, named: bool = False) -> str:
    """Attainment against the promise, and every limit that was broken by more than POINTS; of questions of
    `gpus` at most, where `named` only of those that name an engine."""
    began, found = time.perf_counter(), list[Kept]()
    for question in (asked(seed, number) for number in range(problems)):
        if question.gpus <= gpus and not (named and question.options["engine"] == "any"):
            found += replayed(question)
            print(f"{question.name}: {len(found)} limits", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - began
    plans = len({kept.question.name for kept in found})
    lines, noise = [], [k.noise for k in found if k.binds]
    for routing, words in ROUTINGS.items():
        own = [k for k in found if k.routing == routing]
        lines += [
            _line(f"limits that bind, {words}", [k.over for k in own if k.binds]),
            _line(f"all limits, {words}", [k.over for k in own]),
            _line(f"predicted times, {words}", [k.within_predicted - k.promised for k in own]),
        ]
    heads = ("share within, less the share promised", "n", "median", f"off ≤ {POINTS:g}", f"≥ -{POINTS:g}")
    broken = (k for k in found if k.over < -POINTS)
    said = f"{problems} questions, seed {seed}, {plans} plans replayed, {seconds:.0f} s"
    if noise:
        most = np.percentile(noise, 90)
        said += f"; chance in a share that binds: {np.median(noise):.3f} (median), {most:.3f} (one in ten)"
    return "\n".join([said, table(heads, lines), *(_told(k) for k in broken)])


def asked(seed: int, number: int) -> Question:
    """Question `number` of `seed` that promises a percentile: where it does not itself, one by its number."""
    own = drawn(seed, number) or drawn(seed, 10_000 + number) or drawn(seed, 20_000 + number)
    assert own is not None
    which = own.options.get("percentile") or list(QUANTILE)[number % len(QUANTILE)]
    return own.but(percentile=which, risk=0.5)


def replayed(question: Question) -> Iterator[Kept]:
    """The limits of its plan, where there is one that a replay takes."""
    plan = answer(question, explain=False).plan
    if plan is None:
        return
    for routing in ROUTINGS:
        try:
            run = simulate(plan, Ask(requests=REQUESTS, routing=routing))
        except InputError:  # so many are in flight at once that this would take minutes
            return
        yield from limits_of(question, plan, run)


def limits_of(question: Question, plan: Plan, run: Simulated) -> Iterator[Kept]:
    """Each limit of a plan at its percentile, in its replay."""
    percentile = str(plan.problem.workload["slo"]["percentile"])
    for name in LIMITS:
        promise = run.promises.get(name)
        if promise is None:
            continue
        predicted = run.predicted[name].value
        times = 1e3 * getattr(run.outcome, name.replace("_ms", "_s"))[len(run.outcome.ttft_s) - run.counted :]
        within = float(np.mean(times[~np.isnan(times)] <= predicted))
        routing: Routing = "planned" if run.routing == "planned" else "random"
        binds = predicted >= BINDS * promise.limit_ms
        yield Kept(
            question,
            name,
            QUANTILE[percentile],
            promise.attained,
            within,
            binds,
            routing,
            noise_of(times <= promise.limit_ms),
        )


def noise_of(kept: NDArray[np.bool_]) -> float:
    """Standard error of the mean of what comes in a row, by the means of BATCHES parts.

    >>> noise_of(np.arange(1000) < 500) > 5 * noise_of(np.arange(1000) % 2 < 1)
    True
    """
    parts = [part.mean() for part in np.array_split(kept, BATCHES) if len(part)]
    return float(np.std(parts, ddof=1) / len(parts) ** 0.5) if len(parts) > 1 else 0.0


def _line(what: str, over: list[float]) -> list[str]:
    if not over:
        return [what, "0", "", "", ""]
    near, safe = (np.mean(x) for x in (np.abs(over) <= POINTS, np.array(over) >= -POINTS))
    return [what, str(len(over)), f"{np.median(over):+.3f}", f"{near:.0%}", f"{safe:.0%}"]


def _told(k: Kept) -> str:
    way = f"{k.limit}, {ROUTINGS[k.routing]}"
    return f"{k.question.name} {k.question.command}\n  {way}: {k.attained:.3f} of {k.promised:g}"
