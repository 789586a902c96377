"""Rare lengths: the longest requests of a workload, one in a hundred at most, that alone may decide.

The question is asked again without them, and for them alone: within the same limits, and with no limit on
their first token. Every figure is that of a fleet that was found.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace

from planner.candidates.deadline import deadline
from planner.errors import Infeasible, MeshwrightError, OutOfTime
from planner.inputs.workload import LIMITS, Bucket, Slo, Workload
from planner.objectives import Objective
from planner.plans.found import Found, groups, paths
from planner.question.asked import Asked
from planner.question.posed import pooled
from planner.search.find import find
from planner.search.shortlists import unserved
from solvers.linear import Limits

RARE = 0.01
"""Requests are rare where they are at most this share of all requests."""

ROUGH_GAP = 0.05
"""Gap of the fleets that are compared: far below what is worth telling."""

FLEET_SHARE = 0.6
"""Of the time that is left, for the next fleet."""

LOOKING_SHARE = 0.7
"""Of the time for one fleet, for its candidates."""


@dataclass(frozen=True)
class RareLengths:
    """The longest `buckets` of a workload, their `share` of all requests, and the two halves of it."""

    buckets: tuple[Bucket, ...]
    share: float
    rest: Workload
    alone: Workload

    @property
    def words(self) -> str:
        """Which requests they are.

        >>> few, most = Bucket(isl=70878, osl=9, share=2e-4), Bucket(isl=900, osl=100, share=0.9998)
        >>> rare_lengths(Workload(buckets=[few, most])).words
        '0.02 % of requests (prompts of 70,878 tokens)'
        """
        prompts = sorted({b.isl for b in self.buckets})
        several = f"{prompts[0]:,} to " if len(prompts) > 1 else ""
        return f"{100 * self.share:.2g} % of requests (prompts of {several}{prompts[-1]:,} tokens)"


def rare_lengths(workload: Workload) -> RareLengths | None:
    """Return the longest buckets that together have `RARE` of all requests at most; None where there are
    none, or where the cache that returns is told by bucket."""
    if workload.idle is not None:
        return None
    buckets, shares = workload.buckets, workload.shares
    by_length = sorted(range(len(buckets)), key=lambda i: -(buckets[i].isl + buckets[i].osl))
    rare, share = set[int](), 0.0
    for i in by_length:
        if share + shares[i] > RARE:
            break
        rare.add(i)
        share += shares[i]
    if not rare:
        return None
    theirs = tuple(buckets[i] for i in sorted(rare))
    others = [b for i, b in enumerate(buckets) if i not in rare]
    rest = _part(workload, others, 1 - share)
    return RareLengths(theirs, share, rest, _part(workload, list(theirs), share))


def _part(workload: Workload, buckets: list[Bucket], share: float) -> Workload:
    """These buckets of a workload, at their share of its rate."""
    rate = None if workload.rate_rps is None else share * workload.rate_rps
    return workload.model_copy(update={"buckets": buckets, "rate_rps": rate, "traffic": None})


@dataclass(frozen=True)
class Without:
    """Fleets for the rest, and for the rare requests alone: within the same limits, and without one on TTFT.
    None: none was found, or looked for."""

    rare: RareLengths
    rest: Found
    alone: Found | None
    unlimited: Found | None

    @property
    def objective(self) -> float:
        """Of the rest."""
        return self.rest.solution.objective or 0.0

    def apart(self, found: Found | None) -> float | None:
        """The rest and the rare requests on servers of their own, added up."""
        return None if found is None else self.objective + (found.solution.objective or 0.0)

    def remedies(self, most: float = float("inf")) -> list[str]:
        """What serving them apart takes in all, in words; only what is less than `most`."""
        unit, told = self.rest.objective, list[str]()
        same, loose = self.apart(self.alone), self.apart(self.unlimited)
        if same is not None and same < most:
            told.append(f"{amount(unit, same, self.rest, self.alone)} within the same limits")
        if loose is not None and self.unlimited and loose < min(most, same or most):
            after_s = max(p.ttft_s for p in paths(self.unlimited, groups(self.unlimited)))
            limit = f"with no limit on their TTFT, which is then {after_s:.3g} s"
            told.append(f"{amount(unit, loose, self.rest, self.unlimited)} {limit}")
        return told


def without(asked: Asked, rare: RareLengths, until: float) -> Without | None:
    """Return the fleets without the rare requests that are found `until` then (`time.perf_counter`); None
    where none serves the rest. Limits that were loosened for want of a design that keeps them are as they
    were. Raises OutOfTime and KeyboardInterrupt."""
    asked = replace(_unrelaxed(asked), offload=False)
    rest = _found(replace(asked, workload=_at(rare.rest, asked)), until)
    if rest is None:
        return None
    alone, unlimited = None, None
    if asked.objective.spends is not None:
        theirs = _at(rare.alone, asked)
        with suppress(OutOfTime):
            if theirs.slo.ttft_ms is not None:
                free = theirs.model_copy(update={"slo": theirs.slo.model_copy(update={"ttft_ms": None})})
                unlimited = _found(replace(asked, workload=free), until)
            alone = _found(replace(asked, workload=theirs), until)
    return Without(rare, rest, alone, unlimited)


def _at(part: Workload, asked: Asked) -> Workload:
    """A part of the workload within the limits that are asked for."""
    return part.model_copy(update={"slo": asked.workload.slo})


def _unrelaxed(asked: Asked) -> Asked:
    """What is asked, with default limits that were loosened as they were."""
    if all(w.code != "slo_relaxed" for w in asked.warnings):
        return asked
    usual = {f: Slo.model_fields[f].default for f in LIMITS if f"slo.{f}" in asked.defaulted}
    return asked.loaded(slo=asked.workload.slo.model_copy(update=usual))


def _found(asked: Asked, until: float) -> Found | None:
    """The best fleet that a search in a part of the time until then finds; None where there is none."""
    began = time.perf_counter()
    seconds = FLEET_SHARE * max(until - began, 0.0)
    with suppress(Infeasible):
        with deadline(began + LOOKING_SHARE * seconds):
            pool, question = pooled(asked)
        if not unserved(question.state(pool, "bound")):
            found = find(question, pool, Limits(ROUGH_GAP, (1 - LOOKING_SHARE) * seconds))
            found.solution.unbroken()
            return found if found.solution.objective is not None else None
    return None


def amount(objective: Objective, value: float, *fleets: Found | None) -> str:
    """What fleets take or serve, in words."""
    gpus = sum(f.candidates[c].gpus * n for f in fleets if f for c, n in f.solution.replicas.items())
    held = f"{gpus:,} GPU{'s' if gpus != 1 else ''}"
    return held if objective.spends == "gpus" else f"{held} ({value:.4g} {objective.unit})"


def with_rare_lengths(error: MeshwrightError, asked: Asked, end_s: float) -> MeshwrightError:
    """The error of a question that has no plan, with the rare lengths that are why, and what serving them
    apart takes, as far as that is found until `end_s` (`time.perf_counter`)."""
    rare = rare_lengths(asked.workload)
    if rare is None or time.perf_counter() >= end_s:
        return error
    found = None
    with deadline(end_s), suppress(OutOfTime):
        found = without(asked, rare, end_s)
    late = isinstance(error, OutOfTime)
    if found is None:
        said = f"; whether {rare.words} are why is not known" if late else ""
        return type(error)(error.message + said, error.where, error.hint)
    served = f"without them there is a plan: {amount(found.rest.objective, found.objective, found.rest)}"
    why = "may be why" if late else "alone are why"
    apart = found.remedies()
    hint = f"plan them apart: in all {' or '.join(apart)}" if apart else "plan them apart"
    hint += f"; or {error.hint}" if error.hint else ""
    return type(error)(f"{error.message}; {rare.words} {why}, {served}", error.where, hint)
