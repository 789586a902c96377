"""`meshwright sweep`: a grid of plans from a YAML, rows of JSON out."""

from __future__ import annotations

from typing import Annotated

import typer


def sweep(
    file: Annotated[str, typer.Argument(metavar="SWEEP.yaml", help="`base:` and `vary:` options of `plan`.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Results: a JSON row a cell.")
    ],
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Processes; default: all cores.")
    ] = None,
) -> None:
    """Plan every combination of the options in SWEEP.yaml; run it again to go on where it was stopped.

    \b
    Example of SWEEP.yaml:
      base: {gpus: 8xH100, workload: chat}
      vary:
        model: [llama-3.1-70b, qwen3-32b]
        isl: {from: 512, to: 8192, times: 2}
    """
    from pathlib import Path

    from planner.cli.output import note
    from planner.cli.progress import Progress
    from planner.studies import grid
    from planner.studies.sweep import cores, plan_cell, run

    cells = grid.read(file)
    try:
        with Progress("cells") as progress:
            rows = run(cells, Path(output), plan_cell, jobs or cores(), progress)
    except KeyboardInterrupt:
        note("interrupted; the same command goes on from here")
        raise
    failed = sum(row["error"] is not None for row in rows)
    note(f"{output}: {len(rows):,} rows" + (f", {failed:,} of them without a plan" if failed else ""))
