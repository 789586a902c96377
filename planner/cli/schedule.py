"""`meshwright schedule CLUSTER.yaml --workload chat.yaml`."""

from __future__ import annotations

import json as json_
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli import options as o
from planner.cli.help import opt

if TYPE_CHECKING:
    from planner.schedule.answer import Schedule

ENDINGS = (".csv", ".json", ".yaml")
TIME_EXIT = 4


def schedule(
    *,
    cluster: o.ClusterArg = None,
    gpus: o.GpusOpt = None,
    model: o.ModelOpt,
    workload: o.WorkloadOpt,
    engine: o.EngineOpt = "any",
    precision: o.PrecisionOpt = None,
    kv_precision: o.KvPrecisionOpt = None,
    cold_start: Annotated[
        float | None,
        opt(
            "--cold-start",
            "Until a started node serves. [default: computed from weights and disk]",
            "SECONDS",
        ),
    ] = None,
    min_up: Annotated[float, opt("--min-up", "That a started node stays at least.", "MINUTES")] = 0.0,
    reserved: Annotated[
        float | None,
        opt(
            "--reserved",
            "Of the price, at which nodes are reserved for all slots. [default: not offered]",
            "SHARE",
        ),
    ] = None,
    spot_share: Annotated[
        float, opt("--spot-share", "Of the requests, that spot nodes carry at most.", "SHARE")
    ] = 0.5,
    spot_losses: Annotated[
        float, opt("--spot-losses", "How often a spot node is taken away and another started.", "PER_HOUR")
    ] = 0.05,
    margin: Annotated[str, opt("--margin", "On every slot's rate: for forecasts that err.", "PERCENT")] = "0",
    short: Annotated[
        str,
        opt(
            "--short",
            "Of all requests, that tables of the day before and autoscalers, which are shown beside, "
            "may miss.",
            "PERCENT",
        ),
    ] = "0.1",
    scale: Annotated[float, opt("--scale", "Times the recorded rates.", "FACTOR")] = 1.0,
    gap: Annotated[float, opt("--gap", "At which the search ends.", "SHARE")] = 0.002,
    time_limit: Annotated[float, opt("--time-limit", "Seconds of search.", "S")] = 20.0,
    seed: Annotated[int, opt("--seed", "Of the search.", "N", min=0)] = 0,
    json: o.JsonOpt = False,
    output: Annotated[
        str | None,
        opt("--output -o", "Units by slot: .csv, .json, or .yaml for autoscalers on Kubernetes.", "FILE"),
    ] = None,
    autoscaler: Annotated[
        Literal["keda", "hpa"],
        opt("--autoscaler", "Of a .yaml: KEDA's cron scaler, or an HPA that CronJobs set."),
    ] = "keda",
) -> None:
    """What to rent in each hour of a day or week, for the least money, so that the limits hold.

    \b
    Examples:
      meshwright schedule cluster.yaml --model llama-3.1-8b --workload chat.yaml
      meshwright schedule cluster.yaml --model qwen3-32b -w chat.yaml --reserved 0.6 --margin 10 -o day.csv

    Exit codes: 0 within the gap, 2 bad input, 3 no schedule can be, 4 time limit (the gap is
    printed), 5 time limit without one.
    """
    from planner.cli.output import note, print_json, stdout, write
    from planner.cli.progress import Status
    from planner.errors import InputError
    from planner.question.asked import read
    from planner.schedule.answer import Ask
    from planner.schedule.answer import schedule as scheduled
    from solvers.linear import Limits

    for name, value, low, high in (
        ("--cold-start", cold_start, 0.0, 1e6),
        ("--min-up", min_up, 0.0, 1e6),
        ("--reserved", reserved, 0.01, 1.0),
        ("--spot-share", spot_share, 0.0, 1.0),
        ("--spot-losses", spot_losses, 0.0, 60.0),
        ("--scale", scale, 1e-6, 1e6),
        ("--gap", gap, 0.0, 1.0),
        ("--time-limit", time_limit, 0.5, 1e5),
    ):
        if value is not None and not low <= value <= high:
            raise InputError(f"{value:g} is not from {low:g} to {high:g}", name)
    if output is not None and not output.endswith(ENDINGS):
        raise InputError(
            "a schedule is written as CSV, JSON or YAML", "-o/--output", f"let it end in {', '.join(ENDINGS)}"
        )
    options = {"engine": engine, "precision": precision, "kv_precision": kv_precision}
    asked = read(cluster, model, gpus, workload, {}, options)
    limits = Limits(gap=gap, seconds=time_limit, seed=seed)
    ask = Ask(
        cold_s=cold_start,
        min_up_s=60 * min_up,
        reserved=reserved,
        spot_share=spot_share,
        spot_losses=spot_losses,
        margin=_percent(margin, "--margin", 1000),
        scale=scale,
        short=_percent(short, "--short", 100),
        limits=limits,
    )
    for warning in asked.warnings:
        note(f"warning: {warning.message}")
    with Status() as tell:
        tell("scheduling")
        found = scheduled(asked, ask)
    if output is not None:
        write(output, _written(found, output, autoscaler))
    if json:
        print_json(found.as_json())
    else:
        from planner.reports.scheduled import scheduled as shown

        console = stdout()
        console.print(shown(f"{asked.card.name} on {asked.cluster.name}", found, console.width))
        if output is not None:
            note(f"written to {output}")
    if found.status not in ("optimal", "within_gap"):
        raise typer.Exit(TIME_EXIT)


def _percent(text: str, option: str, most: float) -> float:
    """10 or 10 % as 0.1. Raises InputError."""
    from planner.errors import InputError

    try:
        value = float(text.strip().removesuffix("%").strip())
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise InputError(f"`{text}` is no percentage", option, f"0 to {most:g}, as in {option} 10")
    return value / 100


def _written(found: Schedule, output: str, autoscaler: str) -> str:
    """By the ending of the file's name."""
    if output.endswith(".json"):
        return json_.dumps(found.as_json(), indent=1) + "\n"
    if output.endswith(".csv"):
        from planner.reading.cells import as_csv

        return as_csv(found.rows())
    import io

    from ruamel.yaml import YAML

    from planner.exporters.schedules import autoscaled, scaled_objects
    from planner.reading.names import as_labels

    stream, yaml = io.StringIO(), YAML()
    write = autoscaled if autoscaler == "hpa" else scaled_objects
    yaml.dump_all(write(as_labels([u.name for u in found.units]), found.counts, found.slot_s), stream)
    return stream.getvalue()
