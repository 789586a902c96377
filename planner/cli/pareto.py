"""`meshwright pareto CLUSTER --model M`."""

from __future__ import annotations

import json as json_
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from planner.cli import options as o
from planner.cli.help import opt
from planner.errors import INTERRUPTED_EXIT

if TYPE_CHECKING:
    from planner.plans.schema import Plan
    from planner.studies.curves import Curve, Point


def pareto(
    *,
    cluster: o.ClusterArg = None,
    gpus: o.GpusOpt = None,
    model: o.ModelOpt,
    curve: Annotated[
        Literal["speed", "cost", "energy"],
        opt("--curve", "Users' speed and throughput; cost and latency; rate and watts."),
    ] = "speed",
    points: Annotated[int, opt("--points", "At most so many.", "N", min=3, max=100)] = 9,
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
    time_limit_s: Annotated[float, opt("--time-limit", "Seconds for each point.", "S")] = 30.0,
    seed: o.SeedOpt = 0,
    json: o.JsonOpt = False,
    output: Annotated[
        str | None, opt("--output -o", "The points: .csv, or .json with all their plans.", "FILE")
    ] = None,
) -> None:
    """What is given up for what: exact points of a curve, each a plan with its bound.

    \b
    Examples:
      meshwright pareto --gpus 8xH100 --model llama-3.1-70b
      meshwright pareto cluster.yaml --model qwen3-32b --curve cost --rate 20 -o curve.csv

    Exit codes: 0 every point is within the gap, 2 bad input, 3 no fleet keeps the other limits, 4 a point is
    farther from its bound or a limit was left undecided.
    """
    question = o.told(locals(), "cluster", "model", "curve", "points", "json", "output") | {"simple": 0.0}
    from planner import api
    from planner.cli.output import note, print_json, stdout, write
    from planner.cli.progress import Progress
    from planner.errors import InputError
    from planner.reading.units import counted
    from planner.studies import curves, flat
    from planner.studies import pareto as study

    if output is not None and not output.endswith((".csv", ".json")):
        raise InputError("a curve is written as CSV or JSON", "-o/--output", "let it end in .csv or .json")
    curves.asked(curve, question)
    of = curves.curve(curve)

    def solve(**more: Any) -> Plan:
        options = {k: v for k, v in {**question, **more}.items() if v is not None}
        return api.plan(cluster, model, explain=False, **options)

    with Progress("points") as progress:
        answer = study.pareto(of, solve, points, lambda n: progress(n, points, 0))
    found = answer.points
    if output is not None:
        write(output, _written(of, found, output))
    if json:
        print_json(flat.curve_json(of, found))
    else:
        from planner.reports.curve import curve as shown

        problem = found[0].plan.problem
        name = f"{problem.model.get('name', model)} on {problem.cluster.get('name', 'the cluster')}"
        console = stdout()
        console.print(shown(name, of, found, console.width))
        if output is not None:
            note(f"written to {output}")
    if answer.undecided:
        left = counted(answer.undecided, "more limit")
        note(f"warning: {left} left undecided: there may be further points")
    if answer.interrupted:
        note("interrupted: there may be further points")
        raise typer.Exit(INTERRUPTED_EXIT)
    if answer.undecided or max(p.gap for p in found) > gap:
        raise typer.Exit(o.UNPROVEN_EXIT)


def _written(of: Curve, points: list[Point], output: str) -> str:
    """By the ending of the file's name."""
    from planner.reading.cells import as_csv
    from planner.studies import flat

    if output.endswith(".json"):
        return json_.dumps(flat.curve_json(of, points), indent=1) + "\n"
    return as_csv(flat.curve_rows(of, points))
