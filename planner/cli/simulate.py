"""`meshwright simulate PLAN.json`."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli import options as o
from planner.cli.help import opt

if TYPE_CHECKING:
    from planner.simulate.pools import Trouble

BROKEN_EXIT = 4


def simulate(
    plan: o.PlanArg = None,
    trace: Annotated[
        str | None, opt("--trace", "Recorded requests; without: drawn as the plan expects them.", "FILE")
    ] = None,
    rate: Annotated[
        float | None, opt("--rate", "Mean requests per second, in place of the plan's or trace's.", "RPS")
    ] = None,
    requests: Annotated[
        int | None, opt("--requests", "Requests to draw. [default: 20 lifetimes]", "N")
    ] = None,
    seed: Annotated[int, opt("--seed", "Of what is drawn.", "N", min=0)] = 0,
    routing: Annotated[
        Literal["planned", "least-load", "prefix-aware", "random"],
        opt("--routing", "How requests find their servers."),
    ] = "planned",
    fail: Annotated[
        list[str] | None, opt("--fail", "A server of a group that fails then; repeatable.", "GROUP@SECOND")
    ] = None,
    slow: Annotated[
        list[str] | None, opt("--slow", "A server of a group so many times slower.", "GROUP@FACTOR")
    ] = None,
    output: Annotated[
        str | None, opt("--output -o", "Queue, batch and cache over time: .csv or .json.", "FILE")
    ] = None,
    json: o.JsonOpt = False,
) -> None:
    """Replay requests on a plan, event by event, and say whether its limits hold.

    \b
    Examples:
      meshwright simulate plan.json
      meshwright simulate plan.json --trace requests.csv --rate 20
      meshwright simulate plan.json --fail r1@60 --routing least-load

    Exit codes: 0 every limit was kept, 2 bad input, 4 one was broken, or requests came faster than they end.
    """
    from planner.cli.kept import last
    from planner.cli.output import note, print_json, stdout, write
    from planner.cli.progress import Progress
    from planner.plans.verified import read_sound
    from planner.simulate.answer import Ask
    from planner.simulate.answer import simulate as replayed

    _checked(trace, rate, requests, output)
    plan = last(plan)
    read = read_sound(plan)
    given = None
    if trace is not None:
        from planner.inputs.traces import read_trace

        given = read_trace(trace)
    trouble = [*_troubles(fail, "--fail"), *_troubles(slow, "--slow")]
    with Progress("requests replayed") as progress:
        live = (lambda done, of: progress(done, of, 0)) if progress.live else None
        found = replayed(read, Ask(given, rate, requests, seed, routing, trouble, live))
    if output is not None:
        write(output, _series(found.rows(), output))
    if json:
        print_json(found.as_json())
    else:
        from planner.reports.simulated import simulated

        console = stdout()
        console.print(simulated(Path(plan).name, found, console.width))
        if output is not None:
            note(f"written to {output}")
    if not found.kept:
        raise typer.Exit(BROKEN_EXIT)


def _checked(trace: str | None, rate: float | None, requests: int | None, output: str | None) -> None:
    """Raises InputError where options do not fit together."""
    from planner.errors import InputError

    if trace is not None and requests is not None:
        raise InputError("`--requests` draws requests, a trace has its own", "--requests", "leave one out")
    if rate is not None and not 0 < rate <= 1e9:
        raise InputError(f"a rate of {rate:g} requests/s: more than 0 is needed", "--rate")
    if requests is not None and not 3 <= requests <= MOST:
        raise InputError(f"{requests:,} requests: from 3 to {MOST:,}", "--requests")
    if output is not None and not output.endswith((".csv", ".json")):
        raise InputError(
            "the series is written as CSV or JSON", "-o/--output", "let its name end in .csv or .json"
        )


MOST = 5_000_000
"""Requests that are drawn: some hundred bytes each."""


def _troubles(words: list[str] | None, option: str) -> list[Trouble]:
    """GROUP@NUMBER each. Raises InputError."""
    from planner.errors import InputError
    from planner.simulate.pools import Trouble

    found = []
    for word in words or []:
        group, at, number = word.rpartition("@")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        least, form, example = (0.0, "SECOND", 60) if option == "--fail" else (1.0, "FACTOR from 1 on", 1.5)
        if not (at and group and least <= value < 1e9):
            raise InputError(f"`{word}` is not GROUP@{form}", option, f"as in {option} r1@{example}")
        found.append(Trouble(group, fails_s=value) if option == "--fail" else Trouble(group, slower=value))
    return found


def _series(rows: list[list[object]], output: str) -> str:
    """As CSV, or as JSON of columns."""
    if output.endswith(".json"):
        return json_.dumps({str(c[0]): list(c[1:]) for c in zip(*rows, strict=True)}) + "\n"
    from planner.reading.cells import as_csv

    return as_csv(rows)
