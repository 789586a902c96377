"""Rivals of the plan, each a problem solved with something forbidden or allowed, and the line that says how
that ended.

A line never says more than its solve proved. Infeasible: no such fleet can be. None found: the time was over,
and the line says after how long. Stopped: a fleet was found in time, how much better one could be is open;
then the verdict is what the bound proves it to lose at least.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isfinite

from planner.candidates.candidate import Candidate
from planner.candidates.generate import Pool
from planner.explain.reasons import describe, why
from planner.plans.found import Found, groups
from planner.plans.schema import Alternative, Ended
from planner.search import Question, find, restricted
from solvers.linear import Limits

LONGER = "a longer --time-limit looks further"

WORTH = 0.02
"""What a way that no engine starts, or that costs quality, must gain to be shown."""

Kind = tuple[str, str, str, str]
"""Role, class, engine and layout of a replica."""


def kind(c: Candidate) -> Kind:
    """What a replica is, however it is loaded."""
    return c.role, c.node_class, c.engine, str(c.design)


def kinds(found: Found) -> frozenset[Kind]:
    """Kinds of replica of a fleet that serve something."""
    return frozenset(kind(g.candidate) for g in groups(found))


def gain(best: Found, theirs: float) -> float:
    """How much better an objective is than the plan's own, as a share of that; below 0: worse."""
    ours = best.solution.objective
    sign = 1.0 if best.objective == "throughput" else -1.0
    return sign * (theirs - ours) / abs(ours) if ours else 0.0


def margin(best: Found) -> float:
    """How much better than the plan fleets of its own space can be at most, as a share of it: a way outside
    that gains no more than that may gain nothing."""
    bound = best.solution.bound
    return 0.0 if bound is None else max(gain(best, bound), 0.0)


@dataclass(frozen=True)
class Rival:
    """How a solve ended, and after how many seconds; `found` None where no candidate was left to it."""

    found: Found | None
    seconds: float

    @staticmethod
    def of(solve: Callable[[], Found | None]) -> Rival:
        """What `solve` finds. Raises KeyboardInterrupt where that ended it."""
        began = time.perf_counter()
        found = solve()
        if found is not None and found.solution.status == "interrupted":
            raise KeyboardInterrupt
        return Rival(found, time.perf_counter() - began)

    @property
    def objective(self) -> float | None:
        return self.found.solution.objective if self.found else None

    @property
    def ended(self) -> Ended:
        """What was proved. A proven optimum that serves nothing proves that nothing can be served."""
        status = self.found.solution.status if self.found else "infeasible"
        if self.objective is None:
            return "none_found" if status == "time_limit" else "infeasible"
        return "proven" if status == "optimal" else "within_gap" if status == "within_gap" else "stopped"


def proves(best: Found, rival: Rival) -> bool:
    """Whether a verdict on a fleet may be given: not where time was over while it could still be as good."""
    s = rival.found.solution if rival.found else None
    if s is None or s.objective is None or rival.ended != "stopped" or gain(best, s.objective) >= 0:
        return True
    return s.bound is not None and gain(best, s.bound) < 0


def told(best: Found, rival: Rival, what: str = "", never: str = "", remark: str = "") -> Alternative:
    """A rival's line, named `what`, or after its fleet. `never`: why there is none, where that is proved;
    `remark`: what else is to be known of it, in place of why it is not the plan."""
    ended, found, theirs = rival.ended, rival.found, rival.objective
    if found is None or theirs is None:
        said, spent = (never, None) if ended == "infeasible" else (LONGER, rival.seconds)
        return Alternative(what=what, objective=None, loss=None, why=said, status=ended, seconds=spent)
    bound = found.solution.bound if found.solution.bound is not None else inf
    open_ = ended == "stopped" and gain(best, theirs) < 0
    lost = -gain(best, bound) if open_ else -gain(best, theirs)
    fleet = describe(groups(found))
    said = "; ".join(filter(None, [what and fleet, why(best, found), remark or _passed_over(best, found)]))
    return Alternative(
        what=what or fleet,
        objective=theirs,
        loss=max(lost, 0.0) if isfinite(lost) else 0.0,
        why=said,
        status=ended,
        bound=bound if isfinite(bound) else None,
    )


def _passed_over(best: Found, rival: Found) -> str:
    """Why a fleet that is better is not the plan; nothing of a worse one."""
    theirs = rival.solution.objective
    if theirs is None or gain(best, theirs) <= 0:
        return ""
    many, few = len(kinds(rival)), len(kinds(best))
    if many > few:
        return f"{many} kinds of replica where the plan has {few}"
    return "the plan is as near to the best as was asked for"


def estimated(what: str, best: Found, theirs: float, why: str) -> Alternative:
    """The line of a way that formulas say something of, and no solve."""
    lost = max(-gain(best, theirs), 0.0)
    return Alternative(what=what, objective=theirs, loss=lost, why=why, status="estimate")


@dataclass
class Rivals:
    """Other fleets for the plan's question, each solved within `limits` and shown once. `until`: when none is
    begun any more that may be left out, on the monotonic clock."""

    question: Question
    best: Found
    limits: Limits
    until: float
    lines: dict[object, Alternative] = field(default_factory=dict)

    @staticmethod
    def within(question: Question, best: Found, limits: Limits, solves: int) -> Rivals:
        """About so many solves in the seconds of `limits`; with a limit on work the clock decides nothing."""
        until = inf if limits.work is not None else time.monotonic() + limits.seconds
        return Rivals(question, best, replace(limits, seconds=limits.seconds / solves), until)

    @property
    def late(self) -> bool:
        return time.monotonic() > self.until

    def where(self, keep: Callable[[Candidate], bool]) -> Rival:
        """The best fleet of those of the plan's candidates."""
        return Rival.of(partial(restricted, self.question, self.best, keep, self.limits))

    def of(self, pool: Pool) -> Rival:
        """The best fleet of other candidates."""
        return (
            Rival.of(partial(find, self.question, pool, self.limits)) if pool.candidates else Rival(None, 0.0)
        )

    def show(self, rival: Rival, what: str = "", never: str = "") -> None:
        """A line; of a fleet that has one already its name is added there."""
        fleet: object = what
        if rival.found is not None and rival.objective is not None:
            fleet = frozenset((kind(g.candidate), g.count) for g in groups(rival.found))
        known = self.lines.get(fleet)
        if known is None:
            self.lines[fleet] = told(self.best, rival, what, never)
        elif what:
            self.lines[fleet] = known.model_copy(update={"what": f"{known.what}, {what}"})

    @property
    def shown(self) -> list[Alternative]:
        """All lines, the best fleet first, those without one last."""
        return sorted(
            self.lines.values(), key=lambda a: (a.objective is None, -gain(self.best, a.objective or 0.0))
        )
