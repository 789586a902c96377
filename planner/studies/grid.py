"""The sweep as its YAML says it, options of `plan` that stay and options that vary; and its cells: every
combination of what varies."""

from __future__ import annotations

from itertools import product
from math import exp, floor, log, prod
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from planner.errors import InputError, placed
from planner.reading.documents import Document
from planner.studies.conditions import condition

Cell = dict[str, Any]
"""Options of one call of `plan`, by their names on the command line."""
FILE_OPTIONS = (
    *("cluster", "model", "workload", "trace", "profile", "calibration", "expert_loads"),
    *("acceptance", "speculation"),
)
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


MOST_CELLS = 1_000_000
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(Strict):
    """Values from `from` to `to`, both meant: each `times` the one before, or `step` more, or `count` in all.

    >>> Range(**{"from": 512, "to": 8192, "times": 2}).values
    [512, 1024, 2048, 4096, 8192]
    >>> Range(**{"from": 0.1, "to": 0.5, "step": 0.2}).values
    [0.1, 0.3, 0.5]
    """

    start: Finite = Field(alias="from")
    to: Finite
    times: Annotated[float, Field(gt=1, allow_inf_nan=False)] | None = None
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    count: Annotated[int, Field(ge=2, le=MOST_CELLS)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Range:
        if [self.times, self.step, self.count].count(None) != 2:
            raise ValueError("give exactly one of `times`, `step` and `count`")
        if self.to < self.start or (self.times and self.start <= 0):
            raise ValueError("`to` must not be below `from`, and with `times` both must be positive")
        return self

    @property
    def values(self) -> list[int | float]:
        """The values in order. Steps are counted, not added up, so that rounding loses none."""
        raw: list[float] = []
        if self.count:
            raw = [self.start + (self.to - self.start) * i / (self.count - 1) for i in range(self.count)]
        elif self.step:
            steps = floor((self.to - self.start) / self.step + 1e-9)
            raw = [self.start + self.step * i for i in range(min(steps, MOST_CELLS) + 1)]
        elif self.times:
            steps = floor((log(self.to) - log(self.start)) / log(self.times) + 1e-9)
            raw = [exp(log(self.start) + i * log(self.times)) for i in range(min(steps, MOST_CELLS) + 1)]
        return [int(x) if x.is_integer() else x for x in (float(f"{x:.12g}") for x in raw)]


def _form(given: object) -> str:
    return "range" if isinstance(given, dict | Range) else "list"


T = TypeVar("T")
Values = Annotated[Annotated[list[T], Tag("list")] | Annotated[Range, Tag("range")], Discriminator(_form)]
"""A list, or a range of numbers; the form decides which is meant, so that an error speaks of that one."""


class Options(Strict):
    """Options of `plan` by their command line names. What a value may be, `plan` says cell by cell."""

    cluster: str | None = None
    gpus: str | None = None
    model: str | None = None
    workload: str | None = None
    trace: str | None = None
    isl: int | None = None
    osl: int | None = None
    rate: Finite | None = None
    ttft_ms: Finite | Literal["none"] | None = None
    tpot_ms: Finite | Literal["none"] | None = None
    e2e_ms: Finite | Literal["none"] | None = None
    percentile: str | None = None
    loop: str | None = None
    objective: str | None = None
    budget: str | None = None
    engine: str | None = None
    precision: str | None = None
    kv_precision: str | None = None
    precisions: str | None = None
    profile: str | None = None
    calibration: str | None = None
    expert_loads: str | None = None
    risk: Finite | None = None
    simple: Finite | None = None
    max_utilisation: Finite | None = None
    survive: str | int | None = None
    speculation: str | None = None
    acceptance: Finite | str | None = None
    draft_tokens: int | None = None
    gap: Finite | None = None
    time_limit: Finite | None = None
    seed: int | None = None


class Vary(Strict):
    """Values to go through for each option: a list, or a range of numbers. The last varies fastest."""

    cluster: list[str] | None = None
    gpus: list[str] | None = None
    model: list[str] | None = None
    workload: list[str] | None = None
    trace: list[str | None] | None = None
    isl: Values[int] | None = None
    osl: Values[int] | None = None
    rate: Values[Finite | None] | None = None
    ttft_ms: Values[Finite | Literal["none"]] | None = None
    tpot_ms: Values[Finite | Literal["none"]] | None = None
    e2e_ms: Values[Finite | Literal["none"]] | None = None
    percentile: list[str] | None = None
    loop: list[str | None] | None = None
    objective: list[str] | None = None
    budget: list[str | None] | None = None
    engine: list[str] | None = None
    precision: list[str | None] | None = None
    kv_precision: list[str | None] | None = None
    precisions: list[str | None] | None = None
    profile: list[str | None] | None = None
    calibration: list[str | None] | None = None
    expert_loads: list[str | None] | None = None
    risk: Values[Finite] | None = None
    simple: Values[Finite] | None = None
    max_utilisation: Values[Finite] | None = None
    survive: list[str | int | None] | None = None
    speculation: list[str] | None = None
    acceptance: Values[Finite | str | None] | None = None
    draft_tokens: Values[int | None] | None = None
    gap: Values[Finite] | None = None
    time_limit: Values[Finite] | None = None
    seed: Values[int] | None = None


class Sweep(Strict):
    """A grid of plans: every combination of the values of `vary`, each with the options of `base`, that keeps
    all conditions of `where` (planner/studies/conditions.py has their form)."""

    base: Options = Options()
    vary: Vary = Vary()
    where: list[str] = []

    @field_validator("where", mode="before")
    @classmethod
    def _one(cls, given: object) -> object:
        """A single condition as a list."""
        return [given] if isinstance(given, str) else given
