"""What sized a plan that was replayed, and what a plan still serves after a loss of nodes, in words."""

from __future__ import annotations

from math import inf

from rich.console import Group, RenderableType
from rich.text import Text

from planner.plans.schema import Loss, Plan, Replayed, Survives
from planner.reports import words as say
from planner.reports.words import grid

NAMES = {
    "ttft_ms": "time to first token",
    "tpot_ms": "time per output token",
    "e2e_ms": "whole request",
}

EVEN = 1e-6
"""Share by which a plan is sized for more than its rate, at least, for that to be told."""


def replayed(plan: Plan, told: Replayed) -> RenderableType:
    """What was replayed and achieved, what the fleet was sized for, and what the next one down does."""
    percentile = plan.problem.workload["slo"]["percentile"]
    table = grid("", ">at worst", ">limit", ">within it")
    for name, a in told.achieved.items():
        times = say.milliseconds(a.achieved_ms), say.milliseconds(a.limit_ms)
        table.add_row(f"{NAMES[name]}, {percentile}", *times, _share(a.attained))
    after = [*_sized(plan, told), _next(plan, told)]
    return Group(Text(_arrivals(plan, told)), table, *(Text(line) for line in after))


def replayed_briefly(plan: Plan, told: Replayed) -> str:
    """What was replayed, and what was achieved at worst, in a sentence."""
    percentile = plan.problem.workload["slo"]["percentile"]
    achieved = (
        f"{NAMES[name]} {percentile} {say.milliseconds(a.achieved_ms)}, limit {say.milliseconds(a.limit_ms)}"
        for name, a in told.achieved.items()
    )
    return f"{_arrivals(plan, told)} {'; '.join(achieved)}"


def _arrivals(plan: Plan, told: Replayed) -> str:
    rate = f"at {say.number(told.rate_rps)} requests/s"
    if told.trace is None:
        bursts = (plan.problem.workload.get("traffic") or {}).get("dispersion")
        how = "drawn as bursty as the workload says" if bursts else "at random times"
        return f"{told.resamples + 1} times {told.requests:,} requests {rate}, {how}:"
    like = f", and {told.resamples} traces like it" if told.resamples else ""
    return f"{told.requests:,} requests of {told.trace} {rate}{like}:"


def _sized(plan: Plan, told: Replayed) -> list[str]:
    """The busiest time, and what that made the fleet."""
    slo = plan.problem.workload["slo"]
    limits = [
        f"{name.removesuffix('_ms').upper()} within {say.milliseconds(limit)}"
        for name, limit in (("ttft_ms", told.ttft_ms), ("tpot_ms", told.tpot_ms))
        if limit is not None and limit < (slo[name] or inf) * (1 - EVEN)
    ]
    more = told.sized_rps > told.rate_rps * (1 + EVEN)
    if not more and not limits:
        return ["Requests at random times would need the same fleet."]
    rate = [f"{say.number(told.sized_rps)} requests/s"] if more else []
    lines = [f"Sized as if for requests at random times: {', '.join([*rate, *limits])}."]
    if more and told.busy > 1:
        window = f"{_clock(told.busy_from_s)} to {_clock(told.busy_to_s)}"
        lines.append(
            f"Busiest: {told.busy:,} requests from {window}; queues need {say.number(told.needed_rps)} "
            "requests/s for the percentile."
        )
    return lines


def _next(plan: Plan, told: Replayed) -> str:
    plans = "1 plan was" if told.tried == 1 else f"{told.tried} plans were"
    if told.broke is None:
        return f"{plans} tried; what formulas ask for is enough."
    if told.broke < plan.proof.own:
        below = say.rate(told.broke, plan.proof.unit)
        return f"{plans} tried; the next below, {below}, breaks a limit in the replay."
    same = say.rate(told.broke, plan.proof.unit)
    return f"{plans} tried; another of {same}, sized for less, breaks a limit in the replay."


def _share(share: float) -> str:
    return "all" if share >= 1 else f"{100 * share:.2f} % of requests"


def _clock(seconds: float) -> str:
    """As 0:28:23, from the first request on.

    >>> _clock(1703.3)
    '0:28:23'
    """
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


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
    unproven = told.bound is not None and abs(told.bound - told.without) > SAME * abs(told.without)
    best = f" (at best {say.rate(told.bound or 0.0, p.unit)})" if unproven else ""
    if not told.price:
        nothing = "No" if unproven else "It costs nothing: no"
        return f"{nothing} better plan was found that need not keep this promise{best}."
    said = f"It costs {say.percent(told.price)}: without this promise it would be {own}"
    return f"{said}{best} in place of {say.rate(p.own, p.unit)}."
