"""Plans of several models in a terminal: all in one table, what each costs the others, the proof of all; then
each model's own plan."""

from __future__ import annotations

from rich.console import Console, Group
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from planner.plans.schema import Plan
from planner.plans.schema.several import Several, Takes
from planner.reports import terminal
from planner.reports import words as say
from planner.reports.figures import owned, used
from planner.reports.proven import designs, ended, good, held_by
from planner.reports.screen import running
from planner.reports.terminal import section
from planner.reports.words import grid


def render(several: Several, console: Console, details: bool = True) -> None:
    """Print the answer, each model's plan in all `details` or as what to run. Warnings are not in it:
    `warnings` prints them, on stderr."""
    console.print(headline(several))
    section(console, "Models", models(several))
    if several.prices and details:
        section(console, "What each costs the others", prices(several))
    if not details:
        for plan in several.plans:
            first, *rest = running(plan)
            section(console, f"{plan.problem.model['name']}", Group(first, *rest))
    section(console, "Proof of all together", proof(several))
    if not details:
        return
    for plan in several.plans:
        console.print()
        console.print(Rule(str(plan.problem.model["name"]), align="left", style="dim"))
        terminal.render(plan, console)


def warnings(several: Several, console: Console) -> None:
    """Print what is to be known of all, then of each model; idle GPUs are told once, of all."""
    for w in several.warnings:
        console.print(Text.assemble(("warning: ", "bold yellow"), w.message))
    for plan in several.plans:
        for w in plan.warnings:
            if w.code != "idle_gpus":
                name = str(plan.problem.model["name"])
                console.print(Text.assemble(("warning: ", "bold yellow"), f"{name}: {w.message}"))


def headline(several: Several) -> Text:
    """What runs where, and what comes of it."""
    first, total = several.plans[0], several.total
    cluster = str(first.problem.cluster.get("name", "cluster"))
    text = Text.assemble(
        (f"{len(several.plans)} models", "bold"),
        " on ",
        (cluster, "bold"),
        f", {total.gpus:,} of {owned(first):,} GPUs\n",
    )
    asked = several.proof.sense == "min"
    if total.share is None:
        text.append(f"{say.number(total.rps)} requests/s", style="bold green")
    elif asked:
        text.append(f"{say.number(total.rps)} requests/s, every model's rate")
    else:
        text.append(f"{say.percent(total.share)} of every model's rate", style="bold green")
        text.append(f" · {say.number(total.rps)} requests/s")
    text.append(f" · {say.number(total.out_tok_per_s)} output tok/s")
    if total.usd_per_hour is not None:
        text.append(f" · {say.money(total.usd_per_hour)}/h", style="bold green" if asked else "")
    return text


def models(several: Several) -> Table:
    """One row a model: what is asked and served, on what, and how fast."""
    rated = any(demand.rate_rps is not None for demand in several.models)
    names = [">asked/s"] if rated else [">of all"]
    table = grid("model", *names, ">served/s", ">GPUs", "on", ">TTFT", ">TPOT")
    for demand, plan in zip(several.models, several.plans, strict=True):
        p = plan.predicted
        asked = say.percent(demand.part) if demand.rate_rps is None else say.number(demand.rate_rps)
        table.add_row(
            Text(demand.model, style="bold"),
            asked,
            say.number(p.rps.value),
            f"{used(plan):,}",
            ", ".join(on(plan)),
            say.milliseconds(p.ttft_ms.value),
            say.milliseconds(p.tpot_ms.value),
        )
    return table


def on(plan: Plan) -> list[str]:
    """The GPUs of a model by device: `6 h100-sxm`."""
    found: dict[str, int] = {}
    for r in plan.replicas:
        for stage in r.stages:
            found[stage.device] = found.get(stage.device, 0) + r.count * stage.gpus
    return [f"{count:,} {device}" for device, count in found.items()]


def prices(several: Several) -> Text:
    """One line a model, by solving again without it; the relaxation's price of one more request/s."""
    return Text("\n").join(Text(line) for price in several.prices for line in _lines(several, price))


def _lines(several: Several, price: Takes) -> list[str]:
    more = several.proof.sense == "max"
    amount = say.rate(abs(price.costs), price.unit)
    known = price.status in ("optimal", "within_gap")
    if not known:
        amount += f" to {say.rate(price.costs + abs(price.without - price.bound), price.unit)}"
    if more:
        told = f"without {price.model} the others would serve {amount} more in the same proportion"
    else:
        told = f"{price.model} costs {amount}"
        if price.per_request is not None:
            told += f", ${1000 * price.per_request:.3g} per 1,000 requests"
        told += f": the others alone take {'' if known else 'at most '}{say.rate(price.without, price.unit)}"
    lines = [told]
    if price.marginal is not None:
        unit = "requests/s of all" if more else price.unit
        lines.append(f"  one more request/s of it: about {price.marginal:.3g} {unit} (with parts of GPUs)")
    return lines


def held(several: Several) -> list[str]:
    """Caps that hold the space of designs; one that holds several models' alike stands once."""
    names = {demand.model for demand in several.models}
    whose: dict[str, list[str]] = {}
    for cap in several.proof.space.caps:
        if cap.binds:
            name, _, what = cap.what.partition(": ")
            whose.setdefault(held_by(cap.model_copy(update={"what": what})), []).append(name)
    return [told if len(own) == len(names) else f"{', '.join(own)}: {told}" for told, own in whose.items()]


def proof(several: Several) -> Text:
    """How good all together are at worst, and among what."""
    p = several.proof
    why = ended(p, several.plans[0].problem.options.get("time_limit_s", 0.0))
    bound = f"found {p.objective:,.5g} {p.unit}, bound {p.bound:,.5g} {p.unit}"
    caps = held(several)
    return Text.assemble(
        (f"{why}{good(p.gap)}", "bold yellow" if why else "bold green"),
        f" among {designs(p)}, {say.number(p.seconds, 2)} s ({p.solver})\n{bound}",
        f"\na gap is left as {p.why}" if p.why else "",
        *(f"\n{cap}" for cap in caps),
    )
