"""`meshwright plan`: options in, one call, one print."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import typer

from planner.cli import options as o

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.plans.schema import Plan
    from planner.plans.schema.several import Several


def plan(
    *,
    cluster: o.ClusterArg = None,
    gpus: o.GpusOpt = None,
    model: o.ModelsOpt = None,
    workload: o.WorkloadOpt = "chat",
    trace: o.TraceOpt = None,
    isl: o.IslOpt = None,
    osl: o.OslOpt = None,
    rate: o.RateOpt = None,
    ttft_ms: o.TtftOpt = None,
    tpot_ms: o.TpotOpt = None,
    e2e_ms: o.E2eOpt = None,
    percentile: o.PercentileOpt = None,
    loop: o.LoopOpt = None,
    objective: o.ObjectiveOpt = None,
    budget: o.BudgetOpt = None,
    engine: o.PlanEngineOpt = "any",
    precision: o.PrecisionOpt = None,
    kv_precision: o.KvPrecisionOpt = None,
    precisions: o.PrecisionsOpt = None,
    profile: o.ProfileOpt = None,
    calibration: o.CalibrationOpt = None,
    expert_loads: o.ExpertLoadsOpt = None,
    risk: o.RiskOpt = None,
    simple: o.SimpleOpt = 0.05,
    max_utilisation: o.MaxUtilisationOpt = 0.98,
    survive: o.SurviveOpt = None,
    speculation: o.SpeculationOpt = "off",
    acceptance: o.AcceptanceOpt = None,
    draft_tokens: o.DraftTokensOpt = None,
    gap: o.GapOpt = 0.01,
    time_limit_s: o.TimeLimitOpt = 60.0,
    seed: o.SeedOpt = 0,
    details: o.DetailsOpt = False,
    json: o.JsonOpt = False,
    output: o.PlanFileOpt = None,
) -> None:
    """Plan how to serve MODEL on the GPUs of CLUSTER, and prove how good the plan is.

    \b
    Examples:
      meshwright plan --gpus 8xH100 --model llama-3.1-70b
      meshwright plan cluster.yaml --model qwen3-32b --rate 20 --ttft-ms 1000 --percentile p95
      meshwright plan cluster.yaml --model llama-3.1-8b --model qwen3-32b --rate 4

    Exit codes: 0 proven within the gap, 2 bad input, 3 proven infeasible, 4 time limit with a
    plan, 5 without one.
    """
    options = o.told(locals(), "cluster", "model", "details", "json", "output")
    from planner.cli.kept import keep
    from planner.cli.output import whole_file
    from planner.cli.progress import Status
    from planner.plans.text import text

    with whole_file(output) if output is not None else nullcontext() as file, Status() as status:
        try:
            found = _asked(cluster, model or [], status, options, details)
        except KeyboardInterrupt:
            typer.echo("interrupted before any plan was found", err=True)
            raise
        written = text(found) + "\n"
        if file:
            file.write(written)
    kept = keep(written)
    show(found, as_json=json, details=details, kept=kept)
    raise typer.Exit(found.proof.exit_code)


def _asked(
    cluster: str | None,
    models: list[str],
    on_progress: Callable[[str], None],
    options: dict[str, Any],
    details: bool,
) -> Plan | Several:
    """The plan of one model, or the document of several. Raises InputError where none is named."""
    from planner import api  # here, not above: it loads the solvers, and `--help` must not
    from planner.errors import InputError
    from planner.inputs.several import lists_models

    if len(models) > 1 or lists_models(options["workload"]):
        from planner.several.plan import plan_several

        return plan_several(cluster, models, on_progress=on_progress, **options)
    if not models:
        hint = "see `meshwright plan --help`; a workload may list `models:`, too"
        raise InputError("missing option '--model'", "--model/-m on the command line", hint)
    return api.plan(cluster, models[0], on_progress=on_progress, brief=not details, **options)


def show(found: Plan | Several, as_json: bool, details: bool = True, kept: bool = False) -> None:
    """Print the plan: as JSON and nothing else, or for a reader, on one screen or in all `details`."""
    if as_json:
        from planner.plans.text import text

        typer.echo(text(found))
        return
    from planner.cli.output import stderr, stdout
    from planner.plans.schema.several import Several
    from planner.reports import screen, several, terminal

    if isinstance(found, Several):
        several.render(found, stdout(), details)
        several.warnings(found, stderr())
        return
    if details:
        terminal.render(found, stdout())
        terminal.warnings(found, stderr())
        return
    terminal.warnings(found, stderr())  # before the answer, which stays in sight
    screen.render(found, stdout(), kept)
