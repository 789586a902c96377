"""What is promised and what it costs, with bands and limits; fewer kinds of replica; one more of each
limit."""

from __future__ import annotations

from planner.plans.schema import Alternative, Plan, Price
from planner.reading.units import counted
from planner.reports import words as say
from planner.reports.figures import Figure, figures
from planner.reports.page.blocks import Bar, Bars, Block, Key, Listed, Part, Section, Words
from planner.reports.proven import SAME, in_order, phases, verdict
from planner.reports.terminal import limit_words, worth

MONEY = ("$", "W", "J")
"""Units of what is spent."""

ROOM = 1.08
"""Of a bar's scale beyond the highest that it shows."""


def expected(plan: Plan) -> Section:
    """What is promised."""
    rows = [f for f in figures(plan) if not f.unit.startswith(MONEY)]
    note = Words.of("The thin line is the band: four measurements of five lie inside.", note=True)
    return Section("expect", "What to expect", (_bullets(rows), *[note] * any(f.edges for f in rows)))


def spent(plan: Plan) -> Section:
    """Cost and energy."""
    rows = [f for f in figures(plan) if f.unit.startswith(MONEY)]
    found: list[Block] = [_bullets(rows)]
    if plan.predicted.usd_per_hour is None:
        found.append(Words.of("Not every node has a price, so the cost is not known.", note=True))
    return Section("cost", "Cost and energy", tuple(found))


def _bullets(rows: list[Figure]) -> Bars:
    bars = tuple(_bullet(f) for f in rows)
    keys = [Key("plain", "predicted")]
    keys += [Key("band", "80 % band")] * any(f.edges for f in rows)
    keys += [Key("mark", "limit")] * any(f.limit for f in rows)
    return Bars(bars, tuple(keys))


def _bullet(f: Figure) -> Bar:
    """A figure from 0 on, its band, its limit."""
    whole = ROOM * max(f.band.high, f.band.value, f.limit or 0.0, 1e-12)
    parts, said = [Part("plain", 0.0, f.band.value / whole)], list[str]()
    if f.edges:
        parts.append(Part("band", f.band.low / whole, (f.band.high - f.band.low) / whole))
        said.append(f"band {f.edges}")
    if f.limit is not None:
        said.append(f"limit {f.limited}")
    if f.kept is not None:
        said.append(f"kept with a chance of {say.odds(f.kept)}")
    mark = None if f.limit is None else f.limit / whole
    return Bar(f.label, f.shown, tuple(parts), ", ".join(said), mark)


def simpler(plan: Plan) -> Section | None:
    """The price list of simplicity."""
    p = plan.proof
    if not p.kinds:
        return None
    most = max(abs(entry.objective) for entry in p.kinds) or 1.0
    bars, without = [], "" if p.unsplit is None else ", without a split"
    for entry in p.kinds:
        own = abs(entry.objective - p.own) <= SAME * abs(p.own)
        last = entry is p.kinds[-1] and len(p.kinds) > 1
        named = ["this plan"] * own + [f"the best found{without}"] * last
        part = Part("best" if own else "plain", 0.0, abs(entry.objective) / most)
        label = f"{counted(entry.kinds, 'kind')} of replica"
        bars.append(Bar(label, say.rate(entry.objective, p.unit), (part,), ", ".join(named), chosen=own))
    said = (
        "A kind of replica is a design on one class of GPUs, with one engine, in one role: what people set "
        f"up, test and run. {'More' if p.sense == 'max' else 'Less'} is better."
    )
    return Section("kinds", "What fewer kinds would give", (Words.of(said), Bars(tuple(bars))))


def more(plan: Plan) -> Section | None:
    """What one more of each limit would bring."""
    if not plan.prices:
        return None
    ordered = sorted(plan.prices, key=lambda price: -price.worth)
    smallest = 1e-9 * abs(plan.proof.own)
    best = ordered[0].worth
    bars = tuple(_worth(plan, price, best) for price in ordered if price.worth > smallest)
    nothing = [line for line in worth(plan) if line.startswith("More of these")]
    verb = "brings more" if plan.proof.sense == "max" else "saves"
    told = Words.of(f"Each line was solved again with one more of that alone: what it {verb}.")
    found: list[Block] = [told, Bars(bars)] if bars else []
    return Section(
        "more", "What one more would bring", (*found, Listed(tuple(nothing))) if nothing else tuple(found)
    )


def _worth(plan: Plan, price: Price, best: float) -> Bar:
    share = f" ({say.percent(price.worth / abs(plan.proof.own))})" if plan.proof.own else ""
    label = f"{limit_words(price)}: {price.one_more} more"
    gain = f"{'+' if plan.proof.sense == 'max' else '−'}{say.rate(price.worth, price.unit)}{share}"
    return Bar(label, gain, (Part("plain", 0.0, price.worth / best),))


def instead(plan: Plan) -> Section | None:
    """What else could be run, and why it lost."""
    if not plan.alternatives:
        return None
    found = in_order(plan)
    most = max(abs(x) for x in (plan.proof.own, *(a.objective for a in found)) if x is not None) or 1.0
    own = Bar(
        "This plan",
        say.rate(plan.proof.own, plan.proof.unit),
        (Part("best", 0.0, abs(plan.proof.own) / most),),
        chosen=True,
    )
    bars = (own, *(_rival(plan, a, most) for a in found))
    told = [Words.of(line) for line in (phases(plan),) if line]
    return Section("instead", "What else was considered", (*told, Bars(bars)))


def _rival(plan: Plan, a: Alternative, most: float) -> Bar:
    amount = "" if a.objective is None else f"{say.rate(a.objective, plan.proof.unit)}, "
    parts = () if a.objective is None else (Part("plain", 0.0, abs(a.objective) / most),)
    return Bar(a.what, f"{amount}{verdict(plan, a)}", parts, a.why)
