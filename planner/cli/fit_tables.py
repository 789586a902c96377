"""What `meshwright fit` prints, as tables and as JSON: of a model, or the largest of each family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.cli.output import print_json, stdout

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cluster_configs.schema import ResolvedCluster
    from planner.fit.families import Largest
    from planner.fit.fits import ClassFit, Fit, Row
    from planner.fit.grid import Cell, Grid
    from planner.fit.speeds import Speed

SHOWN = 14
"""Rows of one class in a terminal: `--json` has all."""

USUAL = (
    (True, False, False, False),  # tp
    (False, False, True, True),  # dp ep
    (False, True, False, False),  # pp
    (True, False, False, True),  # tp ep
)
"""Parallelisms (tp, pp, dp, ep) that people ask for first."""

GIB = 2**30
"""Vendors and drivers count a GPU's memory so."""


def figure(x: float) -> str:
    """Three digits, and never fewer than whole units.

    >>> figure(0.12345), figure(20.0), figure(999.7), figure(12345.6)
    ('0.123', '20', '1,000', '12,346')
    """
    return f"{x:.3g}" if x < 999.5 else f"{x:,.0f}"


def quickest(part: ClassFit, speeds: Mapping[Row, Speed]) -> str:
    """What readers get from the parallelism that is quickest for each: one line."""
    from planner.fit.fits import layout

    row, speed = next(iter(speeds.items()))
    lengths = f"{speed.isl:,} tokens in, {speed.osl:,} out"
    who = "One reader" if speed.readers == 1 else f"Each of {speed.readers:,} readers at once"
    times = f"{speed.replicas} x " if speed.replicas > 1 and speed.readers > 1 else ""
    return (
        f"{who} gets [bold]{figure(speed.tok_per_s)} tokens a second[/],"
        f" the first after {figure(speed.ttft_s)} s ({lengths}),"
        f" on {times}{layout(row)} of {part.device} with {part.engine}"
    )


def as_document(
    found: Fit, grids: Sequence[Grid | None], timed: Sequence[Mapping[Row, Speed]], missed: Sequence[str]
) -> Any:
    """The answer with all rows and cells as JSON."""
    from dataclasses import asdict

    from planner.reading.figures import rounded

    cells = [None if g is None else asdict(g) for g in grids]
    readers = [[{"row": asdict(row), **asdict(speed)} for row, speed in each.items()] for each in timed]
    answer = {"fits": found.fits, **asdict(found), "cells": cells, "readers": readers, "left_out": missed}
    return rounded(answer)


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
    return f"{figure(1e3 * cell.tpot_s)} {cell.limit}"


def headline(found: Fit) -> str:
    """Model, size, cache: one line."""
    p = found.precision
    weights = p.gemm if p.gemm == p.experts else f"{p.gemm}, experts {p.experts}"
    return (
        f"[bold]{found.model}[/]  {found.params / 1e9:,.1f} B parameters, checkpoint"
        f" {found.checkpoint_bytes / 1e9:,.1f} GB; here in {weights}, KV cache {p.kv}:"
        f" {found.kv_bytes / 1e9:,.2f} GB for {found.context:,} tokens"
    )


def table(part: ClassFit, context: int, speeds: Mapping[Row, Speed]) -> RenderableType:
    """One class: a row for the best of each kind of parallelism by GPUs, with what readers get of it."""
    from rich.table import Table

    title = f"{part.gpus} x {part.device}"
    if part.engine is None:
        return f"[bold]{title}[/]  cannot serve it: {part.reason}"
    if not part.rows:
        return f"[bold]{title}[/]  {part.engine} has no valid parallelism for it"
    rows = shown(part.rows, speeds)
    capacity = rows[0].capacity_bytes / GIB
    grid = Table(
        title=f"[bold]{title}[/] ({capacity:,.4g} GiB each), {part.engine}", title_justify="left", box=None
    )
    grid.pad_edge, grid.collapse_padding = False, bool(speeds)  # in 80 columns
    for name in ("GPUs", "parallelism", "weights", "buffers", "KV room", "longest", f"users at {context:,}"):
        grid.add_column(name, justify="left" if name == "parallelism" else "right")
    if speeds:
        grid.add_column("tok/s", justify="right")
    for row in rows:
        speed = [figure(speeds[row].tok_per_s) if row in speeds else "-"] if speeds else []
        grid.add_row(*cells(row), *speed, style=None if row.fits else "dim")
    grid.caption = "GiB per GPU; buffers = activations and the engine's reserve"
    if speeds:
        grid.caption += "; tok/s: tokens a second of each reader"
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


def shown(rows: Sequence[Row], speeds: Mapping[Row, Speed] | None = None, limit: int = SHOWN) -> list[Row]:
    """At most about `limit` rows by GPUs: the best of each kind of parallelism, as many kinds as there is
    place for. The best has the most users, or is the quickest by `speeds`.

    GPU counts: the fewest that fit, powers of two, all; before them the nearest miss. Where nothing fits, the
    nearest miss of the largest six counts.
    """
    fitting = [row for row in rows if row.fits]
    if not fitting:
        best = _best_kinds(rows, speeds)
        return [best[gpus][0] for gpus in sorted(best)][-6:]
    fewest, most = min(row.gpus for row in fitting), max(row.gpus for row in fitting)
    usual = [r for r in fitting if r.gpus in (fewest, most) or r.gpus & (r.gpus - 1) == 0]
    kinds = _best_kinds(usual, speeds)
    depth = next(n for n in range(16, 0, -1) if n == 1 or sum(len(k[:n]) for k in kinds.values()) < limit)
    missed = [row for row in rows if row.gpus < fewest]
    nearest = [min(missed, key=lambda row: row.missing_bytes)] if missed else []
    return nearest + [row for gpus in sorted(kinds) for row in kinds[gpus][:depth]]


def _best_kinds(rows: Sequence[Row], speeds: Mapping[Row, Speed] | None) -> dict[int, list[Row]]:
    """By GPUs, the best row of each combination of parallelisms, usual ones first: quickest where `speeds`
    are given, then most users, then longest context."""
    order = {row: i for i, row in enumerate(speeds or ())}
    kinds: dict[int, dict[tuple[bool, ...], Row]] = {}

    def best_first(row: Row) -> tuple[int, int, float, int]:
        return order.get(row, len(order)), -row.concurrency, row.missing_bytes, -row.max_context

    for row in sorted(rows, key=best_first):
        kind = (row.tp > 1, row.pp > 1, row.attn_dp > 1, row.ep > 1)
        kinds.setdefault(row.gpus, {}).setdefault(kind, row)
    rank: dict[tuple[bool, ...], int] = {kind: i for i, kind in enumerate(USUAL)}
    return {
        gpus: [best[kind] for kind in sorted(best, key=lambda kind: rank.get(kind, len(USUAL)))]
        for gpus, best in kinds.items()
    }


def largest(
    where: ResolvedCluster, asked: tuple[int | None, str | None, str | None, str], readers: int
) -> list[Largest]:
    """The largest models for (context, precision, precision of the cache, engine). Raises InputError for a
    context that none takes, Infeasible where none fits."""
    from model_zoo import catalog
    from planner.errors import Infeasible, InputError
    from planner.fit.families import largest_of_each
    from planner.fit.fits import Ask

    isl = asked[0]
    cards = [catalog.load(name) for name in catalog.names()]
    longest = max(card.max_context for card in cards)
    if isl is not None and not 1 <= isl <= longest:
        raise InputError(
            f"a context of {isl:,} tokens: the models known take 1 to {longest:,}", where="--isl"
        )
    asks = [Ask(card, *asked) for card in cards if isl is None or isl <= card.max_context]
    found = largest_of_each(asks, where, readers)
    if not found:
        raise Infeasible(
            f"no model known fits on {where.name} for {readers:,} reader{'s' * (readers > 1)}",
            hint="what may fit: weights in 4 bits (--precision int4_wo), a shorter context (--isl), or fewer"
            " readers (--users)",
        )
    return found


def show_largest(found: list[Largest], where: ResolvedCluster, as_json: bool) -> None:
    """The table, or the same with all figures as JSON."""
    from dataclasses import asdict

    from rich.table import Table

    from planner.fit.fits import layout, left_out

    readers, missed = found[0].speed.readers, left_out(where, fits=True)
    if as_json:
        from planner.reading.figures import rounded

        print_json(rounded({"families": [asdict(one) for one in found], "left_out": missed}))
        return
    several = len(where.classes) > 1
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("largest of its family", overflow="fold")
    for name in ("GPUs", "parallelism", "engine", "context", "users", "tok/s"):
        left = name in ("parallelism", "engine")
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    for one in found:
        table.add_row(
            one.model,
            f"{one.row.gpus} {one.device}" if several else str(one.row.gpus),
            layout(one.row),
            one.engine,
            f"{one.row.max_context:,}",
            f"{one.row.concurrency:,}",
            figure(one.speed.tok_per_s),
        )
    console = stdout()
    if not console.is_terminal:
        console.width = 150
    console.print(table)
    context = max(one.context for one in found)
    who = "one reader alone" if readers == 1 else f"each of {readers:,} readers at once"
    lines = [
        "GPUs of one replica, the quickest parallelism; context: the longest of one user;",
        f"users: of {context:,} tokens at once (or the model's longest) on the replica;",
        f"tok/s: tokens a second of {who}, once the first has come.",
        *(f"{line[0].upper()}{line[1:]}." for line in missed),
        "All about one of them: meshwright fit … --model NAME",
    ]
    console.print("\n".join(lines))
