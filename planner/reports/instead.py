"""What could have been run instead of the plan: the verdict on it, no word beyond what its solve proved."""

from __future__ import annotations

from planner.plans.schema import Alternative, Plan
from planner.reports import words as say

LEAST = 0.0005
"""Share of the plan's objective from which on a difference is worth a word."""

SPLIT = "prefill/decode split"


def verdict(plan: Plan, a: Alternative) -> str:
    """How much worse the alternative is, as far as that is proven; or why there is none."""
    if a.objective is None:
        spent = "" if a.seconds is None else f" in {say.number(a.seconds, 2)} s"
        return "not possible" if a.status == "infeasible" else f"none found{spent}"
    ours, sign = plan.proof.own, 1 if plan.proof.sense == "max" else -1
    gain, loss = (sign * (a.objective - ours) / abs(ours) if ours else 0.0), a.loss or 0.0
    if gain >= LEAST:
        return f"{say.percent(gain)} better"
    if loss >= LEAST:
        return (
            f"at least {say.percent(loss)} worse" if a.status == "stopped" else f"{say.percent(loss)} worse"
        )
    return "not settled" if a.status == "stopped" and gain < 0 else "equal"


def in_order(plan: Plan) -> list[Alternative]:
    """The best alternatives first, those that are none last."""
    sign = -1 if plan.proof.sense == "max" else 1
    return sorted(plan.alternatives, key=lambda a: (a.objective is None, sign * (a.objective or 0.0)))


def phases(plan: Plan) -> str | None:
    """Whether splitting prefill from decode pays here, in a sentence."""
    for a in plan.alternatives:
        if a.what.startswith(SPLIT):
            return f"Prefill and decode on the same servers: {_of('a split', verdict(plan, a))}."
        if a.what.startswith(f"no {SPLIT}"):
            return f"Separate prefill and decode servers: {_of('one shared kind', verdict(plan, a))}."
    return None


def _of(what: str, said: str) -> str:
    """A verdict in a sentence.

    >>> _of("a split", "10 % worse"), _of("a split", "not possible")
    ('a split would be 10 % worse', 'a split is not possible')
    >>> _of("a split", "none found in 2 s")
    'of a split none found in 2 s'
    """
    if said.startswith("none found"):
        return f"of {what} {said}"
    return f"{what} {'is' if said.startswith('not ') else 'would be'} {said}"
