"""Options that several commands share, declared once with their help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from planner.cli import complete
from planner.cli.help import arg, opt
from planner.inputs.options import EngineName, ObjectiveName, PlannerName

Percentile = Literal["mean", "p50", "p90", "p95", "p99"]

UNPROVEN_EXIT = 4
"""Where an answer is farther from its bound than `--gap`."""

ClusterArg = Annotated[
    str | None,
    arg("CLUSTER.yaml", "The cluster; or use --gpus.", show_default=False, autocompletion=complete.clusters),
]
PlanArg = Annotated[
    str | None,
    arg("PLAN.json", "A plan, as `plan -o` writes it; without: the last one made.", show_default=False),
]
GpusOpt = Annotated[
    str | None,
    opt("--gpus", "A cluster in a line: 8xH100,16xL40S.", "N x GPU,…", autocompletion=complete.gpus),
]
ModelOpt = Annotated[
    str,
    opt("--model -m", "Name, Hugging Face id, or a config.json.", "MODEL", autocompletion=complete.models),
]
ModelsOpt = Annotated[
    list[str] | None,
    opt(
        "--model -m",
        "Name, Hugging Face id, or a config.json; several share the cluster.",
        "MODEL",
        show_default=False,
        autocompletion=complete.models,
    ),
]
WorkloadOpt = Annotated[
    str,
    opt(
        "--workload -w",
        f"A workload YAML, or one of {', '.join(complete.PRESETS)}.",
        "NAME|FILE",
        autocompletion=complete.workloads,
    ),
]
TraceOpt = Annotated[
    str | None, opt("--trace", "Recorded requests: their lengths, and what they share.", "FILE")
]
IslOpt = Annotated[int | None, opt("--isl", "Input tokens of a request.", "N")]
OslOpt = Annotated[int | None, opt("--osl", "Output tokens of a request.", "N")]
RateOpt = Annotated[
    float | None, opt("--rate", "Requests per second to serve; without: as many as possible.", "RPS")
]
LoopOpt = Annotated[
    Literal["open", "closed"] | None,
    opt("--loop", "Without --rate: open (default), random arrivals; closed, always as many in flight."),
]
TtftOpt = Annotated[
    str | None, opt("--ttft-ms", "Limit on time to first token, queueing included.", "MS|none")
]
TpotOpt = Annotated[str | None, opt("--tpot-ms", "Limit on time per output token.", "MS|none")]
E2eOpt = Annotated[
    str | None, opt("--e2e-ms", "Limit on a whole request, kept in a replay; with --rate.", "MS|none")
]
PercentileOpt = Annotated[Percentile | None, opt("--percentile", "Where the limits must hold.")]
ObjectiveOpt = Annotated[
    ObjectiveName | None,
    opt("--objective", "Default: throughput; with --rate, cost where all prices are known, else gpus."),
]
BudgetOpt = Annotated[str | None, opt("--budget", "usd_per_hour=50,gpus=64,watts=20000", "LIMITS")]
EngineOpt = Annotated[EngineName, opt("--engine", "Serving engine.")]
PlanEngineOpt = Annotated[
    PlannerName, opt("--engine", "Serving engine; chains: nodes with some of the layers each.")
]
PrecisionOpt = Annotated[str | None, opt("--precision", "Of the weights; default the checkpoint's.", "P")]
PrecisionsOpt = Annotated[
    str | None, opt("--precisions", "Of the weights, to try beside: as in fp8,nvfp4.", "P,P")
]
KvPrecisionOpt = Annotated[
    str | None, opt("--kv-precision", "Of the KV cache; default the checkpoint's.", "P")
]
ProfileOpt = Annotated[str | None, opt("--profile", "Your own measurements of replicas.", "TABLE.csv")]
CalibrationOpt = Annotated[str | None, opt("--calibration", "Cost model parameters of your own.", "FILE")]
ExpertLoadsOpt = Annotated[
    str | None, opt("--expert-loads", "Recorded loads of experts, to balance them by.", "FILE")
]
RiskOpt = Annotated[
    float | None, opt("--risk", "Limits hold with probability 1 - R; default 0.2; 0.5: the median.", "R")
]
SimpleOpt = Annotated[
    float, opt("--simple", "What fewer kinds of replica may cost; 0: the best itself.", "S")
]
MaxUtilisationOpt = Annotated[
    float, opt("--max-utilisation", "No server that only prefills is planned busier than this.", "U")
]
SurviveOpt = Annotated[
    str | None,
    opt(
        "--survive",
        "After the loss of any node, or N, the rest serves S % of the rate; default all of it.",
        "node|N[:S%]",
    ),
]
SpeculationOpt = Annotated[
    str, opt("--speculation", "Drafted tokens: off, auto, mtp, eagle, ngram, draft:MODEL.", "KIND")
]
AcceptanceOpt = Annotated[
    str | None, opt("--acceptance", "Of each drafted token; or an engine's results.", "P|FILE")
]
DraftTokensOpt = Annotated[
    int | None, opt("--draft-tokens", "Drafted a step; default: what pays of 1, 3.", "K")
]
GapOpt = Annotated[float, opt("--gap", "How far from the best possible is good enough.", "G")]
TimeLimitOpt = Annotated[float, opt("--time-limit", "Of the whole command, by the clock.", "SECONDS")]
SeedOpt = Annotated[int, opt("--seed", None, "N")]
JsonOpt = Annotated[bool, opt("--json", "Print JSON and nothing else.")]
DetailsOpt = Annotated[bool, opt("--details", "Explain all of it: every alternative, price and assumption.")]
PlanFileOpt = Annotated[str | None, opt("--output -o", "Write the plan as JSON too.", "FILE")]


def told(given: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """What a command was given, by the names of its parameters (its `locals()`), but for some `others`."""
    return {name: value for name, value in given.items() if name not in others}
