"""`meshwright buy --model M --budget 50$/h`."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import options as o

MoneyOpt = Annotated[
    str | None, typer.Option("--budget", metavar="MONEY", help="What may be spent, as in 50$/h.")
]
PricesOpt = Annotated[
    str, typer.Option("--prices", metavar="LIST", help="Offers: a YAML file, or a list that is shipped.")
]


def buy(
    *,
    model: o.ModelOpt,
    budget: MoneyOpt = None,
    prices: PricesOpt = "rented",
    workload: o.WorkloadOpt = "chat",
    isl: o.IslOpt = None,
    osl: o.OslOpt = None,
    rate: o.RateOpt = None,
    ttft_ms: o.TtftOpt = None,
    tpot_ms: o.TpotOpt = None,
    engine: o.EngineOpt = "any",
    precision: o.PrecisionOpt = None,
    gap: o.GapOpt = 0.01,
    time_limit: o.TimeLimitOpt = 60.0,
    json: o.JsonOpt = False,
    output: o.PlanFileOpt = None,
) -> None:
    """What to rent for MODEL: the most for a budget, or the least money for a rate, and how good that is.

    \b
    Examples:
      meshwright buy --model llama-3.1-8b --budget 50$/h
      meshwright buy --model qwen3-32b --rate 20 --prices offers.yaml

    Exit codes: as of `plan`.
    """
    from contextlib import nullcontext

    from planner.buy.find import buy as bought
    from planner.cli.output import stdout, whole_file
    from planner.cli.progress import Status
    from planner.plans.text import text

    question = {
        **{
            "workload": workload,
            "isl": isl,
            "osl": osl,
            "rate": rate,
            "ttft_ms": ttft_ms,
            "tpot_ms": tpot_ms,
        },
        **{"engine": engine, "precision": precision, "gap": gap, "time_limit_s": time_limit},
    }
    with whole_file(output) if output is not None else nullcontext() as file, Status() as status:
        found = bought(model, prices, budget, status, **question)
        if file:
            file.write(text(found.plan) + "\n")
    if json:
        typer.echo(text(found.plan))
    else:
        console = stdout()
        console.print(f"Rent for ${found.usd_per_hour:,.2f} an hour, of {found.offers} offers:")
        for each in found.rented:
            console.print(f"  {each.nodes:>4} x {each.offer}, ${each.usd_per_hour:,.2f} an hour each")
        rps = found.plan.predicted.rps.value
        console.print(
            f"Serves {rps:,.4g} requests a second; within {100 * found.gap:.2g} % of the best possible."
        )
    raise typer.Exit(found.plan.proof.exit_code)
