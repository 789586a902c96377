"""What ways beside a plan start from: the fleet that was found, and the time that each may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.beside.reasons import Fleet
from planner.plans.found import Found, Group
from planner.plans.schema import Alternative, Assumption, LongPrompt, PlanWarning, Price
from planner.question.asked import Asked
from planner.search.question import Question
from solvers.fleet.types import FleetSolution
from solvers.linear import Limits, gap

Line = Alternative | Assumption | LongPrompt | PlanWarning | Price
"""What a way says: another fleet, what an assumption decides, another way to compute a long prompt, what more
of a limit brings, or what a reader of the plan must know."""


VAGUE = 0.05
"""Gap above which a fleet that ran out of time says too little to be told."""


@dataclass(frozen=True)
class Planned:
    """A fleet `found` for a question, chosen for few kinds, it may be; `limits`: of every solve that a way
    does; `bound`: on fleets of any kinds, as those of most ways are."""

    asked: Asked
    question: Question
    found: Found
    limits: Limits
    bound: float | None = None

    @cached_property
    def fleet(self) -> Fleet:
        return Fleet(self.found, self.bound)

    @property
    def made(self) -> Sequence[Group]:
        """Groups of replicas that serve something, at their real load."""
        return self.fleet.made

    def known(self, rival: FleetSolution) -> float | None:
        """The objective of another fleet, None where it ended too far from its bound to say anything. Raises
        KeyboardInterrupt where its search was broken off."""
        rival.unbroken()
        if rival.objective is None or rival.bound is None:
            return None
        near = gap(rival.objective, rival.bound) <= max(VAGUE, self.limits.gap)
        return rival.objective if near else None

    @property
    def open_ended(self) -> bool:
        """Whether the most throughput of a closed loop within limits on means is asked for: what ways beside
        a plan estimate of full servers says nothing of random arrivals, nor of percentiles."""
        w = self.asked.workload
        mean = w.slo.percentile == "mean" or not w.slo.limits
        return self.asked.objective.more and w.loop == "closed" and mean
