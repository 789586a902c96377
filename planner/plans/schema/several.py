"""Plans of several models on one cluster as one document: each an ordinary Plan, and what holds for all."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from planner.plans.schema import Plan
from planner.plans.schema.parts import NonNegative, Part
from planner.plans.schema.proof import PlanWarning, Proof
from planner.reading.names import Title


class Demand(Part):
    """What is asked of one model: its name, its requests as a part of all, and its rate where it has one."""

    model: Title
    part: Annotated[FiniteFloat, Field(gt=0, le=1.000001)]
    rate_rps: Annotated[FiniteFloat, Field(gt=0)] | None = None


class Total(Part):
    """Of all models together. `share`: of every model's rate, what is served; None without rates. Whole nodes
    are paid, one that several models share once; None where a price is not known."""

    rps: NonNegative
    share: NonNegative | None = None
    out_tok_per_s: NonNegative
    gpus: Annotated[int, Field(ge=0)]
    usd_per_hour: NonNegative | None = None


class Takes(Part):
    """What one model takes from the others: the objective of the rest without it, by solving again, with its
    bound and status; `costs`, the difference; `per_request`, of one of its requests, in dollars; `marginal`,
    the LP dual of one more request/s of it (None: not solved)."""

    model: str
    without: NonNegative
    bound: NonNegative
    status: str
    costs: FiniteFloat
    unit: str
    per_request: FiniteFloat | None = None
    marginal: FiniteFloat | None = None


class Several(Part):
    """Plans of several models, in the order asked; the proof is of all together."""

    kind: Literal["several"] = "several"
    meshwright_version: str
    schema_version: Literal[1] = 1
    models: Annotated[list[Demand], Field(min_length=1)]
    plans: Annotated[list[Plan], Field(min_length=1)]
    total: Total
    proof: Proof
    prices: list[Takes] = []
    warnings: list[PlanWarning] = []
