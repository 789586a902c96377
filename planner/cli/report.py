"""`meshwright report PLAN.json… -o report.html`: plans as a page or a picture to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PlansArg = Annotated[list[str], typer.Argument(metavar="PLAN.json…", help="Plans, as `plan -o` writes them.")]
OutputOpt = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="A name that ends in .html, .svg or .png.")
]


CurveOpt = Annotated[
    str | None,
    typer.Option("--curve", metavar="CURVE.json", help="A curve around the plans, as `pareto -o` writes it."),
]


def report(plans: PlansArg, output: OutputOpt, curve: CurveOpt = None) -> None:
    """Write plans as one page to pass on, that needs no network; several are compared.

    .svg and .png: the cluster and the figures alone, for a document or slides.

    \b
    Examples:
      meshwright report plan.json -o report.html
      meshwright report today.json tomorrow.json -o compared.html
      meshwright report plan.json -o cluster.svg
      meshwright report plan.json --curve curve.json -o report.html
    """
    from planner.cli.output import note, whole_bytes
    from planner.errors import InputError
    from planner.plans.verified import read_sound
    from planner.reports.page.curve import read_curve
    from planner.reports.page.forms import FORMS

    form = FORMS.get(Path(output).suffix.lower())
    if form is None:
        raise InputError(
            f"`{output}` is not a name that a report can have", "-o", f"let it end in {', '.join(FORMS)}"
        )
    with whole_bytes(output) as file:
        read = [read_sound(path) for path in plans]
        around = None if curve is None else read_curve(curve)
        file.write(form(read, [Path(path).stem for path in plans], around))
    note(f"written to {output}")
