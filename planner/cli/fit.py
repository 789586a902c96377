"""`meshwright fit`: options in, one call, one print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.help import opt

if TYPE_CHECKING:
    from cluster_configs.schema import ResolvedCluster
    from planner.fit.fits import Ask, Fit, Row
    from planner.fit.grid import Most
    from planner.fit.speeds import Speed


def fit(
    *,
    cluster: o.ClusterArg = None,
    gpus: o.GpusOpt = None,
    model: Annotated[
        str | None,
        opt(
            "--model -m",
            "Name, Hugging Face id, or a config.json; without: the largest model of each family that fits.",
            "MODEL",
        ),
    ] = None,
    isl: Annotated[int | None, opt("--isl", "Tokens of context of one user. [default: 8192]", "N")] = None,
    engine: o.EngineOpt = "any",
    precision: o.PrecisionOpt = None,
    kv_precision: o.KvPrecisionOpt = None,
    users: Annotated[
        int | None, opt("--users", "Tokens a second for each of N readers at once.", "N")
    ] = None,
    max_context: Annotated[bool, opt("--max-context", "Only: the longest context of one user.")] = False,
    max_users: Annotated[bool, opt("--max-users", "Only: the most users of that context at once.")] = False,
    json: o.JsonOpt = False,
) -> None:
    """Does MODEL fit? Memory per GPU, longest context and most users, for each parallelism; and what limits
    contexts x users. Without MODEL: the largest model of each family that fits, and how fast.

    \b
    Examples:
      meshwright fit --gpus 2xH100 --model llama-3.1-70b
      meshwright fit --gpus 1xRTX-4090
      meshwright fit --gpus 8xH100 --model qwen3-32b --users 1
      meshwright fit cluster.yaml --model deepseek-v3 --isl 32768 --kv-precision fp8
      meshwright fit --gpus 8xL40S --model qwen3-32b --isl 16384 --max-users

    Exit codes: 0 something fits, 2 bad input, 3 nothing fits.
    """
    from cluster_configs.reading import from_gpus, read_cluster
    from model_zoo import catalog
    from planner.cli.output import note
    from planner.errors import Infeasible, InputError
    from planner.fit import fits

    if (cluster is None) == (gpus is None):
        raise InputError("give either CLUSTER.yaml or --gpus", hint="meshwright fit --gpus 2xH100 --model M")
    if users is not None and users < 1:
        raise InputError(f"{users} readers: at least 1", where="--users")
    where = read_cluster(cluster) if cluster is not None else from_gpus(gpus or "")
    for line in where.warnings:
        note(f"note: {line}")
    if model is None:
        from planner.cli.fit_tables import largest, show_largest

        if max_context or max_users:
            raise InputError("--max-context and --max-users are of one model: give --model")
        found_all = largest(where, (isl, precision, kv_precision, engine), users or 1)
        show_largest(found_all, where, as_json=json)
        return
    card, warnings = catalog.find(model)
    for line in warnings:
        note(f"note: {line}")
    ask = fits.Ask(card, isl, precision, kv_precision, engine)
    found = fits.fit(ask, where)
    if found.fits and users:
        from planner.fit.grid import most_users
        from planner.fit.speeds import speeds

        classes = zip(where.classes, found.classes, strict=True)
        timed = [speeds(ask, node, part, users) for node, part in classes]
        if not any(timed):
            most = most_users(found, where).value
            raise Infeasible(
                f"{users:,} readers of {found.context:,} tokens at once are too many for {card.name}"
                f" on one class of {where.name}",
                hint=f"all nodes together hold {most:,} (meshwright fit … --max-users)",
            )
    else:
        timed = [{} for _ in found.classes]
    if found.fits and (max_context or max_users):
        from planner.fit.grid import most_context, most_users

        asked = {"max_context": max_context, "max_users": max_users}
        both = {"max_context": most_context(ask, found), "max_users": most_users(found, where)}
        direct({name: both[name] for name, wanted in asked.items() if wanted}, found.context, as_json=json)
        return
    show(ask, found, where, timed, as_json=json)
    if not found.fits:
        error = fits.infeasible(found, "any one class of " * (len(where.classes) > 1) + where.name)
        error.hint = "; ".join((error.hint or "", *fits.left_out(where, fits=False)))
        raise error


def direct(answers: dict[str, Most], context: int, as_json: bool) -> None:
    """Only the most of what was asked for: a line each, the number first."""
    from dataclasses import asdict

    from planner.cli.output import print_json
    from planner.reading.figures import rounded

    if as_json:
        print_json(rounded({name: asdict(most) for name, most in answers.items()}))
        return
    for name, most in answers.items():
        what = "tokens of one user" if name == "max_context" else f"users of {context:,} tokens"
        times = f"{most.count} x " if most.count > 1 else ""
        typer.echo(f"{most.value:,} {what}: {times}{most.layout} on {most.device}, limited by {most.limit}")


def show(
    ask: Ask, found: Fit, where: ResolvedCluster, timed: Sequence[Mapping[Row, Speed]], as_json: bool
) -> None:
    """Print the answer: as JSON and nothing else, or for a reader. `timed`: of each class, by parallelism,
    quickest first; empty where nobody asked."""
    from planner.cli import fit_tables as tables
    from planner.cli.output import print_json, stdout
    from planner.fit.fits import left_out
    from planner.fit.grid import grid

    if as_json and not found.fits:
        return
    missed = left_out(where, found.fits)
    grids = [grid(ask, node, part) for node, part in zip(where.classes, found.classes, strict=True)]
    if as_json:
        print_json(tables.as_document(found, grids, timed, missed))
        return
    console = stdout()
    console.print(tables.headline(found))
    for part, speeds in zip(found.classes, timed, strict=True):
        if speeds:
            console.print(tables.quickest(part, speeds))
    for part, cells_of, speeds in zip(found.classes, grids, timed, strict=True):
        console.print()
        console.print(tables.table(part, found.context, speeds))
        if cells_of is not None:
            console.print()
            console.print(tables.cell_table(cells_of, part))
    if found.fits:  # else the error says it
        console.print("".join(f"\n{line[0].upper()}{line[1:]}." for line in missed), end="\n" * bool(missed))
