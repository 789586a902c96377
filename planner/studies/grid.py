"""From a sweep's YAML to its cells: every combination of what varies."""

from __future__ import annotations

from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from planner.errors import InputError, placed
from planner.reading.documents import Document
from planner.studies.conditions import condition
from planner.studies.schema import MOST_CELLS, Options, Range, Sweep

Cell = dict[str, Any]
"""Options of one call of `plan`, by their names on the command line."""
FILE_OPTIONS = ("cluster", "model", "workload", "trace", "profile", "calibration", "acceptance")
WHOLE = {"isl", "osl", "seed", "draft_tokens"}


def read(path: str) -> list[Cell]:
    """The cells of the sweep in the file `path`, in order. Files it names are looked for here, or beside it.

    Raises InputError: not a sweep, no model or no GPUs, nothing or too much to vary, no cell that keeps the
    conditions.
    """
    from planner.reading import documents, validation

    document = documents.read(path)
    sweep = validation.validate(document, Sweep)
    found = kept(document, sweep, cells(sweep, list(document.data.get("vary") or {})))
    _complete(document, found)
    return [_located(cell, Path(path).parent) for cell in found]


def cells(sweep: Sweep, order: list[str]) -> list[Cell]:
    """All cells: the options of `vary` in the order of `order` (the file's), the last fastest; null: unset.

    >>> varied = {"model": ["a", "b"], "rate": [1, 2]}
    >>> sweep = Sweep.model_validate({"base": {"gpus": "8xH100"}, "vary": varied})
    >>> cells(sweep, ["model", "rate"])[1]
    {'gpus': '8xH100', 'model': 'a', 'rate': 2.0}
    """
    varied = {name: values(sweep, name) for name in order}
    for name, options in varied.items():
        if not options:
            raise InputError(
                "there are no values to vary", f"vary.{name}", "give at least one, or leave it out"
            )
    if (count := prod(len(options) for options in varied.values())) > MOST_CELLS:
        raise InputError(
            f"{count:,} cells are too many", hint=f"at most {MOST_CELLS:,}: shorten a list of `vary`"
        )
    base = sweep.base.model_dump(exclude_none=True)
    grid = (base | dict(zip(varied, chosen, strict=True)) for chosen in product(*varied.values()))
    return [{name: value for name, value in cell.items() if value is not None} for cell in grid]


def kept(document: Document, sweep: Sweep, found: list[Cell]) -> list[Cell]:
    """The cells that keep every condition of `where`. Raises InputError, with the place of the condition,
    where there are none, and where one cannot be read or has no answer."""
    options = {name: [value] for name, value in sweep.base.model_dump(exclude_none=True).items()}
    options |= {name: values(sweep, name) for name in sweep.vary.model_fields_set}
    for i, text in enumerate(sweep.where):
        with placed(document.where(("where", i))):
            holds = condition(text, options, list(Options.model_fields))
            left = [cell for cell in found if holds(cell)]
            if not left:
                alone = "" if i == 0 else " that the conditions before it have left"
                raise InputError(f"no cell{alone} keeps `{text}`", hint="every cell would be left out")
        found = left
    return found


def values(sweep: Sweep, name: str) -> list[Any]:
    """What the option `name` goes through, doubles left out; whole-number options are rounded."""
    given = getattr(sweep.vary, name)
    if isinstance(given, Range):
        given = [round(x) for x in given.values] if name in WHOLE else given.values
    return list(dict.fromkeys(given or []))


def _complete(document: Document, found: list[Cell]) -> None:
    """Every cell needs a model and GPUs: said once here, rather than in each row."""
    for names in (("model",), ("cluster", "gpus")):
        if not all(any(name in cell for name in names) for cell in found):
            hint = f"add `{names[0]}:` to `base` or to `vary`"
            raise document.error(f"no {' or '.join(f'`{name}`' for name in names)} to plan for", hint=hint)


def _located(cell: Cell, folder: Path) -> Cell:
    """`cell` with the files that are not here but in `folder` named there."""
    moved = {
        name: str(folder / cell[name])
        for name in FILE_OPTIONS
        if isinstance(cell.get(name), str)
        and not Path(cell[name]).exists()
        and (folder / cell[name]).is_file()
    }
    return cell | moved
