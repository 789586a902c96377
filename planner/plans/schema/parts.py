"""What all parts of a Plan have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

Role = Literal["mixed", "prefill", "decode", "attention", "ffn", "chain"]
Status = Literal["optimal", "within_gap", "time_limit", "not_closed", "interrupted", "joint"]
"""How well a plan is proven; `not_closed`: the search ended by itself and left a gap; `joint`: with those of
other models, in the document of all."""

NonNegative = Annotated[FiniteFloat, Field(ge=0)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Share = Annotated[FiniteFloat, Field(ge=0, le=1.000001)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Price(Part):
    """What one more unit of a limit is worth: `worth` by solving again, `marginal` the LP dual (None: not
    solved)."""

    limit: str
    one_more: str
    worth: FiniteFloat
    unit: str
    marginal: FiniteFloat | None = None
