"""What a plan is chosen by, one entry each: a goal of the fleet program, its unit, and the terms in which a
fleet is said to be better or worse. A new one is an entry here, and a rule in `check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from solvers.fleet import goals as fleet_goals
from solvers.fleet.types import Goal, What

Figure = Literal["rate_per_gpu", "gpus", "rate_per_spent", "per_token", "ttft_s", "tpot_s"]
"""Figures of a fleet: requests/s a GPU in use, GPUs in use, requests/s for one of what is minimised, a second
of that for an output token, and mean seconds to the first and to a further token."""


@dataclass(frozen=True)
class Term:
    """A figure of two fleets in words, which have room for both, each times `unit`; `more` is better, or
    less."""

    words: str
    figure: Figure
    more: bool = False
    unit: float = 1.0


@dataclass(frozen=True)
class Objective:
    """`goal` of the fleet program, the `unit` of its value, and why a fleet is worse, the first term that
    differs."""

    goal: Goal
    unit: str
    terms: tuple[Term, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process has it by its name: a goal has functions, which do not travel."""
        return named, (self.name,)

    @property
    def name(self) -> str:
        return self.goal.name

    @property
    def more(self) -> bool:
        """Whether more is better; else a rate must be given."""
        return self.goal.more

    @property
    def spends(self) -> What | None:
        """What of a fleet is minimised."""
        return self.goal.spends

    @property
    def sign(self) -> float:
        """The factor on a value with which less is better."""
        return self.goal.sign

    def loss(self, best: float, other: float) -> float:
        """How much worse `other` is, as a share of the best; below 0: better."""
        return self.sign * (other - best) / abs(best) if best else 0.0


THROUGHPUT = Objective(
    fleet_goals.THROUGHPUT,
    "req/s",
    (
        Term("{:.3g} against {:.3g} req/s a GPU in use", "rate_per_gpu", more=True),
        Term("{:,.0f} against {:,.0f} GPUs in use", "gpus", more=True),
    ),
)
COST = Objective(
    fleet_goals.COST,
    "USD/h",
    (
        Term(
            "${:.3g} against ${:.3g} a million output tokens, whole nodes paid", "per_token", unit=1e6 / 3600
        ),
    ),
)
ENERGY = Objective(fleet_goals.ENERGY, "W", (Term("{:.3g} against {:.3g} J an output token", "per_token"),))
LATENCY = Objective(
    fleet_goals.LATENCY,
    "s",
    (
        Term("{:.3g} against {:.3g} s to the first token", "ttft_s"),
        Term("{:.3g} against {:.3g} s a further token", "tpot_s"),
    ),
)
GPUS = Objective(
    fleet_goals.GPUS, "GPUs", (Term("{:.3g} against {:.3g} req/s a GPU", "rate_per_spent", more=True),)
)

OBJECTIVES = (THROUGHPUT, COST, ENERGY, LATENCY, GPUS)


def named(name: str) -> Objective:
    """The objective of a known name."""
    return next(one for one in OBJECTIVES if one.name == name)
