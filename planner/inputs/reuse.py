"""What of a prompt's KV cache is met again, and when: as stated in a workload, or as counted in a trace.

Stated (`reuse:` of a workload), two forms:

    {name: system prompt, tokens: 2000, share: 0.8, distinct: 40}      a beginning that many requests have
    {name: turns, share: 0.7, gap_s: 60, gap_cv: 1.5, again: 0.8, part: 0.9}    a context that comes back

`share` of all requests; of the first form with one of `distinct` beginnings of `tokens`; of the second form
the context rests when the request is done and comes back with the chance `again`, `gap_s` later on average
(log-normal, `gap_cv` its coefficient of variation), as the first `part` of the next prompt. A request's
context rests in one way, so the shares of the second form add up to 1 at most.

Counted (`idle:`, made of a trace): blocks by bucket, depth in the prompt and whether they were met before;
of each kind the tokens that a request leaves and the share of them that returns at each age.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from planner.errors import Misplaced

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
LONGEST_S = 1e9
Seconds = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]

SHORTEST_S = 1e-3
"""Gap: shorter ones are no rest."""

LONGEST_NAME = 60


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Reuse(Strict):
    """One way in which KV cache is met again: with `tokens` a shared beginning, with `gap_s` a context that
    rests and returns."""

    name: str
    share: Share = 1.0
    tokens: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    distinct: Annotated[int, Field(ge=1, le=10**9)] = 1
    gap_s: Annotated[float, Field(ge=SHORTEST_S, le=1e9, allow_inf_nan=False)] | None = None
    gap_cv: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    again: Share = 1.0
    part: Share = 1.0

    @model_validator(mode="after")
    def _one_form(self) -> Reuse:
        if not self.name.strip() or len(self.name) > LONGEST_NAME or not self.name.isprintable():
            raise Misplaced(f"`name` must be 1 to {LONGEST_NAME} characters that can be printed", "name")
        if (self.tokens is None) == (self.gap_s is None):
            forms = "either `tokens` (a shared beginning) or `gap_s` (a context that returns)"
            raise ValueError(f"`{self.name}` needs {forms}")
        alien = ("gap_cv", "again", "part") if self.gap_s is None else ("distinct",)
        for field in alien:
            if getattr(self, field) != type(self).model_fields[field].default:
                other = "gap_s" if self.gap_s is None else "tokens"
                raise ValueError(f"`{field}` of `{self.name}` goes with `{other}`")
        return self


class IdleKind(Strict):
    """Blocks of `bucket` alike: `tokens` that a request leaves, `depth` of them in the prompt [tokens], and
    the share `back` that returns by age; the rest never does. `above`: the kind that they build on."""

    bucket: Annotated[int, Field(ge=0)]
    depth: NotNegative
    tokens: NotNegative
    back: list[Share]
    above: Annotated[int, Field(ge=0)] | None = None


class Idle(Strict):
    """`ages_s`: the ends of the age classes, rising. `hits` (buckets, ages): tokens of a prompt that were
    used so long before."""

    ages_s: Annotated[list[Seconds], Field(min_length=1)]
    kinds: Annotated[list[IdleKind], Field(min_length=1)]
    hits: list[list[NotNegative]]

    @model_validator(mode="after")
    def _sizes_agree(self) -> Idle:
        ages = len(self.ages_s)
        if sorted(set(self.ages_s)) != self.ages_s:
            raise ValueError("`ages_s` must rise")
        if any(len(k.back) != ages for k in self.kinds) or any(len(h) != ages for h in self.hits):
            raise ValueError(f"`back` and `hits` need one figure for each of the {ages} `ages_s`")
        if any(sum(k.back) > 1 + 1e-6 for k in self.kinds):
            raise ValueError("the shares `back` of a kind add up to more than 1")
        if any(k.above is not None and k.above >= i for i, k in enumerate(self.kinds)):
            raise ValueError("`above` names a kind before it")
        return self
