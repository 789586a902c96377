"""What stands beside the plan: alternatives, assumptions, long prompts, losses that it survives, the
replay that sized it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, SerializerFunctionWrapHandler, model_serializer

from planner.plans.schema.parts import Count, NonNegative, Part, Share
from planner.plans.schema.served import Route


class Assumption(Part):
    """What nobody told (`name`, as in `problem.defaulted`), and what the plan's kinds of replica would give
    with `what` in its place: as in `Alternative`; `objective` None: nothing."""

    name: str
    what: str
    objective: FiniteFloat | None
    loss: FiniteFloat | None


Ended = Literal["proven", "within_gap", "stopped", "none_found", "infeasible", "estimate"]
"""How the search for an alternative ended: at its `bound`, within the gap asked for, or out of time with a
fleet; out of time `seconds` long without one; with a proof that there is none. "estimate": formulas."""


class Alternative(Part):
    """Another way and what it loses against the plan's own objective, (plan - its objective) / plan, >= 0; of
    one that was stopped what its bound proves it to lose at least. `objective` None: there is none to show,
    and `status` says why (None in plans of before, which do not tell). `ttft_times`: its mean TTFT over the
    plan's, where one of both splits prefill from decode; there `gaps_ms` are the longest usual times between
    two tokens of a request, its and the plan's: a step that computes a chunk of a prompt as well."""

    what: str
    objective: FiniteFloat | None
    loss: FiniteFloat | None
    why: str
    status: Ended | None = None
    bound: FiniteFloat | None = None
    seconds: NonNegative | None = None
    ttft_times: NonNegative | None = None
    gaps_ms: tuple[NonNegative, NonNegative] | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_stated(self, form: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Status, bound, seconds and times are written only where there are any."""
        written: dict[str, Any] = form(self)
        return {k: v for k, v in written.items() if v is not None or k in ("objective", "loss")}


Mechanism = Literal[
    "device",
    "precision",
    "pipeline",
    "expert_parallel",
    "attention_dp",
    "context_parallel",
    "split",
    "draft",
    "power_limit",
    "step_rate",
]
"""How a replica runs, of what there may be no measurement; "device": its engine on one of its devices."""


class Evidence(Part):
    """A mechanism that replicas with these ids use and of which there was no measurement, in words `what`.
    `band`: how much further off times may be by it alone, in four cases of five; 0: not known to be."""

    mechanism: Mechanism
    replicas: list[str]
    what: str
    band: NonNegative = 0.0


class LongPrompt(Part):
    """A way to compute the longest prompt by itself: when its first token is out, and the tokens of cache
    that one replica holds. `started_by`: the engine, or None where none starts it as it comes."""

    what: str
    ttft_ms: NonNegative
    kv_tokens: NonNegative
    started_by: str | None
    why: str = ""


class Saturated(Part):
    """What the plan's replicas serve in a closed loop, as many requests always in flight as serve most within
    the limits: as vendors' benchmarks run. Times are means."""

    in_flight: NonNegative
    rps: NonNegative
    out_tok_per_s: NonNegative
    ttft_ms: NonNegative
    tpot_ms: NonNegative


class Standing(Part):
    """Nodes that have as many replicas of each group: `replicas`, on each of them at least a part of each."""

    nodes: list[str]
    replicas: dict[str, Count]


class Loss(Part):
    """A loss of nodes, `classes` of them by class (empty: it stands for several that are no worse), and of
    `lost` replicas by group with them. The others serve `rps` at most within the limits; `routing`: how they
    serve the share of the rate that is promised."""

    classes: dict[str, int]
    lost: dict[str, Count]
    rps: NonNegative
    routing: list[Route]


class Survives(Part):
    """When any `nodes` are lost, the rest serves `share` of the rate. `standing`: all nodes in use; `losses`:
    those that no other contains. `without`, `bound`: objective of the best fleet found that need not survive,
    of no more kinds than the plan may have, and its bound; None: not solved. `price`: what this plan gives up
    for surviving, |own - without| / |without|."""

    nodes: Count
    share: Share
    standing: list[Standing]
    losses: list[Loss]
    without: FiniteFloat | None = None
    bound: FiniteFloat | None = None
    price: NonNegative | None = None


class Achieved(Part):
    """A limit of the promise in the worst of the replays: what was achieved at its percentile, and the share
    of requests within it."""

    limit_ms: NonNegative
    achieved_ms: NonNegative
    attained: Share


class Replayed(Part):
    """Arrivals that the plan was sized for, one request after the other, not by a formula: those of `trace`
    (None: drawn as bursty as the workload says) at `rate_rps`, `requests` of them, and `resamples` like them.

    The fleet is planned for `sized_rps` at random times within `ttft_ms` and `tpot_ms` (which a limit on
    whole requests may bring), and so keeps the limits of the workload at its percentile in every replay.
    `busy`: requests in the busy period that needs most, from and to these seconds of the trace, which alone
    would need `needed_rps`. `broke`: objective of the next plan below that was tried, which breaks the
    promise; None: none was.
    """

    trace: str | None
    requests: Count
    rate_rps: NonNegative
    resamples: Annotated[int, Field(ge=0)]
    sized_rps: NonNegative
    ttft_ms: NonNegative | None = None
    tpot_ms: NonNegative | None = None
    needed_rps: NonNegative
    busy: Annotated[int, Field(ge=0)]
    busy_from_s: NonNegative
    busy_to_s: NonNegative
    achieved: dict[Literal["ttft_ms", "tpot_ms", "e2e_ms"], Achieved]
    broke: FiniteFloat | None = None
    tried: Count
