"""Rivals of the plan, each a problem solved with something forbidden or allowed, and the line that says how
that ended.

A line never says more than its solve proved. Infeasible: no such fleet can be. None found: the time was over,
and the line says after how long. Stopped: a fleet was found in time, how much better one could be is open;
then the verdict is what the bound proves it to lose at least.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isfinite

from planner.beside.reasons import Fleet, describe, why
from planner.candidates.candidate import Candidate
from planner.plans.found import Found
from planner.plans.schema import Alternative, Ended
from planner.replicas.pool import Pool
from planner.search.find import find, restricted
from planner.search.question import Question
from planner.search.shortlists import LITTLE, close_to
from solvers.fleet import relaxed
from solvers.linear import Limits

LEAST_S = 0.2
"""Seconds that a solve gets which is not left out."""

WORTH = 0.02
"""What a way that no engine starts, or that costs quality, must gain to be shown."""


@dataclass(frozen=True)
class Rival:
    """How a solve ended, and after how many seconds; `fleet` None where there is none."""

    ended: Ended
    fleet: Fleet | None = None
    seconds: float = 0.0

    @staticmethod
    def of(solve: Callable[[], Found | None]) -> Rival:
        """What `solve` finds; None: there was no candidate. Raises KeyboardInterrupt where that ended it."""
        began = time.perf_counter()
        found = solve()
        seconds = time.perf_counter() - began
        status = found.solution.unbroken().status if found else "infeasible"
        if found is None or found.solution.objective is None:
            denied = found is None or found.solution.refuted
            return Rival("infeasible" if denied else "none_found", None, seconds)
        proofs: dict[str, Ended] = {"optimal": "proven", "within_gap": "within_gap"}
        return Rival(proofs.get(status, "stopped"), Fleet(found), seconds)


def lost(best: Fleet, rival: Rival) -> float | None:
    """The share of the plan's objective that a fleet loses, below 0 that it gains; of one that was stopped
    what its bound proves it to lose at least, None where it could still be as good."""
    assert rival.fleet is not None
    worse = -best.gain(rival.fleet.objective)
    if rival.ended != "stopped" or worse <= 0:
        return worse
    least = -inf if rival.fleet.bound is None else -best.gain(rival.fleet.bound)
    return least if least > 0 else None


def told(best: Fleet, rival: Rival, what: str = "", never: str = "", remark: str = "") -> Alternative:
    """A rival's line, named `what`, or after its fleet. `never`: why there is none, where that is proved;
    `remark`: what else is to be known of it, in place of why it is not the plan."""
    if rival.fleet is None:
        late = rival.ended == "none_found"
        said = "a longer --time-limit looks further" if late else never
        spent = rival.seconds if late else None
        return Alternative(what=what, objective=None, loss=None, why=said, status=rival.ended, seconds=spent)
    fleet, bound = rival.fleet, rival.fleet.bound
    if bound is not None and not isfinite(bound):
        bound = None
    at_best = "" if bound is None else f", {bound:,.4g} {fleet.found.objective.unit} at best"
    reason = f"not settled{at_best}" if rival.ended == "stopped" else why(best, fleet)
    named = describe(fleet.made)
    other = fleet.splits != best.splits
    times = fleet.ttft_ms / best.ttft_ms if other and best.ttft_ms > 0 else None
    gaps = (fleet.gap_ms, best.gap_ms) if other else None
    waits = "" if times is None else _first_tokens(best, fleet)
    stalls = (
        ""
        if gaps is None
        else f"{gaps[0]:,.3g} ms between tokens where prompts come, the plan {gaps[1]:,.3g}"
    )
    reasons = [what and named, reason, waits, stalls, remark or _passed_over(best, fleet)]
    return Alternative(
        what=what or named,
        objective=fleet.objective,
        loss=max(lost(best, rival) or 0.0, 0.0),
        why="; ".join(filter(None, reasons)),
        status=rival.ended,
        bound=bound,
        ttft_times=times,
        gaps_ms=gaps,
    )


def told_once(lines: Sequence[Alternative]) -> list[Alternative]:
    """Without fleets that have a line of their own and stand in one that is named for what they lack, too."""
    inside = {(line.why.partition(";")[0], line.objective) for line in lines}
    return [line for line in lines if (line.what, line.objective) not in inside]


def _first_tokens(best: Fleet, rival: Fleet) -> str:
    return f"first tokens after {rival.ttft_ms:,.3g} ms, the plan's after {best.ttft_ms:,.3g}"


def _passed_over(best: Fleet, rival: Fleet) -> str:
    """Why a fleet that is better is not the plan; nothing of a worse one."""
    if best.gain(rival.objective) <= 0:
        return ""
    if rival.splits and not best.splits:
        return "a split that is not sure to pay; --simple 0 takes it"
    many, few = len(rival.kinds), len(best.kinds)
    if many > few:
        return f"{many} kinds of replica where the plan has {few}"
    return "the plan is as near to the best as was asked for"


def estimated(what: str, best: Fleet, theirs: float, why: str) -> Alternative:
    """The line of a way that formulas say something of, and no solve."""
    loss = max(-best.gain(theirs), 0.0)
    return Alternative(what=what, objective=theirs, loss=loss, why=why, status="estimate")


def gains(best: Fleet, theirs: float) -> bool:
    """Whether a way outside the plan's own space gains enough to be shown: over all that this space may have,
    which is its bound."""
    beyond = 0.0 if best.bound is None else max(best.gain(best.bound), 0.0)
    return best.gain(theirs) >= WORTH + beyond


@dataclass
class Rivals:
    """Other fleets for the plan's question, each solved within `limits` and shown once. `until`: when none is
    begun any more that may be left out, in seconds that the process computed (`time.process_time`): what else
    the machine does is no reason to show others."""

    question: Question
    best: Fleet
    limits: Limits
    until: float
    lines: dict[object, Alternative] = field(default_factory=dict)

    @staticmethod
    def within(question: Question, best: Found, limits: Limits) -> Rivals:
        """In about the seconds that one solve has."""
        return Rivals(question, Fleet(best), limits, time.process_time() + limits.seconds)

    @property
    def late(self) -> bool:
        return time.process_time() > self.until

    @property
    def overdue(self) -> bool:
        """Twice the time is over: then nothing is begun at all."""
        return time.process_time() > self.until + self.limits.seconds

    @property
    def left(self) -> Limits:
        """Limits of a solve that begins now."""
        seconds = max(self.until - time.process_time(), LEAST_S)
        return replace(self.limits, seconds=min(self.limits.seconds, seconds))

    def where(self, keep: Callable[[Candidate], bool]) -> Rival:
        """The best fleet of those of the plan's candidates."""
        return Rival.of(partial(restricted, self.question, self.best.found, keep, self.left))

    def least_lost(self, keep: Callable[[Candidate], bool]) -> float:
        """The share of the plan's objective that the best fleet of those candidates loses at least, as far as
        a linear relaxation tells."""
        pool = close_to(self.question, self.best.found)
        some = tuple(c for c in pool.candidates if keep(c))
        problem = self.question.state(replace(pool, candidates=some), "bound")
        value = relaxed(problem, self.left) if some else None
        beyond = LITTLE if len(pool.candidates) < len(self.best.found.pool.candidates) else inf
        return -inf if value is None else min(-self.best.gain(value), beyond)

    def of(self, pool: Pool) -> Rival:
        """The best fleet of other candidates."""
        if not pool.candidates:
            return Rival("infeasible")
        return Rival.of(partial(find, self.question, pool, self.left))

    def show(self, rival: Rival, what: str = "", never: str = "") -> None:
        """A line; of a fleet that has one already its name is added there."""
        fleet = frozenset(rival.fleet.kinds.items()) if rival.fleet else what
        known = self.lines.get(fleet)
        if known is None:
            self.lines[fleet] = told(self.best, rival, what, never)
        elif what:
            self.lines[fleet] = known.model_copy(update={"what": f"{known.what}, {what}"})

    @property
    def shown(self) -> list[Alternative]:
        """All lines, the best fleet first, those without one last."""
        return sorted(
            self.lines.values(),
            key=lambda a: (a.objective is None, -self.best.gain(a.objective or 0.0)),
        )
