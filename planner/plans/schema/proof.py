"""What is promised and how good it is: predictions with their bands, the space and its bound, warnings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat, SerializerFunctionWrapHandler, model_serializer

from planner.errors import INTERRUPTED_EXIT
from planner.plans.schema.parts import Count, NonNegative, Part, Share, Status


class Band(Part):
    """A prediction with its 80 % band."""

    value: NonNegative
    low: NonNegative
    high: NonNegative


class Predicted(Part):
    """usd_per_mtok: per million *output* tokens. None where it cannot be known (no price, no rate).

    `watts`: of all GPUs of the cluster, those in no replica at rest. `chance_ttft`, `chance_tpot`: odds that
    what is measured keeps the limit, by the prediction's error: the mean of the bucket that keeps it worst,
    or at a percentile the way through the fleet that does; None without a limit, or where no prediction made
    the figure.
    """

    out_tok_per_s: Band
    total_tok_per_s: Band
    rps: Band
    ttft_ms: Band
    tpot_ms: Band
    utilisation: Band
    usd_per_hour: Band | None
    usd_per_mtok: Band | None
    watts: Band
    joules_per_tok: Band
    chance_ttft: Share | None = None
    chance_tpot: Share | None = None

    @model_serializer(mode="wrap")
    def _without_chances_of_no_limit(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Chances are written only where there are any."""
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if v is not None or not k.startswith("chance_")}


class Cap(Part):
    """A limit that the space of designs was given: "utilisation" at 0.98. `binds`: a looser one may change
    the answer. `considered`, `left_out`: designs or columns that it was asked of, and those it kept out."""

    what: str
    value: FiniteFloat
    binds: bool
    considered: Annotated[int, Field(ge=0)] | None = None
    left_out: Annotated[int, Field(ge=0)] | None = None


OUT_OF_TIME = "operating points looked at before the time was over"
"""The cap of a space that was not looked through in time; what of it was not may follow."""


class Space(Part):
    """What the bound speaks of; `caps`: every limit in force that is not an engine's or the model's own."""

    considered: int
    kept: int
    complete: bool
    what: str
    caps: list[Cap] = []

    @property
    def late(self) -> bool:
        """Whether the time was over before all of it was looked at."""
        return any(cap.what.startswith(OUT_OF_TIME) for cap in self.caps)


class KindCount(Part):
    """The best fleet found with at most so many kinds of replica (design x class x engine x role)."""

    kinds: Count
    objective: FiniteFloat


class Proof(Part):
    """gap = |bound - objective| / |objective|, all three of the best fleet found. `sense` and `unit` follow
    from the goal where they are left out.

    `chosen`: this plan's own objective, None where it is the best; `given_up` = |objective - chosen| /
    |objective|; `kinds`: objectives by kinds of replica, fewest first, the best fleet found last. `why`: what
    left the gap, of a plan that is `not_closed`. `unsplit`: objective of the best fleet found without a
    prefill/decode split, where the plan does without the split of the best one, whose gain is too small or
    too unsure; then `kinds` ends with that fleet. `unpaid`: how far the objective may be off in four cases of
    five, as a share, by what kinds beyond the second have of their own, where the plan does without them, as
    they bring no more.
    """

    objective: FiniteFloat
    bound: FiniteFloat
    gap: NonNegative
    status: Status
    why: str = ""
    seconds: NonNegative
    solver: str
    seed: int
    space: Space
    sense: Literal["max", "min"] = "max"
    unit: str = ""
    chosen: FiniteFloat | None = None
    given_up: NonNegative = 0.0
    kinds: list[KindCount] = []
    unsplit: FiniteFloat | None = None
    unpaid: NonNegative | None = None

    @model_serializer(mode="wrap")
    def _without_what_there_is_not(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """`why` is written only where there is a reason, `unsplit` and `unpaid` where the plan does without a
        split, or without kinds of replica."""
        written: dict[str, Any] = form(self)
        absent = {"why"} if not self.why else set()
        absent |= {name for name in ("unsplit", "unpaid") if written[name] is None}
        return {k: v for k, v in written.items() if k not in absent}

    @property
    def own(self) -> float:
        """The objective of this plan, which may be simpler than the best."""
        return self.objective if self.chosen is None else self.chosen

    @property
    def exit_code(self) -> int:
        """What a command that found this plan exits with."""
        ended = {"time_limit": 4, "not_closed": 4, "interrupted": INTERRUPTED_EXIT}
        return {"optimal": 0, "within_gap": 0, "joint": 0, **ended}[self.status]


class PlanWarning(Part):
    model_config = ConfigDict(extra="allow", frozen=True)

    code: str
    message: str
    node_class: str | None = Field(default=None, alias="class")
    count: int | None = None
    reason: str | None = None
