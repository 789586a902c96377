"""The best other ways beside a plan, in a line each, for its first screen: the phases treated otherwise,
fewer or more kinds of replica, and one more of the limit that holds it back."""

from __future__ import annotations

from collections.abc import Iterator

from planner.plans.schema import Alternative, Plan, Price
from planner.reading.units import counted
from planner.reports import words as say
from planner.reports.proven import LEAST, SPLIT, gaps


def instead(plan: Plan) -> Iterator[str]:
    """The best other way with the two phases, fewer or more kinds of replica, and what one more of the best
    limit brings."""
    apart = next((a for a in plan.alternatives if SPLIT in a.what), None)
    if apart is not None and apart.objective is not None:
        way = "together" if apart.what.startswith(f"no {SPLIT}") else "apart"
        yield f"prefill and decode {way}: {_against(plan, apart.objective)}{_first_token(apart)}{gaps(apart)}"
    yield from _other_kinds(plan, apart)
    if (price := _best_price(plan)) is not None:
        yield _one_more(plan, price)


def _first_token(a: Alternative) -> str:
    """How late first tokens of another way are, against the plan's."""
    if not a.ttft_times:
        return ""
    late = a.ttft_times >= 1
    times = a.ttft_times if late else 1 / a.ttft_times
    return f", first token {times:.2g} times as {'late' if late else 'soon'}"


def _against(plan: Plan, objective: float) -> str:
    """`20.3 req/s (+6 %)`."""
    own = plan.proof.own
    change = (objective - own) / abs(own) if own else 0.0
    shown = "the same" if abs(change) < LEAST else f"{'+' if change > 0 else '-'}{say.percent(abs(change))}"
    return f"{say.rate(objective, plan.proof.unit)} ({shown})"


ALIKE = 0.002
"""Relative distance below which two objectives read as one."""


def _other_kinds(plan: Plan, shown: Alternative | None) -> Iterator[str]:
    """The simplest fleet and the best one, where the plan is another."""
    kinds, own = plan.proof.kinds, plan.proof.own
    known = [own, shown.objective if shown else None]
    others = [
        k for k in kinds[:1] + kinds[-1:] if all(abs(k.objective - x) > ALIKE * abs(own) for x in known if x)
    ]
    for entry in others[:1] if len(kinds) > 1 else []:
        yield f"{counted(entry.kinds, 'kind')} of replica: {_against(plan, entry.objective)}"


def _best_price(plan: Plan) -> Price | None:
    nodes = [p for p in plan.prices if p.worth > 1e-9 * abs(plan.proof.own)]
    return max(nodes, key=lambda p: p.worth, default=None)


def _one_more(plan: Plan, price: Price) -> str:
    """`one node more of h100-sxm (8 GPUs): +19.1 req/s (+100 %)`."""
    family, _, name = price.limit.partition(" ")
    step = f"{price.one_more} more" + (f" of {name}" if family == "memory" else "")
    if family == "nodes":
        step = f"one node more of {name} ({price.one_more.partition(' (')[0]})"
    sign = "+" if plan.proof.sense == "max" else "-"
    share = say.percent(price.worth / abs(plan.proof.own)) if plan.proof.own else "all"
    return f"{step}: {sign}{say.rate(price.worth, price.unit)} ({sign}{share})"
