"""`meshwright experts LOADS`: where the experts go."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli import options as o
from planner.cli.help import arg, opt

if TYPE_CHECKING:
    from planner.expert_maps.schema import Found

LoadsArg = Annotated[
    str,
    arg("LOADS", "Tokens of each expert: CSV, JSON, npz, SGLang's or vLLM's dump.")
]  # fmt: skip
GpusOpt = Annotated[str, opt("--gpus", "32, or 8xH100,8xH20.", "N|N x GPU,…")]
PerNodeOpt = Annotated[int | None, opt("--gpus-per-node", "Default: 8, or the device's.", "N", min=1)]
SlotsOpt = Annotated[
    str | None, opt("--slots", "Experts a GPU holds of a layer. Default: no replicas.", "N[,N…]")
]
GroupsOpt = Annotated[
    int | None, opt("--groups", "Keep N groups whole on nodes (node-limited routing).", "N", min=1)
]
ObjectiveOpt = Annotated[
    Literal["balance", "combined", "traffic"],
    opt("--objective", "Of the hottest GPU, of nodes a token too, or of these alone."),
]
TokensOpt = Annotated[
    str | None, opt("--tokens", "Sampled tokens' experts: [layers, tokens, choices].", "FILE")
]
WeightOpt = Annotated[float, opt("--traffic-weight", "combined: hottest/mean + W * nodes a token.", "W")]
MaxOpt = Annotated[float, opt("--max-balance", "traffic: hottest/mean of no layer above B.", "B")]
AffinityOpt = Annotated[
    str | None, opt("--affinity", "Fewest hops: tokens [layers - 1, experts, experts].", "FILE")
]
PreviousOpt = Annotated[
    str | None,
    opt("--previous", "Map in service (ours, a plan's, SGLang's): move few of its weights.", "MAP"),
]
KeepOpt = Annotated[float, opt("--keep-within", "previous: loss of balance allowed for that.", "R")]
RobustOpt = Annotated[
    Literal["mean", "worst"] | None,
    opt("--robust", "One map for all steps of LOADS: the best mean, or worst step."),
]
ModelOpt = Annotated[str | None, opt("--model -m", "Checks the loads; tells bytes to move.", "MODEL")]
BandwidthOpt = Annotated[
    float | None, opt("--gb-per-s", "previous: into each GPU. Default: its links'.", "X")
]
GapOpt = Annotated[float, opt("--gap", "How far from the best is good enough.", "G")]
FileOpt = Annotated[str | None, opt("--output -o", "Write the map.", "FILE")]
FormatOpt = Annotated[
    Literal["meshwright", "sglang", "trtllm"], opt("--format", "Of the file that -o writes.")
]


def experts(
    loads: LoadsArg,
    *,
    gpus: GpusOpt,
    gpus_per_node: PerNodeOpt = None,
    slots: SlotsOpt = None,
    groups: GroupsOpt = None,
    objective: ObjectiveOpt = "balance",
    tokens: TokensOpt = None,
    traffic_weight: WeightOpt = 0.1,
    max_balance: MaxOpt = 1.02,
    affinity: AffinityOpt = None,
    previous: PreviousOpt = None,
    keep_within: KeepOpt = 0.01,
    robust: RobustOpt = None,
    model: ModelOpt = None,
    gb_per_s: BandwidthOpt = None,
    gap: GapOpt = 0.02,
    time_limit_s: o.TimeLimitOpt = 30.0,
    seed: o.SeedOpt = 0,
    json: o.JsonOpt = False,
    output: FileOpt = None,
    format: FormatOpt = "meshwright",
) -> None:
    """Place the experts of a mixture-of-experts model: replicas, and which GPU holds which.

    \b
    Examples:
      meshwright experts loads.csv --gpus 32 --slots 9 -o map.json
      meshwright experts today.csv --gpus 32 --slots 9 --previous map.json --model deepseek-v3

    Exit codes: 0 proven within --gap, 2 bad input, 3 --max-balance cannot be kept, 4 not proven within --gap.
    """
    options = o.told(locals(), "loads", "json", "output", "format")
    from planner.cli.output import whole_file
    from planner.cli.progress import Status
    from planner.errors import InputError
    from planner.expert_maps.find import expert_map
    from planner.expert_maps.formats import written

    if format != "meshwright" and output is None:
        raise InputError(f"--format {format} wants a file to write", "--format", "name it with -o FILE")
    with whole_file(output) if output is not None else nullcontext() as file, Status() as status:
        status("placing experts")
        found = expert_map(loads, **options)
        if file:
            file.write(written(found.map, format))
    show(found, as_json=json)
    raise typer.Exit(found.exit_code)


def show(found: Found, as_json: bool) -> None:
    """Print the map: as JSON and nothing else, or for a reader."""
    from planner.cli.output import note, print_json, stdout
    from planner.reports import experts as report

    if as_json:
        print_json(report.as_json(found), indent=None)
        return
    report.render(found, stdout())
    for line in found.warnings:
        note(f"note: {line}")
