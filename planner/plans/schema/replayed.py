"""What sized a plan whose percentiles were replayed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from planner.plans.schema.parts import Count, NonNegative, Part, Share


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
