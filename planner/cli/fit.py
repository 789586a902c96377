"""`meshwright fit`: options in, one call, one print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cluster_configs.schema import ResolvedCluster
    from planner.fit.fits import Ask, ClassFit, Fit, Row
    from planner.fit.grid import Cell, Grid, Most

SHOWN = 14
"""Rows of one class in a terminal: `--json` has all."""

USUAL = (
    (True, False, False, False),  # tp
    (False, False, True, True),  # dp ep
    (False, True, False, False),  # pp
    (True, False, False, True),  # tp ep
)
"""Parallelisms (tp, pp, dp, ep) that people ask for first."""

ContextOpt = Annotated[
    int | None, typer.Option("--isl", metavar="N", help="Tokens of context of one user. [default: 8192]")
]

MaxContextOpt = Annotated[bool, typer.Option("--max-context", help="Only: the longest context of one user.")]
MaxUsersOpt = Annotated[
    bool, typer.Option("--max-users", help="Only: the most users of that context at once.")
]

GIB = 2**30
"""Vendors and drivers count a GPU's memory so."""


def fit(
    *,
    cluster: o.ClusterArg = None,
    gpus: o.GpusOpt = None,
    model: o.ModelOpt,
    isl: ContextOpt = None,
    engine: o.EngineOpt = "any",
    precision: o.PrecisionOpt = None,
    kv_precision: o.KvPrecisionOpt = None,
    max_context: MaxContextOpt = False,
    max_users: MaxUsersOpt = False,
    json: o.JsonOpt = False,
) -> None:
    """Does MODEL fit? Memory per GPU, longest context and most users, for each parallelism; and what limits
    contexts x users.

    \b
    Examples:
      meshwright fit --gpus 2xH100 --model llama-3.1-70b
      meshwright fit cluster.yaml --model deepseek-v3 --isl 32768 --kv-precision fp8
      meshwright fit --gpus 8xL40S --model qwen3-32b --isl 16384 --max-users

    Exit codes: 0 something fits, 2 bad input, 3 nothing fits.
    """
    from cluster_configs.reading import from_gpus, read_cluster
    from model_zoo import catalog
    from planner.cli.output import note
    from planner.errors import InputError
    from planner.fit import fits

    if (cluster is None) == (gpus is None):
        raise InputError("give either CLUSTER.yaml or --gpus", hint="meshwright fit --gpus 2xH100 --model M")
    where = read_cluster(cluster) if cluster is not None else from_gpus(gpus or "")
    card, warnings = catalog.find(model)
    for line in (*where.warnings, *warnings):
        note(f"note: {line}")
    ask = fits.Ask(card, isl, precision, kv_precision, engine)
    found = fits.fit(ask, where)
    if found.fits and (max_context or max_users):
        from planner.fit.grid import most_context, most_users

        asked = {"max_context": max_context, "max_users": max_users}
        both = {"max_context": most_context(ask, found), "max_users": most_users(found, where)}
        direct({name: both[name] for name, wanted in asked.items() if wanted}, found.context, as_json=json)
        return
    show(ask, found, where, as_json=json)
    if not found.fits:
        raise fits.infeasible(found, where.name)


def direct(answers: dict[str, Most], context: int, as_json: bool) -> None:
    """Only the most of what was asked for: a line each, the number first."""
    import json
    from dataclasses import asdict

    if as_json:
        typer.echo(json.dumps({name: asdict(most) for name, most in answers.items()}, indent=1))
        return
    for name, most in answers.items():
        what = "tokens of one user" if name == "max_context" else f"users of {context:,} tokens"
        times = f"{most.count} x " if most.count > 1 else ""
        typer.echo(f"{most.value:,} {what}: {times}{most.layout} on {most.device}, limited by {most.limit}")


def show(ask: Ask, found: Fit, where: ResolvedCluster, as_json: bool) -> None:
    """Print the answer: as JSON and nothing else, or for a reader."""
    from planner.cli.output import stdout
    from planner.fit.grid import grid

    if as_json and not found.fits:
        return
    grids = [grid(ask, node, part) for node, part in zip(where.classes, found.classes, strict=True)]
    if as_json:
        typer.echo(as_document(found, grids))
        return
    console = stdout()
    console.print(headline(found))
    for part, cells_of in zip(found.classes, grids, strict=True):
        console.print()
        console.print(table(part, found.context))
        if cells_of is not None:
            console.print()
            console.print(cell_table(cells_of, part))


def as_document(found: Fit, grids: Sequence[Grid | None]) -> str:
    """The answer with all rows and cells as JSON."""
    import json
    from dataclasses import asdict

    cells = [None if g is None else asdict(g) for g in grids]
    return json.dumps({"fits": found.fits, **asdict(found), "cells": cells}, indent=1)


def cell_table(found: Grid, part: ClassFit) -> RenderableType:
    """Contexts x users of one replica: time per output token, and what it waits for."""
    from rich.table import Table

    from planner.fit.fits import layout

    gpus = f"{found.replica.gpus} x {part.device}"
    table = Table(
        title=f"[bold]One replica, {layout(found.replica)}[/] ({gpus}): ms a token, and what it waits for",
        title_justify="left",
        box=None,
    )
    table.add_column("context", justify="right")
    for cell in found.cells[0]:
        table.add_column(f"{cell.users} user{'s' * (cell.users > 1)}", justify="right")
    for row in found.cells:
        table.add_row(f"{row[0].context:,}", *(_cell(cell) for cell in row))
    table.caption = "decoding, all users at that context; `+x GiB`: what is missing on each GPU"
    table.caption_justify = "left"
    return table


def _cell(cell: Cell) -> str:
    if cell.tpot_s is None:
        return f"[dim]+{cell.missing_bytes / GIB:,.1f} GiB[/]"
    return f"{1e3 * cell.tpot_s:,.3g} {cell.limit}"


def headline(found: Fit) -> str:
    """Model, size, cache: one line."""
    p = found.precision
    weights = p.gemm if p.gemm == p.experts else f"{p.gemm}, experts {p.experts}"
    return (
        f"[bold]{found.model}[/]  {found.params / 1e9:,.1f} B parameters, checkpoint"
        f" {found.checkpoint_bytes / 1e9:,.1f} GB; here in {weights}, KV cache {p.kv}:"
        f" {found.kv_bytes / 1e9:,.2f} GB for {found.context:,} tokens"
    )


def table(part: ClassFit, context: int) -> RenderableType:
    """One class: a row for the best of each kind of parallelism by GPUs."""
    from rich.table import Table

    title = f"{part.gpus} x {part.device}"
    if part.engine is None:
        return f"[bold]{title}[/]  cannot serve it: {part.reason}"
    if not part.rows:
        return f"[bold]{title}[/]  {part.engine} has no valid parallelism for it"
    rows = shown(part.rows)
    capacity = rows[0].capacity_bytes / GIB
    grid = Table(
        title=f"[bold]{title}[/] ({capacity:,.4g} GiB each), {part.engine}", title_justify="left", box=None
    )
    for name in ("GPUs", "parallelism", "weights", "buffers", "KV room", "longest", f"users at {context:,}"):
        grid.add_column(name, justify="left" if name == "parallelism" else "right")
    for row in rows:
        grid.add_row(*cells(row), style=None if row.fits else "dim")
    grid.caption = "GiB per GPU; buffers = activations and the engine's reserve"
    if len(rows) < len(part.rows):
        grid.caption += f"; {len(part.rows) - len(rows)} more with --json"
    grid.caption_justify = "left"
    return grid


def cells(row: Row) -> list[str]:
    """One row as text; sizes in GiB per GPU."""
    from planner.fit.fits import layout

    buffers = row.activation_bytes + row.reserve_bytes
    sizes = [f"{x / GIB:,.1f}" for x in (row.weights_bytes, buffers, row.kv_bytes)]
    last = f"{row.concurrency:,}" if row.fits else f"no: {row.missing_bytes / GIB:,.1f} GiB short"
    return [str(row.gpus), layout(row), *sizes, f"{row.max_context:,}" if row.max_context else "-", last]


def shown(rows: Sequence[Row], limit: int = SHOWN) -> list[Row]:
    """At most about `limit` rows by GPUs: the best of each kind of parallelism, as many kinds as there is
    place for.

    GPU counts: the fewest that fit, powers of two, all; before them the nearest miss. Where nothing fits, the
    nearest miss of the largest six counts.
    """
    fitting = [row for row in rows if row.fits]
    if not fitting:
        best = _best_kinds(rows)
        return [best[gpus][0] for gpus in sorted(best)][-6:]
    fewest, most = min(row.gpus for row in fitting), max(row.gpus for row in fitting)
    kinds = _best_kinds([r for r in fitting if r.gpus in (fewest, most) or r.gpus & (r.gpus - 1) == 0])
    depth = next(n for n in range(16, 0, -1) if n == 1 or sum(len(k[:n]) for k in kinds.values()) < limit)
    missed = [row for row in rows if row.gpus < fewest]
    nearest = [min(missed, key=lambda row: row.missing_bytes)] if missed else []
    return nearest + [row for gpus in sorted(kinds) for row in kinds[gpus][:depth]]


def _best_kinds(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """By GPUs, the best row of each combination of parallelisms, best first: most users, then longest
    context."""
    kinds: dict[int, dict[tuple[bool, ...], Row]] = {}
    for row in sorted(rows, key=lambda r: (-r.concurrency, r.missing_bytes, -r.max_context)):
        kind = (row.tp > 1, row.pp > 1, row.attn_dp > 1, row.ep > 1)
        kinds.setdefault(row.gpus, {}).setdefault(kind, row)
    rank: dict[tuple[bool, ...], int] = {kind: i for i, kind in enumerate(USUAL)}
    return {
        gpus: [best[kind] for kind in sorted(best, key=lambda kind: rank.get(kind, len(USUAL)))]
        for gpus, best in kinds.items()
    }
