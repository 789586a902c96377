"""What is asked of a plan beside cluster, model and workload: goal, budgets, engine, precision, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from planner.engines import NAMES
from planner.inputs.reuse import Strict
from planner.objectives import OBJECTIVES

if TYPE_CHECKING:
    ObjectiveName = str
    EngineName = str
    PlannerName = str
else:
    ObjectiveName = Literal[tuple(one.name for one in OBJECTIVES)]
    EngineName = Literal[("any", *NAMES)]
    PlannerName = Literal[("any", *NAMES, "chains")]
"""What the command line and files may say. Chains: requests pass nodes with some of the layers."""

MEDIAN = 0.5
"""The risk at which the median prediction keeps every limit."""

RISK = 0.2
"""The default risk: four of five predictions keep every limit. A plan at the median breaks its limit half of
the time, as the best plans stand just at it."""


class Budget(Strict):
    """Hard limits over the whole plan; None = no limit."""

    usd_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    gpus: Annotated[int, Field(ge=1)] | None = None
    watts: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Survive(Strict):
    """After the loss of any `nodes`, the rest serves `share` of the rate within the limits."""

    nodes: Annotated[int, Field(ge=1)] = 1
    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class Options(Strict):
    """`objective` None: throughput without a rate; with one, cost when every node has a price, else gpus."""

    objective: ObjectiveName | None = None
    budget: Budget = Budget()
    engine: PlannerName = "any"
    precision: str | None = None  # None: the checkpoint's
    kv_precision: str | None = None
    precisions: tuple[str, ...] | None = None  # of the weights, that are tried beside the plan's; None: none
    risk: Annotated[float, Field(ge=1e-9, le=MEDIAN)] = RISK  # above, the median breaks the promise
    simple: Annotated[float, Field(ge=0, lt=1)] = 0.05  # of the best, given up for fewer kinds of replica
    max_utilisation: Annotated[float, Field(gt=0, lt=1)] = 0.98  # of a server that only prefills, at most
    survive: Survive | None = None  # None: what a lost node takes with it is lost
    speculation: str | None = None  # what drafts: auto, mtp, eagle, ngram, draft:MODEL; None: nothing
    acceptance: Annotated[float, Field(gt=0, lt=1)] | None = None  # of each drafted token; None: the kind's
    draft_tokens: Annotated[int, Field(ge=1, le=16)] | None = None  # a step; None: as many as pay
    gap: Annotated[float, Field(ge=0, lt=1)] = 0.01
    time_limit_s: Annotated[float, Field(gt=0)] = 60.0
    seed: Annotated[int, Field(ge=0)] = 0

    @field_validator("precisions", mode="before")
    @classmethod
    def _listed(cls, named: object) -> object:
        """ "fp8,nvfp4" as a list."""
        if isinstance(named, list):  # of JSON
            return tuple(named)
        return tuple(filter(None, (p.strip() for p in named.split(",")))) if isinstance(named, str) else named

    @field_validator("speculation")
    @classmethod
    def _off_is_none(cls, named: str | None) -> str | None:
        return None if named == "off" else named
