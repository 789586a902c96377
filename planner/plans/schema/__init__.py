"""The Plan: the hub that check, reports, exporters, simulate, explain and diff depend on, and nothing else
of ours.

Names and meanings: the Plan JSON contract. It embeds the problem as used, so that a plan can be checked
alone.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from planner.plans.schema.beside import (
    Achieved,
    Alternative,
    Assumption,
    Ended,
    Evidence,
    LongPrompt,
    Loss,
    Mechanism,
    Replayed,
    Saturated,
    Standing,
    Survives,
)
from planner.plans.schema.parts import Count, NonNegative, Part, Price, Role, Share, Status
from planner.plans.schema.proof import OUT_OF_TIME, Band, Cap, KindCount, PlanWarning, Predicted, Proof, Space
from planner.plans.schema.replica import (
    Cache,
    Draft,
    Kept,
    KeptTime,
    Launch,
    PrecisionUsed,
    Replica,
    Seat,
    Stage,
    StageMemory,
    Step,
)
from planner.plans.schema.served import Chain, ExpertMap, Experts, Hop, Route, Tiered
from planner.reading.names import Title

UNASKED = ("survives", "assumptions", "evidence", "replayed", "saturated", "seats", "router_port", "brief")
"""Fields that are written only where there is something to say."""


class Problem(Part):
    """All as used, defaults filled in; `defaulted` names what the user did not ask for ("slo.tpot_ms")."""

    cluster: dict[str, Any]  # the Cluster YAML form
    devices: dict[str, dict[str, Any]]  # by device name, overrides applied; the device YAML form
    model: dict[str, Any]  # the model card form
    model_id: Title = ""  # under which engines load it: as it was asked for
    workload: dict[str, Any]  # the Workload YAML form
    options: dict[str, Any]
    defaulted: list[str] = []
    calibration: dict[str, Any] = {}

    @model_serializer(mode="wrap")
    def _without_an_id_that_nobody_gave(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if k != "model_id" or v}


class Plan(Part):
    meshwright_version: str
    schema_version: Literal[1] = 1
    problem: Problem
    replicas: list[Replica]
    routing: list[Route]
    chains: list[Chain] = []
    experts: Experts | None = None
    tiers: list[Tiered] = []
    predicted: Predicted
    proof: Proof
    prices: list[Price] = []
    warnings: list[PlanWarning] = []
    alternatives: list[Alternative] = []
    assumptions: list[Assumption] = []
    evidence: list[Evidence] = []
    long_prompts: list[LongPrompt] = []
    survives: Survives | None = None
    replayed: Replayed | None = None
    saturated: Saturated | None = None  # of an open loop without a rate
    brief: bool = False  # of what is beside it only what a first screen shows; `explain` finds the rest
    seats: list[Seat] = []
    router_port: Annotated[int, Field(ge=1, le=65535)] | None = None  # where other models have routers, too

    def interrupted(self) -> Plan:
        """The plan as it stands: a search was broken off."""
        return self.model_copy(update={"proof": self.proof.model_copy(update={"status": "interrupted"})})

    @model_serializer(mode="wrap")
    def _without_what_was_not_asked(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """`survives` is written only where nodes may be lost, `replayed` where arrivals are known,
        `assumptions` where any is decisive, `evidence` where something was never measured, `seats` where
        other models stand on the same nodes."""
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if v or k not in UNASKED}
