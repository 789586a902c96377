"""`meshwright sweep`: a grid of plans from a YAML; rows of JSON out, CSV or Parquet beside them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli.help import arg, opt

if TYPE_CHECKING:
    from planner.studies.journal import Row
    from planner.studies.pools import Start

CELLS_FAILED = 4
"""Exit code where some cells have no plan: a part of the answer, as of a plan at its time limit."""
REASONS = {2: "bad input", 3: "infeasible", 5: "out of time"}
"""Exit codes of cells without a plan, in words."""
Backend = Literal["local", "dask", "ray"]


def sweep(
    file: Annotated[
        str,
        arg("SWEEP.yaml", "`base:` and `vary:` options of `plan`, `where:` conditions."),
    ],
    output: Annotated[str, opt("--output -o", "JSON rows; .csv or .parquet: flat columns.", "FILE")],
    table: Annotated[bool, opt("--table", "Print the cells as a table.")] = False,
    jobs: Annotated[int | None, opt("--jobs -j", "Processes; default: all cores.", "N", min=1)] = None,
    backend: Annotated[
        Backend, opt("--backend", "Who plans: this machine, or a cluster.", show_default=False)
    ] = "local",
    address: Annotated[str | None, opt("--address", "Where the cluster answers.", "HOST:PORT")] = None,
    cache: Annotated[str | None, opt("--cache", "Answers to share with other sweeps.", "DIR")] = None,
) -> None:
    """Plan every combination of the options in SWEEP.yaml; run it again to go on where it was stopped.

    \b
    Example of SWEEP.yaml:
      base: {gpus: 8xH100, workload: chat}
      vary:
        model: [llama-3.1-70b, qwen3-32b]
        isl: {from: 512, to: 8192, times: 2}
      where: isl <= 4096 or model == 'qwen3-32b'

    With -o results.csv or results.parquet the JSON rows stand beside it, in results.jsonl.

    Exit codes: 0 every cell has a plan, 2 bad input, 4 some cells have none: their rows say why.
    """
    from dataclasses import replace
    from pathlib import Path

    from planner.cli.output import note, stdout, whole_bytes
    from planner.cli.progress import Progress
    from planner.studies import flat, grid
    from planner.studies.journal import Cache
    from planner.studies.questions import REAL
    from planner.studies.sweep import run

    start = pool(backend, address, jobs)
    cells, write = grid.read(file), flat.writer(Path(output))
    planner = REAL if cache is None else replace(REAL, cache=Cache(cache))
    results = Path(output).with_suffix(".jsonl") if write else Path(output)
    try:
        with Progress("cells") as progress:
            rows = run(cells, results, planner, start, progress)
    except KeyboardInterrupt:
        note("interrupted; the same command goes on from here")
        raise
    if write:
        with whole_bytes(output) as out:
            write(rows, out)
    if table:
        from planner.studies.flat import render

        render(rows, stdout())
    note(f"{output}: {len(rows):,} rows{without_plan(rows)}")
    if any(row["error"] for row in rows):
        raise typer.Exit(CELLS_FAILED)


def pool(backend: Backend, address: str | None, jobs: int | None) -> Start:
    """What starts those who plan. Raises InputError where options contradict each other."""
    from functools import partial

    from planner.errors import InputError
    from planner.studies.pools.local import Here, Local, cores

    if backend == "local":
        if address is not None:
            raise InputError("--address is of a cluster", "--address", "add --backend dask, or --backend ray")
        many = jobs or cores()
        return Here if many == 1 else partial(Local, jobs=many)
    from planner.studies.pools import dask, ray

    if jobs is not None:
        hint = f"{backend} has as many as its workers"
        raise InputError("--jobs is of processes on this machine", "--jobs", hint)
    if address is None:
        begin, usual = (dask.START, "127.0.0.1:8786") if backend == "dask" else (ray.START, "127.0.0.1:6379")
        hint = f"--address {usual}, after `{begin}`"
        raise InputError(f"--backend {backend} needs the address of a cluster", "--backend", hint)
    return partial(dask.Dask if backend == "dask" else ray.Ray, address=address)


def without_plan(rows: list[Row]) -> str:
    """How many of `rows` have no plan, and why, to be said behind their number.

    >>> without_plan([{"error": None, "exit_code": 0}, {"error": {}, "exit_code": 3}])
    ', 1 of them without a plan (1 infeasible)'
    """
    codes = Counter(row["exit_code"] for row in rows if row["error"] is not None)
    if not codes:
        return ""
    reasons = ", ".join(f"{n:,} {REASONS.get(code, 'by an error of ours')}" for code, n in codes.items())
    return f", {codes.total():,} of them without a plan ({reasons})"
