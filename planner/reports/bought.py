"""A purchase in a terminal: what to have, what it serves, how good that is, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from planner.buy.answer import BreakEven, More, Purchase
from planner.buy.money import Money
from planner.reading.units import counted
from planner.reports import words as say
from planner.reports.curve import runs
from planner.reports.words import grid

EXACT = 1e-5
"""Distance from the bound that rounding leaves."""

VERBS = {"usd_per_hour": "rent", "usd": "buy", "watts": "have"}


def purchase(found: Purchase) -> RenderableType:
    """All of it."""
    plan, money = found.plan, found.money
    model = plan.problem.model.get("name", "the model")
    head = f"{VERBS[money.measure]} for {model}: {money.said(found.takes)}"
    if money.most is not None:
        head += f" of {money.said(money.most)}"
    parts: list[RenderableType] = [Text(head, style="bold"), Text(_proven(found), style="dim")]
    if found.left_out:
        parts.append(Text(f"not looked at, as they have no price: {', '.join(found.left_out)}", style="dim"))
    parts += [Text(""), _nodes(found), Text(""), *(Text(line) for line in _serves(found))]
    if found.break_even:
        parts += [Text(""), *_prices(found.break_even, money)]
    if found.unpriced:
        offers = counted(found.unpriced, "offer")
        late = f"the time was over before prices of {offers} were looked for: --time-limit with more seconds"
        parts += [Text(""), Text(late, style="dim")]
    if found.more:
        parts += [Text(""), *_more(found.more, money, "rate" if found.rate_rps else "budget")]
    return Group(*parts)


def _proven(found: Purchase) -> str:
    offers = counted(found.offers, "offer")
    if not found.in_time:
        return f"the time was over before all {offers} were looked at: more may find a better mix"
    if found.gap <= 1e-6:
        return f"the best of all mixes of {offers}"
    return f"within {say.percent(found.gap)} of the best possible mix of {offers}"


def _nodes(found: Purchase) -> RenderableType:
    if not found.bought:
        return Text("nothing: the nodes that are there serve it")
    table = grid(">nodes", "offer", ">each", ">together")
    for each in found.bought:
        money = found.money
        table.add_row(
            f"{each.nodes:,}", each.offer, money.said(each.takes), money.said(each.nodes * each.takes)
        )
    return table


def _serves(found: Purchase) -> list[str]:
    """What the plan on them serves, and what runs."""
    p = found.plan.predicted
    cost = "" if p.usd_per_mtok is None else f", ${p.usd_per_mtok.value:,.3g} a million output tokens"
    times = f"TTFT {say.milliseconds(p.ttft_ms.value)}, TPOT {say.milliseconds(p.tpot_ms.value)}"
    served = f"serves {p.rps.value:,.4g} requests/s{cost}; {times}"
    return [served, *(f"  {line}" for line in runs(found.plan))]


def _prices(found: Sequence[BreakEven], money: Money) -> list[RenderableType]:
    """Prices at which the answer changes."""
    table = grid("offer", ">price", ">more of it below", ">less of it above", ">proven within")
    for one in found:
        below = "-" if one.below is None else money.said(one.below)
        above = "-" if one.above is None else money.said(one.above)
        sure = "exact" if one.gap <= EXACT else say.percent(one.gap)
        table.add_row(one.offer, money.said(one.price), below, above, sure)
    head = "prices of a node at which the mix changes, the others as they are"
    return [Text(head, style="bold"), table]


def _more(found: Sequence[More], money: Money, what: str) -> list[RenderableType]:
    """The mixes for more."""
    table = grid(f">{what}", ">takes", ">requests/s", "nodes")
    for one in found:
        if one.bought is None or one.takes is None or one.rps is None:
            table.add_row(f"x {one.times:g}", "none found", "", "")
        else:
            mix = ", ".join(f"{each.nodes} {each.offer}" for each in one.bought) or "none"
            table.add_row(f"x {one.times:g}", money.said(one.takes), f"{one.rps:,.4g}", mix)
    return [Text(f"the best mix for more {what}", style="bold"), table]
