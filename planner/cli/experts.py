"""`meshwright experts LOADS`: where the experts go."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli import options as o
from planner.cli.help import arg, opt

if TYPE_CHECKING:
    from planner.expert_maps.schema import Found


def experts(
    loads: Annotated[str, arg("LOADS", "Tokens of each expert: CSV, JSON, npz, SGLang's or vLLM's dump.")],
    *,
    gpus: Annotated[str, opt("--gpus", "32, or 8xH100,8xH20.", "N|N x GPU,…")],
    gpus_per_node: Annotated[
        int | None, opt("--gpus-per-node", "Default: 8, or the device's.", "N", min=1)
    ] = None,
    slots: Annotated[
        str | None, opt("--slots", "Experts a GPU holds of a layer. Default: no replicas.", "N[,N…]")
    ] = None,
    groups: Annotated[
        int | None, opt("--groups", "Keep N groups whole on nodes (node-limited routing).", "N", min=1)
    ] = None,
    objective: Annotated[
        Literal["balance", "combined", "traffic"],
        opt("--objective", "Of the hottest GPU, of nodes a token too, or of these alone."),
    ] = "balance",
    tokens: Annotated[
        str | None, opt("--tokens", "Sampled tokens' experts: [layers, tokens, choices].", "FILE")
    ] = None,
    traffic_weight: Annotated[
        float, opt("--traffic-weight", "combined: hottest/mean + W * nodes a token.", "W")
    ] = 0.1,
    max_balance: Annotated[
        float, opt("--max-balance", "traffic: hottest/mean of no layer above B.", "B")
    ] = 1.02,
    affinity: Annotated[
        str | None, opt("--affinity", "Fewest hops: tokens [layers - 1, experts, experts].", "FILE")
    ] = None,
    previous: Annotated[
        str | None,
        opt("--previous", "Map in service (ours, a plan's, SGLang's): move few of its weights.", "MAP"),
    ] = None,
    keep_within: Annotated[
        float, opt("--keep-within", "previous: loss of balance allowed for that.", "R")
    ] = 0.01,
    robust: Annotated[
        Literal["mean", "worst"] | None,
        opt("--robust", "One map for all steps of LOADS: the best mean, or worst step."),
    ] = None,
    model: Annotated[str | None, opt("--model -m", "Checks the loads; tells bytes to move.", "MODEL")] = None,
    gb_per_s: Annotated[
        float | None, opt("--gb-per-s", "previous: into each GPU. Default: its links'.", "X")
    ] = None,
    gap: Annotated[float, opt("--gap", "How far from the best is good enough.", "G")] = 0.02,
    time_limit_s: o.TimeLimitOpt = 30.0,
    seed: o.SeedOpt = 0,
    json: o.JsonOpt = False,
    output: Annotated[str | None, opt("--output -o", "Write the map.", "FILE")] = None,
    format: Annotated[
        Literal["meshwright", "sglang", "trtllm"], opt("--format", "Of the file that -o writes.")
    ] = "meshwright",
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
