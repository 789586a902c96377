"""How far a plan's rate and limits are tightened until the replay of real arrivals keeps its promise.

The program plans for requests at random times at a rate, within limits. Real ones come in bursts, and short
answers beside long prompts are slower than the formulas have them: a plan for the trace's mean rate breaks
its percentiles. So it is asked for `tight` ones: a higher rate, tighter limits. From what the replay finds of
a limit, as a share of it:

    TTFT broken     the rate grows, at once to what the queue needs (`traffic/lindley.py`); the limit tightens
                    where more rate brings little
    TPOT broken     its limit tightens by as much as it was broken
    whole requests  that last too long: what they mostly wait for, the first token or the others, is tightened
                    from where it was found
    kept            halfway back (in logarithms) to the nearest that broke, while that may be cheaper

`reach` goes up to the first plan that keeps all, `relax` back. What is found keeps its promise in every
replay; that a cheaper one could not is not proven, only that this way the next one down breaks it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Generic, TypeVar

T = TypeVar("T")

ROUNDS, BACK = 9, 5
"""Plans that are tried on the way up, and back down."""

FASTER, FASTEST = 1.12, 1.6
"""Of the rate, in a round: at least and at most."""

TIGHTEST = 0.4
"""Share of a limit that is left after a round, at least."""

LESS = 0.97
"""Of a limit beyond what was measured: the next plan is not quite the same."""

NEAR = 0.04
"""How near two ways of asking are, where nothing lies between them any more."""

SOON = 0.9
"""Share of what a limit was broken by before that is left, where more rate helps."""


@dataclass(frozen=True)
class Tight:
    """What a plan is asked for: a rate, and shares of both limits."""

    rate_rps: float
    ttft: float = 1.0
    tpot: float = 1.0

    def between(self, other: Tight) -> Tight:
        """Halfway, in logarithms."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Tight(*(sqrt(a * b) for a, b in pairs))

    def near(self, other: Tight) -> bool:
        """Whether nothing worth a plan lies between them."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(abs(a - b) <= NEAR * max(a, b) for a, b in pairs)


@dataclass(frozen=True)
class Trial(Generic[T]):
    """A plan that was tried: what it was asked for, its objective (less is better), and the worst of its
    replays as shares of the limits: on TTFT, on TPOT, and on a `whole` request, `first` of which is TTFT."""

    asked: Tight
    plan: T
    objective: float
    ttft: float
    tpot: float
    whole: float = 0.0
    first: float = 0.0

    @property
    def kept(self) -> bool:
        """Whether every replay kept all limits."""
        return max(self.ttft, self.tpot, self.whole) <= 1


MOSTLY = 0.5
"""Of a whole request, from which on the first token is most of it."""

Try = Callable[[Tight], Trial[T] | None]
"""A plan so asked for, replayed; None where no plan can be so."""


@dataclass(frozen=True)
class Tightened(Generic[T]):
    """The cheapest that kept its promise (None: none did), the last that broke it, and plans tried."""

    kept: Trial[T] | None
    broke: Trial[T] | None
    tried: int


def tightened(trial: Try[T], first: Tight, burst_rps: float, late: Callable[[], bool]) -> Tightened[T]:
    """Up from `first`, and back; `burst_rps`: the rate to go on with where queues break the promise.
    `late`: whether the time is over."""
    kept, broke, tried = reach(trial, first, burst_rps, late)
    if kept is None or broke is None:
        return Tightened(kept, broke, tried)
    for _ in range(BACK):
        if late() or kept.objective <= broke.objective or kept.asked.near(broke.asked):
            break
        found, tried = trial(kept.asked.between(broke.asked)), tried + 1
        if found is None or not found.kept:
            broke = broke if found is None else found
            if found is None:
                break
        elif found.objective <= kept.objective:
            kept = found
        else:
            break
    return Tightened(kept, broke, tried)


def reach(
    trial: Try[T], first: Tight, burst_rps: float, late: Callable[[], bool]
) -> tuple[Trial[T] | None, Trial[T] | None, int]:
    """The first plan that keeps its promise, the last before it, and how many were tried."""
    asked, broke, tried = first, None, 0
    while tried < ROUNDS and not (tried and late()):
        found, tried = trial(asked), tried + 1
        if found is None:
            if broke is None or asked.near(broke.asked):
                return None, broke, tried
            asked = asked.between(broke.asked)  # too much was asked for
            continue
        if found.kept:
            return found, broke, tried
        asked = tighter(found, broke, burst_rps)
        broke = found
    return None, broke, tried


def tighter(found: Trial[T], before: Trial[T] | None, burst_rps: float) -> Tight:
    """What to ask for after a plan that broke its promise."""
    asked = found.asked
    if found.whole > 1 and found.ttft <= 1 and found.tpot <= 1:
        less = max(LESS / found.whole, TIGHTEST)
        if found.first < MOSTLY:
            return replace(asked, tpot=min(asked.tpot, found.tpot) * less)
        return replace(asked, rate_rps=asked.rate_rps * FASTER, ttft=min(asked.ttft, found.ttft) * less)
    if found.tpot > 1:
        asked = replace(asked, tpot=asked.tpot * max(LESS / found.tpot, TIGHTEST))
    if found.ttft > 1:
        more = min(max(sqrt(found.ttft), FASTER), FASTEST)
        asked = replace(asked, rate_rps=max(asked.rate_rps * more, burst_rps))
        if before is not None and before.ttft > 1 and found.ttft > SOON * before.ttft:
            asked = replace(asked, ttft=asked.ttft * max(LESS / found.ttft, TIGHTEST))
    return asked
