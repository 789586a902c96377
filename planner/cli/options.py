"""Options that several commands share, declared once with their help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from planner.cli import complete
from planner.inputs.options import EngineName, ObjectiveName, PlannerName

Percentile = Literal["mean", "p50", "p90", "p95", "p99"]

UNPROVEN_EXIT = 4
"""Where an answer is farther from its bound than `--gap`."""

ClusterArg = Annotated[
    str | None,
    typer.Argument(
        metavar="CLUSTER.yaml",
        help="The cluster; or use --gpus.",
        show_default=False,
        autocompletion=complete.clusters,
    ),
]
PlanArg = Annotated[str, typer.Argument(metavar="PLAN.json", help="A plan, as `plan -o` writes it.")]
GpusOpt = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="N x GPU,…",
        help="A cluster in a line: 8xH100,16xL40S.",
        autocompletion=complete.gpus,
    ),
]
ModelOpt = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="Name, Hugging Face id, or a config.json.",
        autocompletion=complete.models,
    ),
]
ModelsOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="Name, Hugging Face id, or a config.json; several share the cluster.",
        show_default=False,
        autocompletion=complete.models,
    ),
]
WorkloadOpt = Annotated[
    str,
    typer.Option(
        "--workload",
        "-w",
        metavar="NAME|FILE",
        help=f"A workload YAML, or one of {', '.join(complete.PRESETS)}.",
        autocompletion=complete.workloads,
    ),
]
TraceOpt = Annotated[
    str | None,
    typer.Option("--trace", metavar="FILE", help="Recorded requests: their lengths, and what they share."),
]
IslOpt = Annotated[int | None, typer.Option("--isl", metavar="N", help="Input tokens of a request.")]
OslOpt = Annotated[int | None, typer.Option("--osl", metavar="N", help="Output tokens of a request.")]
RateOpt = Annotated[
    float | None,
    typer.Option("--rate", metavar="RPS", help="Requests per second to serve; without: as many as possible."),
]
TtftOpt = Annotated[
    str | None,
    typer.Option("--ttft-ms", metavar="MS|none", help="Limit on time to first token, queueing included."),
]
TpotOpt = Annotated[
    str | None, typer.Option("--tpot-ms", metavar="MS|none", help="Limit on time per output token.")
]
E2eOpt = Annotated[
    str | None,
    typer.Option(
        "--e2e-ms", metavar="MS|none", help="Limit on a whole request, kept in a replay; with --rate."
    ),
]
PercentileOpt = Annotated[Percentile | None, typer.Option("--percentile", help="Where the limits must hold.")]
ObjectiveOpt = Annotated[
    ObjectiveName | None,
    typer.Option(
        "--objective", help="Default: throughput; with --rate, cost where all prices are known, else gpus."
    ),
]
BudgetOpt = Annotated[
    str | None, typer.Option("--budget", metavar="LIMITS", help="usd_per_hour=50,gpus=64,watts=20000")
]
EngineOpt = Annotated[EngineName, typer.Option("--engine", help="Serving engine.")]
PlanEngineOpt = Annotated[
    PlannerName,
    typer.Option("--engine", help="Serving engine; chains: nodes with some of the layers each."),
]
PrecisionOpt = Annotated[
    str | None,
    typer.Option("--precision", metavar="P", help="Of the weights; default the checkpoint's."),
]
PrecisionsOpt = Annotated[
    str | None,
    typer.Option("--precisions", metavar="P,P", help="Of the weights, to try beside: as in fp8,nvfp4."),
]
KvPrecisionOpt = Annotated[
    str | None, typer.Option("--kv-precision", metavar="P", help="Of the KV cache; default the checkpoint's.")
]
ProfileOpt = Annotated[
    str | None, typer.Option("--profile", metavar="TABLE.csv", help="Your own measurements of replicas.")
]
CalibrationOpt = Annotated[
    str | None, typer.Option("--calibration", metavar="FILE", help="Cost model parameters of your own.")
]
ExpertLoadsOpt = Annotated[
    str | None,
    typer.Option("--expert-loads", metavar="FILE", help="Recorded loads of experts, to balance them by."),
]
RiskOpt = Annotated[
    float | None,
    typer.Option("--risk", metavar="R", help="Limits hold with probability 1 - R; default 0.5, the median."),
]
SimpleOpt = Annotated[
    float,
    typer.Option("--simple", metavar="S", help="What fewer kinds of replica may cost; 0: the best itself."),
]
MaxUtilisationOpt = Annotated[
    float,
    typer.Option(
        "--max-utilisation", metavar="U", help="No server that only prefills is planned busier than this."
    ),
]
SurviveOpt = Annotated[
    str | None,
    typer.Option(
        "--survive",
        metavar="node|N[:S%]",
        help="After the loss of any node, or N, the rest serves S % of the rate; default all of it.",
    ),
]
SpeculationOpt = Annotated[
    str,
    typer.Option(
        "--speculation", metavar="KIND", help="Drafted tokens: off, auto, mtp, eagle, ngram, draft:MODEL."
    ),
]
AcceptanceOpt = Annotated[
    str | None,
    typer.Option("--acceptance", metavar="P|FILE", help="Of each drafted token; or an engine's results."),
]
DraftTokensOpt = Annotated[
    int | None,
    typer.Option("--draft-tokens", metavar="K", help="Drafted a step; default: what pays of 1, 3."),
]
GapOpt = Annotated[
    float, typer.Option("--gap", metavar="G", help="How far from the best possible is good enough.")
]
TimeLimitOpt = Annotated[
    float, typer.Option("--time-limit", metavar="SECONDS", help="Of the whole command, by the clock.")
]
SeedOpt = Annotated[int, typer.Option("--seed", metavar="N")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
PlanFileOpt = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan as JSON too.")
]


def told(given: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """What a command was given, by the names of its parameters (its `locals()`), but for some `others`."""
    return {name: value for name, value in given.items() if name not in others}
