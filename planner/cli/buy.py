"""`meshwright buy --model M --budget 50$/h`."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import options as o
from planner.cli.help import arg, opt

SAID = ("slo_relaxed", "precision", "unsound", "not_started", "not_listed")
"""Warnings that are printed: those of what is promised. The plan has them all."""

OWN_SHARE = 0.5
"""Of the time limit, for the purchase itself where what would change it is looked for, too."""

ROUNDED = 1e-6
"""Share of the gap that rounding leaves."""


def buy(
    *,
    cluster: Annotated[str | None, arg("[CLUSTER]", "Cluster file of nodes that are there already.")] = None,
    model: o.ModelOpt,
    budget: Annotated[
        str | None, opt("--budget", "What may be spent, as in 50$/h, 120kW or 2M$.", "MONEY")
    ] = None,
    prices: Annotated[
        str, opt("--prices", "Offers: a YAML file, or a shipped list: rented, bought.", "LIST")
    ] = "rented",
    years: Annotated[
        float, opt("--years", "Of use, over which bought nodes are paid.", min=0.1, max=20.0)
    ] = 4.0,
    outlook: Annotated[
        bool, opt("--outlook", "Also prices at which the mix changes, and the mixes for more.")
    ] = False,
    workload: o.WorkloadOpt = "chat",
    isl: o.IslOpt = None,
    osl: o.OslOpt = None,
    rate: o.RateOpt = None,
    ttft_ms: o.TtftOpt = None,
    tpot_ms: o.TpotOpt = None,
    percentile: o.PercentileOpt = None,
    engine: o.EngineOpt = "any",
    precision: o.PrecisionOpt = None,
    kv_precision: o.KvPrecisionOpt = None,
    gap: o.GapOpt = 0.01,
    time_limit_s: o.TimeLimitOpt = 60.0,
    seed: o.SeedOpt = 0,
    json: o.JsonOpt = False,
    output: o.PlanFileOpt = None,
) -> None:
    """What to rent or buy for MODEL: the most for a budget, or the least for a rate, and how good that is.

    \b
    Examples:
      meshwright buy --model llama-3.1-8b --budget 50$/h
      meshwright buy cluster.yaml --model qwen3-32b --rate 20 --prices offers.yaml

    Exit codes: 0 proven within the gap, 2 bad input, 3 nothing within the budget serves the model, 4 farther
    from the bound, 5 no plan in time.
    """
    question = o.told(locals(), "cluster", "model", "budget", "prices", "years", "outlook", "json", "output")
    from contextlib import nullcontext

    from planner.buy.find import asked_of
    from planner.buy.find import buy as bought
    from planner.cli.output import print_json, stderr, stdout, whole_file
    from planner.cli.progress import Status
    from planner.plans.text import text
    from planner.reading.figures import rounded

    with whole_file(output) if output is not None else nullcontext() as file, Status() as status:
        wish = asked_of(model, budget, status, **question).begun()
        found, offered = bought(cluster, prices, wish.soon(OWN_SHARE) if outlook else wish, years)
        if outlook:
            from planner.buy.outlook import outlook as looked_at

            found = looked_at(found, offered, wish)
        if file:
            file.write(text(found.plan) + "\n")
    if json:
        print_json(rounded(found.as_json))
    else:
        from planner.reports import terminal
        from planner.reports.bought import purchase

        stdout().print(purchase(found))
        told = [w for w in found.plan.warnings if w.code in SAID]
        terminal.warnings(found.plan.model_copy(update={"warnings": told}), stderr())
    proven = found.in_time and found.gap <= gap * (1 + ROUNDED)
    raise typer.Exit(found.plan.proof.exit_code if proven else o.UNPROVEN_EXIT)
