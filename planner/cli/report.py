"""`meshwright report PLAN.json… -o report.html`: plans as a page or a picture to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from planner.cli.help import arg, opt

if TYPE_CHECKING:
    from planner.plans.schema import Plan


DEFAULT = "report.html"

WRITTEN_BY, HEAD_BYTES = b'name="generator" content="meshwright', 4096
"""What the head of a page says that was written here, and bytes in which it stands."""


def report(
    plans: Annotated[
        list[str] | None,
        arg("PLAN.json…", "Plans, as `plan -o` writes them; without: the last one made.", show_default=False),
    ] = None,
    *,
    output: Annotated[
        str | None,
        opt("--output -o", f"A name that ends in .html, .svg or .png. [default: {DEFAULT}]", "FILE"),
    ] = None,
    curve: Annotated[
        str | None, opt("--curve", "A curve around the plans, as `pareto -o` writes it.", "CURVE.json")
    ] = None,
) -> None:
    """Write plans as one page to pass on, that needs no network; several are compared.

    Of a file with plans of several models each is one of them.

    .svg and .png: the cluster and the figures alone, for a document or slides.

    \b
    Examples:
      meshwright report
      meshwright report plan.json -o report.html
      meshwright report today.json tomorrow.json -o compared.html
      meshwright report plan.json -o cluster.svg
      meshwright report plan.json --curve curve.json -o report.html
    """
    from planner.cli.kept import last
    from planner.cli.output import note, whole_bytes
    from planner.errors import InputError
    from planner.reports.page.curve import read_curve
    from planner.reports.page.forms import FORMS

    if output is None:
        output = _unnamed()
    form = FORMS.get(Path(output).suffix.lower())
    if form is None:
        raise InputError(
            f"`{output}` is not a name that a report can have", "-o", f"let it end in {', '.join(FORMS)}"
        )
    with whole_bytes(output) as file:
        read = [(name, _warned(plan)) for path in plans or [last(None)] for name, plan in _plans(path)]
        around = None if curve is None else read_curve(curve)
        file.write(form([plan for _, plan in read], [name for name, _ in read], around))
    note(f"written to {output}")


def _unnamed() -> str:
    """The file of a report that was given no name: never one that is not a report. Raises InputError."""
    from planner.errors import InputError

    try:
        with Path(DEFAULT).open("rb") as file:
            ours = WRITTEN_BY in file.read(HEAD_BYTES)
    except FileNotFoundError:
        ours = True
    except OSError:
        ours = False
    if not ours:
        raise InputError(f"`{DEFAULT}` is there, and no report of ours", "-o", "name another file with -o")
    return DEFAULT


def _warned(plan: Plan) -> Plan:
    """The plan with a warning of each embedded figure that the catalogs have otherwise."""
    from planner.plans.schema import PlanWarning
    from planner.plans.trusted import differences

    told = [PlanWarning(code="unlike_catalog", message=line) for line in differences(plan)]
    return plan.model_copy(update={"warnings": [*plan.warnings, *told]})


def _plans(path: str) -> list[tuple[str, Plan]]:
    """The plans of a file under the names that they have in the report. Raises InputError."""
    from planner.plans.schema.several import Several
    from planner.plans.verified import read_sound_any

    read = read_sound_any(path)
    if not isinstance(read, Several):
        return [(Path(path).stem, read)]
    return [(demand.model, plan) for demand, plan in zip(read.models, read.plans, strict=True)]
