"""`meshwright import`: a command or manifest, read back, predicted, checked and compared."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.help import arg, opt

if TYPE_CHECKING:
    from planner.imports.deployment import Deployment
    from planner.imports.plan import Imported

WORTH = 0.01
"""Share of the objective below which a better plan is not worth a change."""


def import_(
    *,
    deployment: Annotated[str, arg("FILE|DIR|-", "A script, a manifest, a folder of these, or - for stdin.")],
    cluster: Annotated[
        str | None, opt("--cluster", "The GPUs it runs on; or use --gpus.", "CLUSTER.yaml")
    ] = None,
    gpus: o.GpusOpt = None,
    model: Annotated[str | None, opt("--model -m", "In place of the command's own model.", "MODEL")] = None,
    workload: o.WorkloadOpt = "chat",
    isl: o.IslOpt = None,
    osl: o.OslOpt = None,
    rate: o.RateOpt = None,
    ttft_ms: o.TtftOpt = None,
    tpot_ms: o.TpotOpt = None,
    percentile: o.PercentileOpt = None,
    engine_version: Annotated[
        str | None, opt("--engine-version", "Check flags against this version.", "V")
    ] = None,
    facts: Annotated[bool, opt("--facts", "Print what was read as JSON, and plan nothing.")] = False,
    json: o.JsonOpt = False,
    output: o.PlanFileOpt = None,
) -> None:
    """Read a launch command or manifest, predict what it serves, and say how far it is from the best plan.

    \b
    Examples:
      meshwright import serve.sh --gpus 8xH100
      echo "vllm serve meta-llama/Llama-3.1-70B -tp 8" | meshwright import - --gpus 8xH100
      meshwright import deployment.yaml --facts

    Exit codes: 0 read, 2 not readable or refused by the engine, 3 the servers cannot keep the limits.
    """
    asked = o.told(
        locals(), "deployment", "cluster", "gpus", "model", "engine_version", "facts", "json", "output"
    )
    from planner.cli.output import print_json, say, whole_file
    from planner.errors import InputError, placed
    from planner.imports.read import read_path, read_stdin

    with placed("standard input" if deployment == "-" else deployment):
        found = read_stdin() if deployment == "-" else read_path(deployment)
    broken = list(dict.fromkeys(told(found, engine_version)))
    if facts:
        print_json({**found.facts, "refused": broken})
    if broken:
        raise InputError("; ".join(broken), deployment, "the engine does not start this command")
    if facts:
        return
    from planner.imports.plan import imported
    from planner.plans.text import text

    there = None
    if cluster is not None:
        from cluster_configs.reading import read_cluster

        there = read_cluster(cluster)
    with whole_file(output) if output is not None else nullcontext() as file:
        own = "--model" if model else "standard input" if deployment == "-" else deployment
        try:
            with placed(own):
                made = imported(found, there, gpus, model, asked)
        except InputError as error:
            if model is None and error.where == str(found.facts.get("model")):
                error.where = f"{own}, model {error.where}"  # a path, but of the command, not of ours
            raise
        if file:
            file.write(text(made.plan) + "\n")
    if json:
        typer.echo(text(made.plan))
    else:
        say(*shown(made))


def told(found: Deployment, version: str | None) -> list[str]:
    """What the engines refuse; warnings go to stderr."""
    from planner.cli.output import note
    from planner.imports.flags import drift, refused
    from planner.imports.rules import doubts, refusals

    broken, notes = list[str](), list(found.warnings)
    for g in found.groups:
        s = g.server
        unknown = refused(s.line, s.engine, version)
        broken += refusals(s) + (unknown if version else [])
        notes += [*s.notes, *doubts(s), *([] if version else [*unknown, *drift(s.line, s.engine)])]
    for text in dict.fromkeys(notes):
        note(f"warning: {text}")
    return broken


def shown(made: Imported) -> list[str]:
    """What runs, what it serves, and what would serve more."""
    from planner.imports.plan import group_words
    from planner.plans.diff import design

    plan, best = made.plan, made.best
    p = plan.predicted
    lines = [f"Read: {group_words(g)}" for g in made.deployment.groups]
    limits = f"TTFT {p.ttft_ms.value:,.0f} ms · TPOT {p.tpot_ms.value:.1f} ms"
    lines.append(
        f"Serves: {p.rps.value:.3g} requests/s · {p.out_tok_per_s.value:,.0f} output tok/s · {limits}"
    )
    if made.loss < WORTH:
        lines.append("No plan for these GPUs is better by one per cent or more.")
    else:
        share, unit = f"{100 * made.loss:.0f} %", best.proof.unit
        lines.append(
            f"This deployment leaves {share} on the table: the best plan has {best.proof.own:.4g} {unit}."
        )
        more = made.gain(made.near) if made.near else 0.0
        if made.near and made.changes and more >= WORTH:
            lines.append(f"Change: {', '.join(made.changes)} ({100 * more:.0f} % better)")
        lines += ["The best plan runs:", *(f"  {r.count} x {design(r)}" for r in best.replicas)]
    return lines + [f"note: {note}" for note in made.notes]
