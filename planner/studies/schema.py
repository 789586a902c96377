"""The sweep as its YAML says it: options of `plan` that stay, and options that vary."""

from __future__ import annotations

from math import exp, floor, log
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

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
    objective: str | None = None
    budget: str | None = None
    engine: str | None = None
    precision: str | None = None
    kv_precision: str | None = None
    precisions: str | None = None
    profile: str | None = None
    calibration: str | None = None
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
    objective: list[str] | None = None
    budget: list[str | None] | None = None
    engine: list[str] | None = None
    precision: list[str | None] | None = None
    kv_precision: list[str | None] | None = None
    precisions: list[str | None] | None = None
    profile: list[str | None] | None = None
    calibration: list[str | None] | None = None
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
