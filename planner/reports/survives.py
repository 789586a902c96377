"""What a plan still serves after a loss of nodes, and what that costs, in words."""

from __future__ import annotations

from planner.plans.schema import Loss, Plan, Survives
from planner.reports import words as say

SAME = 1e-6
"""Relative distance below which a plan and its bound are one."""


def surviving(plan: Plan, told: Survives) -> list[str]:
    """The promise with the worst loss of each kind, and its price."""
    lost = "any one node" if told.nodes == 1 else f"any {told.nodes:,} nodes"
    share = "" if told.share == 1 else f"{say.percent(told.share)} of the rate, "
    promised = say.rate(told.share * plan.predicted.rps.value, "req/s")
    worst: dict[str, Loss] = {}
    for loss in sorted(told.losses, key=lambda loss: loss.rps):
        worst.setdefault(_nodes(loss), loss)
    left = "; ".join(f"without {name} {say.rate(loss.rps, 'req/s')}" for name, loss in worst.items())
    return [
        f"Without {lost} the rest serves {share}{promised} within the limits. At most: {left}.",
        _price(plan, told),
    ]


def _nodes(loss: Loss) -> str:
    """`a node of h100-sxm`, `2 nodes of a and a node of b`."""
    each = [f"{'a node' if k == 1 else f'{k:,} nodes'} of {g}" for g, k in loss.classes.items()]
    return " and ".join(each) or "the worst of them"


def _price(plan: Plan, told: Survives) -> str:
    """What the same cluster would do if nothing had to survive."""
    if told.without is None or told.price is None:
        return "What that costs was not looked for."
    p, own = plan.proof, say.rate(told.without, plan.proof.unit)
    if not told.price:
        return "It costs nothing: no better plan was found that need not keep this promise."
    said = f"It costs {say.percent(told.price)}: without this promise it would be {own}"
    unproven = told.bound is not None and abs(told.bound - told.without) > SAME * abs(told.without)
    best = f" (at best {say.rate(told.bound or 0.0, p.unit)})" if unproven else ""
    return f"{said}{best} in place of {say.rate(p.own, p.unit)}."
