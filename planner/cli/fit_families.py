"""What `meshwright fit` prints without a model: the largest of each family, a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.cli.output import print_json, stdout

if TYPE_CHECKING:
    from cluster_configs.schema import ResolvedCluster
    from planner.fit.families import Largest


def answer(
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


def show(found: list[Largest], where: ResolvedCluster, as_json: bool) -> None:
    """The table, or the same with all figures as JSON."""
    from dataclasses import asdict

    from rich.table import Table

    from planner.cli.fit_tables import figure
    from planner.fit.fits import layout, left_out

    readers, missed = found[0].speed.readers, left_out(where, fits=True)
    if as_json:
        from planner.plans.text import rounded

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
